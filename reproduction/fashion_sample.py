"""Makes the fashion_sample.npz that comes with the package: python -m reproduction.fashion_sample IDX_DIR

IDX_DIR holds the four IDX files of Fashion-MNIST; Debian's package `dataset-fashion-mnist` is one
source of them. The same files give the same arrays, always.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

import residua.data
from residua.data.checks import folder
from residua.data.idx import read_pair

SEED = 0
TRAIN_PER_CLASS, TEST_PER_CLASS = 600, 100


def draw(
    images: npt.NDArray[np.uint8],
    labels: npt.NDArray[np.uint8],
    per_class: int,
    random: np.random.RandomState,
    seen: set[bytes],
) -> npt.NDArray[np.intp]:
    """Positions of `per_class` images of each class, none equal to another or to one in `seen`."""
    left = [per_class] * 10
    chosen = []
    for i in random.permutation(len(images)).tolist():
        pixels = images[i].tobytes()
        if left[labels[i]] and pixels not in seen:
            seen.add(pixels)
            left[labels[i]] -= 1
            chosen.append(i)
    return np.sort(np.array(chosen))


def main(dir: Path, out: Path) -> None:
    # NumPy promises never to change this generator's numbers; those of its newer ones may change.
    random = np.random.RandomState(SEED)
    seen: set[bytes] = set()
    sample = {}
    for half, stem, per_class in (("train", "train", TRAIN_PER_CLASS), ("test", "t10k", TEST_PER_CLASS)):
        images, labels = read_pair(dir, stem)
        chosen = draw(images, labels, per_class, random, seen)
        sample[f"{half}_images"], sample[f"{half}_labels"] = images[chosen], labels[chosen]
    np.savez_compressed(out, **sample)  # type: ignore[arg-type, unused-ignore]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("give one argument: the folder that holds Fashion-MNIST's IDX files")
    main(folder(sys.argv[1]), Path(residua.data.__file__).with_name("embedded") / "fashion_sample.npz")
