"""The front door, on models whose truth is known."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import residua as rs
from residua.audits.auditing import EXTRA_MEASURES
from residua.cli import main
from residua.compare import Rules, idi, readings_of
from residua.compare.verdicts import EXTRA_READINGS
from residua.measure._outputs import logits, pooled
from residua.models.classifier import weights_digest
from residua.record import Record
from residua.report.audit import AuditReport

pytestmark = pytest.mark.usefixtures("one_thread")

# The last block's critic is solved, not descended, so that a few hundred samples are enough for it.
CURVE = rs.measure.InformationCurve(last=1)


@pytest.fixture(scope="module")
def slanted(stripes) -> rs.ForgetTask:
    return rs.forget_classes(stripes, 2)


@pytest.fixture(scope="module")
def look(truths, slanted):
    """An audit of one of the models, quick unless asked otherwise; made once if nothing else is asked."""
    made: dict[str, rs.Audit] = {}

    def audit(name: str = "retrain", reference="reference", again: bool = False, **given) -> rs.Audit:
        plain = reference == "reference" and not given and not again
        if plain and name in made:
            return made[name]
        found = rs.audit(
            original=truths["original"],
            unlearned=truths[name],
            reference=truths.get(reference, reference),
            **({"task": slanted, "curve": CURVE, "measures": ()} | given),
        )
        return made.setdefault(name, found) if plain else found

    return audit


@pytest.fixture(scope="module")
def full(truths, slanted) -> rs.Audit:
    torch.set_num_threads(1)
    models = {role: truths[name] for role, name in
              (("original", "original"), ("unlearned", "retrain"), ("reference", "reference"))}  # fmt: skip
    return rs.audit(**models, task=slanted, curve=CURVE)


@pytest.mark.parametrize(
    ("name", "word"),
    [("original", "NOT_FORGOTTEN"), ("hd", "SHALLOW"), ("retrain", "FORGOTTEN"), ("random", "UTILITY_LOST")],
)
def test_the_controls_get_their_words(look, name, word):
    found = look(name)
    assert found.verdict == word
    assert found.report.tests["outputs"].closer_to(0.05) is not None


def test_a_start_that_never_saw_the_data_lies_near_zero_and_has_no_vote(look, truths):
    found, without = look("hd", init=truths["retrain"]), look("hd")
    assert found.report.start.value == pytest.approx(look("retrain").idi.value, abs=1e-9)
    assert abs(found.report.start.value) < 0.1
    assert set(found.metrics) == set(without.metrics)
    assert found.report.findings == without.report.findings
    assert f"started from are at {found.report.start.value:.2f}" in found.sentence


def test_hd_is_shallow_because_its_encoder_is_originals(look):
    found = look("hd")
    assert found.idi.value == 1
    assert found.idi.interval == pytest.approx((1, 1))
    assert {found.report.tests[f"block {block}"].closer_to(0.05) for block in range(1, 6)} == {"original"}
    assert found.report.tests["outputs"].closer_to(0.05) == "reference"


def test_a_smaller_margin_makes_the_same_evidence_undetermined(look):
    assert look(rules=Rules(margin=0.1)).verdict == "UNDETERMINED"


def test_the_report_has_everything_beside_originals_and_the_references(full, truths):
    assert set(full.metrics) == {"unlearned", "original", "reference"}
    for name in ("UA", "recovery", "JSD", "probe.5", "MI.5", "AUS", "gap", "class_change.worst"):
        assert all(name in values for values in full.metrics.values()), name
    assert full.metrics["original"]["IDI"] == 1
    assert full.metrics["unlearned"]["IDI"] == pytest.approx(full.idi.value)
    assert sum(full.idi.blocks.values()) == pytest.approx(full.idi.value)
    assert full.report.models["unlearned"] == weights_digest(truths["retrain"])
    assert full.report.not_assessed == {}
    assert full.report.inside.tolerance == 0.5


def test_every_number_follows_from_what_was_saved(full, tmp_path):
    full.save(tmp_path)
    assert rs.verify(tmp_path) == []
    read = {role: readings_of(Record.read(tmp_path / f"records/{role}.json")) for role in full.records}
    curves = [read[role]["information"] for role in ("unlearned", "original", "reference")]
    again = idi(curves[0], original=curves[1], reference=curves[2])
    report = AuditReport.model_validate_json((tmp_path / "report.json").read_text())
    assert report.idi.interval == pytest.approx(again.interval)
    assert (tmp_path / "report.md").read_text().startswith("# FORGOTTEN\n")
    assert sum(path.stat().st_size for path in tmp_path.rglob("*")) < 3 << 20


def test_the_report_knows_what_is_told_beside_the_verdict():
    assert {measure.label for measure in EXTRA_MEASURES} == set(EXTRA_READINGS)


def edit(path, change) -> None:
    body = json.loads(path.read_text())
    change(body)
    path.write_text(json.dumps(body))


TAMPERED = {
    "the verdict": lambda body: body.update(verdict="SHALLOW"),
    "the sentence": lambda body: body.update(sentence="All is well."),
    "a metric": lambda body: body["metrics"]["unlearned"].update(UA=0.5),
    "a metric that is new": lambda body: body["metrics"]["unlearned"].update(better=1.0),
    "an end of the interval": lambda body: body["inside"]["idi"].update(interval=[-0.01, 0.01]),
    "a finding": lambda body: body["findings"].update(knows="less"),
    "a p-value": lambda body: body["tests"]["outputs"].update(p_reference=1e-3),
    "the rules": lambda body: body["rules"].update(margin=0.05),
    "a hash": lambda body: body["records"].update(unlearned="0" * 64),
    "another model's weights": lambda body: body["models"].update(unlearned="0" * 64),
    "the kind of reference": lambda body: body.update(against="none"),
    "a record less": lambda body: body["records"].pop("original"),
    "the kind of access": lambda body: body.update(tier="outputs"),
    "what was not assessed": lambda body: body["not_assessed"].pop("probe"),
    "something that was assessed after all": lambda body: body["not_assessed"].update(information="no time"),
    "the data": lambda body: body["about"]["task"].update(dataset="better"),
    "the size of the forget set": lambda body: body["about"]["task"]["splits"]["forget"].update(n=9000),
    "the network": lambda body: body["about"]["network"].update(width=64),
    "the seed": lambda body: body["about"].update(seed=7),
    "the command": lambda body: body["about"].update(command="residua audit --margin 0.1"),
    "a word about it that no record knows": lambda body: body["about"].update(auditor="an authority"),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_a_report_that_was_changed_does_not_follow(look, tmp_path, what):
    look().save(tmp_path)
    edit(tmp_path / "report.json", TAMPERED[what])
    assert rs.verify(tmp_path)


def test_records_that_were_changed_or_lost_are_noticed(look, tmp_path):
    look().save(tmp_path)
    path = tmp_path / "records/unlearned.json"
    whole = path.read_text()
    edit(path, lambda body: body["readings"]["accuracy"].update(UA=0.123))
    assert "hash" in rs.verify(tmp_path)[0]
    path.write_text(whole)
    assert rs.verify(tmp_path) == []
    (tmp_path / "report.md").write_text("# FORGOTTEN\n\nReally.\n")
    assert "report.md" in rs.verify(tmp_path)[0]
    look().save(tmp_path)
    page = tmp_path / "report.html"
    page.write_text(page.read_text().replace("FORGOTTEN", "SHALLOW"))
    assert "report.html" in rs.verify(tmp_path)[0]
    page.unlink()
    assert rs.verify(tmp_path) == []
    next((tmp_path / "records").glob("reference.*.npz")).unlink()
    assert "reference" in rs.verify(tmp_path)[0]


def test_records_of_another_audit_are_noticed(look, tmp_path):
    """A good record, with its own true hash, of a better model."""
    look("hd").save(tmp_path)
    look("retrain").records["unlearned"].write(tmp_path / "records")
    assert any("verdict" in line for line in rs.verify(tmp_path))


def test_what_is_no_audit_is_refused(tmp_path):
    with pytest.raises(rs.InputError, match=r"holds no report\.json"):
        rs.verify(tmp_path)
    for text in ("{", "{}", "[]", '{"schema_version": 2}', "\x00"):
        (tmp_path / "report.json").write_text(text)
        with pytest.raises(rs.InputError, match="not a report of an audit"):
            rs.verify(tmp_path)


def test_nothing_is_changed_and_the_same_comes_out_again(look, truths, slanted):
    before = {name: weights_digest(model) for name, model in truths.items()}
    torch.manual_seed(5)
    one = look(again=True)
    torch.manual_seed(6)
    two = look(again=True)
    assert one.report == two.report.model_copy(update={"records": one.report.records})
    assert {name: weights_digest(model) for name, model in truths.items()} == before


def test_a_budget_leaves_out_what_the_verdict_does_not_need(look):
    found = look(measures=(rs.measure.Membership(),), budget=1e-6)
    assert "budget" in found.report.markdown()
    assert found.verdict == "FORGOTTEN"
    assert "budget" in found.report.not_assessed.pop("mia")
    assert set(found.report.not_assessed.values()) == {"it was not measured"}  # nor was it asked for
    assert "E-MIA" not in found.metrics["unlearned"]


def test_a_measure_that_cannot_be_made_is_named(look):
    found = look(measures=(rs.measure.Probe(most=1),))
    assert "most" in found.report.not_assessed["probe"]


def test_assert_forgot_tells_why(truths, slanted):
    given = {"original": truths["original"], "reference": truths["reference"], "task": slanted}
    quick = {"curve": CURVE, "measures": ()}
    assert rs.assert_forgot(unlearned=truths["retrain"], **given, **quick).verdict == "FORGOTTEN"
    with pytest.raises(AssertionError, match=r"SHALLOW: .*IDI 1\.00.*") as caught:
        rs.assert_forgot(unlearned=truths["hd"], **given, **quick)
    # pytest prints the arguments of every frame that is not hidden: all weights of the models.
    assert "assert_forgot" not in [entry.name for entry in caught.traceback.filter(caught)]


@pytest.mark.parametrize(
    ("name", "words"),
    [("original", {"NOT_FORGOTTEN"}), ("hd", {"SHALLOW"}), ("retrain", {"UNDETERMINED"}), ("random", {"UTILITY_LOST"})],
)
def test_without_a_reference_the_claim_is_weak_and_says_so(look, name, words):
    found = look(name, reference=None)
    assert found.verdict in words
    assert "no reference" in found.sentence
    assert found.report.inside.references == 0
    assert set(found.metrics) == {"unlearned", "original", "random"}


def test_a_proxy_is_trained_on_a_share_of_the_retained(look, stripes_training, tmp_path):
    found = look("hd", reference="proxy:0.5", pretraining=stripes_training)
    assert found.verdict == "SHALLOW"
    assert "proxy" in found.sentence
    assert found.report.about["proxy"]["share"] == 0.5
    assert found.metrics["reference"]["UA"] == 1
    found.save(tmp_path)
    assert rs.verify(tmp_path) == []


def saved_outputs(model, task, path, labels=True) -> rs.SavedOutputs:
    arrays = {f"{name}_logits": logits(model, split).numpy() for name, split in task.splits.items()}
    if labels:
        arrays |= {f"{name}_labels": split.labels.numpy() for name, split in task.splits.items()}
    np.savez(path, **arrays)
    return rs.read_outputs(path)


@pytest.mark.parametrize(
    ("name", "word"),
    [("original", "NOT_FORGOTTEN"), ("hd", "UNDETERMINED"), ("retrain", "UNDETERMINED"), ("random", "UTILITY_LOST")],
)
def test_outputs_alone_can_accuse_and_never_clear(truths, slanted, tmp_path, name, word):
    roles = {"original": "original", "unlearned": name, "reference": "reference"}
    said = {
        role: saved_outputs(truths[model], slanted, tmp_path / f"{role}.npz", labels=role == "original")
        for role, model in roles.items()
    }
    found = rs.audit(**said)
    assert found.verdict == word
    # What was forgotten is not said, so at first sight less is asked.
    at_first = [guard.split(":")[0] for guard in found.report.guards]
    expected = {"original": ["nothing happened"], "random": ["the model collapsed"]}
    assert at_first[-1:] == expected.get(name, [])
    assert "white-box: not assessed" in found.sentence
    assert found.report.not_assessed["white-box"]
    assert found.idi is None
    own = rs.measure.Accuracy()(truths[name], slanted).values
    assert {key: found.metrics["unlearned"][key] for key in own} == pytest.approx(own)
    found.save(tmp_path / "audit")
    assert rs.verify(tmp_path / "audit") == []


def test_outputs_without_labels_still_give_the_test(truths, slanted, tmp_path):
    said = {
        role: saved_outputs(truths[role.replace("unlearned", "hd")], slanted, tmp_path / "x.npz", labels=False)
        for role in ("original", "unlearned", "reference")
    }
    found = rs.audit(**said)
    assert found.report.tests["outputs"].closer_to(0.05) == "reference"
    assert "test accuracy: not assessed" in found.sentence
    assert {"UA", "RA", "TA"} <= set(found.report.not_assessed)


def saved_features(model, task, path) -> rs.SavedFeatures:
    forget, retain = (pooled(model, split, [5])[5][:100].numpy() for split in (task.forget, task.retain))
    np.savez(path, block5=np.concatenate([forget, retain]), labels=np.arange(200) < 100)
    return rs.read_features(path)


def test_features_alone_accuse_the_encoder(truths, slanted, tmp_path):
    held = {
        role: saved_features(truths[name], slanted, tmp_path / "x.npz")
        for role, name in (("original", "original"), ("unlearned", "hd"), ("reference", "reference"))
    }
    found = rs.audit(**held)
    assert found.idi.value == 1
    assert found.verdict == "NOT_FORGOTTEN"
    assert {"outputs", "test accuracy"} <= set(found.report.not_assessed)
    innocent = rs.audit(**(held | {"unlearned": held["reference"]}))
    assert innocent.idi.value == 0
    assert innocent.verdict == "UNDETERMINED"
    assert "outputs: not assessed" in innocent.sentence


def test_outputs_and_features_together_find_what_neither_finds_alone(truths, slanted, tmp_path):
    def saved(name: str) -> rs.Saved:
        outputs = saved_outputs(truths[name], slanted, tmp_path / "x.npz")
        return rs.Saved(outputs, saved_features(truths[name], slanted, tmp_path / "y.npz"))

    before, never = saved("original"), saved("reference")
    found = rs.audit(original=before, unlearned=saved("hd"), reference=never)
    assert found.verdict == "SHALLOW"
    assert found.report.tier == "features and outputs"
    assert found.idi.value == 1
    assert found.report.tests["outputs"].closer_to(0.05) == "reference"
    assert found.metrics["unlearned"].keys() >= {"UA", "RA", "TA", "JSD", "MI.5", "IDI"}
    assert set(found.report.not_assessed) == {"weights"}
    assert rs.audit(original=before, unlearned=never, reference=never).verdict == "FORGOTTEN"
    found.save(tmp_path / "audit")
    assert rs.verify(tmp_path / "audit") == []
    partly = rs.audit(original=before, unlearned=saved("hd"), reference=rs.Saved(outputs=never.outputs))
    assert partly.idi is None
    assert partly.report.not_assessed["white-box"] == "nothing that shows it was saved of reference"
    assert "white-box: not assessed" in partly.sentence


def test_saved_files_of_other_samples_are_refused(truths, slanted, tmp_path):
    one = saved_outputs(truths["hd"], slanted, tmp_path / "x.npz")
    np.savez(tmp_path / "y.npz", forget_logits=np.zeros((30, 4)))
    with pytest.raises(rs.InputError, match="another shape"):
        rs.audit(original=rs.read_outputs(tmp_path / "y.npz"), unlearned=one, reference=one)
    np.savez(tmp_path / "z.npz", block5=np.random.default_rng(0).normal(size=(90, 3)), labels=np.arange(90) % 2)
    two = rs.read_features(tmp_path / "z.npz")
    other = rs.SavedFeatures(two.blocks, 1 - two.labels)
    with pytest.raises(rs.InputError, match="other labels or blocks"):
        rs.audit(original=two, unlearned=other, reference=two)
    with pytest.raises(rs.InputError, match="features were saved of original, but not of the unlearned"):
        rs.audit(original=two, unlearned=one, reference=one)
    with pytest.raises(rs.InputError, match="cannot be mixed"):
        rs.audit(original=truths["original"], unlearned=one, task=slanted)


def test_a_split_that_the_unlearned_file_lacks_must_fit_too():
    """The labels of one file are laid on the outputs of the others."""

    def outputs(**rows: int) -> dict[str, torch.Tensor]:
        return {split: torch.randn(n, 3) for split, n in rows.items()}

    said = {
        "unlearned": rs.SavedOutputs(outputs(forget=20), {}),
        "original": rs.SavedOutputs(outputs(forget=20, test=1), {"test": torch.tensor([0])}),
        "reference": rs.SavedOutputs(outputs(forget=20, test=30), {}),
    }
    with pytest.raises(rs.InputError, match="reference has test_logits of another shape"):
        rs.audit(**said)


@pytest.mark.parametrize(("classes", "forgotten"), [(2, 30), (3, 60)])
def test_features_say_how_many_were_to_be_forgotten_and_nothing_of_outputs(classes, forgotten):
    """Samples with the label 1; all of them where labels are classes."""
    labels = torch.arange(60) % classes
    z = torch.randn(60, 2, generator=torch.Generator().manual_seed(0)) + labels[:, None]
    held = rs.SavedFeatures({5: z}, labels)
    found = rs.audit(original=held, unlearned=held).report
    assert found.about["task"]["splits"]["forget"]["n"] == forgotten
    assert "accuracy on the forget set: not assessed" in found.sentence


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"task": None}, "needs a task"),
        ({"reference": "proxy:2"}, "not understood"),
        ({"reference": "proxy:"}, "not understood"),
        ({"reference": "retrain.pt"}, "not understood"),
        ({"reference": "proxy:0.01"}, "fewer than the batch"),
    ],
)
def test_what_cannot_be_audited_is_refused(look, given, says):
    with pytest.raises(rs.InputError, match=says):
        look(**given)


def test_a_place_that_cannot_be_written_is_refused_before_the_work(tmp_path, capsys):
    """Before the models are looked for, which are not there."""
    (tmp_path / "file").write_text("")
    models = ["--original", "o.safetensors", "--unlearned", "u.safetensors"]
    assert (
        main(["audit", *models, "--out", str(tmp_path / "file"), "--data", "fashion-sample", "--forget", "class:6"])
        == 3
    )
    assert "cannot be written" in capsys.readouterr().err
