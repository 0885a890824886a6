"""Digests of image files, kept beside the data: a command does not read 150 GB again before it begins.

A file counts as unchanged if its inode, size, time of change and time of its last change of state are those of the
table. The last one cannot be set by an archive or a copy, so that a table from elsewhere never speaks for files here.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt

from residua.data.checks import content
from residua.errors import InputError
from residua.files import write_atomically
from residua.npz import read_npy
from residua.parallel import cores

TABLE = ".residua-digests.npy"
FEWEST = 1000  # files of which digests are kept: fewer are read in a moment, and their folder stays as it is
SIZE = 16  # bytes of a digest: two columns of the table, behind the four that recognise a file


def digests(paths: Sequence[Path], folder: Path, *, anew: bool = False) -> list[bytes]:
    """The hash of each file's bytes; those that `folder` keeps a digest of are read only if `anew`.

    Nothing is kept of fewer than FEWEST files, nor where the folder cannot be written to.
    """
    marks = np.array([_mark(path) for path in paths], np.int64).reshape(-1, 4)
    with ThreadPoolExecutor(cores()) as pool:
        table = np.empty((0, 6), np.int64) if anew else _table(folder / TABLE)
        found, known = _known(marks, table)
        missing = np.flatnonzero(~known)
        fresh = pool.map(_digest, [paths[int(i)] for i in missing])
        found[missing] = np.frombuffer(b"".join(fresh), np.int64).reshape(-1, 2)
    if len(missing) and len(paths) >= FEWEST:
        others = table[~np.isin(table[:, 0], marks[:, 0])]
        everything = np.concatenate([others, np.concatenate([marks, found], axis=1)])
        with contextlib.suppress(OSError, InputError):
            write_atomically(folder / TABLE, lambda part: _write(part, everything))
    return [row.tobytes() for row in found]


def _write(part: Path, table: npt.NDArray[np.int64]) -> None:
    with part.open("wb") as file:
        np.save(file, table)


def _mark(path: Path) -> tuple[int, int, int, int]:
    try:
        facts = path.stat()
    except OSError:
        return (0, -1, 0, 0)  # hashing it says why
    return facts.st_ino % 2**63, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


def _digest(path: Path) -> bytes:
    return hashlib.blake2b(content(path), digest_size=SIZE).digest()


def _table(path: Path) -> npt.NDArray[np.int64]:
    """The table of an earlier command; empty where there is none, or none that can be used."""
    with contextlib.suppress(InputError):
        table = read_npy(path, "a table of digests")
        if table.ndim == 2 and table.shape[1] == 6 and table.dtype == np.int64:
            return table[np.argsort(table[:, 0], kind="stable")]
    return np.empty((0, 6), np.int64)


def _known(
    marks: npt.NDArray[np.int64], table: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The digests of the files that the table knows, and which these are."""
    found = np.zeros((len(marks), 2), np.int64)
    if not len(table):
        return found, np.zeros(len(marks), bool)
    place = np.searchsorted(table[:, 0], marks[:, 0]).clip(max=len(table) - 1)
    known = (table[place, :4] == marks).all(axis=1)
    found[known] = table[place[known], 4:]
    return found, known
