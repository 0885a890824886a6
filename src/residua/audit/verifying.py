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

    Every record must have the content that its hash, and the report, say. Verdict, sentence, IDI, tests, metrics,
    what was not assessed, the kinds of access and of reference, task, network, seed and command are made anew
    from records and rules. It does not show that the readings in the records are true (`rerun` does), why a
    measure was left out, what was typed, or that the rules were chosen before the result was known.
    """
    folder = Path(folder)
    report, rules = read_report(folder)
    try:
        records = read_records(folder, report)
    except InputError as error:
        return [str(error)]
    try:
        typed = {name: words for name, words in report.about.items() if name == "typed"}
        anew = audit_report(records, rules=rules, reasons=report.not_assessed, about=typed)
    except (InputError, KeyError, ValueError, TypeError, IndexError) as error:
        return [f"nothing follows from the records ({type(error).__name__}: {error})"]
    stands, follows = (json.loads(each.model_dump_json()) for each in (report, anew))
    found = differences(stands, follows)
    if not found and _text(folder / "report.md") != report.markdown():
        found.append("report.md does not say what report.json says")
    return found


def read_report(folder: Path) -> tuple[AuditReport, Rules]:
    """The report in this folder and the rules that it was made by."""
    try:
        report = AuditReport.model_validate_json((folder / "report.json").read_text("utf-8"))
        return report, Rules(**report.settings)
    except OSError as error:
        raise InputError(
            f"{folder} holds no report.json ({error.strerror}); give the folder of an audit"
        ) from error
    except (ValidationError, UnicodeDecodeError, TypeError) as error:
        first = str(error).splitlines()
        raise InputError(
            f"{folder}/report.json is not a report of an audit ({'; '.join(first[:3])}); make it again"
        ) from error


def read_records(folder: Path, report: AuditReport) -> dict[str, Record]:
    """The records that the report names, by role."""
    unknown = set(report.records) - set(ROLES)
    if unknown or not {"unlearned", "original"} <= set(report.records):
        raise InputError(f"records are of {', '.join(sorted(report.records)) or 'nothing'}")
    return {role: Record.read(folder / "records" / f"{role}.json") for role in report.records}


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
