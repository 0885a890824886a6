"""Parsing of `--data` and `--forget`: a data set from its name and place, a task from the words for its forget set."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from residua.data.checks import folder, unknown
from residua.data.cifar import cifar10, cifar100
from residua.data.from_arrays import fashion_sample, npz
from residua.data.from_files import ImageFiles, csv, image_folder
from residua.data.hub import hf_datasets, parquet
from residua.data.idx import fashion_mnist, mnist
from residua.data.preprocessing import Preprocessing, numbers, prepare
from residua.data.task import Dataset, ForgetTask, forget_classes, forget_indices, forget_samples, parted
from residua.errors import InputError, first_line
from residua.files import read_text
from residua.npz import read_npy
from residua.text import from_json, whole_number

EMBEDDED: dict[str, Callable[..., Dataset]] = {"fashion-sample": fashion_sample}
ON_DISK: dict[str, Callable[..., Dataset]] = {
    "fashion-mnist": fashion_mnist,
    "mnist": mnist,
    "cifar10": cifar10,
    "cifar100": cifar100,
    "parquet": parquet,
    "image-folder": image_folder,
    "hf-datasets": hf_datasets,
    "npz": npz,
    "csv": csv,
}


IN_A_FILE = ("npz", "csv")
# `NAME:PLACE?size=32&mean=0.5&std=0.25`: what the options of the command line become, so that one word says it all.
_SETTING = r"(?:size|mean|std|normalise|name|part|limit|rehash)=[^&?]*"
SETTINGS = re.compile(rf"\?({_SETTING}(?:&{_SETTING})*)$")
# The seed of `?part=0.2`: one part of each size, so that the same words always name the same images.
SEED = 0


def open_dataset(
    spec: str,
    *,
    size: int | None = None,
    preprocessing: Preprocessing | None = None,
    carried: Preprocessing | None = None,
    name: str | None = None,
) -> Dataset:
    """The data set that NAME or NAME:PLACE stands for.

    Settings may stand behind the words, as in `cifar10:data/?size=32&normalise=imagenet`. `?part=0.2` takes a fifth of
    each class's training examples, the same ones every time, and all test data; `?limit=600` at most so many training and
    so many test examples.

    Args:
        spec: The words.
        size: Side in pixels that images are brought to.
        preprocessing: Size and normalisation, instead of `size`.
        carried: Size and normalisation from the model's checkpoint, for fields that neither the words nor the caller
            set; fields that are still open are the loader's choice.
        name: Name of the data set, by which recipes are found.
    """
    spec, settings = split_settings(spec)
    name = settings.pop("name", name)
    side = settings.get("size")
    if side is not None and whole_number(side) is None:
        raise InputError(f"size is {side!r}, expected a whole number of pixels from 1 up")
    mean, std = (numbers(settings[key], key) if key in settings else None for key in ("mean", "std"))
    written = Preprocessing(None if side is None else whole_number(side), mean, std, settings.get("normalise"))
    asked = (preprocessing or Preprocessing(size)).over(written)
    wanted = asked.over(carried)
    # In the size that was asked for or, without that, in their own if it is the one that a model expects.
    try:
        opened = _opened(spec, asked.size)
    except InputError:  # images of several sizes, or not there at all, which the second try says
        if asked.size == wanted.size:
            raise
        opened = _opened(spec, wanted.size)
    if asked.size is None and wanted.size is not None and opened.shape[1:] != (wanted.size, wanted.size):
        opened = _opened(spec, wanted.size)
    for split in (opened.train, opened.test):
        if isinstance(split.images, ImageFiles):
            split.images.rehash = bool(settings.get("rehash"))
    data = _reduced(prepare(opened, wanted), settings.get("part", "1"), settings.get("limit"))
    return replace(data, name=name) if name else data


def split_settings(spec: str) -> tuple[str, dict[str, str]]:
    """The words without their settings, and the settings."""
    found = SETTINGS.search(spec)
    if not found:
        return spec, {}
    return spec[: found.start()], dict(setting.split("=", 1) for setting in found[1].split("&"))


def with_settings(spec: str, **settings: object) -> str:
    """The words with these settings behind them; those that are None are left out, those there already replaced."""
    plain, before = split_settings(spec)
    kept = before | {key: str(value) for key, value in settings.items() if value is not None}
    return f"{plain}?{'&'.join(f'{key}={value}' for key, value in kept.items())}" if kept else plain


def _reduced(data: Dataset, part: str, limit: str | None) -> Dataset:
    """The data set with `part` of each class's training examples, then with at most `limit` training and as many test
    examples, of each class the share that it has."""
    try:
        fraction = float(part)
    except ValueError:
        raise InputError(f"part is {part!r}, expected a number above 0 and up to 1") from None
    if not 0 < fraction <= 1:
        raise InputError(f"part is {fraction:g}, expected above 0 and up to 1")
    if fraction < 1:
        data = replace(data, train=parted(data.train, fraction, SEED, "part")[1])
    if limit is None:
        return data
    number = whole_number(limit)
    if not number:
        raise InputError(f"limit is {limit!r}, expected a whole number of examples from 1 up")
    train, test = (
        parted(split, number / len(split), SEED, "limit")[1] if len(split) > number else split
        for split in (data.train, data.test)
    )
    return replace(data, train=train, test=test)


def _opened(spec: str, size: int | None) -> Dataset:
    # Only the first colon separates: PLACE may begin with a drive letter.
    name, _, place = spec.partition(":")
    options = {} if size is None else {"size": size}
    if name in EMBEDDED:
        if place:
            raise InputError(f"{spec} names a folder but {name} comes with the package; write {name} alone")
        return EMBEDDED[name](**options)
    if name not in ON_DISK:
        raise unknown("data set", name, [*EMBEDDED, *ON_DISK])
    if not place:
        what = "FILE" if name in IN_A_FILE else "DIR"
        raise InputError(
            f"{spec} names no {'file' if name in IN_A_FILE else 'folder'}, expected {name}:{what}; add the "
            f"{'file' if name in IN_A_FILE else 'folder'} that holds the data"
        )
    try:
        path = Path(place).expanduser()
    except RuntimeError as error:
        raise InputError(f"{place} names the home of an unknown user; write the folder out") from error
    return ON_DISK[name](path if name in IN_A_FILE else folder(path), **options)


def parse_forget(data: Dataset, words: str) -> ForgetTask:
    """`class:6`, `classes:1,2`, `samples:50[:SEED]` or `indices:FILE` of this data set."""
    kind, _, what = words.partition(":")
    try:
        if kind in ("class", "classes"):
            classes = []
            for word in filter(None, what.split(",")):
                named = word in data.class_names
                if not named and data.class_names and not re.fullmatch("-*[0-9]+", word):
                    near = difflib.get_close_matches(word, data.class_names, n=1)
                    raise InputError(
                        f"{data.name} has no class {word!r}{f'; did you mean {near[0]}?' if near else ';'} give a number "
                        f"or one of {', '.join(data.class_names)}"
                    )
                classes.append(data.class_names.index(word) if named else int(word))
            return forget_classes(data, classes)
        if kind == "samples":
            per_class, _, seed = what.partition(":")
            return forget_samples(data, int(per_class), seed=int(seed or 0))
        if kind == "indices":
            return forget_indices(data, _read_indices(Path(what)))
    except InputError:
        raise
    except ValueError:
        pass
    raise InputError(f"--forget {words!r} is not understood; write class:6, classes:1,2, samples:50 or indices:FILE")


def _read_indices(path: Path) -> torch.Tensor:
    what = "a file of training indices after indices:"
    try:
        if path.suffix == ".npy":
            values = read_npy(path, what)
        elif path.suffix == ".json":
            values = np.asarray(from_json(read_text(path, what)))
        else:
            values = np.asarray([int(line) for line in read_text(path, what).split()], dtype=np.int64)
        if values.dtype.kind in "iu":
            if values.size and int(values.max()) > np.iinfo(np.int64).max:
                raise OverflowError(f"{values.max()} is too large")
            values = values.astype(np.int64)
        return torch.as_tensor(values)
    except InputError:
        raise
    except (ValueError, TypeError, OverflowError, RecursionError, MemoryError) as error:
        raise InputError(
            f"{path} does not hold training indices ({first_line(error)}); write one whole number per line"
        ) from error
