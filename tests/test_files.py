from __future__ import annotations

import ast
import os
import stat
import threading
from pathlib import Path

import pytest

import residua as rs
from residua.files import write_atomically


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
