from __future__ import annotations

import ast
import os
import socket
import stat
import threading
import time
from pathlib import Path

import pytest

import residua as rs
from residua.files import check_place, open_regular, read_bytes, read_text, reading, regular_file, write_atomically


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_file_holds_what_was_written_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "deep" / "er" / "file.txt"
    write_atomically(path, lambda part: part.write_text("new"))
    assert path.read_text() == "new"
    assert names(path.parent) == ["file.txt"]


def test_an_old_file_is_replaced_only_when_the_new_one_is_whole(tmp_path):
    path = tmp_path / "file.json"
    path.write_text("old")
    seen = []

    def write(part: Path) -> None:
        part.write_text("half")
        seen.append((path.read_text(), part.parent, part.suffix))
        part.write_text("whole")

    write_atomically(path, write)
    assert seen == [("old", tmp_path, ".json")]  # beside it, so that the rename stays on one disk
    assert path.read_text() == "whole"
    assert names(tmp_path) == ["file.json"]


@pytest.mark.parametrize(
    ("failure", "raised"),
    [
        (OSError(28, "No space left on device"), rs.InputError),
        (KeyError("bug"), KeyError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
@pytest.mark.parametrize("old", ["old", None])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, failure, raised, old):
    path = tmp_path / "file.txt"
    if old:
        path.write_text(old)

    def fail(part: Path) -> None:
        part.write_text("half")
        raise failure

    with pytest.raises(raised):
        write_atomically(path, fail)
    assert names(tmp_path) == (["file.txt"] if old else [])
    assert not old or path.read_text() == old


def test_a_rename_that_fails_is_reported_and_cleared_away(tmp_path):
    path = tmp_path / "taken"
    (path / "inside").mkdir(parents=True)
    with pytest.raises(rs.InputError, match=r"taken cannot be written \(.+\); choose another place"):
        write_atomically(path, lambda part: part.write_text("new"))
    assert names(tmp_path) == ["taken"]
    assert names(path) == ["inside"]


@pytest.mark.parametrize("below", ["file/new.txt", "file/deep/new.txt"])
def test_a_file_where_a_folder_should_be_is_refused_by_name(tmp_path, below):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(rs.InputError, match=r"new\.txt cannot be written \(.+\); choose another place"):
        write_atomically(tmp_path / below, lambda part: part.write_text("new"))
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664), (0, 0o666)])
def test_permissions_follow_the_umask(tmp_path, mask, mode):
    before = os.umask(mask)
    try:
        write_atomically(tmp_path / "file", lambda part: part.write_text("x"))
        kept = os.umask(mask)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode
    assert kept == mask


def test_writers_at_the_same_time_never_show_a_mixture(tmp_path):
    path = tmp_path / "file.txt"
    contents = [letter * 200_000 for letter in "abc"]
    write_atomically(path, lambda part: part.write_text(contents[0]))
    torn = []

    def write(content: str) -> None:
        for _ in range(10):
            write_atomically(path, lambda part: part.write_text(content))
            if path.read_text() not in contents:
                torn.append(content[0])

    writers = [threading.Thread(target=write, args=(content,)) for content in contents]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert torn == []
    assert names(tmp_path) == ["file.txt"]


def test_every_text_is_written_in_one_encoding():
    """Else a name with an umlaut stops a run on a machine of another language, after the work."""
    for path in Path(rs.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "write_text":
                assert "utf-8" in ast.unparse(node), f"{path}:{node.lineno}"


# --- what is read ---------------------------------------------------------------------------------


def no_regular_files(folder: Path) -> list[Path]:
    """A pipe that nobody writes to, links to devices that never end, a socket and a folder."""
    os.mkfifo(folder / "pipe")
    (folder / "zeros").symlink_to("/dev/zero")
    (folder / "link").symlink_to(folder / "pipe")
    (folder / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(folder / "s"))
    return [folder / name for name in ("pipe", "zeros", "link", "folder", "s")]


@pytest.mark.parametrize("read", [regular_file, open_regular, read_bytes, read_text])
def test_only_regular_files_are_read_and_nothing_is_waited_for(tmp_path, read):
    for path in no_regular_files(tmp_path):
        start = time.monotonic()
        with pytest.raises(rs.InputError, match=r"is a folder|a pipe, a socket or a device|cannot be read"):
            read(path)
        assert time.monotonic() - start < 5
    with pytest.raises(rs.InputError, match=r"none does not exist; give the path of"):
        read(tmp_path / "none")
    with pytest.raises(rs.InputError, match=r"cannot be read"):
        read("nul\0")
    (tmp_path / "file").write_text("good")
    (tmp_path / "to").symlink_to(tmp_path / "file")
    assert regular_file(tmp_path / "to") == tmp_path / "to"
    assert read_bytes(tmp_path / "to") == b"good"
    assert read_text(tmp_path / "to") == "good"


def test_a_file_larger_than_the_limit_is_refused_before_it_is_read(tmp_path, monkeypatch):
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 43)  # terabytes that take no room
    with pytest.raises(rs.InputError, match=r"has 8796093022208 bytes in memory, expected at most \d+"):
        read_bytes(tmp_path / "sparse")
    with pytest.raises(rs.InputError, match="set RESIDUA_MAX_TEXT=8796093022208 in the environment"):
        read_text(tmp_path / "sparse")
    (tmp_path / "small").write_text("abc")
    monkeypatch.setenv("RESIDUA_MAX_TEXT", "2")
    with pytest.raises(rs.InputError, match="has 3 bytes of text, expected at most 2"):
        read_text(tmp_path / "small")
    monkeypatch.setenv("RESIDUA_MAX_TEXT", "3")
    assert read_text(tmp_path / "small") == "abc"


def test_text_that_is_not_text_is_refused(tmp_path):
    (tmp_path / "x").write_bytes(b"\xff")
    with pytest.raises(rs.InputError, match="is not text in UTF-8"):
        read_text(tmp_path / "x")


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried")]
)
def test_memory_that_is_not_there_is_bad_input(error):
    with pytest.raises(rs.InputError, match=r"x\.npz needs more memory than there is"), reading("x.npz"):
        raise error
    with pytest.raises(RuntimeError, match="a bug"), reading("x.npz"):
        raise RuntimeError("a bug")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no /proc here")
def test_a_place_that_only_looks_writable_is_refused_before_the_work():
    with pytest.raises(rs.InputError, match="is not a writable folder"):
        check_place(Path("/proc/nope/x/report.json"))
