"""Temporary folders: gone with their maker, or with the next run after a maker that was killed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from residua.files import PREFIX, remove_abandoned, temporary_folder

fcntl = pytest.importorskip("fcntl")

MAKER = """
import sys, time
from pathlib import Path
from residua.files import temporary_folder
with temporary_folder() as folder:
    (folder / "model").write_bytes(bytes(1000))
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_a_folder_is_gone_afterwards_also_after_an_error(place):
    def fail() -> None:
        with temporary_folder() as folder:
            (folder / "deep").mkdir()
            (folder / "deep" / "file").write_text("x")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert list(place.iterdir()) == []


def test_the_folder_of_a_killed_process_is_removed_by_the_next_run_and_not_before(place):
    with subprocess.Popen([sys.executable, "-c", MAKER], stdout=subprocess.PIPE, text=True) as maker:
        theirs = Path(maker.stdout.readline().strip())
        remove_abandoned()
        assert (theirs / "model").exists()  # it is alive
        maker.kill()
    assert theirs.exists()
    with temporary_folder() as ours:
        assert not theirs.exists()
        with temporary_folder() as another:
            assert ours.exists()
            assert another != ours
    assert list(place.iterdir()) == []


def test_a_folder_beside_something_is_removed_by_the_next_run_there_and_those_of_other_machines_are_not(place):
    other = place / "out" / f".{PREFIX}another-machine-x"
    other.mkdir(parents=True)
    (other / ".in-use").touch()
    with subprocess.Popen(
        [
            sys.executable,
            "-c",
            MAKER.replace("temporary_folder()", "temporary_folder(Path(sys.argv[1]))"),
            place / "out",
        ],
        stdout=subprocess.PIPE,
        text=True,
    ) as maker:
        theirs = Path(maker.stdout.readline().strip())
        maker.kill()
    assert theirs.parent == place / "out"
    with temporary_folder(place / "out") as ours:
        assert not theirs.exists()
        assert sorted((place / "out").iterdir()) == sorted([ours, other])
    assert list((place / "out").iterdir()) == [other]


def test_what_is_not_a_folder_of_ours_is_left_alone(place, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "kept").write_text("x")
    (place / f"{PREFIX}link").symlink_to(elsewhere)
    (place / f"{PREFIX}file").write_text("x")
    (place / f"{PREFIX}new").mkdir()  # between being made and being locked
    old = place / f"{PREFIX}old"
    old.mkdir()
    os.utime(old, (0, 0))
    remove_abandoned()
    assert sorted(path.name for path in place.iterdir()) == [f"{PREFIX}file", f"{PREFIX}link", f"{PREFIX}new"]
    assert (elsewhere / "kept").exists()
