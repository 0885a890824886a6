"""Which metrics can be trusted: each one as a detector of knowledge that was kept, over models whose truth is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from residua.compare.credit import auc_interval
from residua.report.audit_data import AuditReport, references_in
from residua.report.controls import FURTHER, KNOWING
from residua.report.metrics import headlines
from residua.report.table import Table

# Controls that were trained without the forgotten data, and nothing else.
WITHOUT = (FURTHER, "Second Retrain", "Retrain again")
# A retrained encoder; what it still says is not knowledge inside.
LEFT_OUT = ("Still answers",)


@dataclass(frozen=True)
class Detector:
    """A metric as a detector: the probability that a model with the knowledge is further from the references than one without it."""

    name: str
    auc: float
    low: float
    high: float
    knowing: int
    without: int
    fooled_by: tuple[str, ...]


def detectors(reports: Sequence[AuditReport]) -> list[Detector]:
    """Every metric over all controls, the best first.

    A model's score is its distance from the mean of the references towards Original, in units of Original's distance:
    0 is a reference, 1 Original. Seeds in which the metric cannot distinguish Original from the references count as 0. Each reference left out
    against the others counts as a model without the knowledge.
    """
    every = dict.fromkeys(n for r in reports for values in r.metrics.values() for n in values)
    names = headlines([name for name in every if not name.endswith((".low", ".high"))])
    found = [each for name in names if (each := _detector(name, reports)) is not None]
    return sorted(found, key=lambda each: -each.auc)


def _detector(name: str, reports: Sequence[AuditReport]) -> Detector | None:
    with_it: dict[str, list[float]] = {}
    without: list[float] = []
    seeds: set[int] = set()
    for report in reports:
        row = report.about["control"]
        score = _score(report.metrics, name, "unlearned")
        if score is not None and row in KNOWING and row not in LEFT_OUT:
            with_it.setdefault(row, []).append(score)
        elif score is not None and row in WITHOUT:
            without.append(score)
        if report.about["seed"] not in seeds:  # references are the same in all reports of a seed
            seeds.add(report.about["seed"])
            left_out = (_score(report.metrics, name, role) for role in references_in(report.metrics))
            without += [each for each in left_out if each is not None]
    scores = [score for values in with_it.values() for score in values]
    if not scores or not without:
        return None
    auc = _auc(scores, without)
    low, high = auc_interval(auc, len(scores), len(without))
    fooled = tuple(row for row, values in with_it.items() if _auc(values, without) < 0.75)
    return Detector(name, auc, low, high, len(scores), len(without), fooled)


def _score(metrics: Mapping[str, Mapping[str, float]], name: str, role: str) -> float | None:
    zeros = [other for other in references_in(metrics) if other != role]
    if not zeros or any(name not in metrics[each] for each in (role, "original", *zeros)):
        return None
    zero = sum(metrics[each][name] for each in zeros) / len(zeros)
    gap = metrics["original"][name] - zero
    return 0.0 if abs(gap) < 1e-9 else (metrics[role][name] - zero) / gap


def _auc(ones: Sequence[float], others: Sequence[float]) -> float:
    """The share of pairs in which the first is larger; ties count half."""
    a, b = np.asarray(ones)[:, None], np.asarray(others)[None, :]
    return float((a > b).mean() + (a == b).mean() / 2)


def detector_table(reports: Sequence[AuditReport]) -> Table:
    """The AUC of every metric with its 95 % interval, and the controls that fool it."""
    rows = [
        (each.name, f"{each.auc:.2f}", f"{each.low:.2f} to {each.high:.2f}", str(each.knowing), str(each.without),
         ", ".join(each.fooled_by))
        for each in detectors(reports)
    ]  # fmt: skip
    return Table(
        title="Which metrics detect knowledge that was kept",
        columns=("Metric", "AUC", "95 % interval", "models that know", "models that do not", "Fooled by"),
        rows=tuple(rows),
        note="AUC: how probably a model that kept what Original knows is further from the references, towards Original, "
        "than one that was retrained. 0.5 is a coin. Fooled by: controls that it tells from retrained models with an AUC "
        "below 0.75. IDI and the verdict are tested on the same models that they were designed against.",
    )
