"""Where a parquet export keeps its splits, and what its columns mean."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from residua.data.checks import need
from residua.data.parquet_pages import read_pages
from residua.errors import InputError
from residua.files import reading, regular_file
from residua.limits import check, check_growth, check_unpacked

# Bytes that one batch may take if each of its rows were all of the dictionary. Arrow grows its buffers by doubling, so
# a batch can take three times as much.
MOST_REPEATED = 1 << 26
_TEST_NAMES = ("test", "validation", "valid", "val")


@dataclass(frozen=True)
class Columns:
    """The columns that matter, and the names of the classes where the file tells them."""

    image: str
    label: str
    class_names: tuple[str, ...]


def find_splits(dir: Path) -> tuple[list[Path], list[Path]]:
    """The shards of the training and of the test split.

    They lie in `dir`, in `dir/data` or in one folder named after the hub's configuration, as
    train-00000-of-00002.parquet or as train/0000.parquet. Test is `test`, else `validation`.
    """
    for place in (dir, dir / "data"):
        if _shards(place, "train"):
            return _both(place)
    places = sorted(child for child in dir.iterdir() if child.is_dir() and _shards(child, "train"))
    if len(places) > 1:
        raise InputError(
            f"{dir} holds several configurations, {', '.join(place.name for place in places)}, expected one; "
            f"give one of these folders, such as {places[0]}"
        )
    if not places:
        raise InputError(f"{dir} has no train*.parquet; give the folder that holds the parquet files")
    return _both(places[0])


def _both(place: Path) -> tuple[list[Path], list[Path]]:
    for name in _TEST_NAMES:
        if test := _shards(place, name):
            return _shards(place, "train"), test
    raise InputError(f"{place} has train*.parquet but no test*.parquet or validation*.parquet; put one there")


def _shards(place: Path, split: str) -> list[Path]:
    # Not just the beginning of the name: "val" is no "validation" and "train" no "trainval".
    name = re.compile(rf"{split}([^a-zA-Z].*)?\.parquet")
    files = sorted(file for file in place.glob(f"{split}*.parquet") if name.fullmatch(file.name))
    files = files or sorted((place / split).glob("*.parquet"))
    for total in {int(m[1]) for file in files if (m := re.search(r"-of-(\d+)\.parquet$", file.name))}:
        if len(files) != total:
            raise InputError(
                f"{place} holds {len(files)} parquet files of {split}, expected {total} as their names say; "
                "get the missing ones or remove the extra ones"
            )
    return files


def choose_columns(file: Path, image: str | None, label: str | None) -> Columns:
    """The image and the label column, found by their types where they are not named."""
    schema = _opened(file).schema_arrow
    fields = {name: schema.field(name).type for name in schema.names}
    classes = _class_labels(schema)
    structs = [name for name, kind in fields.items() if _in_struct(kind)]
    images = structs + [name for name, kind in fields.items() if _is_bytes(kind)]
    integers = [name for name, kind in fields.items() if need("pyarrow").types.is_integer(kind)]
    marked = [name for name in integers if name in classes]
    # A struct with bytes is the hub's image; a column of plain bytes may be anything.
    found_image = _choose(file, "image", "encoded images", image, images, list(fields), preferred=structs)
    found_label = _choose(file, "label", "whole numbers", label, integers, list(fields), preferred=marked)
    return Columns(found_image, found_label, classes.get(found_label, ()))


def _choose(
    file: Path, what: str, kind: str, named: str | None, candidates: list[str], columns: list[str],
    preferred: list[str],
) -> str:  # fmt: skip
    if named in candidates:
        return str(named)
    if not candidates:
        raise InputError(
            f"{file} has the columns {', '.join(columns)}, expected one of {kind} for the {what}; "
            "give the folder of an image data set"
        )
    if named is not None:
        raise InputError(
            f"{file} has no column {named!r} of {kind}; give {what}= one of {', '.join(candidates)}"
        )
    for only in (candidates, preferred):
        if len(only) == 1:
            return only[0]
    raise InputError(
        f"{file} has several columns that could be the {what}, {', '.join(candidates)}; "
        f'name one, such as {what}="{candidates[0]}"'
    )


def _in_struct(kind: Any) -> bool:
    types = need("pyarrow").types
    return bool(types.is_struct(kind)) and any(
        child.name == "bytes" and _is_bytes(child.type) for child in kind
    )


def _is_bytes(kind: Any) -> bool:
    types = need("pyarrow").types
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def _class_labels(schema: Any) -> dict[str, tuple[str, ...]]:
    """The hub's own metadata: for each column of classes, their names."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return {
            column: tuple(map(str, feature["names"]))
            for column, feature in features.items()
            if isinstance(feature, dict) and isinstance(feature.get("names"), list)
        }
    except (KeyError, ValueError, TypeError, AttributeError):
        return {}  # metadata are a help, not a need


def read_labels(files: list[Path], columns: Columns) -> npt.NDArray[np.int64]:
    """All labels of a split, before any image is decoded: a bad one shows at once."""
    parts = []
    rows = 0
    for file in files:
        with _reading(file), reading(file):
            opened = _opened(file)
            rows += opened.metadata.num_rows
            check(file, "rows", rows)
            # Runs of equal labels are stored as one, so the file's size says little about them.
            check_unpacked(file, 8 * opened.metadata.num_rows, file.stat().st_size)
            _check_pages(file, opened, columns.label)
            column = opened.read(columns=[columns.label]).column(columns.label)
            missing = column.is_null().to_numpy()
        if missing.any():
            raise InputError(
                f"row {missing.argmax()} of {file} has no {columns.label}; fill or remove the row"
            )
        with reading(file):
            values = column.to_numpy().astype(np.int64)
        if len(values) and values.min() < 0:
            raise InputError(
                f"row {values.argmin()} of {file} has {columns.label} {values.min()}, which marks an image "
                "without label; take the file away if there is another test split"
            )
        parts.append(values)
    labels = np.concatenate(parts)
    if not len(labels):
        raise InputError(f"{files[0]} holds no rows, expected images and labels; get it again")
    return labels


def read_images(file: Path, columns: Columns, batch: int) -> Iterator[bytes | None]:
    """The encoded images of a file in order, read `batch` rows at a time."""
    opened = _opened(file)
    on_disk, done = file.stat().st_size, 0
    # Equal images are stored once, in a dictionary, but take room for each of their rows.
    batch = max(1, min(batch, MOST_REPEATED // max(_check_pages(file, opened, columns.image), 1)))
    with _reading(file), reading(file):
        for rows in opened.iter_batches(batch, columns=[columns.image]):
            column = rows.column(0)
            if _in_struct(column.type):
                place = [child.name for child in column.type].index("bytes")
                column = column.flatten()[place]  # unlike field(), a missing struct is a missing child
            for value in column:  # one at a time: a list of all would hold the batch twice
                data = value.as_py()
                done += len(data or b"")
                check_unpacked(file, done, on_disk)
                yield data


def _opened(file: Path) -> Any:
    regular_file(file, "a parquet file")
    with _reading(file), reading(file):
        # With a buffer, pages are read as they are needed, not a whole row group at once.
        opened = need("pyarrow.parquet").ParquetFile(file, buffer_size=1 << 20, pre_buffer=False)
    check(file, "rows", opened.metadata.num_rows)
    return opened


def _check_pages(file: Path, opened: Any, column: str) -> int:
    """Refuse pages that unpack into more than the limits allow; else the size of the largest dictionary."""
    on_disk, total, dictionary = file.stat().st_size, 0, 0
    with _reading(file), file.open("rb") as raw:
        for group in range(opened.metadata.num_row_groups):
            chunks = opened.metadata.row_group(group)
            for i in range(chunks.num_columns if chunks.num_rows else 0):
                if chunks.column(i).path_in_schema.partition(".")[0] == column.partition(".")[0]:
                    pages = read_pages(raw, chunks.column(i))
                    check_unpacked(f"a page of {file}", pages.largest, on_disk)
                    total, dictionary = total + pages.total, max(dictionary, pages.dictionary)
    check_growth(file, total, on_disk)
    return dictionary


@contextmanager
def _reading(file: Path) -> Iterator[None]:
    """Arrow's errors become one that names the file."""
    arrow = need("pyarrow")
    try:
        yield
    except InputError:
        raise
    except (OSError, OverflowError, ValueError, arrow.ArrowException) as error:
        raise InputError(
            f"{file} cannot be read as parquet, expected a file of the hub's export; get it again"
        ) from error
