"""JUnit XML of an audit: the verdict and what it rests on as test cases, for programs that show test results."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from residua.compare.verdicts import WORDS
from residua.errors import printable
from residua.report.table import with_interval
from residua.report.text import Outcome, contradicts, facts, hashes, subject

if TYPE_CHECKING:
    from residua.record import Record
    from residua.report.audit import AuditReport

SUITE = "residua audit"
LONGEST = 2000
# XML 1.0 has no way to write these, escaped or not; `printable` leaves none but a line break and a tab.
_UNWRITABLE = re.compile("[^\t\n\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(report: AuditReport, seconds: float = 0.0) -> str:
    """The report as one test suite.

    The case `verdict` passes for FORGOTTEN, is an error for UNDETERMINED and a failure for every other word. The three
    questions that the verdict answers and its parts are cases of their own: a bad answer is a failure, one that does not
    decide an error, and what was not assessed is skipped with its reason. `seconds` is what measuring took.
    """
    cases = _cases(report)
    totals = Counter(outcome for _, outcome, _ in cases)
    counts = {"tests": str(len(cases)), "failures": str(totals["failure"]), "errors": str(totals["error"]),
              "skipped": str(totals["skipped"]), "time": f"{seconds:.3f}"}  # fmt: skip
    root = Element("testsuites", {"name": SUITE} | counts)
    suite = SubElement(root, "testsuite", {"name": _text(f"{SUITE}: {subject(report)}")} | counts)
    properties = SubElement(suite, "properties")
    for name, value in _properties(report):
        SubElement(properties, "property", {"name": name, "value": _text(value)})
    for name, outcome, why in cases:
        spent = counts["time"] if name == "verdict" else "0.000"
        case = SubElement(suite, "testcase", {"classname": SUITE, "name": _text(name), "time": spent})
        if outcome != "passed":
            inner = SubElement(case, outcome, {"message": _text(why.split("\n")[0])})
            if outcome != "skipped":
                inner.set("type", report.verdict)
                inner.text = _text(why)
    SubElement(suite, "system-out").text = _text(f"{report.verdict}\n{report.sentence}")
    indent(root, " ")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'


def _cases(report: AuditReport) -> list[tuple[str, Outcome, str]]:
    outcomes: dict[str, Outcome] = {"FORGOTTEN": "passed", "UNDETERMINED": "error"}
    sentences = f"{report.verdict}: {WORDS[report.verdict]}\n{report.sentence}"
    cases: list[tuple[str, Outcome, str]] = [("verdict", outcomes.get(report.verdict, "failure"), sentences)]
    cases += [(each.question, each.outcome, f"{each.answer}. {each.numbers}") for each in facts(report)]
    if report.inside is not None:
        cases += [
            (
                f"IDI of {name}",
                "passed" if part.inside else "failure",
                f"{with_interval(part.value, (part.low, part.high))} is not within {part.margin:.2f}",
            )
            for name, part in report.inside.parts.items()
        ]
    cases += [
        (
            f"{each.name} agrees",
            "failure" if contradicts(report, each) else "passed",
            f"{with_interval(each.value, (each.low, each.high))} contradicts",
        )
        for each in report.witnesses
    ]
    return cases + [(f"{what} assessed", "skipped", why) for what, why in report.not_assessed.items()]


def _properties(report: AuditReport) -> list[tuple[str, str]]:
    rows = [("verdict", str(report.verdict)), ("tier", report.tier), ("reference", report.against)]
    if report.idi is not None:
        low, high = report.idi.interval or (None, None)
        numbers = {"IDI": report.idi.value, "IDI.low": low, "IDI.high": high}
        rows += [(name, f"{value:.4f}") for name, value in numbers.items() if value is not None]
    for name, weights, record in hashes(report):
        rows += [(f"weights of {name}", weights)] if weights else []
        rows.append((f"record of {name}", record))
    return rows


def _text(text: str) -> str:
    """Text that XML can hold and a terminal can show, whatever file it came from."""
    return _UNWRITABLE.sub("?", printable(text, LONGEST))


def measuring_seconds(records: Mapping[str, Record]) -> float:
    """The time that measuring all models took; parts of a measurement are not counted twice."""
    return sum(seconds for record in records.values() for part, seconds in record.seconds.items() if "." not in part)
