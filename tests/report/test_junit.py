"""JUnit XML of an audit: what passes, what fails, and that names from files are text."""

from __future__ import annotations

import dataclasses
from xml.etree import ElementTree

import pytest
from planted_pages import HOSTILE, audit_report

from residua.report.junit import junit

PARTS = {
    "block 4": {"value": 0.1, "low": 0.0, "high": 0.2, "margin": 0.3},
    "block 5": {"value": 0.9, "low": 0.8, "high": 1.0, "margin": 0.3},
}  # fmt: skip


def cases(text: str) -> dict[str, str]:
    """The outcome of each case by its name."""
    suite = ElementTree.fromstring(text).find("testsuite")
    return {case.get("name"): (next(iter(case)).tag if len(case) else "passed") for case in suite.iter("testcase")}


@pytest.mark.parametrize(
    ("verdict", "outcome"),
    [("FORGOTTEN", "passed"), ("UNDETERMINED", "error"), ("SHALLOW", "failure"), ("UTILITY_LOST", "failure")],
)
def test_the_verdict_is_a_case(verdict, outcome):
    assert cases(junit(audit_report(verdict=verdict)))["verdict"] == outcome


def test_what_the_verdict_rests_on_are_cases_and_they_are_counted():
    inside = dataclasses.asdict(audit_report().inside) | {"parts": PARTS}
    witness = {"name": "recovery", "value": 0.9, "low": 0.8, "high": 1.0}
    findings = {"says": None, "knows": "more", "keeps": "kept"}
    text = junit(audit_report(inside=inside, witnesses=[witness], findings=findings), 12.5)
    assert cases(text) == {
        "verdict": "failure",
        "Does it still say it?": "skipped",
        "Does it still know it, inside?": "failure",
        "Is it still useful?": "passed",
        "IDI of block 4": "passed",
        "IDI of block 5": "failure",
        "recovery agrees": "failure",
        "cat assessed": "skipped",
    }
    for element in (ElementTree.fromstring(text), ElementTree.fromstring(text).find("testsuite")):
        counts = {name: element.get(name) for name in ("tests", "failures", "errors", "skipped", "time")}
        assert counts == {"tests": "8", "failures": "4", "errors": "0", "skipped": "2", "time": "12.500"}


def test_names_from_files_are_text_and_control_characters_are_escaped():
    names = (HOSTILE[0], "]]>\x00\x1b[31m\ud800\ufffe&\u202e", "x" * 9000)
    text = junit(audit_report(names))
    text.encode("utf-8")
    root = ElementTree.fromstring(text)
    assert root.find("testsuite/testcase[@name='verdict']") is not None
    assert not any(element.tag == "script" for element in root.iter())
    shown = next(name for name in cases(text) if name.startswith("]]>"))
    assert "\\u0000\\u001b[31m" in shown
    assert not set(text) & {"\x00", "\x1b", "\ud800", "\ufffe", "\u202e"}
    assert max(map(len, text.splitlines())) < 10_000


def test_what_was_assessed_is_never_skipped():
    findings = {"says": "unlike", "knows": None, "keeps": "kept"}
    found = audit_report(findings=findings)
    assert cases(junit(found))["Does it still say it?"] == "error"
    assert cases(junit(found))["Does it still know it, inside?"] == "error"
