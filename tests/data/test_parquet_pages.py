"""The sizes of parquet pages, by their own headers."""

from __future__ import annotations

import io
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from residua.data.hub import read_pages

TABLE = pa.table(
    {
        "image": pa.array(
            [{"bytes": bytes([i % 250]) * 900, "path": f"{i}.png"} for i in range(300)],
            pa.struct([("bytes", pa.binary()), ("path", pa.string())]),
        ),
        "label": pa.array([i % 7 for i in range(300)]),
    }
)


def written(**how: object) -> bytes:
    out = io.BytesIO()
    pq.write_table(TABLE, out, row_group_size=120, data_page_size=4000, **how)
    return out.getvalue()


@pytest.mark.parametrize("how", [{}, {"compression": "zstd"}, {"compression": "none"}, {"use_dictionary": False}])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_all_pages_are_found(how, version):
    """The table of contents counts the headers too, which are short."""
    raw = written(data_page_version=version, **how)
    contents = pq.ParquetFile(io.BytesIO(raw)).metadata
    for group in range(contents.num_row_groups):
        for column in range(contents.num_columns):
            chunk = contents.row_group(group).column(column)
            pages = read_pages(io.BytesIO(raw), chunk)
            assert 0 < pages.largest <= pages.total < chunk.total_uncompressed_size < pages.total + 12_000
            assert (pages.dictionary > 0) == chunk.has_dictionary_page
            assert pages.dictionary <= pages.largest


def test_damaged_headers_are_value_errors():
    raw = bytearray(written())
    chunk = pq.ParquetFile(io.BytesIO(raw)).metadata.row_group(0).column(0)
    random, refused = Random(0), 0
    for _ in range(300):
        damaged = bytearray(raw)
        for _ in range(3):
            damaged[random.randrange(4, 60)] = random.randrange(256)
        try:
            read_pages(io.BytesIO(damaged), chunk)
        except ValueError:
            refused += 1
    assert refused > 100
