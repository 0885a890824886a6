"""Forgeries of an audit of weights: none passes `verify --rerun` with another verdict or another subject.

Each is sound in itself: every hash, number and page follows from the records that were made up. Rules that are laxer
cannot be told from rules that were meant; they are named wherever the verdict is, and a published plan refuses them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import residua as rs
from residua.audits import rerunning
from residua.audits.attesting import statement
from residua.audits.auditing import Auditor, planned
from residua.compare import Rules
from residua.record import Record
from residua.report.audit import audit_report
from residua.report.plan import departures
from residua.report.text import laxer

pytestmark = pytest.mark.usefixtures("one_thread")
CURVE = rs.measure.InformationCurve(last=1, family="linear")
EXTRA = (rs.measure.Structure(), rs.measure.ClassAccuracy())
FILES = {role: f"{number}" * 64 for number, role in enumerate(("original", "unlearned", "reference"))}
Bodies = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def slanted(stripes) -> rs.ForgetTask:
    return rs.forget_classes(stripes, 2)


@pytest.fixture(scope="module")
def models(truths) -> dict[str, rs.Classifier]:
    return {"original": truths["original"], "unlearned": truths["hd"], "reference": truths["reference"]}


@pytest.fixture(scope="module")
def audited(models, slanted) -> rs.Audit:
    fixed = {role: models[role] for role in ("original", "reference")}
    auditor = Auditor(**fixed, task=slanted, curve=CURVE, measures=EXTRA)
    made = auditor.audit(models["unlearned"], files=FILES)
    assert made.verdict == "SHALLOW"
    return made


def reading(role: str, label: str, **values: float) -> Callable[[Bodies], None]:
    return lambda bodies: bodies[role]["readings"][label].update(values)


def theirs(taker: str, giver: str, label: str) -> Callable[[Bodies], None]:
    """One model's reading, with the arrays behind it, as another's."""

    def change(bodies: Bodies) -> None:
        for part in ("readings", "measures"):
            bodies[taker][part][label] = copy.deepcopy(bodies[giver][part][label])
        own = {name: array for name, array in bodies[giver]["arrays"].items() if name.startswith(f"{label}.")}
        bodies[taker]["arrays"] |= own

    return change


def swapped(one: str, other: str) -> Callable[[Bodies], None]:
    """Two records under each other's role."""

    def change(bodies: Bodies) -> None:
        bodies[one], bodies[other] = bodies[other] | {"name": one}, bodies[one] | {"name": other}

    return change


def method(of: str, **facts: Any) -> Callable[[Bodies], None]:
    return lambda bodies: bodies[of]["method"].update(facts)


def everywhere(change: Callable[[dict[str, Any]], Any]) -> Callable[[Bodies], None]:
    return lambda bodies: [change(body) for body in bodies.values()] and None


def noisy(role: str, name: str) -> Callable[[Bodies], None]:
    def change(bodies: Bodies) -> None:
        array = bodies[role]["arrays"][name]
        random = np.random.default_rng(0)
        bodies[role]["arrays"][name] = random.permutation(array, axis=-1) if array.ndim else array

    return change


def without(role: str, label: str) -> Callable[[Bodies], None]:
    def change(bodies: Bodies) -> None:
        del bodies[role]["readings"][label], bodies[role]["measures"][label]
        bodies[role]["arrays"] = {k: v for k, v in bodies[role]["arrays"].items() if not k.startswith(f"{label}.")}

    return change


def together(*changes: Callable[[Bodies], None]) -> Callable[[Bodies], None]:
    return lambda bodies: [change(bodies) for change in changes] and None


FORGERIES: dict[str, Callable[[Bodies], None]] = {
    "information of the reference as the unlearned's": theirs("unlearned", "reference", "information"),
    "information of Original as the reference's": theirs("reference", "original", "information"),
    "outputs of the reference as the unlearned's": theirs("unlearned", "reference", "outputs"),
    "outputs of Original as the reference's": theirs("reference", "original", "outputs"),
    "accuracy of the reference as the unlearned's": theirs("unlearned", "reference", "accuracy"),
    "representation of the reference as the unlearned's": theirs("unlearned", "reference", "representation"),
    "every reading of the reference as the unlearned's": lambda bodies: [
        theirs("unlearned", "reference", label)(bodies) for label in list(bodies["reference"]["readings"])
    ] and None,
    "UA": reading("unlearned", "accuracy", UA=0.0),
    "RA": reading("unlearned", "accuracy", RA=0.5),
    "TA": reading("unlearned", "accuracy", TA=1.0),
    "TA of Original": reading("original", "accuracy", TA=0.3),
    "UA of the reference": reading("reference", "accuracy", UA=0.5),
    "a reading a little higher": lambda bodies: bodies["unlearned"]["readings"]["accuracy"].update(
        TA=bodies["unlearned"]["readings"]["accuracy"]["TA"] - 0.001
    ),
    "a reading that no measure gives": reading("unlearned", "accuracy", XA=1.0),
    "terms in another order": noisy("unlearned", "information.terms"),
    "terms of the reference in another order": noisy("reference", "information.terms"),
    "no information": without("unlearned", "information"),
    "no outputs": without("unlearned", "outputs"),
    "no accuracy": without("unlearned", "accuracy"),
    "unlearned and reference exchanged": swapped("unlearned", "reference"),
    "unlearned and Original exchanged": swapped("unlearned", "original"),
    "reference and Original exchanged": swapped("reference", "original"),
    "the unlearned model's record as the reference's": lambda bodies: bodies.update(
        reference=bodies["unlearned"] | {"name": "reference"}
    ),
    "the reference's record as the unlearned's": lambda bodies: bodies.update(
        unlearned=bodies["reference"] | {"name": "unlearned"}
    ),
    "no reference": lambda bodies: bodies.pop("reference") and None,
    "a second reference": lambda bodies: bodies.update(reference2=bodies["reference"] | {"name": "reference2"}),
    "weights of another model": method("unlearned", weights="f" * 64),
    "weights of another reference": method("reference", weights="f" * 64),
    "another file": method("unlearned", file="f" * 64),
    "another file of the reference": method("reference", file="f" * 64),
    "saved in place of weights": method("unlearned", weights=None, saved={"outputs": "f" * 64}),
    "a proxy in place of the reference": method("reference", proxy={"share": 0.5, "fields": {}}),
    "the role of a control": method("unlearned", role="control"),
    "another seed": everywhere(lambda body: body["seeds"].update(audit=5)),
    "another task": everywhere(lambda body: body["setting"]["task"].update(forgotten_classes=[1])),
    "another hash of the data": everywhere(
        lambda body: body["setting"]["task"]["splits"]["forget"].update(sha256="f" * 64)
    ),
    "another network": everywhere(lambda body: body["setting"].update(network={"network": "vit"})),
    "another label": method("unlearned", label="Retrain"),
    "no structure of the reference": without("reference", "structure"),
    "no accuracy by class of the reference": without("reference", "class-accuracy"),
    "no structure of any": lambda bodies: [without(role, "structure")(bodies) for role in bodies] and None,
    "no answers to noisy images of one": lambda bodies: bodies["unlearned"]["readings"]["perturbed"].clear(),
    "no answers to noisy images of any": everywhere(lambda body: body["readings"]["perturbed"].clear()),
    "another structure": lambda bodies: bodies["unlearned"]["arrays"].update(
        {"structure.digest": bodies["unlearned"]["arrays"]["structure.digest"][::-1].copy()}
    ),
    "canonical weights": lambda bodies: bodies["unlearned"]["arrays"].update(
        {"structure.canonical": ~bodies["unlearned"]["arrays"]["structure.canonical"]}
    ),
    "layers that only stand-ins have": lambda bodies: bodies["unlearned"]["arrays"].update(
        {"structure.linear": ~bodies["unlearned"]["arrays"]["structure.linear"]}
    ),
    "structure refused": together(
        without("unlearned", "structure"),
        lambda bodies: bodies["unlearned"]["measures"].update(structure={"label": "structure", "refused": "no luck"}),
    ),
    "fewer samples": everywhere(lambda body: body["setting"]["task"].update(part=0.1)),
    "a reading higher, on another machine": together(
        everywhere(lambda body: body["software"].update(processor="another")),
        lambda bodies: bodies["unlearned"]["readings"]["accuracy"].update(
            TA=bodies["unlearned"]["readings"]["accuracy"]["TA"] - 0.03
        ),
    ),
    "settings that no measure takes": lambda bodies: bodies["unlearned"]["measures"]["accuracy"]["fields"].update(x=1),
}  # fmt: skip
# The verdict and the subject stay what they were, so nothing is gained; what was left out is named.
HARMLESS = {
    "the role of a control",
    "another label",
    "another network",
    "another seed",
    "no structure of any",
    "no answers to noisy images of any",
}


@pytest.fixture(scope="module")
def measured_once():
    """Measuring again with the same measures gives the same records, so one time is enough for all forgeries."""
    made: dict[str, dict[str, Record]] = {}
    measure = rerunning.read_models

    def read(models, task, *measures, **more):
        # `part` gives other samples of the same models.
        key = repr((sorted(models), len(task.retain), measures, more))
        if key not in made:
            made[key] = measure(models, task, *measures, **more)
        return made[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rerunning, "read_models", read)
        yield


def made_up(audited: rs.Audit, change: Callable[[Bodies], None]) -> rs.Audit:
    bodies = {
        role: copy.deepcopy(record.model_dump()) | {"arrays": dict(record.arrays)}
        for role, record in audited.records.items()
    }
    change(bodies)
    records = {role: Record(**body) for role, body in bodies.items()}
    return rs.Audit(audit_report(records, rules=audited.report.rules), records)


def passes(folder, audit: rs.Audit, models, task) -> bool:
    """True if the saved audit passes `verify` and measuring again."""
    audit.save(folder)
    if rs.verify(folder):
        return False
    try:
        return not rs.rerun(folder, **models, task=task, files=FILES).found
    except rs.InputError:
        return False


def test_there_are_enough_of_them():
    assert len(FORGERIES) >= 25


@pytest.mark.usefixtures("measured_once")
def test_the_true_audit_passes(audited, models, slanted, tmp_path):
    assert passes(tmp_path, audited, models, slanted)
    assert statement(tmp_path)["subject"][0]["digest"]["sha256"] == FILES["unlearned"]


@pytest.mark.usefixtures("measured_once")
@pytest.mark.parametrize("name", FORGERIES)
def test_no_forgery_passes_with_another_verdict_or_subject(audited, models, slanted, tmp_path, name):
    try:
        forged = made_up(audited, FORGERIES[name])
    except Exception:
        return  # not even a report can be made of such records
    held = passes(tmp_path, forged, models, slanted)
    assert held == (name in HARMLESS)
    if held:
        assert forged.verdict == audited.verdict
        audited.save(tmp_path / "true")
        assert statement(tmp_path)["subject"] == statement(tmp_path / "true")["subject"]
        missing = set(audited.records["unlearned"].readings) - set(forged.records["unlearned"].readings)
        assert missing <= statement(tmp_path)["predicate"]["notAssessed"].keys()


LAX = [
    ("margin", 0.99), ("level", 0.4), ("level", 1e-9), ("utility", 0.9), ("outputs", 0.4), ("divergence", 9.0),
    ("floor_margin", 0.4), ("confidence", 0.01), ("structure", "we like it so"),
]  # fmt: skip


@pytest.mark.usefixtures("measured_once")
@pytest.mark.parametrize(("rule", "value"), LAX)
def test_a_rule_that_was_made_laxer_is_named_and_departs_from_the_plan(audited, models, slanted, tmp_path, rule, value):
    fixed = {role: models[role] for role in ("original", "reference")}
    plan = planned(**fixed, task=slanted, curve=CURVE, measures=EXTRA, rules=Rules())
    assert departures(plan, audited.records, Rules()) == []
    rules = replace(Rules(), **{rule: value})
    forged = rs.Audit(audit_report(audited.records, rules=rules), audited.records)
    assert passes(tmp_path, forged, models, slanted)
    told = f"The rule {rule} is {value:g}, laxer than the usual" if rule != "structure" else f", because: {value}."
    for text in (
        (tmp_path / "report.html").read_text(),
        (tmp_path / "report.md").read_text(),
        *statement(tmp_path)["predicate"]["limits"][-1:],
    ):
        assert told in text
    assert departures(plan, audited.records, rules) == [f"the rules differ in {rule}"]


def test_rules_that_are_spent_over_looks_are_not_laxer():
    assert laxer(Rules().spending(0.2), 1) == laxer(Rules(), 1) == []


def test_a_reason_for_another_structure_is_one_line():
    with pytest.raises(rs.InputError, match="one line of printable text"):
        Rules(structure="none\nHow sure: entirely.")


def test_a_file_of_a_model_that_the_audit_made_itself_is_a_forgery(audited, models, slanted, tmp_path):
    """Nobody reads such a file, so nothing would compare its hash."""
    record = audited.records["reference"]
    made = record.model_copy(update={"method": record.method.model_copy(update={"file": "f" * 64})})
    given = {role: models[role] for role in ("original", "unlearned")}
    assert rerunning._other_files(given, {"reference": made}, {}) != []
    assert rerunning._other_files(given | {"reference": models["reference"]}, {"reference": made}, {}) == []


def test_files_that_were_not_given_are_not_passed_over_in_silence(audited, models, slanted, tmp_path):
    audited.save(tmp_path)
    notes = rs.rerun(tmp_path, **models, task=slanted).notes
    assert any("files of original and unlearned and reference" in note for note in notes)
