"""What is read from the source is what importing gives, and looking things up does without PyTorch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import residua as rs
from residua import measure, unlearn
from residua.cli import PANELS, PLACES, declared, loaded, main
from residua.compare import explanations
from residua.source import docstring

ROOT = Path(__file__).resolve().parents[2]


def test_every_method_is_read_as_importing_gives_it():
    assert declared.methods() == [declared.of_object(method) for method in unlearn.METHODS]


def test_every_measure_is_read_as_importing_gives_it():
    assert declared.measures() == [declared.of_object(kind()) for kind in measure.MEASURES]


def test_every_explanation_is_read_as_importing_gives_it():
    read = {entry.name: entry for entry in explanations.ours()}
    imported = {}
    for kind in measure.MEASURES:
        for entry in getattr(sys.modules[kind.__module__], "EXPLANATIONS", ()):
            imported[entry.name] = (kind.label, entry)
    assert len(imported) >= 15
    for name, (label, entry) in imported.items():
        assert read[name].measures == (entry.measures or (label,))
        assert read[name].definition == entry.definition
        assert read[name].blind == entry.blind
    assert {"JSD", "ZRF", "AUS", "IDI", "U-LiRA", "RTE"} <= read.keys() - imported.keys()


LOOKING_UP = [
    ["--help"],
    ["explain"],
    ["explain", "MIA"],
    ["explain", "COLA"],
    ["list"],
    ["list", "measures"],
    ["verify", str(ROOT / "records" / "controls")],
]


@pytest.mark.parametrize("words", LOOKING_UP, ids=lambda words: " ".join(words[:2]).split("/")[0])
def test_looking_up_does_not_import_torch(words):
    code = "import sys; from residua.cli import main; code = main(sys.argv[1:]); "
    code += "sys.exit(9 if {'torch', 'sklearn', 'scipy'} & set(sys.modules) else code)"
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert done.returncode == (3 if words[0] == "verify" else 0), done.stderr


def test_verifying_an_audit_does_not_import_torch(tmp_path):
    """A whole one with its page, all of whose numbers are computed again."""
    random = np.random.default_rng(0)
    saved = {}
    for role, shift in (("original", 2.0), ("unlearned", 1.0), ("reference", 0.0)):
        labels = np.arange(80) % 2
        arrays = {"block5": random.normal(size=(80, 3)) + shift * labels[:, None], "labels": labels}
        for split in ("forget", "retain", "test"):
            arrays |= {f"{split}_logits": random.normal(size=(40, 4)), f"{split}_labels": np.arange(40) % 4}
        np.savez(tmp_path / f"{role}.npz", **arrays)
        saved[role] = rs.read_saved(tmp_path / f"{role}.npz")
    rs.audit(**saved).save(tmp_path / "audit")
    assert (tmp_path / "audit/report.html").exists()
    code = "import sys; from residua.cli import main; code = main(sys.argv[1:]); "
    code += "sys.exit(9 if 'torch' in sys.modules else code)"
    for change, expected in ((1.0, 0), (0.5, 1)):
        report = json.loads((tmp_path / "audit/report.json").read_text())
        report["metrics"]["unlearned"]["UA"] *= change
        (tmp_path / "audit/report.json").write_text(json.dumps(report))
        words = ["verify", str(tmp_path / "audit")]
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
        assert done.returncode == expected, done.stdout + done.stderr


def test_help_takes_well_under_a_second_of_processor_time():
    before = os.times()
    subprocess.run([sys.executable, "-m", "residua", "--help"], check=True, capture_output=True)
    after = os.times()
    assert after.children_user + after.children_system - before.children_user - before.children_system < 0.9


def test_help_groups_the_commands_and_says_what_each_says_of_itself(capsys):
    assert main(["--help"]) == 0
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    places = [shown.index(f"─ {panel} ─") for panel in PANELS]
    assert places == sorted(places)
    for name, place in PLACES.items():
        file, _, inside = place.partition(":")
        source = ROOT / "src/residua/cli" / f"{file}.py"
        first = " ".join(docstring(source, file if inside == "app" else inside).split("\n\n")[0].split())
        assert first
        assert first in shown
        assert loaded(name).help.startswith(first[:40])


def test_a_method_is_explained_with_its_settings(capsys):
    assert main(["explain", "cola"]) == 0
    shown = capsys.readouterr().out
    assert "Epochs of the collapse phase." in shown
    assert "collapse_lr" in shown
    assert main(["explain", "EU-7", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["settings"]["k"] == 7
    assert main(["explain", "nonsense"]) == 3
    said = capsys.readouterr().err
    assert "there is no metric 'nonsense'" in said
    assert "or a method: Original, Retrain" in said


def test_list_shows_a_sentence_and_the_defaults(capsys):
    assert main(["list"]) == 0
    shown = capsys.readouterr().out
    assert "collapse_epochs=10" in shown
    listed = declared.methods()
    assert len({entry.about for entry in listed}) >= len(listed) - 2  # EU and CF have two k each
    assert all(entry.about.endswith(".") for entry in listed)
