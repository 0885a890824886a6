"""The scripts among the examples; those that are tests themselves are collected beside these."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
SAYS = {
    "audit_own_model.py": ["SHALLOW\n", "does not follow from its records: nothing"],
    "audit_outputs_only.py": ["UNDETERMINED\n", "white-box: not assessed"],
}


def test_every_script_is_run_here():
    assert {path.name for path in EXAMPLES.glob("*.py") if not path.name.startswith("test_")} == set(SAYS)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", SAYS)
def test_an_example_runs_and_says_what_it_should(name, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", [name, str(tmp_path)])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    said = capsys.readouterr().out
    for words in SAYS[name]:
        assert words in said
