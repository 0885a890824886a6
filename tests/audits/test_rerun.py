"""The readings measured again: equal where the record is true, and what does not hold where it was made up."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict

import numpy as np
import pytest
import torch
from torch import nn

import residua as rs
from residua.audits import auditing, rerunning
from residua.compare import Rules
from residua.compare.verdicts import VERDICT_READINGS
from residua.measure import Moved, Perturbed
from residua.measure._outputs import logits, pooled
from residua.measure.information import curve as information_curve
from residua.models.classifier import weights_digest
from residua.record import MeasureFacts, Record, describe
from residua.report.audit import audit_report
from residua.report.text import USUAL, easier

pytestmark = pytest.mark.usefixtures("one_thread")

# One family: how others are read does not change how a reading is compared with its record.
CURVE = rs.measure.InformationCurve(last=1, family="linear")
SOME = (rs.measure.Recovery(share=0.2, repeats=2), rs.measure.Membership(most=60))


@pytest.fixture(autouse=True)
def _no_curve_remembered():
    """As in another process: curves are measured, not found."""
    information_curve._curves.clear()


@pytest.fixture(scope="module")
def slanted(stripes) -> rs.ForgetTask:
    return rs.forget_classes(stripes, 2)


@pytest.fixture(scope="module")
def models(truths) -> dict[str, rs.Classifier]:
    return {"original": truths["original"], "unlearned": truths["hd"], "reference": truths["reference"]}


@pytest.fixture(scope="module")
def audited(models, slanted) -> rs.Audit:
    return rs.audit(**models, task=slanted, curve=CURVE, measures=SOME)


# Where arrays lie in memory can move the last digits of a linear critic, within one process too.
ROUNDING = 1e-6


def test_a_true_record_comes_out_again(audited, models, slanted, tmp_path, monkeypatch):
    audited.save(tmp_path)
    for model in models.values():
        CURVE(model, slanted)  # remembered, as in the process of the audit
    measured, measure = [], rs.measure.InformationCurve._measure
    monkeypatch.setattr(rs.measure.InformationCurve, "_measure", lambda *words: measured.append(1) or measure(*words))
    found = rs.rerun(tmp_path, **models, task=slanted)
    assert max(found.moved.values(), default=0) < ROUNDING
    assert found.found == []
    assert found.equal == (found.notes == [])
    assert found.verdict == "SHALLOW"
    assert len(measured) == 2  # HD's encoder is Original's
    assert found.readings == sum(len(v) for r in audited.records.values() for v in r.readings.values())


@pytest.mark.parametrize("reference", ["proxy:0.5", None])
def test_what_the_audit_made_itself_is_made_again(truths, slanted, stripes_training, tmp_path, reference):
    quick = dataclasses.replace(stripes_training, epochs=1)
    two = {"original": truths["original"], "unlearned": truths["hd"]}
    given = {"task": slanted, "curve": CURVE, "measures": (), "seed": 3, "pretraining": quick}
    rs.audit(**two, reference=reference, **given).save(tmp_path)
    found = rs.rerun(tmp_path, **two, task=slanted)
    assert found.equal, found
    with pytest.raises(rs.InputError, match="give these models and no other"):
        rs.rerun(tmp_path, **two, reference=truths["reference"], task=slanted)


def test_settings_are_those_of_the_audit_and_not_the_defaults(models, slanted, tmp_path):
    curve = rs.measure.InformationCurve(last=2, steps=5, rounds=1, ratio="1:1", folds=2, seed=5)
    rs.audit(**models, task=slanted, curve=curve, measures=(), rules=Rules(margin=0.3)).save(tmp_path)
    assert rs.rerun(tmp_path, **models, task=slanted).equal


def forged(audited: rs.Audit, change) -> rs.Audit:
    """An audit that is sound in itself: every hash and number follows from a record that was made up."""
    body = audited.records["unlearned"].model_dump() | {"arrays": dict(audited.records["unlearned"].arrays)}
    change(body)
    records = dict(audited.records) | {"unlearned": Record(**body)}
    return rs.Audit(audit_report(records, rules=Rules()), records)


def test_a_reading_that_was_made_up_is_found(audited, models, slanted, tmp_path):
    forged(audited, lambda body: body["readings"]["recovery"].update(recovery=0.25)).save(tmp_path)
    assert rs.verify(tmp_path) == []
    found = rs.rerun(tmp_path, **models, task=slanted)
    assert len(found.found) == 1
    assert "unlearned recovery recovery is 0.25, but was measured again as" in found.found[0]
    assert not found.equal


def before(audited: rs.Audit, roles=("original", "unlearned", "reference")) -> rs.Audit:
    """The audit as a version made it that read neither labels exchanged at random nor how long critics were fitted."""
    records = dict(audited.records)
    for role in roles:
        body = records[role].model_dump() | {"arrays": dict(records[role].arrays)}
        del body["readings"]["information"]["random5"], body["arrays"]["mia.E-MIA.held"]
        records[role] = Record(**body)
    return rs.Audit(audit_report(records, rules=Rules()), records)


def test_readings_that_an_earlier_version_did_not_make_are_noted_and_are_no_difference(
    audited, models, slanted, tmp_path
):
    before(audited).save(tmp_path)
    assert rs.verify(tmp_path) == []
    found = rs.rerun(tmp_path, **models, task=slanted, tolerance=ROUNDING)
    assert found.found == []
    assert "the records hold no information random5, mia.E-MIA.held, so that was not compared" in found.notes
    assert found.verdict == audited.verdict


def test_images_that_were_moved_or_disturbed_less_than_usual_are_named_wherever_the_verdict_is(audited, tmp_path):
    usual = {"moved": describe(Moved())["fields"], "perturbed": describe(Perturbed())["fields"]}
    assert easier(usual) == []
    assert all(usual[label][name] == value for label, own in USUAL.items() for name, value in own.items())
    assert len(easier({"moved": {"shift": 1}, "perturbed": {"noise": 0.01}})) == 2, "before there were crops"
    assert len(easier({"moved": {"shift": "far", "crop": float("nan")}})) == 2, "whatever a record holds"
    records = {}
    for role, record in audited.records.items():
        facts = MeasureFacts(label="moved", kind="Moved", fields=describe(Moved(crop=0))["fields"])
        records[role] = record.model_copy(update={"measures": record.measures | {"moved": facts}})
    path = rs.Audit(audit_report(records, rules=Rules()), records).save(tmp_path)
    assert rs.verify(tmp_path) == []
    told = "The setting crop of the measure moved is 0, less than the usual 0.125"
    assert all(told in path.with_name(name).read_text("utf-8") for name in ("report.md", "report.html", "report.json"))


def test_a_reading_that_one_record_lacks_is_a_difference(audited, models, slanted, tmp_path):
    before(audited, ["unlearned"]).save(tmp_path)
    found = rs.rerun(tmp_path, **models, task=slanted, tolerance=ROUNDING).found
    assert found[0].startswith("unlearned information random5 is None, but was measured again as ")
    assert found[1] == "array mia.E-MIA.held of unlearned is missing, but measuring again gives it"


def test_a_setting_that_an_earlier_version_did_not_have_is_what_that_version_did():
    assert rerunning._rebuilt(rs.measure.Moved, {"shift": 2, "seed": 5}) == rs.measure.Moved(2, 5, crop=0)


def test_terms_that_do_not_have_the_mean_that_was_reported_are_found_without_measuring(audited, tmp_path):
    """The reference's terms in place of its own, from which alone the IDI is computed."""
    theirs = audited.records["reference"].arrays
    names = ("information.terms", "information.test_terms")
    made_up = forged(audited, lambda body: body["arrays"].update({name: theirs[name] for name in names}))
    assert made_up.verdict == "FORGOTTEN"
    made_up.save(tmp_path)
    (line,) = rs.verify(tmp_path)
    assert line.startswith("information of block 5 of unlearned is ")


def test_terms_that_were_made_up_with_their_mean_are_found(audited, models, slanted, tmp_path):
    theirs = audited.records["reference"]

    def change(body: dict) -> None:
        for name in ("information.terms", "information.test_terms"):
            body["arrays"][name] = theirs.arrays[name]
        body["readings"]["information"].update(theirs.readings["information"])

    forged(audited, change).save(tmp_path)
    assert rs.verify(tmp_path) == []
    found = rs.rerun(tmp_path, **models, task=slanted).found
    assert any(line.startswith("array information.terms of unlearned was measured again") for line in found)
    assert any(line.startswith("the IDI is ") for line in found)
    assert found[-1] == "the verdict is FORGOTTEN, but the readings measured again give SHALLOW"


def test_an_array_that_keeps_its_mean_is_compared_too(audited, models, slanted, tmp_path):
    """Terms in another order: no reading and no IDI shows it."""
    terms = audited.records["unlearned"].arrays["information.terms"]
    forged(audited, lambda body: body["arrays"].update({"information.terms": terms[..., ::-1]})).save(tmp_path)
    assert rs.verify(tmp_path) == []
    found = rs.rerun(tmp_path, **models, task=slanted)
    assert [line[:42] for line in found.found] == ["array information.terms of unlearned was m"]
    assert not found.equal


@pytest.mark.parametrize("label", ["information", "accuracy", "outputs", "representation"])
def test_a_reading_that_the_verdict_rests_on_must_be_there(audited, tmp_path, label):
    def change(body: dict) -> None:
        del body["readings"][label], body["measures"][label]
        body["arrays"] = {k: v for k, v in body["arrays"].items() if not k.startswith(f"{label}.")}

    forged(audited, change).save(tmp_path)
    says = f"the record of unlearned has no reading of {label}, which the verdict rests on and weights always give"
    assert rs.verify(tmp_path) == [says]


def test_what_the_verdict_rests_on_is_what_audits_always_measure():
    labels = {measure.label for measure in (CURVE, *auditing.VERDICT_MEASURES)}
    assert set(VERDICT_READINGS["weights"]) == labels


@pytest.mark.parametrize("value", [{"folds": "x"}, {"folds": -1}, {"seed": 10**400}, {"fold": 4}])
def test_settings_that_no_measure_can_have_are_refused(audited, models, slanted, tmp_path, value):
    """They are equal in all records, so that the report follows from them."""
    records = {}
    for role, record in audited.records.items():
        body = record.model_dump() | {"arrays": dict(record.arrays)}
        body["measures"]["information"]["fields"] = value
        records[role] = Record(**body)
    made_up = rs.Audit(audit_report(records, rules=Rules()), records)
    made_up.save(tmp_path)
    assert rs.verify(tmp_path) == []
    with pytest.raises(rs.InputError):
        rs.rerun(tmp_path, **models, task=slanted)


def test_features_that_an_audit_left_out_are_noticed(tmp_path):
    """The saved file tells more than the audit, whose records were made as if it did not."""
    random = np.random.default_rng(0)
    arrays = {f"{split}_logits": random.normal(size=(40, 4)) for split in ("forget", "retain", "test")}
    arrays |= {f"{split}_labels": np.arange(40) % 4 for split in ("forget", "retain", "test")}
    np.savez(tmp_path / "all.npz", **arrays, block5=random.normal(size=(80, 3)), labels=np.arange(80) % 2)
    np.savez(tmp_path / "some.npz", **arrays)
    roles = ("original", "unlearned", "reference")
    some = rs.read_saved(tmp_path / "some.npz")
    rs.audit(**dict.fromkeys(roles, some)).save(tmp_path / "audit")
    assert rs.rerun(tmp_path / "audit", **dict.fromkeys(roles, some)).equal
    found = rs.rerun(tmp_path / "audit", **dict.fromkeys(roles, rs.read_saved(tmp_path / "all.npz"))).found
    assert len(found) == 3
    assert all("holds features too, which the audit left out" in line for line in found)


def test_small_moves_are_told_and_allowed_up_to_the_tolerance(audited, models, slanted, tmp_path):
    before = audited.records["unlearned"].readings["recovery"]["recovery"]
    forged(audited, lambda body: body["readings"]["recovery"].update(recovery=before - 0.004)).save(tmp_path)
    assert rs.rerun(tmp_path, **models, task=slanted).found, "this machine gives the same digits"
    found = rs.rerun(tmp_path, **models, task=slanted, tolerance=0.02)
    assert found.found == []
    assert found.moved.pop("unlearned recovery recovery") == pytest.approx(0.004)
    assert max(found.moved.values(), default=0) < ROUNDING
    assert not found.equal
    assert "equal bits were to be expected" in found.notes[0]
    assert rs.rerun(tmp_path, **models, task=slanted, tolerance=0.001).found


def test_a_report_that_does_not_follow_is_not_measured(audited, models, slanted, tmp_path, monkeypatch):
    audited.save(tmp_path)
    (tmp_path / "report.md").write_text("# FORGOTTEN\n")
    monkeypatch.setattr(rerunning, "read_models", None)
    assert "report.md" in rs.rerun(tmp_path, **models, task=slanted).found[0]


def test_others_are_refused_before_anything_is_measured(
    audited, models, truths, slanted, stripes, tmp_path, monkeypatch
):
    audited.save(tmp_path)
    monkeypatch.setattr(rerunning, "read_models", None)
    says = "the unlearned model is not the unlearned of the audit: its weights have the hash"
    with pytest.raises(rs.InputError, match=says):
        rs.rerun(tmp_path, **(models | {"unlearned": truths["retrain"]}), task=slanted)
    with pytest.raises(
        rs.InputError, match="of stripes the splits forget, retain, test, forget_test, forgotten classes"
    ):
        rs.rerun(tmp_path, **models, task=rs.forget_classes(stripes, 1))
    with pytest.raises(rs.InputError, match="needs its task"):
        rs.rerun(tmp_path, **models)
    with pytest.raises(rs.InputError, match="original and unlearned and reference"):
        rs.rerun(tmp_path, original=models["original"], unlearned=models["unlearned"], task=slanted)
    with pytest.raises(rs.InputError, match="tolerance"):
        rs.rerun(tmp_path, **models, task=slanted, tolerance=-1)


def test_a_measure_that_is_not_installed_is_named(audited, models, slanted, tmp_path):
    def rename(body):
        body["readings"]["aura"] = body["readings"].pop("mia")
        body["measures"]["aura"] = body["measures"].pop("mia")

    forged(audited, rename).save(tmp_path)
    with pytest.raises(rs.InputError, match="a reading of aura, which no measure here gives"):
        rs.rerun(tmp_path, **models, task=slanted)


def test_records_that_lack_their_settings_are_refused(audited, models, slanted, tmp_path):
    forged(audited, lambda body: body["measures"].pop("mia")).save(tmp_path)
    with pytest.raises(rs.InputError, match="do not hold what measuring again needs"):
        rs.rerun(tmp_path, **models, task=slanted)


def test_settings_of_another_version_are_named(audited, models, slanted, tmp_path):
    forged(audited, lambda body: body["measures"]["mia"]["fields"].update(kernel="rbf")).save(tmp_path)
    with pytest.raises(rs.InputError, match="settings of Membership in the record are not those of this version"):
        rs.rerun(tmp_path, **models, task=slanted)


def saved(model: rs.Classifier, task: rs.ForgetTask, path, *, outputs=True, features=True) -> rs.Saved:
    arrays = {}
    if outputs:
        arrays |= {f"{name}_logits": logits(model, split).numpy() for name, split in task.splits.items()}
        arrays |= {f"{name}_labels": split.labels.numpy() for name, split in task.splits.items()}
    if features:
        forget, retain = (pooled(model, split, [5])[5][:40].numpy() for split in (task.forget, task.retain))
        arrays |= {"block5": np.concatenate([forget, retain]), "labels": np.arange(80) < 40}
    np.savez(path, **arrays)
    return rs.read_saved(path)


@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param({"features": False}, marks=pytest.mark.slow),
        pytest.param({"outputs": False}, marks=pytest.mark.slow),
        {},
    ],
)
def test_saved_files_are_read_again(models, slanted, tmp_path, kinds):
    held = {role: saved(model, slanted, tmp_path / f"{role}.npz", **kinds) for role, model in models.items()}
    found = rs.audit(**held)
    found.save(tmp_path / "audit")
    assert rs.verify(tmp_path / "audit") == []
    assert rs.rerun(tmp_path / "audit", **held).equal
    again = {role: saved(model, slanted, tmp_path / "again.npz") for role, model in models.items()}
    left_out = rs.rerun(tmp_path / "audit", **again)
    assert left_out.moved == {}
    assert len(left_out.found) == 3 * len(kinds)  # what was saved besides was not assessed, as it could have been
    with pytest.raises(rs.InputError, match="the original model is not the original of the audit"):
        rs.rerun(tmp_path / "audit", **(again | {"original": again["reference"]}))
    with pytest.raises(rs.InputError, match=r"it has no (outputs|features)"):
        rs.rerun(tmp_path / "audit", **(again | {"original": rs.Saved()}))


def test_a_model_that_was_cut_elsewhere_is_told_so():
    parts = {"a": nn.Flatten(), "b": nn.Linear(4, 4), "c": nn.ReLU(), "d": nn.Linear(4, 4), "e": nn.ReLU()}
    net = nn.Sequential(OrderedDict(**parts, head=nn.Linear(4, 2)))
    then, now = (rs.adopt(net, cuts, torch.randn(3, 1, 2, 2)) for cuts in (["c"], ["c", "e"]))
    record = Record(
        name="unlearned",
        setting={"network": then.architecture},
        method={"label": "Unlearned", "weights": weights_digest(then)},
        seeds={},
        readings={},
    )
    rerunning.check_model(record, then, "m.pt")
    with pytest.raises(rs.InputError, match=r"m\.pt is cut into blocks at c, e, but the unlearned of the audit at c;"):
        rerunning.check_model(record, now, "m.pt")
