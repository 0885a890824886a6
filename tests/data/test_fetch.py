"""fetch: against real servers on this machine: whole, resumed, restarted, broken off, wrong."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from residua.data import cifar10, fetch
from residua.data.fetching import SOURCES, Source
from residua.errors import InputError

BODY = np.random.default_rng(7).bytes(700_000)


class Server(ThreadingHTTPServer):
    """Serves `body` under any name, in one of several manners, and remembers what was asked."""

    daemon_threads = True

    def __init__(self, body: bytes) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.body = body
        self.manner = "ranges"
        self.ranges: list[str | None] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        asked, manner, body = self.headers.get("Range"), self.server.manner, self.server.body
        self.server.ranges.append(asked)
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and manner != "whole" else 0
        if manner == "missing":
            return self.send_error(404)
        if manner == "elsewhere":
            self.send_response(302)
            self.send_header("Location", "ftp://127.0.0.1/file")
            self.end_headers()
            return None
        if start and (manner == "416" or start >= len(body)):
            return self.send_error(416)
        if start and manner == "wrong range":
            start -= 1000
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        end = len(body) // 2 if manner == "half" else len(body)
        self.wfile.write(body[start:end])
        return None


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1")
    with Server(BODY) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        source = Source(f"{server.url}/file.bin", "file.bin", hashlib.sha256(BODY).hexdigest())
        monkeypatch.setitem(SOURCES, "test", (source,))
        yield server
        server.shutdown()
        thread.join()


def test_whole_with_progress(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int | None]] = []
    paths = fetch("test", tmp_path / "new/folder", progress=lambda *step: seen.append(step))
    assert paths == [tmp_path / "new/folder/file.bin"]
    assert paths[0].read_bytes() == BODY
    assert [path.name for path in paths[0].parent.iterdir()] == ["file.bin"]
    assert seen[0] == ("file.bin", 0, len(BODY))
    assert seen[-1] == ("file.bin", len(BODY), len(BODY))
    assert [done for _, done, _ in seen] == sorted({done for _, done, _ in seen})


def test_a_file_that_is_there_is_not_fetched_again(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.bin").write_bytes(BODY)
    fetch("test", str(tmp_path))
    assert server.ranges == []


def test_another_file_that_is_there_is_not_touched(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.bin").write_bytes(b"mine")
    with pytest.raises(InputError, match=r"file.bin is not the file expected.*remove it"):
        fetch("test", tmp_path)
    assert (tmp_path / "file.bin").read_bytes() == b"mine"
    assert server.ranges == []


def test_broken_off_then_resumed(server: Server, tmp_path: Path) -> None:
    server.manner = "half"
    with pytest.raises(InputError, match=r"file.bin.part is kept and the same command resumes") as caught:
        fetch("test", tmp_path)
    assert server.url in str(caught.value)
    part = tmp_path / "file.bin.part"
    assert part.read_bytes() == BODY[: len(BODY) // 2]
    server.manner = "ranges"
    first: list[int] = []
    fetch("test", tmp_path, progress=lambda _, done, total: first.append(done) if total else None)
    assert (tmp_path / "file.bin").read_bytes() == BODY
    assert server.ranges == [None, f"bytes={len(BODY) // 2}-"]
    assert first[0] == len(BODY) // 2
    assert not part.exists()


@pytest.mark.parametrize(("manner", "requests"), [("whole", 1), ("wrong range", 2), ("416", 2)])
def test_a_server_that_cannot_resume_starts_over(server: Server, tmp_path: Path, manner: str, requests: int) -> None:
    (tmp_path / "file.bin.part").write_bytes(BODY[:300_000])
    server.manner = manner
    fetch("test", tmp_path)
    assert (tmp_path / "file.bin").read_bytes() == BODY
    assert server.ranges == ["bytes=300000-", None][:requests]


def test_a_complete_part_needs_no_server(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").write_bytes(BODY)
    fetch("test", tmp_path)
    assert (tmp_path / "file.bin").read_bytes() == BODY
    assert server.ranges == []


def test_a_part_of_something_else_is_deleted_and_the_next_fetch_works(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").write_bytes(b"x" * 1000)
    with pytest.raises(InputError, match=r"gave a file with SHA-256 .* so it was deleted"):
        fetch("test", tmp_path)
    assert list(tmp_path.iterdir()) == []
    fetch("test", tmp_path)
    assert (tmp_path / "file.bin").read_bytes() == BODY


def test_a_wrong_file_is_not_kept(server: Server, tmp_path: Path) -> None:
    server.body = BODY[:-1] + b"?"
    with pytest.raises(InputError, match=f"{server.url}/file.bin gave a file with SHA-256"):
        fetch("test", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_mirror(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = Source("http://127.0.0.1:9/file.bin", "file.bin", hashlib.sha256(BODY).hexdigest())
    monkeypatch.setitem(SOURCES, "test", (nowhere,))
    with pytest.raises(InputError, match=r"http://127.0.0.1:9/file.bin could not be downloaded .*mirror"):
        fetch("test", tmp_path)
    fetch("test", tmp_path, mirror=f"{server.url}/")
    assert (tmp_path / "file.bin").read_bytes() == BODY


@pytest.mark.parametrize(("manner", "message"), [("missing", "status 404"), ("elsewhere", "could not be")])
def test_refusals_are_named(server: Server, tmp_path: Path, manner: str, message: str) -> None:
    server.manner = manner
    with pytest.raises(InputError, match=f"{server.url}/file.bin .*{message}"):
        fetch("test", tmp_path)


@pytest.mark.parametrize("mirror", ["file:///etc", "ftp://example.org", "/data"])
def test_only_the_web(server: Server, tmp_path: Path, mirror: str) -> None:
    with pytest.raises(InputError, match=f"{mirror}/file.bin is not a web address"):
        fetch("test", tmp_path, mirror=mirror)


def test_a_folder_that_cannot_be_written(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"file/file.bin cannot be written"):
        fetch("test", tmp_path / "file")


def test_unknown_names(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no data set to fetch 'cifar-10', only cifar10, .*; did you mean cifar10"):
        fetch("cifar-10", tmp_path)


def test_the_table_is_complete() -> None:
    assert set(SOURCES) >= {"cifar10", "cifar100", "mnist", "fashion-mnist"}
    for source in (source for name in ("cifar10", "cifar100", "mnist", "fashion-mnist") for source in SOURCES[name]):
        assert len(bytes.fromhex(source.sha256)) == 32
        assert source.url.endswith(f"/{source.filename}")


def test_from_a_server_to_a_data_set(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(8).integers(0, 10, (4, 3073), dtype=np.uint8)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = rows.size
            tar.addfile(member, io.BytesIO(rows.tobytes()))
    server.body = packed.getvalue()
    name = "cifar-10-binary.tar.gz"
    source = Source(f"{server.url}/{name}", name, hashlib.sha256(server.body).hexdigest())
    monkeypatch.setitem(SOURCES, "cifar10", (source,))
    fetch("cifar10", tmp_path)
    data = cifar10(tmp_path)
    assert (len(data.train), len(data.test)) == (20, 4)
    assert data.test.labels.tolist() == rows[:, 0].tolist()
