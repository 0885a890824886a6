"""Reports of many audits in one folder: those of controls, and the verdicts of a study."""

from __future__ import annotations

from pathlib import Path

from residua.errors import InputError, first_line
from residua.files import read_text
from residua.report.audit_data import AuditReport


def reports_in(folder: Path) -> list[AuditReport]:
    """The audits of controls; none where the folder holds something else."""
    found = []
    for path in sorted(folder.glob("seed*.json")):
        text = read_text(path, "the report of a control")
        if '"verdict"' not in text:
            return []
        try:
            each = AuditReport.model_validate_json(text)
            if not {"control", "seed", "setting"} <= set(each.about):
                raise ValueError("it does not name its control")
        except ValueError as error:
            raise InputError(
                f"{path} is not the report of a control ({first_line(error)}); make it again"
            ) from error
        found.append(each)
    return found
