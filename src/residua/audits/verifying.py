"""Verification that a saved report follows from its records."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import IO, cast

from pydantic import ValidationError

from residua.compare import curve_of
from residua.compare.verdicts import START_READINGS, VERDICT_READINGS
from residua.errors import InputError, first_line, printable
from residua.files import read_bytes, read_text
from residua.limits import Unpacking
from residua.record import Record
from residua.report.audit import AuditReport, audit_report
from residua.report.pages import PAGE, audit_page, read_thumbnails, same_page
from residua.report.text import role_name, task_of
from residua.roles import roles_in
from residua.text import Difference, differences

# Terms are kept in float16, their mean was taken before.
ROUNDING = 2e-3
# How far readings of a rerun may be from the records': one of fifty images that decides otherwise; curves move far
# less (docs/verdict.md).
TOLERANCE = 0.02
# The same where software and kind of processor are the records': linear critics move in their last digits even there.
SAME_MACHINE = 1e-4
# Reports of many controls in one file, gzipped: most of their text is the same in all.
PACKED = "reports.jsonl.gz"


def verify(folder: str | Path) -> list[str]:
    """List everything in a saved audit that does not follow from its records; empty if all does.

    Every record must have the content that its hash, and the report, say, and every reading that the verdict rests
    on. Verdict, sentence, IDI, tests, metrics, what was not assessed and why, the kinds of access and of reference,
    task, network, seed and command are computed again from records and rules, and so are `report.md` and `report.html`
    (of a page that another version drew, all but its figures). It does not show that the readings in
    the records are true (`rerun` does), what was typed, or that the rules were chosen before the result was known.
    """
    folder = Path(folder)
    report = read_report(folder)
    try:
        records = read_records(folder, report)
    except InputError as error:
        return [str(error)]
    try:
        unsound = lacking_evidence(records) + unlike_their_terms(records)
        typed = {name: value for name, value in report.about.items() if name in ("typed", "plan")}
        again = audit_report(records, rules=report.rules, about=typed)
        written, follows = (json.loads(each.model_dump_json()) for each in (report, again))
        unsound += [_unlike(each) for each in differences(written, follows, tolerance=1e-6)]
        markdown = report.markdown()
    except Exception as error:  # records that were made up can be wrong in every way
        return [f"nothing follows from the records ({type(error).__name__}: {first_line(error)})"]
    if not unsound and _text(folder / "report.md") != markdown:
        unsound.append("report.md does not say what report.json says")
    return unsound or _page_faults(folder, report, records)


def _page_faults(folder: Path, report: AuditReport, records: Mapping[str, Record]) -> list[str]:
    """A page that is there must be the one that report and records give; one that is not there claims nothing."""
    path = folder / PAGE
    if not path.exists() and not path.is_symlink():
        return []
    try:
        fault = same_page(_text(path), audit_page(report, records, read_thumbnails(folder)))
    except Exception as error:  # whatever a report that was made up holds
        return [f"no page can be made of the records ({type(error).__name__}: {first_line(error)})"]
    return [fault] if fault else []


def _unlike(difference: Difference) -> str:
    sides = [repr(difference.left), repr(difference.right)]
    same = next((i for i, (a, b) in enumerate(zip(*sides, strict=False)) if a != b), 0)
    if same > 60:  # long texts are shown from shortly before where they part
        sides = [f"...{side[same - 30 :]}" for side in sides]
    written, follows = (printable(side, 120) for side in sides)
    place = printable(difference.place, 200)
    return f"report.json says {place} = {written}, but the records give {follows}"


def lacking_evidence(records: Mapping[str, Record]) -> list[str]:
    """The readings that the verdict rests on and that a record lacks though what it was made of gives them."""
    lacking = []
    for role, record in records.items():
        for kind in record.method.saved or ("weights",):
            lacking += [
                f"the record of {role} has no reading of {label}, which the verdict rests on and {kind} always give"
                for label in (START_READINGS if role == "start" else VERDICT_READINGS.get(kind, ()))
                if label not in record.readings
            ]
    return lacking


def unlike_their_terms(records: Mapping[str, Record]) -> list[str]:
    """The blocks whose information is not the mean of the terms from which the IDI is computed.

    Some estimates are held to [0, H], which their terms are not, so the mean may be either.
    """
    unlike = []
    for role, record in records.items():
        if "information" not in record.readings:
            continue
        curve = curve_of(record)
        for block, value in curve.information.items():
            mean = float(curve.terms([block]).mean())
            held = min(max(mean, 0.0), curve.ceiling)
            if not min(abs(value - mean), abs(value - held)) <= ROUNDING * max(1.0, abs(mean)):
                unlike.append(
                    f"information of block {block} of {role} is {value:.6g}, but its terms have the mean {mean:.6g}"
                )
    return unlike


def changes(earlier: AuditReport, later: AuditReport) -> list[str]:
    """Changes from one audit to another: models, task, rules and settings, then verdict, IDI and metrics."""
    lines = []
    for role in roles_in(earlier.models | later.models):
        was, now = earlier.models.get(role), later.models.get(role)
        words = "the same weights" if was == now else "other weights" if was and now else "only in one of them"
        lines.append(f"{role_name(role)}: {words}.")
    for name, of in (("Task", lambda r: task_of(r).sha256), ("Rules", lambda r: asdict(r.rules)),
                     ("Settings of the measures", lambda r: r.about.get("measures"))):  # fmt: skip
        lines.append(f"{name}: {'the same' if of(earlier) == of(later) else 'others'}.")
    same = "the same" if earlier.verdict == later.verdict else f"was {earlier.verdict}"
    lines.append(f"Verdict: {later.verdict} ({same}).")
    values = [report.metrics["unlearned"] for report in (earlier, later)]
    for name in (name for name in ("IDI", "UA", "RA", "TA", "recovery") if all(name in each for each in values)):
        lines.append(f"{name}: {values[0][name]:.3f}, now {values[1][name]:.3f}.")
    return lines


def read_report(folder: Path) -> AuditReport:
    """The report in this folder."""
    path = folder / "report.json"
    if folder.is_dir() and not path.exists():
        raise InputError(f"{folder} holds no report.json; give the folder of an audit")
    text = read_text(path, "the report.json of an audit")
    try:
        return AuditReport.model_validate_json(text)
    except (ValidationError, TypeError, ValueError, RecursionError) as error:
        first = "; ".join(str(error).splitlines()[:3])
        raise InputError(f"{path} is not a report of an audit ({printable(first, 300)}); make it again") from error


def read_records(folder: Path, report: AuditReport) -> dict[str, Record]:
    """The records that the report names, by role."""
    unknown = set(report.records) - set(roles_in(report.records))
    if unknown or not {"unlearned", "original"} <= set(report.records):
        raise InputError(f"records are of {printable(', '.join(sorted(report.records)), 200) or 'nothing'}")
    return {role: Record.read(folder / "records" / f"{role}.json") for role in report.records}


def _text(path: Path) -> str:
    try:
        return read_text(path)
    except InputError:
        return ""


def reports_in(folder: Path) -> list[AuditReport]:
    """The audits of controls, from a file each or packed, a line each; none where the folder holds something else."""
    texts = [(str(path), read_text(path, "the report of a control")) for path in sorted(folder.glob("seed*.json"))]
    if (folder / PACKED).exists():
        lines = _unpacked(folder / PACKED).splitlines()
        texts += [(f"{folder / PACKED}, line {number},", line) for number, line in enumerate(lines, start=1)]
    found = []
    for place, text in texts:
        if '"verdict"' not in text:
            return []
        try:
            each = AuditReport.model_validate_json(text)
            if not {"control", "seed", "setting"} <= set(each.about):
                raise ValueError("it does not name its control")
        except ValueError as error:
            raise InputError(f"{place} is not the report of a control ({first_line(error)}); make it again") from error
        found.append(each)
    return found


def _unpacked(path: Path) -> str:
    """The text of a gzipped file, as far as the limits allow."""
    packed = read_bytes(path, "packed reports")
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
            return Unpacking(cast(IO[bytes], file), path, len(packed)).read().decode("utf-8")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise InputError(f"{path} is damaged, expected gzipped lines of JSON; get it again") from error
