"""Audits with several references: through the front door, saved, verified and run again."""

from __future__ import annotations

import pytest
import torch

import residua as rs
from residua.audits import auditing
from residua.cli import main
from residua.cli.options import references_by_role
from residua.models.classifier import weights_digest

pytestmark = pytest.mark.usefixtures("one_thread")

CURVE = rs.measure.InformationCurve(last=1, family="linear")


@pytest.fixture(scope="module")
def slanted(stripes) -> rs.ForgetTask:
    return rs.forget_classes(stripes, 2)


@pytest.fixture(scope="module")
def references(truths, slanted, stripes_training) -> list[rs.Classifier]:
    torch.set_num_threads(1)
    models = [truths["reference"]]
    for seed in (21, 22):
        with rs.seeded(seed):
            models.append(rs.unlearn.Retrain(stripes_training)(truths["original"], slanted))
    return models


@pytest.fixture(scope="module")
def three(truths, slanted, references) -> rs.Audit:
    return rs.audit(
        original=truths["original"], unlearned=truths["hd"], reference=references, task=slanted, curve=CURVE,
        measures=(),
    )  # fmt: skip


def test_hd_is_shallow_against_three_references_and_the_resolution_is_in_the_first_sentence(three):
    assert three.verdict == "SHALLOW"
    inside = three.report.inside
    assert inside.references == 3
    assert f"smallest detectable IDI: {inside.resolution:.2f} (95 % power)" in three.sentence.splitlines()[0]
    assert "(exact p = 0.25, the least that 3 references can give)" in three.sentence.splitlines()[1]
    assert inside.p == 0.25
    assert sum(inside.chance.left_out) == pytest.approx(0, abs=1e-6)
    assert three.metrics["reference2"]["IDI"] == pytest.approx(inside.chance.left_out[1])
    assert set(three.records) == {"unlearned", "original", "reference", "reference2", "reference3"}
    assert three.report.likeness.jsd is not None


def test_three_references_are_saved_verified_and_run_again(three, truths, slanted, references, tmp_path):
    three.save(tmp_path)
    assert rs.verify(tmp_path) == []
    models = {"original": truths["original"], "unlearned": truths["hd"], "task": slanted}
    assert rs.rerun(tmp_path, **models, reference=references).found == []
    with pytest.raises(rs.InputError, match="reference and reference2 and reference3"):
        rs.rerun(tmp_path, **models, reference=references[:2])


def test_two_references_that_are_one_model_are_refused(truths, slanted):
    with pytest.raises(rs.InputError, match="the same weights"):
        rs.audit(original=truths["original"], unlearned=truths["hd"], reference=[truths["reference"]] * 2, task=slanted)
    with pytest.raises(rs.InputError, match="empty"):
        rs.audit(original=truths["original"], unlearned=truths["hd"], reference=[], task=slanted)


@pytest.mark.parametrize("role", ["unlearned", "original"])
def test_a_model_that_is_one_of_the_references_is_refused_before_anything_is_measured(
    truths, references, slanted, monkeypatch, role
):
    monkeypatch.setattr(auditing, "read_models", None)
    models = {"original": truths["original"], "unlearned": truths["hd"], role: rs.clone(references[1])}
    with pytest.raises(rs.InputError, match=rf"(?i){role}.* and .*reference.* have the same weights"):
        rs.audit(**models, reference=references, task=slanted)


def test_an_auditor_measures_original_and_references_once(truths, references, slanted, three):
    asked: list[tuple[str, str]] = []

    class Counting(rs.measure.WeightSketch):
        def __call__(self, model: rs.Classifier, task: rs.ForgetTask) -> rs.Reading:
            asked.append((self.label, weights_digest(model)))
            return super().__call__(model, task)

    class CountingCurve(rs.measure.InformationCurve):
        def __call__(self, model: rs.Classifier, task: rs.ForgetTask) -> rs.Reading:
            asked.append(("information", weights_digest(model)))
            return super().__call__(model, task)

    given = {"original": truths["original"], "reference": references, "task": slanted}
    settings = {"curve": CountingCurve(last=1, family="linear"), "measures": (Counting(),)}
    auditor = rs.Auditor(**given, **settings)
    first, second = (auditor.audit(truths[name]) for name in ("retrain", "hd"))
    assert len(asked) == len(set(asked)) == 2 * 6
    assert second.records["reference2"] is first.records["reference2"]
    assert (second.verdict, second.idi.value, second.sentence) == (three.verdict, three.idi.value, three.sentence)
    alone = rs.audit(**given, **settings, unlearned=truths["hd"])
    assert {role: record.readings for role, record in alone.records.items()} == {
        role: record.readings for role, record in second.records.items()
    }


def test_what_the_budget_left_out_of_one_audit_is_measured_in_the_next(truths, slanted):
    measures = (rs.measure.WeightSketch(),)
    auditor = rs.Auditor(
        original=truths["original"], reference=truths["reference"], task=slanted, curve=CURVE, measures=measures,
        budget=0.0,
    )  # fmt: skip
    hurried = auditor.audit(truths["hd"])
    assert {record.refused["weights"] for record in hurried.records.values()} == {"the budget was used up"}
    auditor.budget = None
    assert all("weights" in record.readings for record in auditor.audit(truths["hd"]).records.values())


def test_proxies_are_trained_apart(truths, slanted, stripes_training, tmp_path):
    quick = rs.Pretraining(epochs=1, batch=32, lr=0.05, crop=0, flip=False, warmup=0.2, precision="float32")
    made = rs.audit(
        original=truths["original"], unlearned=truths["hd"], reference="proxy:0.3x2", task=slanted, curve=CURVE,
        measures=(), pretraining=quick,
    )  # fmt: skip
    assert made.report.against == "proxy"
    weights = [made.records[role].method.weights for role in ("reference", "reference2")]
    assert weights[0] != weights[1]
    assert made.report.inside.references == 2
    made.save(tmp_path)
    assert rs.verify(tmp_path) == []


def test_a_folder_of_references_stands_for_the_files_in_it(tmp_path):
    for name in ("b.safetensors", "a.pt", "notes.txt"):
        (tmp_path / name).write_bytes(b"")
    found = references_by_role([str(tmp_path), "c.safetensors"])
    assert list(found) == ["reference", "reference2", "reference3"]
    assert [path.rpartition("/")[2] for path in found.values()] == ["a.pt", "b.safetensors", "c.safetensors"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(rs.InputError, match="a folder without models"):
        references_by_role([str(tmp_path / "empty")])


@pytest.mark.parametrize("word", ["proxy:7", "proxy:x", "proxy:0.1x0", "proxy:0.1x"])
def test_a_proxy_that_is_not_understood_is_refused(word, truths, slanted):
    with pytest.raises(rs.InputError, match="not understood"):
        rs.audit(original=truths["original"], unlearned=truths["hd"], reference=word, task=slanted)


def test_files_are_repeated_on_the_command_line(truths, references, stripes, tmp_path, monkeypatch, capsys):
    from residua.cli import inputs

    monkeypatch.setattr(inputs, "open_dataset", lambda words, **more: stripes)
    names = {"original": truths["original"], "hd": truths["hd"]} | {f"r{i}": m for i, m in enumerate(references)}
    for name, model in names.items():
        rs.save(model, tmp_path / f"{name}.safetensors")
    words = ["audit", "--data", "stripes", "--forget", "class:2", "--last", "1", "--budget", "1s"]
    words += ["--original", str(tmp_path / "original.safetensors"), "--unlearned", str(tmp_path / "hd.safetensors")]
    for i in range(2):
        words += ["--reference", str(tmp_path / f"r{i}.safetensors")]
    assert main([*words, "--out", str(tmp_path / "audit")]) == 1
    said = capsys.readouterr().out
    assert said.startswith("SHALLOW\n")
    assert "what 2 retrained models know" in said
    assert main(["verify", str(tmp_path / "audit"), "--rerun"]) == 0


def test_a_reference_that_answers_the_forgotten_class_is_refused(truths, slanted, references):
    with rs.seeded(5):
        tainted = rs.clone(truths["original"])
        tainted.head.weight.data += 0.001  # no longer Original's weights
    with pytest.raises(rs.InputError, match=r"Reference 2 answers \d+.\d % of the forgotten class"):
        rs.audit(
            original=truths["original"], unlearned=truths["hd"], reference=[references[0], tainted], task=slanted,
            curve=CURVE, measures=(),
        )  # fmt: skip


def test_images_are_changed_by_the_auditors_seed(truths, slanted):
    given = {"original": truths["original"], "reference": truths["reference"], "task": slanted, "curve": CURVE}
    own = rs.measure.Moved(shift=2, seed=7)
    auditor = rs.Auditor(**given, measures=(rs.measure.Moved(), own), seed=3)
    assert auditor.measures == (rs.measure.Moved(seed=3), own)
    record = rs.Auditor(**given, measures=(), seed=3).audit(truths["hd"]).records["unlearned"]
    assert record.measures["perturbed"].fields["seed"] == 3
    plan = auditing.planned(**given, measures=(rs.measure.Moved(),), seed=3)
    assert plan.measures["moved"]["seed"] == plan.measures["perturbed"]["seed"] == 3
