"""Questions to records: IDI by reference, by number of blocks, by family of critics, and information by block.

All of it is arithmetic on stored terms; nothing is fitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from residua.compare.shares import ranks, spearman
from residua.errors import InputError
from residua.paper.cases import own_case
from residua.paper.quantities import Found, Reader, families_of
from residua.paper.shelf import Group
from residua.report import Table, setting_line

By = Literal["reference", "last", "block", "family"]
# What others are compared with: they have no place in the order of methods.
ENDS = ("Original", "Retrain", "Random")
REFERENCES = ("Retrain", "COLA", "EU-10")


def asked_of(
    group: Group,
    by: By,
    *,
    references: Sequence[str] = (),
    last: int | None = None,
    family: str | None = None,
) -> dict[str, dict[str, Found]]:
    """By method, then by what was asked: the mean over models with its deviation, or why there is none."""
    zero = references[0] if references else "Retrain"
    reader = Reader(group, own_case(group), zero, last, family)
    labels = list(dict.fromkeys(model.label for model in group.models))
    deepest = [curve.blocks for model in group.models for curve in model.curves.values()]
    if not deepest:
        raise InputError("these records hold no information curve; measure one first")
    most = max(len(blocks) for blocks in deepest)
    quantities: Mapping[str, str]
    if by == "reference":
        named = [each for each in references or REFERENCES if each == "all" or each in labels]
        quantities = {f"reference {each}": f"IDI ref={each}" for each in named}
    elif by == "last":
        quantities = {f"n = {n}": f"IDI n={n}" for n in range(1, most + 1)}
    elif by == "family":
        quantities = {each: f"IDI family={each}" for each in families_of(group)}
    else:
        total = own_case(group).blocks
        quantities = {f"block {b}": f"I Block{b}" for b in range(total - most + 1, total + 1)}
    return {
        label: {name: reader(label, quantity) for name, quantity in quantities.items()} for label in labels
    }


def asked_table(group: Group, by: By, answers: Mapping[str, Mapping[str, Found]]) -> Table:
    """Methods by answers; where it is IDI, with the place of each method, from the least, and how far orders agree."""
    columns = list(next(iter(answers.values())))
    places = {
        column: ranks({label: each.mean for label, of in answers.items()
                       if label not in ENDS and (each := of[column]).mean is not None})
        for column in columns
    } if by != "block" else {}  # fmt: skip
    rows = []
    for label, of in answers.items():
        cells = [_text(of[column], places.get(column, {}).get(label)) for column in columns]
        rows.append((label, *cells, str(max(each.n for each in of.values()))))
    what = "Information in nats" if by == "block" else "IDI, and the place among the methods"
    missing = dict.fromkeys(
        each.why for of in answers.values() for each in of.values() if each.mean is None and each.why
    )
    note = f"{what}: mean ± standard deviation of n models."
    note += "".join(f" {sentence}" for sentence in _agreement(answers, columns)) if by != "block" else ""
    note += f" Missing: {'; '.join(list(missing)[:2])}." if missing else ""
    return Table(_title(group), ("Method", *columns, "n"), tuple(rows), note)


def _agreement(answers: Mapping[str, Mapping[str, Found]], columns: Sequence[str]) -> list[str]:
    """Rank correlation of each order with the first."""

    def values(column: str) -> dict[str, float]:
        return {label: each.mean for label, of in answers.items()
                if label not in ENDS and (each := of[column]).mean is not None}  # fmt: skip

    sentences = []
    for column in columns[1:]:
        found = spearman(values(columns[0]), values(column))
        if found is not None:
            sentences.append(
                f"Spearman of {columns[0]} and {column}: {found[0]:.2f} over {found[1]} methods."
            )
    return sentences


def asked_rows(group: Group, answers: Mapping[str, Mapping[str, Found]]) -> list[dict[str, Any]]:
    """A line for each answer."""
    return [
        {
            "setting": _title(group),
            "method": label,
            "question": name,
            "mean": each.mean,
            "std": each.std,
            "n": each.n,
        }
        for label, of in answers.items()
        for name, each in of.items()
    ]


def _title(group: Group) -> str:
    return setting_line(group.models[0].records[0]).split(", seed ")[0]


def _text(found: Found, place: int | None) -> str:
    if found.mean is None:
        return "none"
    spread = "" if found.std is None else f" ± {found.std:.3f}"
    return f"{found.mean:.3f}{spread}" + ("" if place is None else f" ({place})")
