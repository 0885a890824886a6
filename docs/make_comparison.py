"""Writes which common tests models pass that kept the knowledge, from the reports in records/, into docs/index.md.

    python docs/make_comparison.py

The table stands between two marks, and two of its rows in a line of README.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean

from residua.audits.verifying import reports_in
from residua.report.audit import AuditReport
from residua.report.controls import FURTHER, detectors
from residua.report.table import Table
from residua.report.text import task_of
from residua.roles import references_in, role_of

ROOT = Path(__file__).resolve().parents[1]
INDEX, README = ROOT / "docs/index.md", ROOT / "README.md"
MARKS = "<!-- comparison -->\n", "<!-- end of the comparison -->\n"
# A model that keeps at least half of what Original knows beyond the references kept the knowledge.
KEPT = 0.5
Test = Callable[[AuditReport], bool | None]


def reports() -> list[AuditReport]:
    """Every audit in records/ where classes were forgotten, of controls and of methods, but for those of Original itself."""
    folders = [*sorted((ROOT / "records").glob("*/")), *sorted((ROOT / "records").glob("*/verdicts"))]
    found = (report for folder in folders for report in reports_in(folder))
    return [
        report
        for report in found
        if role_of(report.about["control"]) != "original" and task_of(report).scenario == "class"
    ]


def _values(report: AuditReport, name: str) -> tuple[float, float, float] | None:
    """This metric of the unlearned model, of Original and, in the mean, of the references."""
    metrics = report.metrics
    roles = ("unlearned", "original", *references_in(metrics))
    if any(name not in metrics[role] for role in roles):
        return None
    own, original, *others = (metrics[role][name] for role in roles)
    return own, original, mean(others)


def accuracy(report: AuditReport) -> bool | None:
    """True if UA is within the tolerance of the references'."""
    found = _values(report, "UA")
    return None if found is None else abs(found[0] - found[2]) <= report.rules.outputs


def nearer(name: str) -> Test:
    """A test that passes where a metric is nearer the references' than Original's."""

    def test(report: AuditReport) -> bool | None:
        found = _values(report, name)
        if found is None or abs(found[1] - found[2]) <= 1e-9:
            return None
        return abs(found[0] - found[2]) < abs(found[0] - found[1])

    return test


def three_sample(report: AuditReport) -> bool | None:
    """True if the relative test of outputs takes the side of the references."""
    found = report.tests.get("outputs")
    return None if found is None else found.closer_to(report.rules.level) == "reference"


TESTS: dict[str, tuple[str, Test]] = {
    "forget accuracy (UA) within 5 points of the references'": ("UA", accuracy),
    "membership attack (E-MIA) nearer the references": ("E-MIA", nearer("E-MIA")),
    "JSD of the outputs nearer the references": ("JSD", nearer("JSD")),
    "relative three-sample test of outputs: closer to the references": ("", three_sample),
    "recovery by a new head nearer the references": ("recovery", nearer("recovery")),
    "IDI, interval and rules: FORGOTTEN": ("IDI", lambda report: report.verdict == "FORGOTTEN"),
}


def table(found: list[AuditReport]) -> Table:
    """A row for each test: how many of each kind of model pass, and the AUC of its metric on the controls."""
    kinds = {
        "kept the knowledge": [r for r in found if r.idi and r.idi.value is not None and r.idi.value >= KEPT],
        "random weights": [r for r in found if role_of(r.about["control"]) == "random"],
        "retrained": [r for r in found if r.about["control"] == FURTHER],
    }
    aucs = {each.name: f"{each.auc:.2f}" for each in detectors(reports_in(ROOT / "records/controls"))}
    rows = tuple(
        (name, *(_passed(test, of) for of in kinds.values()), aucs.get(metric, ""))
        for name, (metric, test) in TESTS.items()
    )
    return Table(
        f"Who passes which test: {len(found)} audits",
        ("Test", *(f"pass: {kind}" for kind in kinds), "AUC on controls"),
        rows,
        f"Kept the knowledge: an IDI of at least {KEPT:g}, so the last row holds of them by construction, and the AUC does "
        "not: it is the probability that a control which kept the knowledge is further from the references than a "
        "retrained one, over controls whose truth is known. Where a metric cannot be compared, the model is left out.",
    )


def _passed(test: Test, of: list[AuditReport]) -> str:
    outcomes = [outcome for report in of if (outcome := test(report)) is not None]
    return f"{sum(outcomes)} of {len(outcomes)}"


def pages() -> Iterator[tuple[Path, str]]:
    """The pages that the table stands on, and their texts."""
    made = table(reports())
    rest = re.sub(f"{MARKS[0]}.*?{MARKS[1]}", "", INDEX.read_text("utf-8"), flags=re.DOTALL)
    text = (
        "## Which tests are passed by models that know everything\n\n"
        "A test of outputs asks what a model says; a model that changed only its last layer says what a retrained one says. "
        "From the reports in `records/`, by `python docs/make_comparison.py`: controls on the embedded data and on CIFAR-10, "
        f"and the methods of the studies there, where classes were forgotten.\n\n{made.markdown()}"
    )
    yield INDEX, rest.replace("## Audit\n", f"{MARKS[0]}{text}\n{MARKS[1]}## Audit\n", 1)

    cells = {row[0]: row[1:] for row in made.rows}
    ua, outputs = (next(cells[name] for name in cells if part in name) for part in ("(UA)", "three-sample"))
    (passed, kept), (drawn, random) = (cell.split(" of ") for cell in outputs[:2])
    line = (
        f"**Why not a test of outputs:** of {kept} audited models that keep at least half of the knowledge, {passed} pass a "
        f"relative three-sample test on outputs and {ua[0].split()[0]} the forget accuracy, and random weights pass the first "
        f"{drawn} times of {random} ([which tests are passed](docs/index.md#which-tests-are-passed-by-models-that-know-everything)).\n"
    )
    before = README.read_text("utf-8")
    yield README, re.sub(r"^\*\*Why not a test of outputs:.*\n", line, before, flags=re.MULTILINE)


if __name__ == "__main__":
    for path, text in pages():
        path.write_text(text, "utf-8")
