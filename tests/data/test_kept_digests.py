from __future__ import annotations

import os
import shutil

import numpy as np
import pytest

from residua.data import from_files
from residua.data.from_files import TABLE, digests


@pytest.fixture(autouse=True)
def of_few(monkeypatch):
    monkeypatch.setattr(from_files, "FEWEST", 2)


@pytest.fixture
def paths(tmp_path):
    made = [tmp_path / f"{i}.bin" for i in range(5)]
    for i, path in enumerate(made):
        path.write_bytes(bytes([i]) * 50)
    return made


@pytest.fixture
def read(monkeypatch):
    """The files that were read to be hashed."""
    seen = []
    real = from_files.content
    monkeypatch.setattr(from_files, "content", lambda path: seen.append(path.name) or real(path))
    return seen


def test_files_are_read_once_and_again_only_if_they_changed(paths, tmp_path, read):
    first = digests(paths, tmp_path)
    assert sorted(read) == [path.name for path in paths]
    assert len(set(first)) == 5
    read.clear()
    assert digests(paths, tmp_path) == first
    assert read == []
    paths[2].write_bytes(b"x" * 50)  # the same size
    second = digests(paths, tmp_path)
    assert read == ["2.bin"]
    assert [a == b for a, b in zip(first, second, strict=True)] == [True, True, False, True, True]


def test_a_changed_file_with_its_old_size_and_time_is_noticed(paths, tmp_path, read):
    first = digests(paths, tmp_path)
    before = paths[0].stat()
    paths[0].write_bytes(b"y" * 50)
    os.utime(paths[0], ns=(before.st_atime_ns, before.st_mtime_ns))
    assert digests(paths, tmp_path)[0] != first[0]


def test_a_table_from_elsewhere_does_not_speak_for_files_here(paths, tmp_path, read):
    digests(paths, tmp_path)
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in paths:
        shutil.copy2(path, copy / path.name)
    shutil.copy2(tmp_path / TABLE, copy / TABLE)
    read.clear()
    digests([copy / path.name for path in paths], copy)
    assert len(read) == 5


def test_all_are_read_anew_if_asked_and_other_files_stay_in_the_table(paths, tmp_path, read):
    digests(paths, tmp_path)
    read.clear()
    digests(paths[:2], tmp_path, anew=True)
    assert len(read) == 2
    digests(paths[:2], tmp_path)
    assert len(read) == 2


@pytest.mark.parametrize("content", [b"", b"not an array", b"\x93NUMPY\x01\x00"])
def test_a_damaged_table_is_no_table(paths, tmp_path, content):
    first = digests(paths, tmp_path)
    (tmp_path / TABLE).write_bytes(content)
    assert digests(paths, tmp_path) == first
    np.save(tmp_path / TABLE, np.zeros((3, 2)))
    assert digests(paths, tmp_path) == first


def test_a_folder_that_cannot_be_written_to_is_no_error(paths, tmp_path, monkeypatch):
    monkeypatch.setattr(from_files, "write_atomically", lambda *_: (_ for _ in ()).throw(PermissionError()))
    assert len(digests(paths, tmp_path)) == 5
    assert not (tmp_path / TABLE).exists()


def test_nothing_is_kept_beside_few_files(paths, tmp_path, monkeypatch):
    monkeypatch.setattr(from_files, "FEWEST", len(paths) + 1)
    digests(paths, tmp_path)
    assert not (tmp_path / TABLE).exists()
