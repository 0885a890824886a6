"""The verdicts of a study: every model audited against the Retrains of its seed, as a table."""

from __future__ import annotations

from collections.abc import Sequence

from residua.report.audit_data import AuditReport
from residua.report.table import Table


def model_verdicts(reports: Sequence[AuditReport]) -> Table:
    """A row for each model: the word, IDI with its interval, and what the verdict rests on beside it."""
    rows = tuple(
        (
            report.about["control"],
            f"{report.about['seed']}.{report.about.get('draw', 0)}",
            report.verdict,
            _idi(report),
            _share(report, "UA"),
            _share(report, "TA"),
            _share(report, "recovery"),
        )
        for report in reports
    )
    first = next((report.inside for report in reports if report.inside is not None), None)
    note = "Seed: that of Original, then the number of the unlearning. IDI: zero is the mean of the references; 95 % interval."
    if first is not None:
        note += f" {first.references} references, tolerance {first.tolerance:g}"
        note += "." if first.resolution is None else f", resolution {first.resolution:.2f}."
    setting = reports[0].about["setting"] if reports else "no model"
    columns = ("Method", "Seed", "Verdict", "IDI", "UA %", "TA %", "recovery %")
    return Table(f"{setting}: verdicts", columns, rows, note)


def _idi(report: AuditReport) -> str:
    if report.idi is None or report.idi.value is None:
        return "undetermined"
    ends = report.idi.interval
    return f"{report.idi.value:.2f}" + ("" if ends is None else f" ({ends[0]:.2f} to {ends[1]:.2f})")


def _share(report: AuditReport, name: str) -> str:
    value = report.metrics.get("unlearned", {}).get(name)
    return "none" if value is None else f"{100 * value:.1f}"
