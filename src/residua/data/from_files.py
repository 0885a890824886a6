"""image_folder and csv: image files on disk, labelled by their folders (ImageNet's layout) or by a list."""

from __future__ import annotations

import contextlib
import csv as comma_separated
import hashlib
import itertools
import os
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from residua.confined import Confined, image_memory, shared
from residua.data.checks import ELSEWHERE, Location, content, folder, need
from residua.data.from_arrays import arrays
from residua.data.images import Window, decode, examine, files_in_memory, pixels
from residua.data.preprocessing import imagenet
from residua.data.split import Split, per_channel, side
from residua.data.task import Dataset
from residua.errors import InputError, first_line
from residua.files import write_atomically
from residua.limits import check, limit
from residua.npz import read_npy
from residua.parallel import cores
from residua.text import whole_number

_ENDINGS = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".ppm", ".pgm", ".tif", ".tiff", ".gif"}
_TEST_NAMES = ("test", "val", "validation")
Rows = list[tuple[Path, str]]  # an image file and its label


def image_folder(
    dir: Location,
    *,
    size: int | None = None,
    workers: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    name: str | None = None,
) -> Dataset:
    """Images in dir/train/CLASS/ and dir/test/CLASS/ (or val, validation), left on disk.

    Without a `size` all images must have one size, which they keep. Up to 64 x 64 pixels they are read into memory and
    normalised by their own mean and deviation, like any other small data set, also where a larger `size` enlarges squares
    per batch. A folder of images with labels.csv (path, label, train or test), or with train.txt and test.txt (path,
    label), is read by that list. Classes are the training folders in alphabetical order. A `test` without class folders,
    as ImageNet's, is passed over for `val`.

    Args:
        dir: The folder.
        size: Side in pixels; the shorter side of an image becomes `size`, and the middle is kept.
        workers: Threads that decode batches when they are asked for: by default one for each core; 0 means in the
            caller's thread.
        mean: Mean of each channel, white being 1; by default ImageNet's for images that are not read into memory.
        std: Standard deviation of each channel, likewise.
        name: Name of the data set; by default that of the folder.
    """
    path = folder(dir)
    side(size)
    if workers is not None and workers < 0:
        raise InputError(f"workers is {workers}, expected 0 (decode in the caller's thread) or more")
    need("PIL.Image")

    more: dict[str, Any] = {"size": size, "mean": mean, "std": std, "workers": workers}
    more["name"] = name or path.absolute().name
    lists = _lists(path)
    if len(lists) == 1:
        return csv(lists[0], **more)
    if lists:
        return two_lists(*lists, **more)
    names, halves = _halves(path)
    return labelled(path, halves, **more, class_names=names)


def _halves(path: Path) -> tuple[tuple[str, ...], dict[str, Rows]]:
    """The classes, and the labelled files of `train` and `test`."""
    train = folder(path / "train")
    names = tuple(_class_folders(train))
    if not names:
        raise InputError(f"{train} has no folders, expected one for each class; give a folder in ImageNet's layout")
    test = next((path / half for half in _TEST_NAMES if _class_folders(path / half)), None)
    if test is None:
        raise InputError(f"{path} has no test, val or validation with a folder for each class; put one there")
    for strange in sorted(set(_class_folders(test)) - set(names)):
        raise InputError(f"{test / strange} is a class that {train} does not have; rename or remove the folder")
    check(train, "classes", len(names))
    return names, {"train": _labelled(train, names), "test": _labelled(test, names)}


class ImageFiles:
    """Image files, each decoded when a batch asks for it; `Images` for data larger than memory.

    Batches of a training are cut at a random place and size when they are decoded (`windows`), so that less is decoded.
    """

    rehash = False  # whether digests that are kept beside the data are made again

    def __init__(
        self, paths: Sequence[Path], size: int, workers: int, channels: int = 3, folder: Path | None = None
    ) -> None:
        self.paths = tuple(paths)
        self.size = size
        self.workers = workers
        self.channels = channels
        self.folder = folder

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.channels, self.size, self.size

    def __len__(self) -> int:
        return len(self.paths)

    def stream(
        self, batches: Iterable[Tensor], device: torch.device, windows: Iterable[Tensor] | None = None
    ) -> Iterator[Tensor]:
        """As `Images.stream`; with `windows` (n, 5), five numbers from 0 to 1 for each image of a batch, see `pixels`."""
        cut = itertools.repeat(None) if windows is None else windows
        for images in self._decoded(list(zip(batches, cut, strict=False))):
            away = device.type == "cuda"
            on = images.pin_memory().to(device, non_blocking=True) if away else images.to(device)
            yield on.permute(0, 3, 1, 2)

    def _decoded(self, plan: list[tuple[Tensor, Tensor | None]]) -> Iterator[Tensor]:
        """The batches in order, a few of them decoded ahead, in rooms that children fill and that are used again."""
        if not plan:
            return
        ahead = 2 * self.workers
        largest = max(len(index) for index, _ in plan)
        shape = (largest, self.size, self.size, self.channels)
        rooms = [shared(shape) for _ in range(min(ahead + 1, len(plan)))]
        memory = image_memory() + 1024 * self.size**2 * self.channels
        free: SimpleQueue[Confined] = SimpleQueue()
        with contextlib.ExitStack() as all_of_them:
            for _ in range(max(1, self.workers)):
                fill = partial(self._fill, rooms)
                child = Confined(fill, self.paths[0], memory=memory, seconds=10.0 * limit("seconds"))
                free.put(all_of_them.enter_context(child))

            def batch(number: int) -> Tensor:
                index, windows = plan[number]
                child, place = free.get(), number % len(rooms)
                try:
                    child.ask((place, index.tolist(), None if windows is None else windows.tolist()))
                finally:
                    free.put(child)
                return torch.from_numpy(rooms[place][: len(index)])

            if not self.workers:
                yield from map(batch, range(len(plan)))
                return
            # Each thread waits for a child that decodes.
            pool = all_of_them.enter_context(ThreadPoolExecutor(self.workers))
            coming = deque(pool.submit(batch, number) for number in range(min(ahead, len(plan))))
            try:
                for number in range(len(plan)):
                    images = coming.popleft().result()
                    if number + ahead < len(plan):  # in the room of the batch before, which is done with
                        coming.append(pool.submit(batch, number + ahead))
                    yield images
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

    def _fill(self, rooms: list[npt.NDArray[np.uint8]], asked: tuple[int, list[int], list[Window] | None]) -> bytes:
        """In a child: these images, cut to their windows where they have some, in the room of this number."""
        place, index, windows = asked
        cut: Sequence[Window | None] = windows or [None] * len(index)
        for row, i, window in zip(rooms[place], index, cut, strict=False):
            path = self.paths[i]
            drafted = None if window is None else (self.size, window)
            row[:] = pixels(decode(content(path), str(path), drafted), self.channels, self.size, window)
        return b""

    @cached_property
    def digests(self) -> list[bytes]:
        """Hashes of the files' bytes: the same picture in two encodings counts as two."""
        return digests(self.paths, self.folder or self.paths[0].parent, anew=self.rehash)


def _lists(path: Path) -> list[Path]:
    """The list of a folder without class folders, or its two lists."""
    if (path / "train").is_dir():
        return []
    alone = [path / name for name in ("labels.csv", "labels.tsv", "labels.txt") if (path / name).is_file()]
    if alone:
        return alone[:1]
    for ending in ("csv", "tsv", "txt"):
        test = next((path / f"{half}.{ending}" for half in _TEST_NAMES if (path / f"{half}.{ending}").is_file()), None)
        if test is not None and (path / f"train.{ending}").is_file():
            return [path / f"train.{ending}", test]
    return []


def _class_folders(half: Path) -> list[str]:
    if not half.is_dir():
        return []
    with os.scandir(half) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))


def _labelled(half: Path, names: Sequence[str]) -> Rows:
    rows: Rows = []
    for name in names:
        found = sorted(
            (
                Path(place, file)
                for place, _, files in os.walk(half / name)
                for file in files
                if Path(file).suffix.lower() in _ENDINGS and not file.startswith(".")
            ),
            key=lambda path: path.parts,  # as paths compare, in a fraction of the time
        )
        if not found and (half / name).is_dir():
            raise InputError(f"{half / name} holds no images, expected .jpg, .png or the like; fill or remove it")
        rows += [(file, name) for file in found]
        check(half, "rows", len(rows))
    return rows


# The name of a file, there or not; a number of a table is none.
FILE = re.compile(r"\.[A-Za-z]\w*$")
TEST = ("test", "val", "valid", "validation")


def csv(
    file: Location,
    *,
    size: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    name: str | None = None,
    workers: int | None = None,
) -> Dataset:
    """A list with a line for each image: its path, its label, and optionally train or test.

    Paths are seen from the list's folder. Separators are commas, tabs, semicolons or blanks; a first line of names is
    passed over. Labels are whole numbers, or names in alphabetical order. Without a third column every fifth image of
    each class is for testing, which the data set's notes say.

    Args:
        file: The list.
        size: As for `image_folder`; so are `mean`, `std` and `workers`.
        mean: Mean of each channel.
        std: Standard deviation of each channel.
        name: Name of the data set; by default that of the list.
        workers: Threads that decode batches.
    """
    path = Path(file)
    halves, notes = _listed(path, _rows(path))
    return labelled(path, halves, size=size, mean=mean, std=std, name=name or path.stem, workers=workers, notes=notes)


def two_lists(train: Path, test: Path, **more: object) -> Dataset:
    """A list for training and one for testing, each with a line for each image: path and label."""
    halves = {"train": _pairs(_rows(train), train), "test": _pairs(_rows(test), test)}
    return labelled(train, halves, **more)  # type: ignore[arg-type]


def labelled(
    where: Path,
    halves: dict[str, Rows],
    *,
    size: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    name: str = "",
    workers: int | None = None,
    notes: Sequence[str] = (),
    class_names: tuple[str, ...] | None = None,
) -> Dataset:
    """The data set of these image files. Small ones of one size are read into memory, as any other small data set."""
    for half in ("train", "test"):
        if not halves.get(half):
            raise InputError(f"{where} lists no images for {half}ing; list some")
        check(where, "rows", len(halves[half]))
    numbers, names = _classes(where, halves, class_names)
    paths = {half: [path for path, _ in rows] for half, rows in halves.items()}
    look = examine(paths["train"] + paths["test"], size)
    if look is not None and look.in_memory(size):
        images = {half: files_in_memory(paths[half], look, where) for half in ("train", "test")}
        data = arrays(
            images["train"], numbers["train"], images["test"], numbers["test"],
            mean=mean, std=std, classes=len(names) or None, class_names=names, name=name, size=size,
        )  # fmt: skip
        return replace(data, notes=tuple(notes) + data.notes)
    if look is None and (size is None or class_names is None):
        raise InputError(
            f"{paths['train'][0]}, which {where} lists, cannot be read as an image, nor can any other; correct the paths"
        )
    if look is not None and size is None and look.height != look.width:
        raise InputError(
            f"{where} lists images of {look.width} x {look.height} pixels, expected squares; give the size that the model "
            "was trained on with --size (in Python, size=)"
        )
    channels = 3 if look is None else look.channels
    edge = size or (0 if look is None else look.height)
    usual = imagenet(channels)  # for images that are not read before they are needed
    scale = (
        per_channel(usual[0] if mean is None else mean, channels, "mean"),
        per_channel(usual[1] if std is None else std, channels, "std"),
    )
    count = len(names) or max(int(values.max()) for values in numbers.values()) + 1

    def split(half: str) -> Split:
        images = ImageFiles(
            paths[half],
            edge,
            cores() if workers is None else workers,
            channels,
            folder=paths[half][0].parents[1] if class_names else where.parent,
        )
        return Split(images, torch.arange(len(images)), torch.from_numpy(numbers[half]), count, *scale)

    return Dataset(name, split("train"), split("test"), names, tuple(notes))


def _rows(path: Path) -> list[list[str]]:
    data = content(path)
    check(path, "text", len(data))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not a text file in UTF-8; save the list as UTF-8") from error
    sample = next((line for line in text.splitlines() if line.strip()), "")
    separator = next((one for one in (",", "\t", ";") if one in sample), None)
    if separator is None:
        rows = [line.rsplit(maxsplit=1) for line in text.splitlines()]
    else:
        try:
            lines = comma_separated.reader(text.splitlines(), delimiter=separator, strict=True)
            rows = [[cell.strip() for cell in row] for row in lines]
        except comma_separated.Error as error:
            raise InputError(f"{path} is not a list of images ({first_line(error)}); correct it") from error
    rows = [row for row in rows if any(row)]
    if not rows or any(len(row) < 2 for row in rows):
        raise InputError(f"{path} is not a list of images, expected path and label in every line; correct it")
    return rows


def _listed(path: Path, rows: list[list[str]]) -> tuple[dict[str, Rows], list[str]]:
    rows = _without_header(rows, path)
    if all(len(row) > 2 and row[2] for row in rows):
        halves: dict[str, Rows] = {"train": [], "test": []}
        place = _places(path)
        for row in rows:
            half = "test" if row[2].lower() in TEST else row[2].lower()
            if half not in halves:
                raise InputError(f"{path} has the split {row[2]!r}, expected train or test; correct it")
            halves[half].append((place(row[0]), sys.intern(row[1])))
        return halves, []
    seen: dict[str, int] = {}
    halves = {"train": [], "test": []}
    for image, label in _pairs(rows, path):
        seen[label] = seen.get(label, 0) + 1
        halves["test" if seen[label] % 5 == 0 else "train"].append((image, label))
    return halves, [
        f"{path} does not say which images are for testing: every fifth of each class is taken; a third column with "
        "train or test decides otherwise"
    ]


def _pairs(rows: list[list[str]], path: Path) -> Rows:
    place = _places(path)
    return [(place(row[0]), sys.intern(row[1])) for row in _without_header(rows, path)]


def _places(path: Path) -> Callable[[str], Path]:
    """Files by their names in this list: a path is large, and a list may name one file many times."""
    return lru_cache(maxsize=None)(lambda name: path.parent / name)


def _without_header(rows: list[list[str]], path: Path) -> list[list[str]]:
    """A first line that names no file is a line of names, if the second names one."""
    if len(rows) > 1 and not (path.parent / rows[0][0]).is_file() and (path.parent / rows[1][0]).is_file():
        return rows[1:]
    if not any(FILE.search(row[0]) or (path.parent / row[0]).is_file() for row in rows):
        raise InputError(
            f"{path} names no image file in its first column, where {rows[0][0]!r} stands; write the path of an "
            f"image and its label in every line. {ELSEWHERE}"
        )
    return rows


def _classes(
    where: Path, halves: dict[str, Rows], given: tuple[str, ...] | None
) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    """Labels as numbers, and the names of the classes where labels are names."""
    words = {label for rows in halves.values() for _, label in rows}
    known = {word: whole_number(word) for word in words}
    if given is None and None not in known.values():
        check(where, "classes", max(known.values()) + 1)  # type: ignore[type-var,operator]
        return {h: np.array([known[word] for _, word in rows], np.int64) for h, rows in halves.items()}, ()
    names = tuple(sorted(words)) if given is None else given
    places = {name: i for i, name in enumerate(names)}
    return {h: np.array([places[word] for _, word in rows], np.int64) for h, rows in halves.items()}, names


TABLE = ".residua-digests.npy"
FEWEST = 1000  # files of which digests are kept: fewer are read in a moment, and their folder stays as it is
SIZE = 16  # bytes of a digest: two columns of the table, behind the four that recognise a file


def digests(paths: Sequence[Path], folder: Path, *, anew: bool = False) -> list[bytes]:
    """The hash of each file's bytes; those that `folder` keeps a digest of are read only if `anew`.

    A file counts as unchanged if its inode, size, time of change and time of its last change of state are those of the
    table. The last one cannot be set by an archive or a copy, so that a table from elsewhere never speaks for files here.
    Nothing is kept of fewer than FEWEST files, nor where the folder cannot be written to.
    """
    marks = np.array([_mark(path) for path in paths], np.int64).reshape(-1, 4)
    with ThreadPoolExecutor(cores()) as pool:
        table = np.empty((0, 6), np.int64) if anew else _table_in(folder / TABLE)
        found, known = _known(marks, table)
        missing = np.flatnonzero(~known)
        fresh = pool.map(_digest, [paths[int(i)] for i in missing])
        found[missing] = np.frombuffer(b"".join(fresh), np.int64).reshape(-1, 2)
    if len(missing) and len(paths) >= FEWEST:
        others = table[~np.isin(table[:, 0], marks[:, 0])]
        everything = np.concatenate([others, np.concatenate([marks, found], axis=1)])
        with contextlib.suppress(OSError, InputError):
            write_atomically(folder / TABLE, lambda part: _write_table(part, everything))
    return [row.tobytes() for row in found]


def _write_table(part: Path, table: npt.NDArray[np.int64]) -> None:
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


def _table_in(path: Path) -> npt.NDArray[np.int64]:
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
