"""Stores from somebody else: no command touches what is outside the folder, and none waits for ever."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import socket
import time
from pathlib import Path

import numpy as np
import pytest

import residua as rs
from residua.cli import main
from residua.errors import InputError
from residua.measure import Accuracy
from residua.study import Study
from residua.study.folder import replace
from residua.study.store import Claims, Result, Store, StoreFault, key_of
from residua.unlearn import Original

pytestmark = pytest.mark.usefixtures("one_thread")
COMMANDS = [
    ["status"], ["status", "--json"], ["why", "a"], ["table"], ["check"], ["prune", "--dry-run"], ["prune"],
    ["prune", "--models"], ["check", "--repair"],
]  # fmt: skip
WEIGHTS = "b" * 64


def snapshot(folder: Path) -> dict[str, tuple]:
    """Every entry with its content, time and mode."""
    return {
        str(path): (
            path.lstat().st_mtime_ns,
            path.lstat().st_mode,
            path.read_bytes() if path.is_file() else sorted(path.iterdir()),
        )
        for path in (folder, *folder.rglob("*"))
    }


@pytest.fixture
def canary(tmp_path) -> Path:
    """Files of the victim, outside the store; their names have the endings that stores have."""
    folder = tmp_path / "canary"
    folder.mkdir()
    for name in ("mine.json", "mine.npz", "mine.safetensors", "mine"):
        (folder / name).write_text("precious")
        os.utime(folder / name, (1, 1))
    return folder


@pytest.fixture
def out(tmp_path) -> Path:
    """A sound store with one cell, as `study run` leaves it."""
    folder = tmp_path / "out"
    key = key_of("unlearn", {})
    values = {"weights": WEIGHTS, "kept": True}
    result = Result(key=key, kind="unlearn", name="a", inputs={}, values=values, seconds=1.0)
    Store(folder).put(result, {"x": np.zeros(3)})
    state = {"done": 1, "total": 1, "failed": 0, "running": [], "failures": {}, "finished": True}
    replace(folder / "status.json", state)
    replace(folder / "keys.json", {"a": key})
    return folder


def rewrite(out: Path, **changes) -> None:
    """Another content for the only cell, with a hash that agrees with it."""
    (path,) = (out / "cells").iterdir()
    body = json.loads(path.read_text()) | changes
    del body["sha256"]
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    path.write_text(json.dumps(body | {"sha256": hashlib.sha256(text.encode()).hexdigest()}))


def absolute_key(out: Path, canary: Path) -> None:
    (out / "keys.json").write_text(json.dumps({"a": str(canary / "mine")}))


def climbing_key(out: Path, canary: Path) -> None:
    (out / "keys.json").write_text(json.dumps({"a": "../../canary/mine"}))


def absolute_arrays(out: Path, canary: Path) -> None:
    rewrite(out, arrays=str(canary / "mine"))


def absolute_weights(out: Path, canary: Path) -> None:
    rewrite(out, values={"weights": str(canary / "mine"), "kept": True})


def linked(part: str):
    def make(out: Path, canary: Path) -> None:
        if (out / part).exists():
            (out / part).rename(out / f"{part}-before")
        (out / part).symlink_to(canary)

    make.__name__ = f"linked_{part}"
    return make


def linked_files(out: Path, canary: Path) -> None:
    (cell,) = (out / "cells").iterdir()
    (arrays,) = (out / "arrays").iterdir()
    for path in (cell, arrays):
        path.unlink()
        path.symlink_to(canary / f"mine{path.suffix}")
    (out / "models").mkdir()
    (out / "models" / f"{WEIGHTS}.safetensors").symlink_to(canary / "mine.safetensors")
    (out / "cells" / "notes.json").symlink_to(canary / "mine.json")


def linked_claim(out: Path, canary: Path) -> None:
    (out / "claims").mkdir()
    (out / "claims" / ("c" * 32)).symlink_to(canary / "mine")


HOSTILE = [
    absolute_key, climbing_key, absolute_arrays, absolute_weights, linked_files, linked_claim,
    *(linked(part) for part in ("cells", "arrays", "models", "claims", "damaged", "partial", "records")),
]  # fmt: skip


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda make: make.__name__)
def test_no_command_touches_what_is_outside_the_store(out, canary, capsys, hostile):
    hostile(out, canary)
    outside = snapshot(canary)
    for command in COMMANDS:
        inside = snapshot(out) if "prune" not in command or "--dry-run" in command else None
        code = main(["study", command[0], str(out), *command[1:]])
        said = capsys.readouterr()
        assert code in (0, 1, 3), (command, said)
        assert "Traceback" not in said.err
        assert snapshot(canary) == outside, command
        if inside is not None and "--repair" not in command:
            assert snapshot(out) == inside, command


def test_a_sound_store_is_found_whole_by_every_command(out, capsys):
    for command in (["status"], ["check"], ["why", "a"], ["check", "--repair"], ["prune", "--dry-run"]):
        assert main(["study", command[0], str(out), *command[1:]]) == 0
    assert not (out / "damaged").exists()
    capsys.readouterr()


@pytest.fixture
def small(stripes, stripes_training) -> Study:
    return Study(
        tasks={"stripes": rs.forget_classes(stripes, 2)},
        networks={"r": {"network": "resnet18", "classes": 4, "channels": 1, "width": 1, "stem": "cifar"}},
        pretraining=dataclasses.replace(stripes_training, epochs=0),
        methods=[Original()],
        measures=[Accuracy()],
    )


@pytest.mark.parametrize("part", ["cells", "models", "claims", "records", "partial"])
def test_a_run_refuses_a_store_that_leads_elsewhere(small, out, canary, part):
    linked(part)(out, canary)
    outside = snapshot(canary)
    with pytest.raises(StoreFault, match=f"{part} is a link"):
        small.run(out)
    assert snapshot(canary) == outside


def test_a_claim_that_is_a_link_is_replaced_and_not_written_through(tmp_path, canary):
    outside = snapshot(canary)
    with Claims(tmp_path, beat=0.02) as claims:
        path = tmp_path / "claims" / ("a" * 32)
        path.symlink_to(canary / "mine")
        assert claims.take("a" * 32)
        assert path.read_text() == f"{socket.gethostname()} {os.getpid()}"
        assert path.stat().st_mode & 0o111 == 0
        path.unlink()
        path.symlink_to(canary / "mine")
        time.sleep(0.2)
    assert snapshot(canary) == outside


def test_claims_expire_in_both_directions_and_name_their_owner(tmp_path):
    with Claims(tmp_path) as claims:
        folder = tmp_path / "claims"
        future = folder / ("a" * 32)
        future.write_text("another-machine 1")
        assert not claims.take("a" * 32)
        assert claims.owner("a" * 32) == "another-machine 1"
        os.utime(future, (time.time() + 1e6,) * 2)
        assert claims.take("a" * 32)
        os.mkfifo(folder / ("b" * 32))
        assert claims.owners() == [f"{socket.gethostname()} {os.getpid()}"]
        assert claims.take("b" * 32)
        for process in ("\u00b2", "9" * 5000, "-1", ""):
            (folder / ("c" * 32)).write_text(f"{socket.gethostname()} {process}")
            assert not claims.take("c" * 32), "nobody can say that it is dead"


def test_a_run_says_whom_it_waits_for_and_goes_on_once_that_is_gone(small, tmp_path, monkeypatch):
    small.run(tmp_path)
    keys = json.loads((tmp_path / "keys.json").read_text())
    key = next(key for name, key in keys.items() if name.endswith("/accuracy"))
    (tmp_path / "cells" / f"{key}.json").unlink()
    monkeypatch.setattr("residua.study.schedule.Claims", lambda out: Claims(out, expired=3.0))
    (tmp_path / "claims" / key).write_text("another-machine 17")
    sentences: list[str] = []
    assert small.run(tmp_path, tell=sentences.append).computed == 1
    assert len([each for each in sentences if "another-machine 17" in each]) == 1


def test_a_cell_beyond_the_limit_is_neither_read_nor_written(out, monkeypatch):
    (result,) = Store(out).results()
    monkeypatch.setenv("RESIDUA_MAX_TEXT", "100")
    sentences: list[str] = []
    assert Store(out, sentences.append).get(result.key) is None
    assert "RESIDUA_MAX_TEXT" in sentences[0]
    with pytest.raises(InputError, match="RESIDUA_MAX_TEXT"):
        Store(out).put(result)


@pytest.mark.parametrize("number", ["Infinity", "NaN", "1e999", "9" * 5000])
def test_a_state_with_numbers_that_are_none_is_damaged(out, capsys, number):
    text = (out / "status.json").read_text()
    (out / "status.json").write_text(text.replace("{", f'{{"seconds": {number}, ', 1))
    assert main(["study", "status", str(out), "--json"]) == 3
    assert "status.json is damaged" in capsys.readouterr().err


def same_values(one: bytes, other: bytes) -> bool:
    try:
        return json.loads(one) == json.loads(other)
    except ValueError:
        return False


def test_check_reads_every_file_and_finds_a_flipped_bit_in_each(small, tmp_path, capsys):
    small.run(tmp_path / "out")
    assert main(["study", "check", str(tmp_path / "out")]) == 0, capsys.readouterr()
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file() and path.suffix != ".html"]
    assert {path.parent.name for path in files} >= {"out", "cells", "models", "records"}
    for path in files:
        before = path.read_bytes()
        for place in (len(before) // 3, len(before) // 2, 2 * len(before) // 3):
            flipped = bytearray(before)
            flipped[place] ^= 1
            if path.suffix == ".json" and same_values(bytes(flipped), before):
                continue  # the last digit of a time, which no number holds
            path.write_bytes(bytes(flipped))
            capsys.readouterr()
            assert main(["study", "check", str(tmp_path / "out")]) == 1, (path, place)
            assert path.stem[:12] in capsys.readouterr().out.replace("\n", "")
        path.write_bytes(before)
    (tmp_path / "out/keys.json").write_text('{"a": 1}')
    assert main(["study", "check", str(tmp_path / "out"), "--repair"]) == 1
    assert not (tmp_path / "out/keys.json").exists()


def test_a_run_in_which_nothing_was_finished_names_the_failures_and_needs_no_page(small, tmp_path, monkeypatch, capsys):
    def lost(*words, **more):
        raise InputError("no luck; try again")

    monkeypatch.setattr("residua.study.schedule._computed", lost)
    monkeypatch.setattr("residua.cli.study._named_study", lambda name: small)
    assert main(["study", "run", "x", "--out", str(tmp_path / "out"), "--jobs", "1"]) == 1
    told = capsys.readouterr().err
    assert "no luck" in told
    assert "Traceback" not in told
    assert not (tmp_path / "out/report.html").exists()


def test_a_study_file_that_cannot_be_imported_is_refused(tmp_path, capsys):
    (tmp_path / "s.py").write_text("import there_is_no_such_module\n")
    assert main(["study", "run", str(tmp_path / "s.py"), "--out", str(tmp_path / "out")]) == 3
    assert "s.py cannot be run (ModuleNotFoundError: No module" in capsys.readouterr().err


def test_records_that_the_keys_do_not_name_are_refused(small, tmp_path, capsys):
    small.run(tmp_path)
    (tmp_path / "keys.json").write_text(json.dumps({"other": "a" * 32}))
    assert main(["study", "table", str(tmp_path)]) == 3
    assert "keys.json names none of the records" in capsys.readouterr().err
