"""csv: image files anywhere, with a list of their paths and labels."""

from __future__ import annotations

import csv as comma_separated
import io
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from residua.data.checks import ELSEWHERE, Location, content
from residua.data.decoding import cores
from residua.data.examining import examine, files_in_memory
from residua.data.from_arrays import arrays
from residua.data.from_folder import ImageFiles, lazy_scale
from residua.data.split import Split
from residua.data.task import Dataset
from residua.errors import InputError
from residua.limits import check

# The name of a file, there or not; a number of a table is none.
FILE = re.compile(r"\.[A-Za-z]\w*$")
TEST = ("test", "val", "valid", "validation")
Rows = list[tuple[Path, str]]


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
    """
    path = Path(file)
    halves, notes = _halves(path, _rows(path))
    return labelled(
        path, halves, size=size, mean=mean, std=std, name=name or path.stem, workers=workers, notes=notes
    )


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
    if look is None:
        raise InputError(
            f"{paths['train'][0]}, which {where} lists, cannot be read as an image, nor can any other; correct the paths"
        )
    if size is None and look.height != look.width:
        raise InputError(
            f"{where} lists images of {look.width} x {look.height} pixels, expected squares; give the size that the model "
            "was trained on with --size (in Python, size=)"
        )
    scale = lazy_scale(look.channels, mean, std)
    count = len(names) or max(int(values.max()) for values in numbers.values()) + 1

    def split(half: str) -> Split:
        threads = cores() if workers is None else workers
        images = ImageFiles(paths[half], size or look.height, threads, look.channels)
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
        rows = [
            [cell.strip() for cell in row]
            for row in comma_separated.reader(io.StringIO(text), delimiter=separator)
        ]
    rows = [row for row in rows if any(row)]
    if not rows or any(len(row) < 2 for row in rows):
        raise InputError(f"{path} is not a list of images, expected path and label in every line; correct it")
    return rows


def _halves(path: Path, rows: list[list[str]]) -> tuple[dict[str, Rows], list[str]]:
    rows = _without_header(rows, path)
    if all(len(row) > 2 and row[2] for row in rows):
        halves: dict[str, Rows] = {"train": [], "test": []}
        for row in rows:
            half = "test" if row[2].lower() in TEST else row[2].lower()
            if half not in halves:
                raise InputError(f"{path} has the split {row[2]!r}, expected train or test; correct it")
            halves[half].append((path.parent / row[0], row[1]))
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
    return [(path.parent / row[0], row[1]) for row in _without_header(rows, path)]


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
    if given is None and all(word.isascii() and word.isdigit() for word in words):
        most = max(map(int, words))
        check(where, "classes", most + 1)
        return {h: np.array([int(word) for _, word in rows], np.int64) for h, rows in halves.items()}, ()
    names = tuple(sorted(words)) if given is None else given
    places = {name: i for i, name in enumerate(names)}
    return {h: np.array([places[word] for _, word in rows], np.int64) for h, rows in halves.items()}, names
