"""Image files: the start of a second command on the same folder, and batches against the decoder alone.

A folder of small JPEGs is written to a temporary place. `residua data manifest` runs twice on it, the second time with
digests that the first one kept. Then the images are decoded by threads alone, and as augmented batches of a training; they
take turns, and the ratio is the median. All times are processor time, so that what others do on the machine hardly
counts. Exits with 1 if the second command takes 5 s or more, or batches reach less than 80 % of the decoder's rate.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from PIL import Image

import residua as rs
from residua.data.checks import content
from residua.data.images import decode, pixels
from residua.parallel import cores

SECONDS, WANTED = 5.0, 0.8
SIDE, SIZE, CLASSES = 128, 96, 10


def write(folder: Path, n: int) -> None:
    random = np.random.default_rng(0)
    kinds = []
    for _ in range(50):  # smooth images, as photographs are, not noise
        coarse = Image.fromarray(random.integers(0, 256, (8, 8, 3), dtype=np.uint8))
        place = io.BytesIO()
        coarse.resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(place, "JPEG", quality=90)
        kinds.append(place.getvalue())
    for i in range(n):
        half = "test" if i % 10 == 0 else "train"
        place = folder / half / f"{i // 10 % CLASSES}" / f"{i}.jpg"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(kinds[i % len(kinds)] + i.to_bytes(4, "big"))  # behind the image: files differ


def command(folder: Path) -> float:
    task = ["--data", f"image-folder:{folder}?size={SIZE}", "--forget", "class:3"]
    words = [sys.executable, "-m", "residua", "data", "manifest", *task]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def spent() -> float:
    """Processor time of this process and of its children that have ended: batches are decoded in children."""
    return sum(os.times()[:4])


def alone(paths: list[Path], windows: list[list[float]]) -> float:
    def one(i: int) -> None:
        pixels(decode(content(paths[i]), "x", (SIZE, windows[i])), 3, SIZE, windows[i])

    start = spent()
    with ThreadPoolExecutor(cores()) as pool:
        list(pool.map(one, range(len(paths)), chunksize=64))
    return len(paths) / (spent() - start)


def batches(split: rs.Split) -> float:
    start = spent()
    n = sum(len(x) for x, _ in split.batches(128, shuffle=True, augment=rs.Augmentation(4, True)))
    return n / (spent() - start)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write(folder, asked.images)
        first, second = command(folder), command(folder)
        split = rs.data.image_folder(folder, size=SIZE).train
        split = split.subset(torch.arange(min(6000, len(split))))
        paths = [split.images.paths[i] for i in split.index.tolist()]
        windows = rs.Augmentation(4, True).windows(len(paths)).tolist()
        rates = [(alone(paths, windows), batches(split)) for _ in range(asked.rounds)]
    ratio = statistics.median(ours / decoder for decoder, ours in rates)
    print(json.dumps({
        "images": asked.images, "first command, s": round(first, 1), "second command, s": round(second, 1),
        "decoder, images a processor second": round(statistics.median(r[0] for r in rates)),
        "batches, images a processor second": round(statistics.median(r[1] for r in rates)), "ratio": round(ratio, 2),
    }))  # fmt: skip
    return int(second >= SECONDS or ratio < WANTED)


if __name__ == "__main__":
    sys.exit(main())
