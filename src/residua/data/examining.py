"""What image files are, found in their headers before any of them is decoded; small ones are then read into memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from residua.data.checks import content, need
from residua.data.decoding import FORMATS, cores, decode, deep, own_mode, pixels
from residua.errors import InputError
from residua.files import open_regular
from residua.limits import check

SMALL = 64  # pixels of a side up to which images are read into memory
HEADERS = 2_000  # files whose headers are looked at, evenly spaced


@dataclass(frozen=True)
class Look:
    """Size and channels that all images have, as far as their headers were read."""

    height: int
    width: int
    channels: int
    uniform: bool = True

    def in_memory(self, size: int | None) -> bool:
        """Whether all images are read at once, as they are: small ones of one size, and squares that need no shrinking."""
        small = self.uniform and max(self.height, self.width) <= SMALL
        return small and (size is None or self.height == self.width <= size)


def examine(paths: Sequence[Path], size: int | None) -> Look | None:
    """What the images are, the size being that of the first; None where no header can be read.

    16-bit and floating-point images are refused here, and so are images of several sizes without a `size`.
    """
    pillow = need("PIL.Image")
    step = max(1, len(paths) // HEADERS)
    first: tuple[Path, tuple[int, int]] | None = None
    channels, uniform = 1, size is None or step == 1
    for path in paths[::step]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with open_regular(path) as raw, pillow.open(raw, formats=FORMATS) as image:
                    mode, found = own_mode(image), image.size
        except Exception:  # whoever decodes it says why
            continue
        if refusal := deep(mode, path):
            raise refusal
        channels = channels if mode in ("L", "1") else 3
        first = first or (path, found)
        uniform = uniform and found == first[1]
        if size is None and found != first[1]:
            raise InputError(
                f"{path} has {found[0]} x {found[1]} pixels but {first[0]} has {first[1][0]} x {first[1][1]}; give the "
                "size that the model was trained on, such as --size 224 (in Python, size=)"
            )
    if first is None:
        return None
    return Look(first[1][1], first[1][0], channels, uniform)


class OtherSize(InputError):
    """An image has another size than those before it, and none was given to bring all to."""


def in_memory(
    count: int,
    get: Callable[[int], tuple[str, bytes]],
    look: Look,
    where: object,
    size: int | None = None,
) -> npt.NDArray[np.uint8]:
    """All images (N, C, H, W), decoded and, with `size`, brought to it; `get` gives the name and the bytes of each."""
    height, width = (size, size) if size is not None else (look.height, look.width)
    check(where, "memory", count * height * width * look.channels)
    images = np.empty((count, height, width, look.channels), np.uint8)

    def fill(i: int) -> None:
        name, data = get(i)
        image = decode(data, name)
        if size is None and image.size != (width, height):
            raise OtherSize(
                f"{name} has {image.size[0]} x {image.size[1]} pixels but the others have {look.width} x {look.height}; "
                "give the size that the model was trained on, such as --size 32 (in Python, size=)"
            )
        if look.channels == 1 and image.mode not in ("L", "1"):
            raise InputError(f"{name} is a colour image among grey ones; bring all to one kind")
        images[i] = pixels(image, look.channels, size)

    with ThreadPoolExecutor(cores()) as pool:
        list(pool.map(fill, range(count), chunksize=64))
    return images.transpose(0, 3, 1, 2)


def files_in_memory(paths: Sequence[Path], look: Look, where: object) -> npt.NDArray[np.uint8]:
    """These image files, decoded."""
    return in_memory(len(paths), lambda i: (str(paths[i]), content(paths[i])), look, where)
