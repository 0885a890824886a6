"""Where the residue is: which block, which classes, which samples."""

from __future__ import annotations

import numpy as np

from residua.compare import IDI, mean_curve
from residua.facts import TaskFacts
from residua.readings import Curve
from residua.report.audit_parts import (
    CurvePart,
    ResidueClass,
    ResiduePart,
    ResidueSample,
    references_in,
    roles_in,
)
from residua.report.findings import Readings, curves_of

# Samples that are named: more would be a table that nobody reads.
MOST_SAMPLES = 12


def curve_parts(read: Readings) -> dict[str, CurvePart]:
    """The information of each block of each model."""
    parts = {}
    for role in roles_in(read):
        curve = read[role].get("information")
        if isinstance(curve, Curve):
            known = all(f"I{block}_low" in curve.values for block in curve.blocks)
            parts[role] = CurvePart(
                ceiling=curve.ceiling,
                blocks=curve.information,
                intervals=curve.intervals if known else {},
            )
    return parts


def find_residue(read: Readings, task: TaskFacts, index: IDI | None) -> ResiduePart | None:
    """What the block with the largest share of the IDI tells of classes and samples; None without an IDI.

    Where classes were forgotten the critics tell forgotten from retained, and samples have these two labels.
    """
    curves = curves_of(read, references_in(read) or ["random"])
    if curves is None or index is None or index.value is None or index.largest is None:
        return None
    unlearned, original, rest = curves
    place = original.blocks.index(index.largest)
    u, o, r = (
        curve.residue(curve.blocks[place]) for curve in (unlearned, original, mean_curve(rest))
    )  # networks of another depth count their blocks otherwise
    labels = unlearned.labels
    classes = [
        ResidueClass(
            label=_label(int(label), task), n=int(own.sum()),
            unlearned=_nats(u[own]), original=_nats(o[own]), reference=_nats(r[own]),
        )
        for label in np.unique(labels)
        for own in [labels == label]
    ]  # fmt: skip
    asked = labels == 1 if task.scenario == "class" else np.ones(len(labels), bool)
    gap = np.where(asked, u - r, -np.inf)
    most = np.argsort(-gap, kind="stable")[:MOST_SAMPLES]
    places = unlearned.arrays.get("index")
    samples = [
        ResidueSample(index=int(places[i]), unlearned=float(u[i]), reference=float(r[i]))
        for i in most
        if places is not None and len(places) == len(u) and gap[i] > 0
    ]
    above = int((gap > 0).sum())
    return ResiduePart(
        block=index.largest, classes=classes, samples=samples, above=above, forgotten=int(asked.sum())
    )


def _label(label: int, task: TaskFacts) -> str:
    """Of the critic's label: forgotten or not where classes were forgotten, else the class."""
    if task.scenario == "class":
        names = ", ".join(task.named(each) for each in task.forgotten_classes or [])
        return f"forgotten ({names})" if label else "retained"
    counts = task.splits["forget"].per_class if "forget" in task.splits else None
    present = [each for each, n in enumerate(counts or []) if n]
    return task.named(present[label]) if label < len(present) else f"label {label}"


def _nats(terms: np.ndarray) -> float:
    return float(terms.mean())
