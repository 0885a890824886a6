"""Help, the version and `verify` do without PyTorch; `explain` lists and explains what there is."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import residua as rs
from residua import explanations, measure
from residua.cli import PANELS, loaded, main
from residua.unlearn import METHODS

ROOT = Path(__file__).resolve().parents[2]


def test_every_metric_names_measures_that_exist():
    labels = {kind.label for kind in measure.MEASURES}
    assert {label for entry in explanations.METRICS for label in entry.measures} <= labels
    assert {entry.name for entry in explanations.METRICS if not entry.measures} == {"U-LiRA", "RTE", "KLoM"}
    assert len({entry.name for entry in explanations.METRICS}) == len(explanations.METRICS)


LOOKING_UP = [["--help"], ["--version"], ["verify", str(ROOT / "records" / "controls")]]


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
    for commands in PANELS.values():
        for name, first in commands.items():
            assert first in shown
            assert " ".join(loaded(name).help.split("\n\n")[0].split()) == first


def test_every_help_has_an_example_that_the_command_takes_and_points_to_no_other_help():
    for name in (name for commands in PANELS.values() for name in commands):
        command = loaded(name)
        inner = getattr(command, "commands", {})
        for part, each in inner.items() if inner else [("", command)]:
            own = " ".join(filter(None, ("residua", name, part)))
            example = next(p for p in each.help.split("\n\n") if p.startswith("Example: "))
            words = shlex.split(example)[1:]
            assert example.startswith(f"Example: {own}"), own
            rest = words[3 if part else 2 :]
            if "study/" not in words or "--out" in words:  # folders that are there already
                (loaded(name, rest) if not inner else each).make_context(own, rest)
            helps = [parameter.help or "" for parameter in each.params]
            assert not [text for text in helps if text.startswith("As ")], own


def test_completion_knows_options_of_commands_that_are_imported_late():
    words = {"_RESIDUA_COMPLETE": "complete_bash", "COMP_WORDS": "residua audit --unl", "COMP_CWORD": "2"}
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv = ['residua']; from residua.cli import run; run()"],
        env=os.environ | words,
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["--unlearned"], done.stderr


def test_a_method_is_explained_with_its_settings(capsys):
    assert main(["explain", "cola"]) == 0
    shown = capsys.readouterr().out
    assert "Epochs of the collapse phase." in shown
    assert "collapse_lr" in shown
    assert main(["explain", "EU-7", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["settings"]["k"] == 7
    assert main(["explain", "nonsense"]) == 3
    said = capsys.readouterr().err
    assert "nothing is called 'nonsense'" in said
    assert main(["explain", "COLLA"]) == 3
    assert "did you mean COLA" in capsys.readouterr().err


def test_everything_is_listed_and_measures_and_pretraining_are_explained(capsys):
    assert main(["explain"]) == 0
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("Metrics", "Methods", "Measures", "E-MIA", "SCRUB", "information"))
    assert main(["explain", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"metrics", "methods", "measures"}
    assert main(["explain", "weights", "--json"]) == 0
    assert "settings" in json.loads(capsys.readouterr().out)
    assert main(["explain", "pretraining", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["settings"]["epochs"]
    assert found["settings"].keys() == found["help"].keys()
    assert main(["explain", "COLA", "--scale", "full"]) == 3
    assert "--scale is for recipes" in capsys.readouterr().err


def test_the_list_of_methods_shows_a_sentence_and_the_defaults(capsys):
    assert main(["explain", "methods"]) == 0
    assert "collapse_epochs=10" in capsys.readouterr().out
    assert main(["explain", "methods", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [entry["label"] for entry in listed] == [method.label for method in METHODS]
    assert len({entry["about"] for entry in listed}) >= len(listed) - 2  # EU and CF have two k each
    assert all(entry["about"].endswith(".") for entry in listed)
