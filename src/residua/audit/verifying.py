"""Verify: does a saved report follow from its records?"""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import ValidationError

from residua.compare import Rules
from residua.errors import InputError
from residua.record import Record
from residua.report import AuditReport, audit_report, differences
from residua.report.audit import ROLES


def verify(folder: str | Path) -> list[str]:
    """What in a saved audit does not follow from its records; empty if all does.

    Every record must have the content that its hash, and the report, say; and verdict, sentence, IDI, tests and
    metrics are computed anew from records and settings. It does not show that the records are true.
    """
    folder = Path(folder)
    try:
        text = (folder / "report.json").read_text("utf-8")
        report = AuditReport.model_validate_json(text)
        rules = Rules(**report.settings)
    except OSError as error:
        raise InputError(
            f"{folder} holds no report.json ({error.strerror}); give the folder of an audit"
        ) from error
    except (ValidationError, UnicodeDecodeError, TypeError) as error:
        first = str(error).splitlines()
        raise InputError(
            f"{folder}/report.json is not a report of an audit ({'; '.join(first[:3])}); make it again"
        ) from error
    unknown = set(report.records) - set(ROLES)
    if unknown or not {"unlearned", "original"} <= set(report.records):
        return [f"records are of {', '.join(sorted(report.records)) or 'nothing'}"]
    records = {}
    for role in report.records:
        try:
            records[role] = Record.read(folder / "records" / f"{role}.json")
        except InputError as error:
            return [str(error)]
    try:
        anew = audit_report(
            records,
            tier=report.tier,
            against=report.against,
            rules=rules,
            not_assessed=report.not_assessed,
            about=report.about,
        )
    except (InputError, KeyError, ValueError, TypeError, IndexError) as error:
        return [f"nothing follows from the records ({type(error).__name__}: {error})"]
    found = differences(json.loads(text), json.loads(anew.model_dump_json()))
    if not found and _text(folder / "report.md") != report.markdown():
        found.append("report.md does not say what report.json says")
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
