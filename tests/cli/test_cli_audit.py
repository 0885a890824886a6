from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import residua as rs
from residua.audits import auditing
from residua.cli import inputs, main
from residua.compare import Rules
from residua.files import file_hash
from residua.measure._outputs import logits, pooled
from residua.models.classifier import weights_digest
from residua.record import Record
from residua.report.audit import AuditReport, audit_report

pytestmark = pytest.mark.usefixtures("one_thread")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def place(tmp_path, truths, stripes, monkeypatch):
    """A folder with checkpoints of the models whose truth is known; --data stripes opens their data."""
    monkeypatch.setattr(inputs, "open_dataset", lambda words, **more: stripes)
    monkeypatch.chdir(tmp_path)
    for name, model in truths.items():
        rs.save(model, tmp_path / f"{name}.safetensors")
    return tmp_path


def hardly_moved(said: str) -> bool:
    """Equal to the last bit, or but for the last digits of a linear critic."""
    most = re.search(r"at most by (\S+) \(", said)
    return "readings are equal to the last bit" in said or (most is not None and float(most[1]) < 1e-6)


def audit(unlearned: str, *more: str, reference: str = "reference.safetensors") -> int:
    names = ["--original", "original.safetensors", "--unlearned", f"{unlearned}.safetensors"]
    task = ["--data", "stripes", "--forget", "class:2", "--last", "1", "--device", "cpu", "--budget", "1s"]
    task += ["--family", "linear"]  # quick; the others are read in tests/audits
    return main(["audit", *names, "--reference", reference, *task, *more])


def test_several_models_are_audited_against_references_that_are_read_once(place, capsys, monkeypatch):
    read = []
    measured = auditing.measured
    monkeypatch.setattr(auditing, "measured", lambda *a, **k: (read.append(k.get("name")), measured(*a, **k))[1])
    more = ["--unlearned", "retrain.safetensors", "--out", "audits"]
    assert audit("hd", *more) == 1
    assert sorted(name for name in read if name) == ["original", "reference", "unlearned", "unlearned"]
    out = capsys.readouterr().out
    assert "hd.safetensors: SHALLOW" in out
    assert "retrain.safetensors: FORGOTTEN" in out
    for name in ("hd", "retrain"):
        kept = json.loads((place / f"audits/{name}/report.json").read_text())["about"]["typed"]
        assert kept["unlearned"] == f"{name}.safetensors"
        for role, file in (("unlearned", name), ("original", "original"), ("reference", "reference")):
            record = json.loads((place / f"audits/{name}/records/{role}.json").read_text())
            assert record["method"]["file"] == file_hash(place / f"{file}.safetensors")
    assert main(["verify", "audits/retrain", "--rerun"]) == 0
    capsys.readouterr()
    assert audit("hd", "--unlearned", "hd.safetensors", "--out", "audits") == 3
    assert "have the same name" in capsys.readouterr().err
    assert audit("hd", *more, "--junit", "junit.xml") == 3
    assert "--junit is the result of one model" in capsys.readouterr().err


def test_a_model_that_is_a_reference_is_refused(place, capsys):
    assert audit("hd", "--unlearned", "reference.safetensors") == 3
    assert "the unlearned model and reference have the same weights" in capsys.readouterr().err


def test_the_model_that_is_cleared_is_the_model_that_is_released(place, capsys):
    assert audit("retrain", "--release", "released.safetensors", "--out", "audit", "--budget", "1h") == 0
    said = capsys.readouterr().out
    assert "triggers and other inputs, keyed codes, copies and backups were not looked at" in " ".join(said.split())
    report = AuditReport.model_validate_json((place / "audit/report.json").read_text())
    assert report.files["unlearned"] == file_hash(place / "released.safetensors")
    assert report.files["unlearned"] != file_hash(place / "retrain.safetensors")
    for name, weight in load_file(place / "released.safetensors").items():
        if weight.is_floating_point():
            assert (weight.to(torch.bfloat16).to(weight.dtype) == weight).all(), name
    assert report.files["unlearned"] in (place / "audit/report.html").read_text()
    assert main(["verify", "audit"]) == 0
    capsys.readouterr()
    assert audit("hd", "--unlearned", "retrain.safetensors", "--release", "r.safetensors") == 3
    assert audit("hd", "--release", "r.pt") == 3
    assert "give a file that ends in .safetensors" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "word", "code"),
    [
        ("retrain", "FORGOTTEN", 0),
        ("hd", "SHALLOW", 1),
        ("original", "NOT_FORGOTTEN", 1),
        ("random", "UTILITY_LOST", 1),
    ],
)
def test_the_exit_code_is_the_verdicts(place, capsys, name, word, code):
    assert audit(name, "--out", "audit", "--by", "The <b>auditors</b>", "--thumbnails") == code
    page = (place / "audit/report.html").read_text()
    assert word.replace("_", " ") in page
    assert "The &lt;b&gt;auditors&lt;/b&gt;" in page
    named = AuditReport.model_validate_json((place / "audit/report.json").read_text()).residue.samples
    assert page.count("data:image/png") == len(named)
    assert capsys.readouterr().out.startswith(f"{word}\n")
    assert AuditReport.model_validate_json((place / "audit/report.json").read_text()).verdict == word
    assert main(["verify", "audit"]) == 0
    report = json.loads((place / "audit/report.json").read_text())
    (place / "audit/report.json").write_text(json.dumps(report | {"verdict": "OVER_UNLEARNED"}))
    capsys.readouterr()
    assert main(["verify", "audit"]) == 1
    assert "says verdict = 'OVER_UNLEARNED', but the records give" in capsys.readouterr().out


def test_an_audit_goes_to_ci_a_model_card_and_a_signer(place, capsys):
    assert audit("hd", "--out", "audit", "--junit", "ci/junit.xml", "--tsne", "--budget", "1h") == 1
    tree = ElementTree.fromstring((place / "ci/junit.xml").read_text())
    assert tree.find("testsuite/testcase[@name='verdict']/failure").get("type") == "SHALLOW"
    assert float(tree.get("time")) > 0
    assert "How the encoders see the samples" in (place / "audit/report.html").read_text()
    report = json.loads((place / "audit/report.json").read_text())
    jsonschema.validate(report, schema("report-1"))
    for path in (place / "audit/records").glob("*.json"):
        jsonschema.validate(json.loads(path.read_text()), schema("record-2"))
    assert main(["export", "audit", "--as", "card", "--out", "card.md"]) == 0
    assert "**SHALLOW**" in (place / "card.md").read_text()
    capsys.readouterr()
    assert main(["export", "audit", "--as", "statement"]) == 0
    told = json.loads(capsys.readouterr().out)
    jsonschema.validate(told, schema("statement-1"))
    (subject,) = told["subject"]
    file = hashlib.sha256((place / "hd.safetensors").read_bytes()).hexdigest()
    assert subject["name"] == "unlearned"
    assert told["predicate"]["typed"]["unlearned"] == "hd.safetensors"
    assert subject["digest"] == {"sha256": file, "residuaWeights": report["models"]["unlearned"]}
    digest = hashlib.sha256((place / "audit/report.json").read_bytes()).hexdigest()
    assert told["predicate"]["report"] == {"sha256": digest, "schemaVersion": 1}
    assert told["predicate"]["records"]["original"] == {"sha256": report["records"]["original"]}
    assert told["predicate"]["rules"] == report["rules"]
    assert main(["export", "audit", "--as", "figure", "--kind", "idi", "--out", "idi.pdf"]) == 0
    assert main(["export", "audit/report.json", "--as", "figure", "--kind", "tsne", "--out", "tsne.svg"]) == 0
    assert main(["export", "audit", "--as", "figure", "--kind", "recovery", "--out", "no.pdf"]) == 3
    assert (place / "idi.pdf").read_bytes().startswith(b"%PDF")
    assert not (place / "no.pdf").exists()


def test_a_report_that_does_not_follow_is_not_passed_on(place, capsys):
    assert audit("hd", "--out", "audit") == 1
    report = json.loads((place / "audit/report.json").read_text())
    (place / "audit/report.json").write_text(json.dumps(report | {"verdict": "FORGOTTEN"}))
    capsys.readouterr()
    for kind in ("card", "statement"):
        assert main(["export", "audit", "--as", kind, "--out", "told"]) == 3
        shown = capsys.readouterr()
        assert "says verdict = 'FORGOTTEN', but the records give 'SHALLOW'" in shown.err
        assert shown.out == ""
    assert not (place / "told").exists()


def test_bad_input_writes_no_junit(place, capsys):
    assert audit("nobody", "--junit", "junit.xml") == 3
    assert not (place / "junit.xml").exists()
    assert audit("hd", "--junit", "hd.safetensors/junit.xml") == 3
    assert "cannot be written" in capsys.readouterr().err.splitlines()[-1]


def schema(name: str) -> dict:
    return json.loads((ROOT / f"docs/schemas/{name}.json").read_text())


def test_undetermined_is_two(place, capsys):
    assert audit("retrain", reference="none") == 2
    assert "# UNDETERMINED" in capsys.readouterr().out


def test_json_is_the_report(place, capsys):
    assert audit("retrain", "--json", "--margin", "0.1") == 2
    found = AuditReport.model_validate_json(capsys.readouterr().out)
    assert found.rules.margin == 0.1


def test_a_proxy_can_be_trained(place, capsys):
    assert audit("hd", "--json", reference="proxy:0.5") in (1, 2)
    found = AuditReport.model_validate_json(capsys.readouterr().out)
    assert found.against == "proxy"
    assert found.about["proxy"]["epochs"] == rs.recipes.TINY.epochs


def test_proxies_start_where_original_did(place, capsys, monkeypatch):
    with rs.seeded(4):  # it hardly answers the forgotten class
        start = rs.models.resnet18(classes=4, channels=1, width=4)
    rs.save(start, place / "start.safetensors")
    untrained = rs.Pretraining(epochs=0, batch=32)
    monkeypatch.setattr("residua.cli.audit.pretraining", lambda *_: untrained)
    given = ["--init", "start.safetensors", "--out", "audit"]
    assert audit("hd", *given, reference="proxy:0.5") in (1, 2)
    record = Record.read(place / "audit/records/reference.json")
    assert record.method.weights == weights_digest(start)
    capsys.readouterr()
    assert main(["verify", "audit", "--rerun"]) == 0
    assert hardly_moved(capsys.readouterr().out)


def test_the_start_of_training_is_a_third_anchor(place, capsys):
    """1 where it is Original; and whoever measures again needs nothing but the report."""
    assert audit("hd", "--init", "original.safetensors", "--out", "audit") == 1
    report = AuditReport.model_validate_json((place / "audit/report.json").read_text())
    assert report.start.value == 1
    assert "started from are at 1.00" in (place / "audit/report.md").read_text()
    page = (place / "audit/report.html").read_text()
    assert "The start of training is at 1.00." in page
    assert "the cross the start of training" in page
    assert list(Record.read(place / "audit/records/start.json").readings) == ["information"]
    capsys.readouterr()
    assert main(["verify", "audit", "--rerun"]) == 0
    assert hardly_moved(capsys.readouterr().out)


def test_saved_outputs_are_audited_without_data(place, truths, stripes, capsys):
    task = rs.forget_classes(stripes, 2)
    for name in ("original", "hd", "reference"):
        arrays = {f"{split}_logits": logits(truths[name], of).numpy() for split, of in task.splits.items()}
        np.savez(f"{name}.npz", **arrays)
    files = ["--original", "original.npz", "--reference", "reference.npz", "--outputs"]
    assert main(["audit", *files, "--unlearned", "hd.npz", "--out", "audit"]) == 2
    assert "white-box: not assessed" in (place / "audit/report.md").read_text()
    capsys.readouterr()
    assert main(["export", "audit", "--as", "statement"]) == 0
    (subject,) = json.loads(capsys.readouterr().out)["subject"]
    assert subject["name"] == "unlearned"
    assert set(subject["digest"]) == {"sha256", "residuaOutputs"}
    assert main(["export", "audit", "--as", "figure", "--kind", "idi", "--out", "idi.pdf"]) == 3
    assert "do not hold an IDI" in capsys.readouterr().err
    assert main(["audit", *files, "--unlearned", "original.npz"]) == 1


def test_what_was_audited_is_measured_again_with_nothing_to_type(place, capsys):
    assert audit("hd", "--out", "audit") == 1
    capsys.readouterr()
    assert main(["verify", "audit", "--rerun"]) == 0
    said = capsys.readouterr().out
    assert hardly_moved(said)
    assert "made again give the verdict SHALLOW" in said
    assert "Not shown: that the reference never saw the data" in said


def test_other_files_in_its_place_are_refused_in_one_sentence(place, capsys):
    assert audit("hd", "--out", "audit") == 1
    shutil.copy("retrain.safetensors", "hd.safetensors")
    capsys.readouterr()
    assert main(["verify", "audit", "--rerun"]) == 3
    found = capsys.readouterr()
    assert "hd.safetensors is not the unlearned of the audit: its weights have the hash" in found.err
    assert len([line for line in found.err.splitlines() if line.startswith("residua:")]) == 1
    assert "epoch" not in found.err  # nothing was fitted
    shutil.copy("random.safetensors", "elsewhere.safetensors")
    assert main(["verify", "audit", "--rerun", "--unlearned", "elsewhere.safetensors"]) == 3
    assert main(["verify", "audit", "--rerun", "--forget", "class:1"]) == 3
    assert "the task is not that of the audit" in capsys.readouterr().err


def test_a_reading_that_was_made_up_is_one(place, capsys):
    assert audit("hd", "--out", "audit") == 1
    records = {role: Record.read(f"audit/records/{role}.json") for role in ("unlearned", "original", "reference")}
    body = records["unlearned"].model_dump() | {"arrays": records["unlearned"].arrays}
    body["readings"]["accuracy"]["RA"] = 0.123
    records["unlearned"] = Record(**body)
    report = AuditReport.model_validate_json((place / "audit/report.json").read_text())
    rs.Audit(audit_report(records, rules=Rules(), about={"typed": report.about["typed"]}),
             records).save("audit")  # fmt: skip
    capsys.readouterr()
    assert main(["verify", "audit"]) == 0
    assert "that the readings are true (--rerun)" in capsys.readouterr().out
    assert main(["verify", "audit", "--rerun"]) == 1
    assert "unlearned accuracy RA is 0.123, but was measured again as" in capsys.readouterr().out


def test_a_folder_moves_with_what_lies_beside_it(folder, tmp_path_factory, monkeypatch, capsys):
    """Real data on disk, indices in a file; then everything is somewhere else, and so are we."""
    (folder / "gone.txt").write_text("\n".join(str(i) for i in range(48, 72)))
    (folder / "models").mkdir()
    for name in ("one", "two"):
        shutil.move(folder / f"{name}.safetensors", folder / "models")
    monkeypatch.chdir(folder)
    files = ["--original", "models/one.safetensors", "--unlearned", "models/two.safetensors"]
    task = ["--data", "mnist:.", "--forget", "indices:gone.txt", "--last", "1", "--budget", "1s", "--ratio", "all"]
    assert main(["audit", *files, *task, "--out", "results/audit"]) in (1, 2)
    report = (folder / "results/audit/report.json").read_text()
    assert str(folder) not in report
    elsewhere, here = tmp_path_factory.mktemp("elsewhere"), tmp_path_factory.mktemp("here")
    shutil.copytree(folder, elsewhere / "all")
    shutil.rmtree(folder)
    monkeypatch.chdir(here)
    where = str(elsewhere / "all/results/audit")
    assert main(["verify", where, "--rerun"]) == 0
    assert "equal to the last bit" in capsys.readouterr().out
    shutil.move(elsewhere / "all/models/two.safetensors", here / "hidden.safetensors")
    assert main(["verify", where, "--rerun"]) == 3
    assert "two.safetensors does not exist" in capsys.readouterr().err
    assert main(["verify", where, "--rerun", "--unlearned", "hidden.safetensors"]) == 0


def test_code_is_not_run_on_a_reports_word(place, capsys):
    (place / "net_of_mine.py").write_text(
        "import residua as rs\nprint('running')\n\n\ndef make():\n"
        "    return rs.models.resnet18(classes=4, channels=1, width=4)\n"
    )
    for name in ("original", "hd", "reference"):  # weights that do not say what they belong to
        save_file(load_file(f"{name}.safetensors"), f"{name}.safetensors")
    assert audit("hd", "--out", "audit", "--network", "net_of_mine:make") == 1
    sys.modules.pop("net_of_mine")
    capsys.readouterr()
    assert main(["verify", "audit", "--rerun"]) == 3
    found = capsys.readouterr()
    assert "give --network net_of_mine:make" in found.err
    assert "running" not in found.out
    assert main(["verify", "audit", "--rerun", "--network", "net_of_mine:make"]) == 0


def test_an_audit_made_in_python_is_told_where_its_models_lie(place, truths, stripes, capsys):
    task = rs.forget_classes(stripes, 2)
    rs.audit(original=truths["original"], unlearned=truths["hd"], task=task, measures=(),
             curve=rs.measure.InformationCurve(last=1)).save("audit")  # fmt: skip
    assert main(["verify", "audit", "--rerun"]) == 3
    assert "give --original, --unlearned, --data, --forget" in capsys.readouterr().err
    files = ["--original", "original.safetensors", "--unlearned", "hd.safetensors"]
    assert main(["verify", "audit", "--rerun", *files, "--data", "stripes", "--forget", "class:2"]) == 0
    assert main(["verify", "audit", "--rerun", *files, "--reference", "reference.safetensors"]) == 3
    assert "made without --reference" in capsys.readouterr().err
    assert main(["verify", "audit", *files]) == 3
    assert "add --rerun" in capsys.readouterr().err


def test_saved_files_are_audited_together_and_read_again(place, truths, stripes, capsys):
    """Outputs and features, in two files each or in one."""
    task = rs.forget_classes(stripes, 2)
    for name in ("original", "hd", "reference"):
        said = {f"{split}_logits": logits(truths[name], of).numpy() for split, of in task.splits.items()}
        said |= {f"{split}_labels": of.labels.numpy() for split, of in task.splits.items()}
        z = np.concatenate([pooled(truths[name], of, [5])[5][:60].numpy() for of in (task.forget, task.retain)])
        held = {"block5": z, "labels": np.arange(120) < 60}
        np.savez(f"{name}_outputs.npz", **said)
        np.savez(f"{name}_features.npz", **held)
        np.savez(f"{name}.npz", **said, **held)

    def audit(unlearned: str, *more: str) -> int:
        files = ["--original", "original.npz", "--reference", "reference_outputs.npz,reference_features.npz"]
        return main(["audit", *files, "--unlearned", unlearned, "--outputs", "--features", *more])

    assert audit("hd_outputs.npz,hd_features.npz", "--out", "audit") == 1
    assert capsys.readouterr().out.startswith("SHALLOW\n")
    assert main(["verify", "audit", "--rerun"]) == 0
    assert "equal to the last bit" in capsys.readouterr().out
    shutil.copy("reference_features.npz", "hd_features.npz")
    assert main(["verify", "audit", "--rerun"]) == 3
    assert "its features have the hash" in capsys.readouterr().err
    assert audit("hd.npz,hd_outputs.npz") == 3
    assert "both hold outputs" in capsys.readouterr().err
    assert audit("hd_outputs.npz") == 3
    assert "features were saved of original and reference, but not of the unlearned" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--reference", "nowhere.safetensors"], "does not exist"),
        (["--reference", "proxy:0.15x3"], "stands alone"),
        (["--reference", "none"], "stands alone"),
        (["--budget", "soon"], "--budget"),
        (["--margin", "1"], "margin"),
        (["--outputs"], "leave --data"),
        (["--outputs", "--features"], "leave --data"),
        (["--out", "original.safetensors"], "cannot be written"),
        (["--data", ""], "give both"),
    ],
)
def test_bad_input_is_three_and_writes_nothing(place, capsys, words, says):
    before = sorted(place.iterdir())
    assert audit("retrain", *words) == 3
    found = capsys.readouterr()
    assert says in found.err
    assert len(found.err.splitlines()) == 1
    assert found.out == ""
    assert sorted(place.iterdir()) == before


@pytest.mark.parametrize("kind", ["--outputs", "--features"])
def test_what_saved_files_cannot_use_is_refused_by_name(kind, capsys):
    more = ["--restarts", "3", "--critic-label-lr", "0.1", "--device", "cpu", "--network", "vit", "--cuts", "a"]
    files = ["--original", "o.npz", "--unlearned", "u.npz"]
    assert main(["audit", *files, kind, *more, "--budget", "9s", "--trust"]) == 3
    found = capsys.readouterr().err
    names = "--network, --cuts, --trust, --budget, --device, --restarts, --critic-label-lr"
    assert f"{names} would change nothing in an audit of saved files; leave them out" in found
    assert len(found.splitlines()) == 1


def test_no_audit_to_verify_is_three(tmp_path, capsys):
    assert main(["verify", str(tmp_path)]) == 3
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_verdict_is_said_before_files_are_written(place, capsys, monkeypatch):
    def full(self, folder, **more):
        raise rs.InputError("the disk is full; make room")

    monkeypatch.setattr(auditing.Audit, "save", full)
    assert audit("hd", "--out", "audit") == 3
    out, said = capsys.readouterr()
    assert out.startswith("SHALLOW")
    assert "the disk is full" in said


def test_two_audits_are_compared(place, capsys):
    assert audit("hd", "--out", "one") == 1
    assert audit("retrain", "--out", "two") == 0
    capsys.readouterr()
    assert main(["verify", "one", "two"]) == 0
    said = capsys.readouterr().out
    assert "Unlearned: other weights." in said
    assert "Original: the same weights." in said
    assert "Verdict: FORGOTTEN (was SHALLOW)." in said
    assert "IDI: 1.000, now " in said
