"""hf_datasets: what `save_to_disk` of Hugging Face's datasets wrote, a folder of Arrow files for each split."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from residua.data.checks import Location, folder, need, side
from residua.data.decoding import decode
from residua.data.examining import Look, OtherSize, in_memory
from residua.data.from_arrays import arrays
from residua.data.parquet_files import _class_labels, _in_struct, _is_bytes
from residua.data.task import Dataset
from residua.errors import InputError
from residua.files import read_bytes, regular_file
from residua.limits import check, check_growth

TEST = ("test", "validation", "valid", "val")


def hf_datasets(
    dir: Location,
    *,
    image: str | None = None,
    label: str | None = None,
    name: str | None = None,
    size: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> Dataset:
    """A DatasetDict that was saved to disk: dir/train and dir/test (or validation), each with Arrow files.

    Columns are found by their types, class names in the files' metadata. Images must be stored as bytes. They are of
    one size, or are brought to `size`: the shorter side becomes `size` and the middle is kept.
    """
    path = folder(dir)
    side(size)
    test = next((path / half for half in TEST if (path / half / "state.json").exists()), None)
    if not (path / "train" / "state.json").exists() or test is None:
        raise InputError(
            f"{path} has no train and test (or validation) as save_to_disk writes them; save a DatasetDict with both"
        )
    tables = {"train": _table(path / "train"), "test": _table(test)}
    columns = _columns(path, tables["train"].schema, image, label)
    classes = _class_labels(tables["train"].schema).get(columns[1], ())
    labels = {half: _labels(table, columns[1], f"{path.name}/{half}") for half, table in tables.items()}
    look = _look(tables["train"], columns[0], f"{path.name}/train")
    images = _images(path, tables, columns[0], look, size)
    return arrays(
        images["train"], labels["train"], images["test"], labels["test"],
        mean=mean, std=std, class_names=classes, name=name or path.absolute().name, size=size,
    )  # fmt: skip


def _table(half: Path) -> Any:
    """The rows of a split, mapped from its Arrow files and not read."""
    arrow = need("pyarrow")
    try:
        state = json.loads(read_bytes(half / "state.json", "the state of a saved data set"))
        names = [str(one["filename"]) for one in state["_data_files"]]
        chosen = state.get("_indices_files") or state.get("_indices_data_files")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{half / 'state.json'} is damaged; save the data set again") from error
    if chosen:
        raise InputError(f"{half} holds a selection of rows; call flatten_indices() before save_to_disk")
    parts = []
    with _reading(half):
        for name in names:
            file = half / Path(name).name  # never a place elsewhere
            regular_file(file, "an Arrow file")
            parts.append(need("pyarrow.ipc").open_stream(arrow.memory_map(str(file))).read_all())
        table = arrow.concat_tables(parts)
    check(half, "rows", table.num_rows)
    return table


@contextmanager
def _reading(where: Path) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except (OSError, ValueError, need("pyarrow").ArrowException) as error:
        raise InputError(f"{where} cannot be read as Arrow files; save the data set again") from error


def _columns(path: Path, schema: Any, image: str | None, label: str | None) -> tuple[str, str]:
    types = need("pyarrow").types
    fields = {name: schema.field(name).type for name in schema.names}
    images = [n for n, kind in fields.items() if _in_struct(kind)] or [
        n for n, kind in fields.items() if _is_bytes(kind)
    ]
    whole = [n for n, kind in fields.items() if types.is_integer(kind)]
    marked = [n for n in whole if n in _class_labels(schema)]
    chosen = []
    for what, named, found in (("image", image, images), ("label", label, marked or whole)):
        if named is not None and named not in found:
            raise InputError(f"{path} has no column {named!r} for the {what}; give one of {', '.join(found)}")
        if named is None and len(found) != 1:
            raise InputError(
                f"{path} has the columns {', '.join(fields)}, expected one for the {what}; "
                + (
                    f"name one of {', '.join(found)} with {what}="
                    if found
                    else "save a data set of images and labels"
                )
            )
        chosen.append(named or found[0])
    return chosen[0], chosen[1]


def _labels(table: Any, column: str, where: str) -> np.ndarray:
    values = table.column(column)
    if values.null_count or not len(values):
        raise InputError(f"{where} has rows without {column}; fill or remove them")
    labels = values.to_numpy().astype(np.int64)
    if labels.min() < 0:
        raise InputError(
            f"{where} has {column} {labels.min()}, which marks images without label; remove them"
        )
    return labels


def _encoded(table: Any, column: str, where: str) -> Callable[[int], tuple[str, bytes]]:
    values = table.column(column)
    if _in_struct(values.type):
        values = need("pyarrow").chunked_array([chunk.field("bytes") for chunk in values.chunks])

    def get(i: int) -> tuple[str, bytes]:
        data = values[i].as_py()
        if not data:
            raise InputError(f"row {i} of {where} has no image bytes; embed the images before save_to_disk")
        return f"row {i} of {where}", bytes(data)

    return get


def _images(
    path: Path, tables: dict[str, Any], column: str, look: Look, size: int | None
) -> dict[str, np.ndarray]:
    """As they are if they are squares of one size and not larger than `size`; else each is brought to it."""

    def decoded(fitted: int | None) -> dict[str, np.ndarray]:
        height, width = (fitted, fitted) if fitted is not None else (look.height, look.width)
        for half, table in tables.items():
            check_growth(path / half, table.num_rows * height * width * look.channels, table.nbytes)
        return {
            half: in_memory(
                table.num_rows, _encoded(table, column, f"{path.name}/{half}"), look, path, fitted
            )
            for half, table in tables.items()
        }

    if size is not None and (look.height != look.width or look.height > size):
        return decoded(size)
    try:
        return decoded(None)
    except OtherSize:
        if size is None:
            raise
        return decoded(size)


def _look(table: Any, column: str, where: str) -> Look:
    get = _encoded(table, column, where)
    modes, sizes = set(), []
    for i in range(0, table.num_rows, max(1, table.num_rows // 200)):
        name, data = get(i)
        image = decode(data, name)
        modes.add(image.mode)
        sizes.append(image.size)
    return Look(sizes[0][1], sizes[0][0], 1 if modes <= {"L", "1"} else 3)
