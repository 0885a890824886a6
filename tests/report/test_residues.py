"""Residues planted into the reports on further Retrains."""

from __future__ import annotations

from planted_pages import audit_report

from residua.compare import IDI, Caveat, Findings, Inside, Part, Witness
from residua.report.audit import AuditReport
from residua.report.controls import residue_table


def further(value: float, half: float, **more) -> AuditReport:
    """The report on a further Retrain with this IDI, against three references."""
    index = IDI(value, (value - half, value + half), 0, 1, (0.9, 1.1), {5: value}, 0.03, None)
    parts = {"linear critics": Part(value, value - half, value + half, 0.25)}
    found = Inside(index, 3, 0.25, half, parts=parts)
    about = {"control": "Further Retrain", "seed": 0, "setting": "s"}
    given = {"inside": found, "about": about, "findings": Findings("like", "within", "kept")} | more
    return audit_report().model_copy(update=given)


def test_residues_are_planted_in_units_of_the_tolerance():
    """0.24 wide to either side: IDI and critics are within the tolerance up to 0.01, or 0.05 of the tolerance."""
    reports = [further(0.0, 0.1), further(0.1, 0.1), further(0.0, 0.3), further(-0.2, 0.04)]
    reports.append(further(0.0, 0.1, caveats=[Caveat("x", bars=True)]))
    reports.append(further(0.0, 0.1, witnesses=[Witness("probe.5", 0.5, 0.3, 0.7)]))
    reports.append(further(0.0, 0.1, findings=Findings("unlike", "within", "kept")))
    table = residue_table([*reports, further(0.0, 0.1, about={"control": "HD", "seed": 0, "setting": "s"})])
    # With half of it, 0.125: 0.125 and -0.075 are left within; with all of it -0.2 reads 0.05; with twice, 0.3.
    assert [row[:3] for row in table.rows] == [("0", "3", "7"), ("0.5", "2", "7"), ("1", "1", "7"), ("2", "0", "7")]
    assert [row[3:] for row in table.rows] == [("", ""), ("", ""), ("at most 5 %", "MISSED"), ("at most 5 %", "met")]
    assert residue_table([]) is None
