"""Caveats of the first line on references, on Original and on the make of all of them, from readings that were made up."""

from __future__ import annotations

import numpy as np
import pytest
from planted_pages import audit_report

from residua.compare import IDI, Caveat, Inside, Rules, Witness
from residua.compare.references import MOVED
from residua.readings import Curve, Reading
from residua.record import TaskFacts
from residua.report.audit import find_caveats, find_inside
from residua.report.text import attack_result

SPLITS = {"forget": {"n": 500}, "test": {"n": 2000}}


def task(scenario: str = "class") -> TaskFacts:
    return TaskFacts.model_validate({"dataset": "d", "scenario": scenario, "splits": SPLITS})


def made(digest: int = 0) -> Reading:
    arrays = {"digest": np.full(32, digest, np.uint8), "linear": np.zeros(2, bool), "weightless": np.zeros(2, bool)}
    arrays |= {"headless": np.array([False]), "own_code": np.array([0])}
    return Reading({"dead": 0.0, "inconsistency": 0.0}, arrays)


def models(**of_third: Reading) -> dict[str, dict[str, Reading]]:
    """An audit with three references, of which the third has these readings."""
    readings = {
        "accuracy": Reading({"UA": 1.0, "RA": 0.97, "TA": 0.9}),
        "structure": made(),
        "log-odds": Reading({"log_odds": 0.70}),
    }
    roles = ("unlearned", "original", "reference", "reference2", "reference3")
    read = {role: dict(readings) for role in roles}
    read["original"]["log-odds"] = Reading({"log_odds": 0.96})
    read["reference3"] |= of_third
    return read


def named(read, scenario: str = "class", found: Inside | None = None) -> list[Caveat]:
    return find_caveats(read, task(scenario), Rules(), found)


def test_references_that_are_alike_are_not_named():
    assert named(models()) == []
    assert named(models(**{"log-odds": Reading({"log_odds": 0.82})})) == [], (
        "not nearer Original's 0.96 than the others' 0.70"
    )


def test_a_reference_that_was_cut_short_is_named_by_its_accuracy():
    (found,) = named(models(accuracy=Reading({"UA": 1.0, "RA": 0.91, "TA": 0.88})))
    assert found.text == "Reference 3 is unlike the other references (RA 91.0 %, the others' 97.0 %)"
    assert not found.bars


def test_a_reference_of_another_architecture_is_named():
    (found,) = named(models(structure=made(1)))
    assert found.text.startswith("Reference 3 has another structure than Original")


def test_another_structure_is_admitted_with_a_reason_alone():
    read = models()
    read["unlearned"]["structure"] = made(1)
    (barred,), (admitted,) = (find_caveats(read, task(), Rules(structure=why), None) for why in ("", "pruned to ship"))
    assert barred.bars
    assert not admitted.bars
    assert admitted.text == "Its structure is not Original's, allowed because: pruned to ship"


def test_a_reference_that_knows_the_class_without_answering_is_named_by_its_log_odds():
    (found,) = named(models(**{"log-odds": Reading({"log_odds": 0.84})}))
    assert found.text.startswith("Reference 3 knows the forgotten class nearly as Original does")
    assert "0.84, the others' 0.70, Original's 0.96" in found.text
    two = models(**{"log-odds": Reading({"log_odds": 0.84})})
    del two["reference"]
    assert named(two) == [], "of two, neither"


@pytest.mark.parametrize(("error", "named_so"), [(0.10, False), (0.02, True)])
def test_a_reference_that_saw_forgotten_samples_is_named_by_its_own_margin(error, named_so):
    """Test accuracy is 0.90; 0.05 is tolerated, and the errors of 500 and 2000 samples."""
    seen = Reading({"UA": error, "RA": 0.97, "TA": 0.9})
    read = models(accuracy=seen)
    for role in ("reference", "reference2"):
        read[role]["accuracy"] = Reading({"UA": 0.1, "RA": 0.97, "TA": 0.9})
    found = named(read, "random")
    assert [each.text for each in found if "as if it had seen them" in each.text] == (
        ["Reference 3 answers 8.0 points more of the forgotten samples than of test images, as if it had seen them"]
        if named_so
        else []
    )


@pytest.mark.parametrize(("high", "memorised"), [(0.49, True), (0.51, False)])
def test_an_original_that_memorised_is_named(high, memorised):
    index = IDI(0.0, (-0.1, 0.1), 0, 1, (0.9, 1.1), {5: 0.0}, 0.03, None)
    found = named(models(), found=Inside(index, 3, 0.25, unit=(high - 0.1, high - 0.2, high)))
    assert [each.text.split(":")[0] for each in found] == (["Original memorised"] if memorised else [])


def test_every_attack_prints_what_it_could_have_contradicted():
    report = audit_report()
    tolerance = report.inside.tolerance
    cases = {
        (0.0, 0.1): f"agrees; would contradict above {tolerance + 0.1:.2f}",
        (0.9, 0.1): "contradicts",
        (0.0, 1.4): f"not assessed for want of power; would contradict above {tolerance + 1.4:.2f}",
    }
    seen = [Witness(f"probe.{i}", value, value - half, value + half) for i, (value, half) in enumerate(cases)]
    report = report.model_copy(update={"witnesses": seen})
    assert [attack_result(report, each) for each in seen] == list(cases.values())
    for words in cases.values():
        assert words in report.markdown()


def test_the_report_says_what_critics_read_of_labels_exchanged_at_random():
    report = audit_report()
    assert "exchanged at random" not in report.markdown()
    role, part = next(iter(report.curves.items()))
    told = report.model_copy(update={"curves": report.curves | {role: part.model_copy(update={"random": 0.0123})}})
    assert "exchanged at random, the same critics read at most 0.012 nats" in told.markdown()


@pytest.mark.parametrize(("knows", "inside"), [(0.3, False), (0.0, True), (-0.3, True)])
def test_more_on_moved_images_fails_and_less_hides_nothing(knows, inside):
    def curve(value: float) -> Curve:
        terms = (value + np.random.default_rng(0).normal(0, 0.1, 4000)).astype(np.float16)[None, None, None]
        return Curve({"I5": value}, {"terms": terms, "blocks": np.array([5])}, {"families": ["linear"], "data": "d"})

    values = {"unlearned": 0.2, "original": 0.4, "reference": 0.201, "reference2": 0.199}
    read = {role: {"information": curve(value), "moved": curve(value)} for role, value in values.items()}
    read["unlearned"]["moved"] = curve(0.2 + 0.2 * knows)
    part = find_inside(read, task("random"), Rules()).parts[MOVED]
    assert part.value == pytest.approx(knows, abs=0.01)
    assert (part.high < 0) == (knows < 0), "clearly below, not by want of power"
    assert part.inside == inside
