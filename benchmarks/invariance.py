"""Does the estimator read the same of a model whose blocks are written down in other coordinates?

    python benchmarks/invariance.py --original o.safetensors --reference r.safetensors --data parquet:DIR --forget class:4 --out DIR

The blocks of Original that are measured are rescaled, their channels are mixed, or the last one is rotated; the next block
or the head undoes it. Each such model is measured as an audit measures. Records and table.md go to --out. Exit code 0:
every block within 0.01 nats of Original's and IDI within 0.05 of 1; 1: one is not.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from rewriting import mixing, rewritten

import residua as rs
from residua.data.parsing import open_dataset, parse_forget
from residua.files import write_atomically
from residua.measure.measuring import measured
from residua.readings import Curve
from residua.record import Record
from residua.text import slug

NATS, SHARE = 0.01, 0.05
CONDITION = 1e4


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("original", "reference", "data", "forget", "out"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--ratio", default="all", help="retain samples to keep, as for `residua measure --metrics IDI`")
    parser.add_argument("--scale", default="custom", help="the scale that the records name")
    options = parser.parse_args()
    task = parse_forget(open_dataset(options.data), options.forget)
    original, reference = rs.load(options.original), rs.load(options.reference)
    out = Path(options.out)
    records = {}
    for label, model in (("Original", original), ("Reference", reference), *others(original)):
        records[label] = measured(
            model,
            task,
            (rs.measure.InformationCurve(ratio=options.ratio),),
            name=slug(label),
            method={"label": label},
            setting={"scale": options.scale, "task": task.manifest()},
            command=shlex.join(["python", *sys.argv]),
        )
        print(label, {b: round(v, 4) for b, v in curve(records[label]).information.items()}, flush=True)
        records[label].write(out)
    text, held = table(records)
    write_atomically(out / "table.md", lambda part: part.write_text(text, "utf-8"))
    print(text)
    return 0 if held else 1


def others(original: rs.Classifier) -> Iterator[tuple[str, rs.Classifier]]:
    """Original in other coordinates."""
    depth, width = original.depth, original.head.in_features
    eye = torch.eye(width // 2, dtype=torch.float64)
    yield f"block {depth - 1} x 0.001", rewritten(original, depth - 1, 1e-3 * eye)
    yield f"block {depth - 1} x 1000", rewritten(original, depth - 1, 1e3 * eye)
    yield f"block {depth - 1} mixed", rewritten(original, depth - 1, mixing(width // 2, CONDITION, 1))
    yield f"block {depth} mixed", rewritten(original, depth, mixing(width, CONDITION, 2))
    yield f"block {depth} rotated", rewritten(original, depth, mixing(width, 1.0, 3))


def curve(record: Record) -> Curve:
    read = record.read_with("information")
    assert isinstance(read, Curve)
    return read


def table(records: dict[str, Record]) -> tuple[str, bool]:
    first, zero = curve(records["Original"]), curve(records["Reference"])
    blocks = list(first.information)
    head = ["model", *(f"I block {b}" for b in blocks), "IDI"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    held = True
    for label, record in records.items():
        read = curve(record)
        index = rs.compare.idi(read, original=first, reference=zero)
        if label != "Reference":
            near = all(abs(read.information[b] - first.information[b]) <= NATS for b in blocks)
            held &= near and abs(index.value - 1) <= SHARE
        cells = [label, *(f"{read.information[b]:.4f}" for b in blocks), f"{index.value:.3f}"]
        lines.append("| " + " | ".join(cells) + " |")
    lines.append("")
    lines.append(f"Bars (blocks within {NATS} nats, IDI within {SHARE}): {'met' if held else 'missed'}.")
    return "\n".join(lines) + "\n", held


if __name__ == "__main__":
    sys.exit(main())
