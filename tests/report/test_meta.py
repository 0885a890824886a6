"""Metrics as detectors, on planted reports."""

from __future__ import annotations

from residua.compare import Findings, Rules
from residua.report.audit import AuditReport
from residua.report.controls import detector_table, detectors


def report(control: str, seed: int, ua: float, recovery: float) -> AuditReport:
    """A metric of outputs and one of the encoder; three references that differ a little."""
    zeros = {
        role: {"UA": 1.0, "recovery": 0.40 + 0.02 * i + 0.001 * seed}
        for i, role in enumerate(("reference", "reference2", "reference3"))
    }
    return AuditReport(
        verdict="UNDETERMINED", sentence="", limits=[], tier="weights", against="model", rules=Rules(), inside=None,
        findings=Findings(),
        loss=None, tests={}, guards=[], notes={}, not_assessed={}, models={}, records={},
        metrics={"unlearned": {"UA": ua, "recovery": recovery}, "original": {"UA": 0.1, "recovery": 0.9}} | zeros,
        about={"control": control, "seed": seed},
    )  # fmt: skip


def test_a_metric_of_outputs_is_fooled_where_one_of_the_encoder_is_not():
    reports = [
        each
        for seed in range(4)
        for each in (
            report("HD", seed, 1.0, 0.9),
            report("Original", seed, 0.1, 0.9),
            report("Further Retrain", seed, 1.0, 0.43),
        )
    ]
    found = {each.name: each for each in detectors(reports)}
    assert found["recovery"].auc == 1.0
    assert found["recovery"].fooled_by == ()
    assert found["UA"].fooled_by == ("HD",)
    assert found["UA"].auc == 0.75
    assert found["recovery"].without == 4 + 4 * 3, "references that are left out count too"
    assert detector_table(reports).rows[0][0] == "recovery"
