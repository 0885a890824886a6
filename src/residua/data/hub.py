"""parquet and hf_datasets: images in a column of bytes, as the Hugging Face hub and `save_to_disk` write them.

The pages of a parquet file are measured before they are read: Arrow makes room for a page as its header asks, whatever
the file's table of contents says. A header is a Thrift structure in the compact protocol, of which the first three
fields are the kind of page, its size unpacked and its size on disk; the next page begins where this one ends.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from residua import room
from residua.confined import image_memory, in_parts, once, shared
from residua.data.checks import Location, folder, need
from residua.data.from_arrays import Scale, arrays
from residua.data.images import decode, pixels
from residua.data.split import side
from residua.data.task import Dataset
from residua.device import memory_budget
from residua.errors import InputError
from residua.files import read_bytes, reading, regular_file
from residua.limits import Clock, check, check_growth, check_unpacked, limit
from residua.text import from_json

# Bytes that one batch may take if each of its rows were all of the dictionary. Arrow grows its buffers by doubling, so
# a batch can take three times as much.
MOST_REPEATED = 1 << 26
TEST_NAMES = ("test", "validation", "valid", "val")


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
    for name in TEST_NAMES:
        if test := _shards(place, name):
            return _shards(place, "train"), test
    raise InputError(f"{place} has train*.parquet but no test*.parquet or validation*.parquet; put one there")


def _shards(place: Path, split: str) -> list[Path]:
    # Not just the beginning of the name: "val" is no "validation" and "train" no "trainval".
    name = re.compile(rf"{split}([^a-zA-Z].*)?\.parquet")
    files = sorted(file for file in place.glob(f"{split}*.parquet") if name.fullmatch(file.name))
    files = files or sorted((place / split).glob("*.parquet"))
    for total in {int(m[1]) for file in files if (m := re.search(r"-of-([0-9]{1,9})\.parquet$", file.name))}:
        if len(files) != total:
            raise InputError(
                f"{place} holds {len(files)} parquet files of {split}, expected {total} as their names say; "
                "get the missing ones or remove the extra ones"
            )
    return files


def choose_columns(file: Path, schema: Any, image: str | None, label: str | None) -> Columns:
    """The image and the label column, found by their types where they are not named."""
    fields = {name: schema.field(name).type for name in schema.names}
    classes = _class_labels(schema)
    structs = [name for name, kind in fields.items() if in_struct(kind)]
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
        raise InputError(f"{file} has no column {named!r} of {kind}; give {what}= one of {', '.join(candidates)}")
    for only in (candidates, preferred):
        if len(only) == 1:
            return only[0]
    raise InputError(
        f"{file} has several columns that could be the {what}, {', '.join(candidates)}; "
        f'name one, such as {what}="{candidates[0]}"'
    )


def in_struct(kind: Any) -> bool:
    types = need("pyarrow").types
    return bool(types.is_struct(kind)) and any(child.name == "bytes" and _is_bytes(child.type) for child in kind)


def _is_bytes(kind: Any) -> bool:
    types = need("pyarrow").types
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def _class_labels(schema: Any) -> dict[str, tuple[str, ...]]:
    """The hub's own metadata: for each column of classes, their names."""
    try:
        features = from_json((schema.metadata or {})[b"huggingface"])["info"]["features"]
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
            column.validate(full=True)
            missing = column.is_null().to_numpy()
        if missing.any():
            raise InputError(f"row {missing.argmax()} of {file} has no {columns.label}; fill or remove the row")
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
            rows.validate(full=True)
            column = rows.column(0)
            if in_struct(column.type):
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
def _reading(where: Path, kind: str = "parquet, expected a file of the hub's export; get it again") -> Iterator[None]:
    """Arrow's errors become one that names the file, the kind of file it should be, and the remedy."""
    arrow = need("pyarrow")
    try:
        yield
    except InputError:
        raise
    except (OSError, OverflowError, ValueError, arrow.ArrowException) as error:
        raise InputError(f"{where} cannot be read as {kind}") from error


DICTIONARY_PAGE = 2
# A header holds no more than sizes and the smallest and largest value of its page.
LONGEST_HEADER = 1 << 20
DEEPEST = 8
# Kinds of fields in Thrift's compact protocol.
TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
VARINTS = (4, 5, 6)


@dataclass(frozen=True)
class Pages:
    """Bytes that the pages of a column chunk unpack into: of all, of the largest, and of the dictionary."""

    total: int
    largest: int
    dictionary: int


def read_pages(file: IO[bytes], chunk: Any) -> Pages:
    """The pages of a column chunk (`pyarrow.parquet.ColumnChunkMetaData`); ValueError if they are damaged."""
    place = chunk.data_page_offset
    if chunk.has_dictionary_page and chunk.dictionary_page_offset is not None:
        place = min(place, chunk.dictionary_page_offset)
    end = place + chunk.total_compressed_size
    total = largest = dictionary = 0
    while place < end:
        kind, unpacked, packed, header = _page(file, place)
        total, largest = total + unpacked, max(largest, unpacked)
        if kind == DICTIONARY_PAGE:
            dictionary = max(dictionary, unpacked)
        place += header + packed
    return Pages(total, largest, dictionary)


def _page(file: IO[bytes], place: int) -> tuple[int, int, int, int]:
    """Kind, size unpacked, size on disk and length of the header of the page at `place`."""
    if place < 0:
        raise ValueError("a page before the beginning of the file")
    for length in (1 << 10, LONGEST_HEADER):
        file.seek(place)
        header = _Header(file.read(length))
        try:
            sizes = header.page()
        except IndexError:
            continue
        return *sizes, header.place
    raise ValueError("a page whose header does not end")


class _Header:
    def __init__(self, raw: bytes) -> None:
        self.raw, self.place = raw, 0

    def page(self) -> tuple[int, int, int]:
        numbers: dict[int, int] = {}
        field = 0
        while kind := self.byte():
            field = field + (kind >> 4) if kind >> 4 else self.number()
            if field in (1, 2, 3) and kind & 15 in VARINTS:
                numbers[field] = self.number()
            else:
                self.skip(kind & 15)
        if numbers.keys() != {1, 2, 3} or min(numbers.values()) < 0:
            raise ValueError("a page with a damaged header")
        return numbers[1], numbers[2], numbers[3]

    def byte(self) -> int:
        self.place += 1
        return self.raw[self.place - 1]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
            if shift > 63:
                raise ValueError("a number that does not end")

    def number(self) -> int:
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    def skip(self, kind: int, depth: int = 0) -> None:
        if depth > DEEPEST:
            raise ValueError("a page with a damaged header")
        if kind in VARINTS:
            self.varint()
        elif kind in (BYTE, DOUBLE, BINARY):
            length = 1 if kind == BYTE else 8 if kind == DOUBLE else self.varint()
            self.place += length
        elif kind in (LIST, SET):
            head = self.byte()
            count = head >> 4 if head >> 4 < 15 else self.varint()
            for _ in range(count):
                self.skip(BYTE if head & 15 in (TRUE, FALSE) else head & 15, depth + 1)
        elif kind == STRUCT:
            while inner := self.byte():
                if not inner >> 4:
                    self.varint()
                self.skip(inner & 15, depth + 1)
        elif kind not in (TRUE, FALSE):
            raise ValueError("a page with a damaged header")


_SLICE = 64  # images that one child decodes at a time
_BATCH = 256  # rows of a parquet file that are read at a time
_MOST_BYTES = 1 << 25  # of encoded images that are held at once


GREY = ("L", "1")  # Pillow's modes
Encoded = Callable[[], Iterator[tuple[str, bytes]]]  # name and bytes of each image of a split, in order


@dataclass(frozen=True)
class _Shape:
    """The common shape that every image of the data set is brought to."""

    channels: int
    height: int
    width: int
    fitted: bool  # resized and cropped while decoding


class _OtherShape(Exception):
    """An image does not fit the shape assumed so far; this one fits it too."""

    def __init__(self, shape: _Shape) -> None:
        self.shape = shape


def parquet(
    dir: Location,
    *,
    image: str | None = None,
    label: str | None = None,
    name: str | None = None,
    size: int | None = None,
    budget: int | None = None,
    class_names: Sequence[str] | None = None,
    mean: Scale = None,
    std: Scale = None,
) -> Dataset:
    """A data set as the Hugging Face hub exports it: parquet files of encoded images and labels.

    Images are grey if all are, else RGB.

    Args:
        dir: The folder of the export.
        image: Column of images; by default found by its type.
        label: Column of labels; by default found by its type.
        name: Name of the data set; by default that of the folder.
        size: Side in pixels. Squares that are no larger are kept as they are and enlarged per batch on the device; other
            images are resized and cropped while decoding.
        budget: Bytes of pixels that are kept in memory (by default a quarter of it); more go to a temporary file
            without a name, which disappears with the process.
        class_names: Names of the classes; by default those in the files' metadata.
        mean: Mean of each channel, white being 1; by default that of the training pixels.
        std: Standard deviation of each channel, likewise.
    """
    path = folder(dir)
    side(size)
    train_files, test_files = find_splits(path)
    columns, labels, answers, on_disk = _told(path, partial(_in_parquet, train_files, test_files, image, label))
    names = columns.class_names if class_names is None else tuple(class_names)
    classes = len(names) or int(labels.max()) + 1
    for files, values in ((train_files, labels), (test_files, answers)):
        if values.max() >= classes:
            raise InputError(
                f"{files[0].parent} has the {columns.label} {values.max()} in {files[0].name}, expected 0 to "
                f"{classes - 1} for {classes} classes; correct the labels or class_names="
            )
    check(path, "classes", classes)
    halves = [(len(labels), partial(_located, train_files, columns))]
    halves += [(len(answers), partial(_located, test_files, columns))]
    train, test = _decoded(path, halves, on_disk, size, memory_budget() if budget is None else budget)
    return arrays(
        train, labels, test, answers,
        class_names=names, name=name or path.absolute().name, size=size, mean=mean, std=std,
    )  # fmt: skip


Facts = tuple[Columns, npt.NDArray[np.int64], npt.NDArray[np.int64], int]


def _in_parquet(train: list[Path], test: list[Path], image: str | None, label: str | None) -> Facts:
    columns = choose_columns(train[0], _opened(train[0]).schema_arrow, image, label)
    for file in train + test:
        choose_columns(file, _opened(file).schema_arrow, columns.image, columns.label)
    on_disk = sum(file.stat().st_size for file in train + test)
    return columns, read_labels(train, columns), read_labels(test, columns), on_disk


def _told(where: Path, facts: Callable[[], Facts]) -> Facts:
    """Columns, labels of both splits and bytes on disk, which a child reads: Arrow is asked nowhere else."""

    def work() -> bytes:
        _plain_memory()
        columns, labels, answers, on_disk = facts()
        head = json.dumps([[columns.image, columns.label, columns.class_names], len(labels), on_disk]).encode()
        return head + b"\n" + labels.tobytes() + answers.tobytes()

    need("pyarrow.parquet")  # before the fork, so that it is imported once
    head, _, values = once(work, where, memory=limit("memory"), seconds=10.0 * limit("seconds")).partition(b"\n")
    (image, label, names), count, on_disk = from_json(head)
    labels = np.frombuffer(values, np.int64)
    return Columns(image, label, tuple(names)), labels[:count].copy(), labels[count:].copy(), int(on_disk)


def _plain_memory() -> None:
    """Arrow's own allocators reserve far more than they use, which counts against a child's limit."""
    arrow = need("pyarrow")
    arrow.set_memory_pool(arrow.system_memory_pool())


def _decoded(
    path: Path, halves: Sequence[tuple[int, Encoded]], on_disk: int, size: int | None, budget: int
) -> list[npt.NDArray[np.uint8]]:
    """The images (N, C, H, W) of each split, given by their number and a function that yields them in order."""
    memory, count = image_memory() + 4 * MOST_REPEATED, sum(count for count, _ in halves)
    shape = _Shape(*from_json(once(lambda: _fields(_first_shape(halves[0][1], size)), path, memory=memory)))
    while True:
        # Shapes are known only once decoded, so we assume that all are like the first and start
        # over when one is not: it nearly always shows within the first batch, or never.
        total = count * shape.height * shape.width * shape.channels
        check(f"the images of {path}", "disk", total)
        check_growth(f"the images of {path}", total, on_disk)
        shapes = [(count, shape.height, shape.width, shape.channels) for count, _ in halves]
        stores = [
            shared(each) if total <= budget else room.array(each, np.uint8, "file", "decoded images") for each in shapes
        ]
        clock = Clock(path, on_disk)

        def work(part: int, parts: int, stores: Any = stores, shape: Any = shape, clock: Any = clock) -> bytes:
            try:
                for store, (_, encoded) in zip(stores, halves, strict=True):
                    _fill(store, encoded(), clock, shape, size, part, parts)
            except _OtherShape as found:
                return _fields(found.shape)
            return b""

        answers = in_parts(work, path, count, memory=memory, seconds=clock.most + 10)
        others = [_Shape(*from_json(answer)) for answer in answers if answer]
        if not others:
            return [store.transpose(0, 3, 1, 2) for store in stores]
        fitted = next((other for other in others if other.fitted), others[0])
        shape = replace(fitted, channels=max(other.channels for other in others))


def _fields(shape: _Shape) -> bytes:
    return json.dumps(astuple(shape)).encode()


def _first_shape(encoded: Encoded, size: int | None) -> _Shape:
    where, data = next(encoded())
    first = decode(data, where)
    width, height = first.size
    channels = 1 if first.mode in GREY else 3
    if size is not None and (width != height or width > size):
        return _Shape(channels, size, size, fitted=True)
    return _Shape(channels, height, width, fitted=False)


def _fill(
    store: npt.NDArray[np.uint8],
    encoded: Iterator[tuple[str, bytes]],
    clock: Clock,
    shape: _Shape,
    size: int | None,
    part: int,
    parts: int,
) -> None:
    """Decode the images of one part of all slices into their rows of `store`."""
    row = 0
    for number, images in enumerate(_batched(encoded, _SLICE)):
        for i, (where, data) in enumerate(images if number % parts == part else ()):
            image = decode(data, where)
            _check_shape(image, where, shape, size)
            store[row + i] = pixels(image, shape.channels, size if shape.fitted else None)
        clock.check()
        row += len(images)


def _check_shape(image: Any, where: str, shape: _Shape, size: int | None) -> None:
    fits = shape
    if image.mode not in GREY and shape.channels == 1:
        fits = replace(fits, channels=3)
    if not shape.fitted and image.size != (shape.width, shape.height):
        if size is None:
            raise InputError(
                f"{where} is {image.size[0]} x {image.size[1]} pixels but the first image is "
                f"{shape.width} x {shape.height}; give the size that the model was trained on, such as --size 224 "
                "(in Python, size=)"
            )
        fits = replace(fits, height=size, width=size, fitted=True)
    if fits != shape:
        raise _OtherShape(fits)


def _located(files: list[Path], columns: Columns) -> Iterator[tuple[str, bytes]]:
    for file in files:
        for row, data in enumerate(read_images(file, columns, _BATCH)):
            where = f"row {row} of {file}"
            if data is None:
                raise InputError(f"{where} has no image bytes, expected an encoded image; fill or remove the row")
            yield where, data


def _batched(items: Iterator[tuple[str, bytes]], n: int) -> Iterator[list[tuple[str, bytes]]]:
    batch = []
    size = 0
    for item in items:
        batch.append(item)
        size += len(item[1])
        if len(batch) == n or size > _MOST_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


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

    Images must be stored as bytes. Class names are found in the files' metadata.

    Args:
        dir: The folder that `save_to_disk` wrote.
        image: Column of images; by default found by its type.
        label: Column of labels; by default found by its type.
        name: Name of the data set; by default that of the folder.
        size: Side in pixels, as for `parquet`; needed if images have several sizes.
        mean: Mean of each channel, white being 1; by default that of the training pixels.
        std: Standard deviation of each channel, likewise.
    """
    path = folder(dir)
    side(size)
    test = next((path / half for half in TEST_NAMES if (path / half / "state.json").exists()), None)
    if not (path / "train" / "state.json").exists() or test is None:
        raise InputError(
            f"{path} has no train and test (or validation) as save_to_disk writes them; save a DatasetDict with both"
        )
    columns, labels, answers, on_disk = _told(path, partial(_in_arrow, path, test, image, label))
    encoded = [(len(labels), partial(_encoded, path / "train", columns.image, f"{path.name}/train"))]
    encoded += [(len(answers), partial(_encoded, test, columns.image, f"{path.name}/test"))]
    train, test_images = _decoded(path, encoded, on_disk, size, memory_budget())
    return arrays(
        train, labels, test_images, answers,
        mean=mean, std=std, class_names=columns.class_names, name=name or path.absolute().name, size=size,
    )  # fmt: skip


def _in_arrow(path: Path, test: Path, image: str | None, label: str | None) -> Facts:
    tables = {"train": _table(path / "train"), "test": _table(test)}
    columns = choose_columns(path, tables["train"].schema, image, label)
    choose_columns(test, tables["test"].schema, columns.image, columns.label)
    labels = [_labels(table, columns.label, f"{path.name}/{half}") for half, table in tables.items()]
    return columns, labels[0], labels[1], sum(table.nbytes for table in tables.values())


def _table(half: Path) -> Any:
    """The rows of a split, mapped from its Arrow files and not read."""
    arrow = need("pyarrow")
    try:
        state = from_json(read_bytes(half / "state.json", "the state of a saved data set"))
        names = [str(one["filename"]) for one in state["_data_files"]]
        chosen = state.get("_indices_files") or state.get("_indices_data_files")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{half / 'state.json'} is damaged; save the data set again") from error
    if chosen:
        raise InputError(f"{half} holds a selection of rows; call flatten_indices() before save_to_disk")
    parts = []
    with _reading(half, "Arrow files; save the data set again"):
        for name in names:
            file = half / Path(name).name  # never a place elsewhere
            regular_file(file, "an Arrow file")
            parts.append(need("pyarrow.ipc").open_stream(arrow.memory_map(str(file))).read_all())
        table = arrow.concat_tables(parts)
        table.validate(full=True)  # offsets may lead out of the file
    check(half, "rows", table.num_rows)
    return table


def _labels(table: Any, column: str, where: str) -> np.ndarray:
    values = table.column(column)
    if values.null_count or not len(values):
        raise InputError(f"{where} has rows without {column}; fill or remove them")
    labels = values.to_numpy().astype(np.int64)
    if labels.min() < 0:
        raise InputError(f"{where} has {column} {labels.min()}, which marks images without label; remove them")
    return labels


def _encoded(half: Path, column: str, where: str) -> Iterator[tuple[str, bytes]]:
    values = _table(half).column(column)
    if in_struct(values.type):
        values = need("pyarrow").chunked_array([chunk.field("bytes") for chunk in values.chunks])
    for i, value in enumerate(values):
        data = value.as_py()
        if not data:
            raise InputError(f"row {i} of {where} has no image bytes; embed the images before save_to_disk")
        yield f"row {i} of {where}", bytes(data)
