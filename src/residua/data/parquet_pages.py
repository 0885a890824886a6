"""What the pages of a parquet column unpack into, read from their own headers.

Arrow makes room for a page as its header asks, whatever the file's table of contents says. So the headers are read
first: each is a Thrift structure in the compact protocol, of which the first three fields are the kind of page, its
size unpacked and its size on disk; the next page begins where this one ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, Any

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
