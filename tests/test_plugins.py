"""Methods and measures of one's own: from plain files, by module and class, by entry points."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import residua as rs
from residua import plugins
from residua.cli import main
from residua.measure import measures
from residua.record import Record
from residua.study import presets

pytestmark = pytest.mark.usefixtures("one_thread")

FILE = '''"""Dimming: a method and a measure of somebody's own."""

from dataclasses import dataclass
from typing import Annotated

from residua.explanations import Explanation
from residua.models.classifier import clone
from residua.readings import Reading
from residua.training.settings import Checked, Share

EXPLANATIONS = (
    Explanation(
        name="gloom", title="Gloom", box="black", definition="How dark it is.", formula="1 - light",
        range="[0, 1]", better="lower", ideal="0.", blind="Everything else.", source="Ours.",
    ),
)


@dataclass(frozen=True)
class Dimming(Checked):
    """The head is made smaller."""

    factor: Annotated[float, Share("What the head is multiplied with.")] = 0.5
    hidden: float = 1.0

    label = "Dimming"

    def __call__(self, original, task):
        model = clone(original)
        model.head.weight.data *= self.factor
        return model


@dataclass(frozen=True)
class Gloom:
    depth: int = 2

    label = "gloom-measure"

    def __call__(self, model, task):
        return Reading({"gloom": float(self.depth)})
'''


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.delenv(plugins.ENVIRONMENT, raising=False)
    monkeypatch.setattr(plugins, "_modules", {})
    path = tmp_path / "my_method.py"
    path.write_text(FILE)
    return path


def test_a_plain_file_is_found_by_explain_unlearn_and_measure(file, folder, capsys):
    assert main(["explain", "methods", "--plugin", str(file), "--json"]) == 0
    entry = json.loads(capsys.readouterr().out)[-1]
    assert entry["label"] == "Dimming"
    assert entry["settings"] == {"factor": 0.5, "hidden": 1.0}
    assert main(["explain", "measures", "--plugin", str(file)]) == 0
    assert "gloom-measure" in capsys.readouterr().out
    assert main(["explain", "gloom", "--plugin", str(file)]) == 0
    assert "How dark it is." in capsys.readouterr().out
    assert main(["explain", "dimming", "--plugin", str(file)]) == 0
    assert "What the head is multiplied with." in capsys.readouterr().out
    assert main(["unlearn", "Dimming", "--plugin", str(file), "--help"]) == 0
    shown = capsys.readouterr().out
    assert "--factor" in shown
    assert "--hidden" in shown
    original, made = folder / "one.safetensors", folder / "u.safetensors"
    task = ["--data", f"mnist:{folder}", "--forget", "class:6"]
    words = ["unlearn", "dimming", "--plugin", str(file), "--original", str(original), *task]
    assert main([*words, "--out", str(made), "--factor", "0.25"]) == 0
    assert rs.load(made).head.weight.equal(0.25 * rs.load(original).head.weight)
    assert main([*words, "--out", str(made), "--factor", "0"]) == 3
    capsys.readouterr()
    words = ["measure", str(made), *task, "--plugin", str(file), "--metrics", "UA,gloom", "--json"]
    assert main([*words, "--set", "gloom-measure.depth=5"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["gloom"] == 5.0
    # The option holds for one command.
    assert plugins.ENVIRONMENT not in os.environ
    assert main(["unlearn", "Dimming", "--help"]) == 3


@pytest.mark.usefixtures("as_if_in_processes", "quick_stack")
def test_a_study_runs_a_method_and_a_measure_from_a_plain_file(file, folder, monkeypatch):
    monkeypatch.setattr(presets, "WIDTH", {"tiny": 2})
    monkeypatch.setattr(presets, "pretraining", lambda *_: rs.Pretraining(epochs=1, batch=32, crop=0))
    words = ["study", "run", "tiny", "--data", f"mnist:{folder}", "--forget", "class:6", "--out", str(folder / "c")]
    words += ["--method", "Dimming", "--no-information", "--plugin", str(file)]
    assert main(words) == 0
    kept = Record.read(folder / "c/records/seed0-dimming.json")
    assert kept.method.fields["factor"] == 0.5
    assert kept.readings["gloom-measure"] == {"gloom": 2.0}


def test_a_method_is_found_by_file_and_class_and_by_module_and_class(file):
    with plugins.using([]):
        found = rs.unlearn.find(f"{file}:Dimming", factor=0.1)
    assert (found.label, found.factor) == ("Dimming", 0.1)
    assert rs.unlearn.find("residua.unlearn.cola:Cola") == rs.unlearn.Cola()
    for words, sentence in {
        f"{file}:Nothing": "cannot be used",
        "no.such.module:Thing": "cannot be used",
        "residua.errors:InputError": "is not a method",
        "nowhere.py:Thing": "is not a Python file",
        "os:getcwd": "is not a method",
    }.items():
        with plugins.using([]), pytest.raises(rs.InputError, match=sentence):
            rs.unlearn.find(words)


def test_another_process_finds_the_classes_of_a_file_by_the_environment(file):
    with plugins.using([file]):
        kind = measures()["gloom-measure"]
        code = f"import pickle, sys, residua.measure; pickle.loads({__import__('pickle').dumps(kind())!r})"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("1 / 0", "cannot be run (division by zero)"),
        ("x = 1", "holds neither a method nor a measure"),
        (FILE.replace('"Dimming"', '"cola"'), "brings a method named cola, which is taken"),
        (FILE.replace('"Dimming"', '"EU-7"'), "brings a method named EU-7, which is taken"),
        (FILE.replace("factor: Annotated[float, Share(\"What the head is multiplied with.\")] = 0.5", "factor: float"), "cannot be used"),
    ],
)  # fmt: skip
def test_files_that_cannot_be_used_are_refused_by_name(file, capsys, text, sentence):
    file.write_text(text)
    assert main(["explain", "methods", "--plugin", str(file)]) == 3
    said = capsys.readouterr().err
    assert sentence in said
    assert file.name in said
    assert main(["explain", "methods", "--plugin", str(file.with_suffix(".txt"))]) == 3
    assert "is not a Python file" in capsys.readouterr().err


def test_a_file_that_is_no_longer_in_use_explains_nothing(tmp_path):
    path = tmp_path / "leaving.py"
    path.write_text(FILE.replace('"Dimming"', '"Leaving"').replace('"gloom"', '"leaving gloom"'))
    with plugins.using([path]):
        measures()
        assert any(entry.name == "leaving gloom" for each in plugins.explanations().values() for entry in each)
    assert not any(entry.name == "leaving gloom" for each in plugins.explanations().values() for entry in each)
