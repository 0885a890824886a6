"""fetch: download a data set from its makers, resumably, and check what came."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib import request
from urllib.error import HTTPError

from residua.data.checks import Location, unknown
from residua.errors import InputError
from residua.files import file_hash
from residua.limits import check, limit

Progress = Callable[[str, int, int | None], None]  # file name, bytes so far, bytes in all if known


@dataclass(frozen=True)
class Source:
    """A file, where it is, and its SHA-256.

    The makers of these data publish MD5, which no longer shows that nobody changed a file.
    """

    url: str
    filename: str
    sha256: str


def _sources(base: str, files: dict[str, str]) -> tuple[Source, ...]:
    return tuple(Source(base + filename, filename, sha256) for filename, sha256 in files.items())


SOURCES: dict[str, tuple[Source, ...]] = {
    "cifar10": _sources(
        "https://www.cs.toronto.edu/~kriz/",
        {"cifar-10-binary.tar.gz": "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"},
    ),
    "cifar100": _sources(
        "https://www.cs.toronto.edu/~kriz/",
        {"cifar-100-binary.tar.gz": "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"},
    ),
    "mnist": _sources(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        {
            "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        },
    ),
    "fashion-mnist": _sources(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        {
            "train-images-idx3-ubyte.gz": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "train-labels-idx1-ubyte.gz": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            "t10k-images-idx3-ubyte.gz": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "t10k-labels-idx1-ubyte.gz": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        },
    ),
}

_CHUNK = 1 << 18
_TIMEOUT = 30.0  # seconds without a byte


def fetch(name: str, to: Location, *, mirror: str | None = None, progress: Progress | None = None) -> list[Path]:
    """Download the files of a data set, and return their paths.

    A file that is there with the right checksum is left alone; a transfer that broke off is resumed.

    Args:
        name: The data set: cifar10, cifar100, mnist or fashion-mnist.
        to: The folder that the files are put into.
        mirror: Another address with files of the same names; checksums tell whether they are the same files.
        progress: Called with the file's name, the bytes so far, and the bytes in all if known.
    """
    if name not in SOURCES:
        raise unknown("data set to fetch", name, SOURCES)
    paths = []
    for source in SOURCES[name]:
        url = source.url if mirror is None else f"{mirror.rstrip('/')}/{source.filename}"
        if not url.lower().startswith(("http://", "https://")):
            raise InputError(f"{url} is not a web address, expected one that begins with http:// or https://")
        path, part = Path(to, source.filename), Path(to, source.filename + ".part")
        paths.append(path)
        try:
            Path(to).mkdir(parents=True, exist_ok=True)
            if path.exists():
                if file_hash(path) != source.sha256:
                    raise InputError(
                        f"{path} is not the file expected (SHA-256 {source.sha256}); remove it and fetch again"
                    )
                continue
            # A part may be complete, if only the last step was missed.
            if not part.exists() or file_hash(part) != source.sha256:
                _download(url, source.filename, part, progress)
            if (found := file_hash(part)) != source.sha256:
                part.unlink()
                raise InputError(
                    f"{url} gave a file with SHA-256 {found}, expected {source.sha256}, so it was deleted; "
                    "fetch again or give another mirror"
                )
            part.replace(path)
        except OSError as error:
            raise InputError(
                f"{path} cannot be written ({error.strerror}); give a folder with room where you may write"
            ) from error
    return paths


def _download(url: str, filename: str, part: Path, progress: Progress | None) -> None:
    done = part.stat().st_size if part.exists() else 0
    response = _open(url, part, done)
    if done and (response is None or (response.status == 206 and _start(response) != done)):
        # Nothing to resume there, or not where we asked: from the beginning.
        if response is not None:
            response.close()
        done, response = 0, _open(url, part, 0)
    elif response is not None and response.status != 206:
        done = 0  # the server does not resume and sends all of it
    if response is None:
        raise InputError(f"{url} was refused with status 416; give another mirror")
    most = limit("disk")
    with response, part.open("ab" if done else "wb") as out:
        length = response.headers.get("Content-Length", "")
        total = done + int(length) if re.fullmatch(r"[0-9]{1,18}", length) else None
        check(url, "disk", total or 0)
        if progress:
            progress(filename, done, total)
        while chunk := _read(response, url, part):
            out.write(chunk)
            done += len(chunk)
            if done > most:  # a server may send for ever
                check(url, "disk", done)
            if progress:
                progress(filename, done, total)
    if total is not None and done < total:
        raise _broken(url, part, f"the connection was closed after {done} of {total} bytes")


def _open(url: str, part: Path, start: int) -> Any:
    """The server's answer; None if it says that nothing begins at `start` (416)."""
    headers = {"User-Agent": "residua"} | ({"Range": f"bytes={start}-"} if start else {})
    # Handlers by hand: the default ones would also follow a redirection to ftp.
    opener = request.OpenerDirector()
    for handler in (
        request.ProxyHandler, request.HTTPHandler, request.HTTPSHandler, request.UnknownHandler,
        request.HTTPDefaultErrorHandler, request.HTTPRedirectHandler, request.HTTPErrorProcessor,
    ):  # fmt: skip
        opener.add_handler(handler())
    try:
        return opener.open(request.Request(url, headers=headers), timeout=_TIMEOUT)
    except HTTPError as error:
        error.close()
        if error.code == 416:
            return None
        raise InputError(
            f"{url} was refused with status {error.code} ({error.reason}); try later or give another mirror"
        ) from error
    except (OSError, HTTPException, ValueError) as error:
        raise _broken(url, part, str(getattr(error, "reason", error))) from error


def _read(response: Any, url: str, part: Path) -> bytes:
    try:
        return bytes(response.read(_CHUNK))
    except (OSError, HTTPException) as error:
        raise _broken(url, part, str(error) or type(error).__name__) from error


def _broken(url: str, part: Path, why: str) -> InputError:
    kept = f"{part} is kept and the same command resumes" if part.exists() else "try again or give a mirror"
    return InputError(f"{url} could not be downloaded ({why}); {kept}")


def _start(response: Any) -> int | None:
    """The position at which the bytes that a server sends begin, as it says."""
    match = re.match(r"bytes ([0-9]{1,18})-", response.headers.get("Content-Range", ""))
    return int(match[1]) if match else None
