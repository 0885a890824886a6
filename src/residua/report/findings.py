"""What the records of an audit show, as the verdict takes it: arithmetic, nothing is fitted."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from residua.compare import (
    IDI,
    Excess,
    Inside,
    Likeness,
    Loss,
    Rules,
    ThreeSample,
    Witness,
    accuracy_loss,
    curve_in,
    excess,
    idi,
    inside,
    likeness,
    mean_curve,
    three_sample,
    witness,
)
from residua.compare.three_samples import FEWEST, Side
from residua.compare.verdicts import Against, against_random, forget_accuracy_side
from residua.facts import TaskFacts
from residua.readings import Curve, Reading
from residua.report.audit_data import references_in
from residua.report.plain import role_name

Readings = Mapping[str, Mapping[str, Reading]]


def curves_of(read: Readings, zeros: Sequence[str]) -> tuple[Curve, Curve, list[Curve]] | None:
    """The curves of the unlearned model, of Original and of what counts as 0; None if one lacks."""
    u, o, *rest = (curve_in(read.get(role, {})) for role in ("unlearned", "original", *zeros))
    if u is None or o is None or not rest or any(curve is None for curve in rest):
        return None
    return u, o, [curve for curve in rest if curve is not None]


def find_inside(read: Readings, task: TaskFacts, rules: Rules) -> Inside | None:
    """What the blocks know, against the references or, without one, a network with random weights."""
    zeros = references_in(read)
    curves = curves_of(read, zeros or ["random"])
    if curves is None:
        return None
    unlearned, original, rest = curves
    if not zeros:
        found = against_random(idi(unlearned, original=original, reference=rest[0]))
    else:
        found = inside(
            unlearned,
            original=original,
            references=rest,
            tolerance=rules.tolerance(len(rest)),
            unseen=task.scenario == "class",
        )
    return dataclasses.replace(found, notes=_warnings(read, [*zeros] or ["random"]))


def _warnings(read: Readings, zeros: Sequence[str]) -> tuple[str, ...]:
    """What the curves themselves warn of: critics that were still gaining, or had too few samples."""
    roles = ("unlearned", "original", *zeros)
    notes = [
        (role, note) for role in roles if (curve := curve_in(read[role])) for note in curve.notes.values()
    ]
    return tuple(f"{role_name(role)}: {note}." for role, note in notes)


def find_excess(read: Readings, task: TaskFacts) -> Excess | None:
    """Memory of forgotten samples beyond what is known of test images; where samples were forgotten."""
    curves = curves_of(read, references_in(read))
    if curves is None or task.scenario != "random":
        return None
    unlearned, original, rest = curves
    if any("test_terms" not in curve.arrays for curve in (unlearned, original, *rest)):
        return None
    return excess(unlearned, original=original, reference=mean_curve(rest))


def index_of(role: str, found: Inside | None) -> IDI | None:
    """The IDI of the others, from the unlearned model's: Original's is 1, a reference's its distance from the other references."""
    if found is None:
        return None
    index = found.idi
    zeros = references_in([role])
    if index.value is None or (role != "original" and not zeros):
        return index
    value = 1.0 if role == "original" else 0.0
    if zeros and found.chance is not None:
        value = found.chance.left_out[int(role.removeprefix("reference") or 1) - 1]
    # Shares of blocks are the unlearned model's.
    return dataclasses.replace(
        index,
        value=value,
        interval=(value, value),
        blocks={0: value},
        block_intervals={},
        id_unlearned=value * index.id_original,
    )


def find_tests(read: Readings) -> dict[str, ThreeSample]:
    """`outputs` on probabilities against every reference, `block l` on profiles against the first; with enough samples."""
    zeros = references_in(read)
    if not zeros:
        return {}
    tests: dict[str, ThreeSample] = {}
    ends = [read[role] for role in ("unlearned", "original")]
    if all("outputs" in readings for readings in (*ends, *(read[role] for role in zeros))):
        u, o = (_probabilities(readings) for readings in ends)
        rows = [_probabilities(read[role]) for role in zeros]
        if len(u) >= FEWEST and all(row.shape == u.shape for row in (o, *rows)):
            tests["outputs"] = _agreed([three_sample(u, row, o) for row in rows])
    three = [ends[0], read[zeros[0]], ends[1]]
    if all("representation" in readings for readings in three):
        kept = [readings["representation"].arrays for readings in three]
        for key in sorted((key for key in kept[0] if key.startswith("profile.")), key=_number):
            if all(key in arrays for arrays in kept) and len(kept[0][key]) >= FEWEST:
                tests[f"block {_number(key)}"] = three_sample(*(arrays[key] for arrays in kept))
    return tests


def _agreed(tests: Sequence[ThreeSample]) -> ThreeSample:
    """A side is taken only if the tests against all references take it: the largest p-value of each side."""
    mean = {
        name: float(np.mean([getattr(test, name) for test in tests]))
        for name in ("to_reference", "to_original", "error")
    }
    return ThreeSample(
        **mean,
        p_reference=max(test.p_reference for test in tests),
        p_original=max(test.p_original for test in tests),
        n=tests[0].n,
    )


def find_likeness(read: Readings, task: TaskFacts, rules: Rules) -> Likeness | None:
    """UA and divergences beside the references', and UA of slightly changed images where it was measured."""
    zeros = references_in(read)
    shares = _shares(read, "accuracy", "UA")
    if not zeros or shares is None:
        return None
    spoken = all("outputs" in read[role] for role in ("unlearned", *zeros))
    logs = (
        [read[role]["outputs"].arrays["log_probabilities"] for role in ("unlearned", *zeros)]
        if spoken
        else []
    )
    n, tolerance, divergence = task.size("forget"), rules.outputs, rules.divergence
    plain = likeness(
        shares[0],
        original=shares[1],
        references=shares[2:],
        outputs={"unlearned": logs[0]} if logs else None,
        outputs_of_references=logs[1:],
        n=n,
        tolerance=tolerance,
        divergence=divergence,
    )
    again = _shares(read, "perturbed", "UA_perturbed")
    if again is None:
        return plain
    perturbed = likeness(
        again[0], original=again[1], references=again[2:], n=n, tolerance=tolerance, divergence=divergence
    )
    return dataclasses.replace(plain, perturbed=perturbed)


def _shares(read: Readings, label: str, name: str) -> list[float] | None:
    """This value of the unlearned model, of Original and of the references; None if one lacks it."""
    roles = ("unlearned", "original", *references_in(read))
    values = [read[role][label].values.get(name) if label in read[role] else None for role in roles]
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else None


def find_witnesses(read: Readings, task: TaskFacts) -> list[Witness]:
    """Recovery, and the probe of the last block."""
    zeros = references_in(read)
    if not zeros:
        return []
    n = task.size("forget_test" if task.scenario == "class" else "forget")
    witnesses = []
    probes = [name for name in read["unlearned"].get("probe", Reading({})).values if name.count(".") == 1]
    last = max(probes, key=_number, default="")
    for label, name in (("recovery", "recovery"), ("probe", last)):
        known = _shares(read, label, name)
        if not n or known is None:
            continue
        errors = [_draw_error(read[role][label]) for role in ("unlearned", zeros[0])]
        seen = witness(name, known[0], original=known[1], references=known[2:], n=n, errors=errors)
        witnesses += [seen] if seen else []
    return witnesses


def _draw_error(reading: Reading) -> float:
    """The standard error over an attack's own draws: those of the data that a new head is fitted on."""
    draws = reading.arrays.get("draws")
    return 0.0 if draws is None or len(draws) < 2 else float(draws[:, 1].std(ddof=1) / np.sqrt(len(draws)))


def find_loss(read: Readings, task: TaskFacts, against: Against) -> Loss | None:
    """Against the worse of Original and references that had all of the retained data, as a user would do well with."""
    accuracy = {role: read[role]["accuracy"].values for role in read if "accuracy" in read[role]}
    if any("TA" not in accuracy.get(role, {}) for role in ("unlearned", "original")):
        return None
    before = accuracy["original"]["TA"]
    theirs = [accuracy[role]["TA"] for role in references_in(accuracy) if "TA" in accuracy[role]]
    if against == "model" and theirs:
        before = min(before, float(np.mean(theirs)))
    return accuracy_loss(before, accuracy["unlearned"]["TA"], task.size("test"))


def forget_side(read: Readings, task: TaskFacts) -> Side | Literal["neither"] | None:
    """Without a reference. None where the records hold no such accuracy, "neither" where it is inconclusive."""
    accuracy = {role: read[role]["accuracy"].values for role in read if "accuracy" in read[role]}
    if any(not {"UA", "TA"} <= set(accuracy.get(role, {})) for role in ("unlearned", "original")):
        return None
    if task.scenario is None:  # saved outputs do not always show whether classes or samples were forgotten
        return None
    side = forget_accuracy_side(
        1 - accuracy["unlearned"]["UA"],
        original=1 - accuracy["original"]["UA"],
        expected=accuracy["original"]["TA"] if task.scenario == "random" else 0.0,
        n=task.size("forget"),
    )
    return side or "neither"


def _probabilities(readings: Mapping[str, Reading]) -> np.ndarray:
    return np.exp(readings["outputs"].arrays["log_probabilities"].astype(np.float64))


def _number(key: str) -> int:
    return int(key.rpartition(".")[2])
