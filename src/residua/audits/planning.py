"""planned: the plan of an audit, from its models and data, without the model that is to be audited."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from residua.audits.evidence import BESIDE, NEEDED
from residua.compare import Rules
from residua.data.task import ForgetTask
from residua.measure import InformationCurve, Measure
from residua.models.classifier import Classifier, weights_digest
from residua.record import describe
from residua.report.plan import Plan


def planned(
    *,
    original: Classifier,
    reference: Sequence[Classifier] | Classifier | str | None,
    task: ForgetTask,
    rules: Rules | None = None,
    curve: InformationCurve | None = None,
    measures: Sequence[Measure] = BESIDE,
    seed: int = 0,
) -> Plan:
    """What `audit` with the same arguments will test; `audit(plan=...)` is bound to it."""
    if isinstance(reference, Classifier):
        reference = [reference]
    if reference is None or isinstance(reference, str):
        references = [(reference or "none").removesuffix("x1")]
    else:
        references = [weights_digest(model) for model in reference]
    every = (curve or InformationCurve(), *NEEDED, *measures)
    return Plan(
        rules=dataclasses.asdict(rules or Rules()),
        measures={measure.label: describe(measure)["fields"] for measure in every},
        seed=seed,
        task=task.manifest()["sha256"],
        original=weights_digest(original),
        references=references,
    )
