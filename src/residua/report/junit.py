"""JUnit XML of an audit: the verdict and what it rests on as test cases, for programs that show test results."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from residua.errors import printable
from residua.report.plain import facts, headline, subject
from residua.report.provenance import hashes

if TYPE_CHECKING:
    from residua.report.audit_data import AuditReport

SUITE = "residua audit"
LONGEST = 2000
# XML 1.0 has no way to write these, escaped or not; `printable` leaves none but a line break and a tab.
_UNWRITABLE = re.compile("[^\t\n\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

Outcome = Literal["passed", "failure", "error", "skipped"]


def junit(report: AuditReport, seconds: float = 0.0) -> str:
    """The report as one test suite.

    The case `verdict` passes for FORGOTTEN, is an error for UNDETERMINED and a failure for every other word. The three
    questions that the verdict answers and its parts are cases of their own: a bad answer is a failure, an open one is
    skipped with its reason, and so is what was not assessed. `seconds` is what measuring took.
    """
    cases = _cases(report)
    counts = {
        "tests": str(len(cases)),
        "failures": str(sum(outcome == "failure" for _, outcome, _ in cases)),
        "errors": str(sum(outcome == "error" for _, outcome, _ in cases)),
        "skipped": str(sum(outcome == "skipped" for _, outcome, _ in cases)),
        "time": f"{seconds:.3f}",
    }
    root = Element("testsuites", {"name": SUITE} | counts)
    suite = SubElement(root, "testsuite", {"name": _text(f"{SUITE}: {subject(report)}")} | counts)
    properties = SubElement(suite, "properties")
    for name, value in _properties(report):
        SubElement(properties, "property", {"name": name, "value": _text(value)})
    for name, outcome, why in cases:
        case = SubElement(
            suite,
            "testcase",
            {
                "classname": SUITE,
                "name": _text(name),
                "time": counts["time"] if name == "verdict" else "0.000",
            },
        )
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
    sentences = f"{report.verdict}: {headline(report)}\n{report.sentence}"
    cases: list[tuple[str, Outcome, str]] = [("verdict", outcomes.get(report.verdict, "failure"), sentences)]
    toned: dict[str, Outcome] = {"good": "passed", "bad": "failure", "open": "skipped"}
    cases += [(each.question, toned[each.tone], f"{each.answer}. {each.numbers}") for each in facts(report)]
    if report.inside is not None:
        cases += [
            (
                f"IDI of {name}",
                "passed" if part.inside else "failure",
                f"{part.value:.2f} ({part.low:.2f} to {part.high:.2f}) is not within {part.margin:.2f}",
            )
            for name, part in report.inside.parts.items()
        ]
    cases += [
        (
            f"{name} agrees",
            "failure" if each.contradicts else "passed",
            f"{each.value:.2f} ({each.low:.2f} to {each.high:.2f}) contradicts",
        )
        for name, each in report.witnesses.items()
    ]
    return cases + [(f"{what} assessed", "skipped", why) for what, why in report.not_assessed.items()]


def _properties(report: AuditReport) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = [
        ("verdict", report.verdict),
        ("tier", report.tier),
        ("reference", report.against),
    ]
    if report.idi is not None and report.idi.value is not None:
        rows.append(("IDI", f"{report.idi.value:.4f}"))
    if report.idi is not None and report.idi.interval is not None:
        rows += [
            (f"IDI.{side}", f"{end:.4f}")
            for side, end in zip(("low", "high"), report.idi.interval, strict=True)
        ]
    for name, weights, record in hashes(report):
        rows += [(f"weights of {name}", weights)] if weights else []
        rows.append((f"record of {name}", record))
    return rows


def _text(text: str) -> str:
    """Text that XML can hold and a terminal can show, whatever file it came from."""
    return _UNWRITABLE.sub("?", printable(text, LONGEST))
