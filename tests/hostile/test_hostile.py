"""Hostile files: refused with one sentence, in seconds and below a gigabyte; nothing is run or left behind."""

from __future__ import annotations

import shutil
from pathlib import Path

import hostile_files as hostile
import numpy as np
import pytest
from sandbox import MOST_BYTES, MOST_SECONDS, Run, Sandbox

import residua as rs

# Written where it is read: other data would each need a network of their own.
REFUSED = {
    hostile.pickle_that_doubles: "_codecs.encode",
    hostile.pickle_that_doubles_without_end: "_codecs.encode",
    hostile.legacy_pickle_that_doubles: "_codecs.encode",
    hostile.pickle_with_a_bytearray: "bytearray",
    hostile.pickle_that_runs: "holds more than weights (os.system)",
    hostile.pickle_of_many_steps: "RESIDUA_MAX_STEPS",
    hostile.archive_on_several_disks: "is a damaged archive|not a readable PyTorch file",
    hostile.safetensors_header: "RESIDUA_MAX_TEXT|not a readable safetensors",
    hostile.features_with_a_huge_label: "RESIDUA_MAX_CLASSES",
    hostile.features_of_many_classes: "RESIDUA_MAX_MEMORY|RESIDUA_MAX_GROWTH",
    hostile.features_of_zeros: "RESIDUA_MAX_MEMORY|RESIDUA_MAX_GROWTH",
    hostile.outputs_with_an_unclosed_bracket: "damaged header",
    hostile.indices_with_an_unclosed_bracket: "damaged header",
    hostile.idx_bomb: "RESIDUA_MAX_GROWTH",
    hostile.idx_that_never_ends: "more than",
    hostile.tar_bomb: "RESIDUA_MAX_GROWTH",
    hostile.tar_of_something_else: "RESIDUA_MAX_GROWTH",
    hostile.tar_with_a_hole: "has no cifar-10-batches-bin/data_batch_1.bin",
    hostile.parquet_label_of_a_billion: "RESIDUA_MAX_CLASSES",
    hostile.parquet_label_of_two_to_62: "RESIDUA_MAX_CLASSES",
    hostile.parquet_of_many_labels: "RESIDUA_MAX_ROWS",
    hostile.parquet_of_one_large_image: "RESIDUA_MAX_PIXELS",
    hostile.parquet_of_one_image_often: "RESIDUA_MAX_GROWTH",
    hostile.parquet_of_a_padded_image: "RESIDUA_MAX_GROWTH",
    hostile.parquet_of_a_large_page: "a page of",
    hostile.equal_images: "empty.safetensors is not a readable safetensors file",
    hostile.tiff_with_a_huge_tile: "cannot be decoded as an image|decoder crash|needs more memory",
    hostile.arrow_beyond_the_file: "cannot be read as Arrow files",
    hostile.arrow_of_negative_length: "cannot be read as Arrow files",
    hostile.arrow_that_is_cut_short: "cannot be read as Arrow files",
    hostile.list_of_one_image: "empty.safetensors is not a readable safetensors file",
    hostile.postscript: "cannot be decoded as an image",
    hostile.pipe_among_images: "a pipe, a socket or a device",
    hostile.device_among_images: "a pipe, a socket or a device",
    hostile.large_image: "RESIDUA_MAX_PIXELS",
}


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox() as one:
        yield one


def check_refusal(run: Run, code: int, folder: Path, before: set[Path]) -> None:
    assert run.code == code, run
    assert "Traceback" not in run.err
    assert run.seconds < MOST_SECONDS
    assert run.peak < MOST_BYTES
    assert run.left == []
    assert set(folder.rglob("*")) == before


@pytest.mark.parametrize("make", REFUSED, ids=lambda make: make.__name__)
def test_a_hostile_file_is_refused_with_one_sentence(make, tmp_path, sandbox, monkeypatch):
    ghostscript = tmp_path / "bin" / "gs"
    ghostscript.parent.mkdir()
    ghostscript.write_text(f"#!/bin/sh\ntouch {tmp_path}/bin/ran\n")
    ghostscript.chmod(0o755)
    folder = tmp_path / "files"
    folder.mkdir()
    command = make(folder)
    before = set(tmp_path.rglob("*"))
    run = sandbox.run(*command, folder=folder, PATH=f"{tmp_path}/bin:/usr/bin:/bin")
    check_refusal(run, 3, tmp_path, before)
    sentence = [line for line in run.err.splitlines() if not line.startswith("note: ")]
    assert len(sentence) == 1, run.err
    assert any(part in sentence[0] for part in REFUSED[make].split("|")), run.err
    assert "; " in sentence[0]  # what to do


# --- audits ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def audited(tmp_path_factory) -> Path:
    """A sound audit of what was saved of three models."""
    folder = tmp_path_factory.mktemp("audit")
    random = np.random.default_rng(0)
    saved = {}
    for role, shift in (("original", 2.0), ("unlearned", 1.0), ("reference", 0.0)):
        labels = np.arange(80) % 2
        arrays = {"block5": random.normal(size=(80, 3)) + shift * labels[:, None], "labels": labels}
        for split in ("forget", "retain", "test"):
            arrays |= {f"{split}_logits": random.normal(size=(40, 4)), f"{split}_labels": np.arange(40) % 4}
        np.savez(folder / f"{role}.npz", **arrays)
        saved[role] = rs.read_saved(folder / f"{role}.npz")
    rs.audit(**saved).save(folder / "audit")
    assert rs.verify(folder / "audit") == []
    return folder / "audit"


HIDDEN_FILES = {
    hostile.pipe_for_a_report: (3, "a pipe, a socket or a device"),
    hostile.device_for_a_report: (3, "a pipe, a socket or a device"),
    hostile.pipe_for_a_record: (1, "a pipe, a socket or a device"),
    hostile.device_for_a_page: (1, "report.md"),
}


@pytest.mark.parametrize("make", HIDDEN_FILES, ids=lambda make: make.__name__)
def test_pipes_and_devices_in_an_audit_are_not_waited_for(make, audited, tmp_path, sandbox):
    shutil.copytree(audited, tmp_path / "audit")
    command = make(tmp_path / "audit")
    before = set(tmp_path.rglob("*"))
    code, words = HIDDEN_FILES[make]
    run = sandbox.run(*command, folder=tmp_path)
    check_refusal(run, code, tmp_path, before)
    assert words in run.out + run.err


def test_escape_sequences_of_a_report_are_not_printed_raw(audited, tmp_path, sandbox):
    shutil.copytree(audited, tmp_path / "audit")
    run = sandbox.run(*hostile.escape_sequences(tmp_path / "audit"), folder=tmp_path)
    assert run.code == 1, run
    assert "\\u001b[2J" in run.out
    assert not set(run.out + run.err) & set("\x1b\x07\x9b‮")


def test_a_report_of_many_differences_is_cut(audited, tmp_path, sandbox):
    shutil.copytree(audited, tmp_path / "audit")
    many = {f"{n}": "x" * 10_000 for n in range(500)}
    command = hostile.edited(tmp_path / "audit", lambda body: body["not_assessed"].update(many))
    run = sandbox.run(*command, folder=tmp_path)
    assert run.code == 1
    assert len(run.out) < 20_000
    assert "and 4" in run.out  # how many more
