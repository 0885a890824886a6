"""Questions to the records of a study: IDI by reference, by number of blocks and by critics, and information by block.

All of it is arithmetic on stored terms; nothing is fitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any, Literal

from residua.compare import mean_curve, readings_of
from residua.compare.information import idi_value, ranks, spearman
from residua.errors import InputError
from residua.readings import Curve
from residua.record import Record
from residua.report.methods import COMPARED_WITH, by_setting
from residua.report.table import Table, mean_sd, setting_line
from residua.roles import role_of

By = Literal["reference", "last", "block", "family"]
# References that are shown side by side unless others are named.
USUAL = ("Retrain", "COLA", "EU-10")
# Label, seed of its training and draw of one model.
Key = tuple[str, int, int]
Values = dict[str, dict[str, list[float]]]


@dataclass(frozen=True)
class Answers:
    """Values by method, then by column, of one setting; and the reasons why some are missing."""

    title: str
    by: By
    values: Values
    missing: tuple[str, ...]

    def rows(self) -> list[dict[str, Any]]:
        """One row per method and column."""
        return [
            {
                "setting": self.title,
                "method": label,
                "question": column,
                "mean": mean(values) if values else None,
                "std": stdev(values) if len(values) > 1 else None,
                "n": len(values),
            }
            for label, columns in self.values.items()
            for column, values in columns.items()
        ]

    def table(self) -> Table:
        """Methods by columns; for IDI with each method's rank, from the least, and the agreement of the ranks."""
        columns = list(next(iter(self.values.values())))
        means = {} if self.by == "block" else {column: self._means(column) for column in columns}
        places = {column: ranks(of) for column, of in means.items()}
        rows = []
        for label, of in self.values.items():
            ranked = {column: place[label] for column, place in places.items() if label in place}
            cells = [
                mean_sd(of[column], 3) + (f" ({ranked[column]})" if column in ranked else "") for column in columns
            ]
            rows.append((label, *cells, str(max(map(len, of.values())))))
        what = "Information in nats" if self.by == "block" else "IDI, and the place among the methods"
        sentences = [f"{what}: mean ± standard deviation of n models."]
        for column in columns[1:] if means else []:
            found = spearman(means[columns[0]], means[column])
            if found is not None:
                sentences.append(f"Spearman of {columns[0]} and {column}: {found[0]:.2f} over {found[1]} methods.")
        sentences += [f"Missing: {'; '.join(self.missing[:2])}."] if self.missing else []
        return Table(self.title, ("Method", *columns, "n"), tuple(rows), " ".join(sentences))

    def _means(self, column: str) -> dict[str, float]:
        return {
            label: mean(of[column]) for label, of in self.values.items() if of[column] and label not in COMPARED_WITH
        }


def answers(
    records: Sequence[Record],
    by: By,
    references: Sequence[str] = (),
    last: int | None = None,
    family: str | None = None,
) -> list[Answers]:
    """Answer one question for every setting of the records that has information curves.

    Args:
        records: Records of a study, or of any folder.
        by: The columns: references, numbers of last blocks, blocks, or families of critics.
        references: Labels of the models at which IDI is zero; `all` is the mean of all retrained models.
        last: Number of last blocks that IDI sums; all that were measured by default.
        family: Critics whose terms are taken; the first that were measured by default.
    """
    return [
        found
        for group, _ in by_setting(records, [{} for _ in records])
        if (found := _answers(group, by, references, last, family)) is not None
    ]


def _answers(
    records: Sequence[Record], by: By, references: Sequence[str], last: int | None, family: str | None
) -> Answers | None:
    curves = _curves(records)
    if not curves:
        return None
    zero = references[0] if references else "Retrain"
    labels = list(dict.fromkeys(label for label, _, _ in curves))
    most = max(len(curve.blocks) for of in curves.values() for curve in of)
    asked: dict[str, dict[str, Any]]
    if by == "reference":
        named = [each for each in references or USUAL if each == "all" or each in labels]
        asked = {f"reference {each}": {"reference": each} for each in named}
    elif by == "last":
        asked = {f"n = {n}": {"last": n} for n in range(1, most + 1)}
    elif by == "family":
        families = dict.fromkeys(name for of in curves.values() for curve in of for name in curve.families)
        asked = {name: {"family": name} for name in families}
    else:
        deepest = next(curve for of in curves.values() for curve in of if len(curve.blocks) == most)
        asked = {f"block {block}": {"block": block} for block in deepest.blocks}
    values: Values = {label: {column: [] for column in asked} for label in labels}
    missing: dict[str, None] = {}
    for key in curves:
        for column, how in asked.items():
            try:
                if by == "block":
                    value = next(c for c in curves[key] if how["block"] in c.blocks).information[how["block"]]
                else:
                    value = _idi(curves, key, **{"reference": zero, "last": last, "family": family} | how)
            except StopIteration:
                missing[f"{key[0]} has no curve of {column}"] = None
            except InputError as error:
                missing[str(error)] = None
            else:
                values[key[0]][column].append(value)
    return Answers(setting_line(records[0]).split(", seed ")[0], by, values, tuple(missing))


def _curves(records: Sequence[Record]) -> dict[Key, list[Curve]]:
    """The curves of every model that are read on unseen data, the usual one first; a model may have several records."""
    found: dict[Key, list[tuple[str, Curve]]] = {}
    for record in records:
        key = (record.method.label, record.seeds.get("training", 0), record.seeds.get("draw", 0))
        for label, curve in readings_of(record).items():
            if isinstance(curve, Curve) and _measure(curve).get("protocol") != "paper":
                found.setdefault(key, []).append((label, curve))
    return {
        key: [curve for _, curve in sorted(found[key], key=_usual_first)]
        for key in sorted(found, key=lambda key: key[1:])
    }


def _usual_first(labelled: tuple[str, Curve]) -> tuple[Any, ...]:
    """The measure under its own name, then curves of all samples, then those of few blocks."""
    label, curve = labelled
    return (label != "information", _measure(curve).get("ratio", "all") != "all", len(curve.blocks), label)


def _measure(curve: Curve) -> dict[str, Any]:
    return curve.about.get("measure", {})


def _idi(curves: Mapping[Key, list[Curve]], key: Key, reference: str, last: int | None, family: str | None) -> float:
    """IDI against the Original and the reference of the same seed, or of another where its own has none."""

    def of_seed(label: str) -> list[Key]:
        if label in ("all", "Retrain"):
            keys = [each for each in curves if role_of(each[0]) == "reference"]
            keys.sort(key=lambda each: (len(each[0]), each[0]))
        else:
            keys = [each for each in curves if each[0] == label]
        return [each for each in keys if each[1] == key[1]] or keys

    def curve(each: Key) -> Curve:
        enough = [curve for curve in curves[each] if len(curve.blocks) >= (last or 1)]
        if not enough:
            raise InputError(f"{each[0]} has no curve of {last} blocks; measure one first")
        return enough[0]

    originals, zeros = of_seed("Original"), of_seed(reference)
    if not originals or not zeros:
        raise InputError(f"no record of {reference if originals else 'Original'}")
    zeros = zeros if reference == "all" else zeros[:1]
    own = key if role_of(key[0]) == "original" else originals[0]
    zero = mean_curve([curve(each) for each in zeros])
    value = idi_value(curve(key), original=curve(own), reference=zero, last=last, family=family)
    if value is None:
        raise InputError("Original does not clearly know more than the reference, so IDI is undetermined")
    return value
