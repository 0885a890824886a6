"""Sequential audits: they end early where part of the data decides, and err no oftener than one audit."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import residua as rs
from residua.audits import auditing
from residua.audits.auditing import LOOKS
from residua.compare import Rules, inside
from residua.readings import Curve

pytestmark = pytest.mark.usefixtures("one_thread")

CURVE = rs.measure.InformationCurve(last=1, family="linear")


@pytest.fixture
def look(truths, stripes, monkeypatch):
    """An audit of one of the models; 540 and more samples of two retained classes, so that a tenth is enough to read."""
    monkeypatch.setattr(auditing, "FEWEST_RETAINED", 40)
    task = rs.forget_classes(stripes, 2)
    models = {"original": truths["original"], "reference": truths["reference"], "task": task}

    def made(name: str, **more) -> rs.Audit:
        return rs.audit(**models, unlearned=truths[name], curve=CURVE, **more)

    return made, models


def test_hd_is_shallow_after_a_tenth_of_the_samples_and_the_audit_verifies_and_runs_again(look, truths, tmp_path):
    audit, models = look
    found = audit("hd", precision=0.01, measures=(rs.measure.Membership(),))
    assert found.verdict == "SHALLOW"
    splits = found.records["unlearned"].setting.task.splits
    assert (splits["retain"].n, splits["forget"].n, splits["test"].n) == (45, 150, 23)
    assert "99 % interval" in found.sentence
    assert found.report.rules == Rules().spending(0.2)
    assert "10 % of the samples had decided" in found.report.not_assessed["mia"]
    assert any("10 % of the retained and test samples" in note for note in found.report.inside.notes)
    found.save(tmp_path)
    assert rs.verify(tmp_path) == []
    again = rs.rerun(tmp_path, unlearned=truths["hd"], **models)
    assert again.found == []
    assert again.equal


def test_an_undetermined_audit_goes_on_to_all_samples_with_its_further_measures(look, monkeypatch):
    audit, _ = look
    seen = []
    monkeypatch.setattr(
        auditing.Auditor, "_enough", lambda self, report: bool(seen.append(report.inside.notes[-1].split()[0]))
    )
    found = audit("retrain", precision=0.01, measures=(rs.measure.Membership(),))
    assert seen == ["10", "30"]
    assert found.records["unlearned"].setting.task.splits["retain"].n == 450
    assert found.report.rules.confidence == pytest.approx(0.975)
    assert "mia" in found.records["unlearned"].readings


def test_a_look_ends_an_audit_that_is_as_precise_as_asked(look):
    auditor = auditing.Auditor(original=look[1]["original"], precision=0.2)
    report = look[0]("retrain", measures=()).report
    for half, enough in ((0.19, True), (0.21, False)):
        index = rs.compare.IDI(0.0, (-half, half), 0, 1, (1, 1), {}, 0, 0)
        inside = dataclasses.replace(report.inside, idi=index)
        as_if = report.model_copy(update={"verdict": "UNDETERMINED", "inside": inside})
        assert auditor._enough(as_if) is enough


def test_a_precision_that_makes_no_sense_is_refused(look):
    for wrong in (0.0, 1.0, -0.1, float("nan")):
        with pytest.raises(rs.InputError, match="precision is"):
            look[0]("hd", precision=wrong)


def planted(random: np.random.Generator, n: int, share: float) -> np.ndarray:
    """Terms of a model that knows this share of what Original knows, and noise of its own at every sample."""
    return share + random.normal(0, 1.0, n)


def of_first(terms: np.ndarray, n: int) -> Curve:
    return Curve({"H": 1.0}, {"terms": terms[None, None, None, :n], "blocks": np.array([5])}, {"families": ["stack"]})


@pytest.mark.slow
def test_over_200_audits_of_a_further_retrain_three_looks_err_within_the_level_and_unspent_ones_beyond_it():
    random, n = np.random.default_rng(0), 1000
    wrong = {"spent": 0, "unspent": 0}
    for _ in range(200):
        o, u, r = (planted(random, n, share) for share in (1.0, 0.0, 0.0))
        ends = {"spent": False, "unspent": False}
        for part, share in LOOKS:
            for name, rules in (("spent", Rules().spending(share)), ("unspent", Rules())):
                models = {"original": of_first(o, int(part * n)), "references": [of_first(r, int(part * n))]}
                found = inside(
                    of_first(u, int(part * n)), **models, tolerance=0.5, unseen=False, confidence=rules.confidence
                )
                ends[name] |= not found.low <= 0.0 <= found.high
        wrong = {name: count + ends[name] for name, count in wrong.items()}
    assert wrong["spent"] <= 10
    assert wrong["unspent"] > 10
