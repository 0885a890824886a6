"""Image files: examined by their headers before any is decoded, decoded to pixels, small ones read into memory."""

from __future__ import annotations

import io
import logging
import re
import threading
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from residua.data.checks import content, need
from residua.errors import InputError
from residua.files import open_regular
from residua.limits import check, check_unpacked, limit
from residua.parallel import cores

logging.getLogger("PIL").addHandler(logging.NullHandler())  # Pillow prints some errors that it also raises
_ONE_AT_A_TIME = threading.Lock()  # filters of warnings are the whole process's
# Any other is refused by its content, whatever the name: for some, Pillow starts other programs.
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "PPM", "TIFF", "GIF")

DEEP = {"I": "32-bit", "F": "floating-point", "I;16": "16-bit", "I;16B": "16-bit", "I;16L": "16-bit"}
# How Pillow's decoders call 16-bit channels; `BGR;16` has 16 bits for all three, and is not among them.
WIDE = re.compile(r"(L|LA|La|I|RGB|RGBA|RGBa|RGBX+|CMYKX*);16")


def own_mode(image: Any) -> str:
    """The mode of an image that is open and not yet loaded, or its decoder's, where that has more than 8 bits per channel.

    Pillow's own mode does not show it: it reads 16-bit colour as 8-bit, and drops the rest without a word.
    """
    for tile in getattr(image, "tile", ()):
        arguments = tile[3] if isinstance(tile[3], tuple) else (tile[3],)
        raw = str(arguments[0]) if arguments else ""
        scaled = tile[0].startswith("ppm") and isinstance(arguments[-1], int) and arguments[-1] > 255
        if WIDE.match(raw) or scaled:
            return raw if ";" in raw else f"{raw};16"
    return str(image.mode)


def deep(mode: str, where: object) -> InputError | None:
    """The refusal of images with more than 8 bits per channel, if this mode is one."""
    if mode not in DEEP and ";" not in mode:
        return None
    return InputError(
        f"{where} is a {DEEP.get(mode, '16-bit' if ';16' in mode else mode)} image (mode {mode}), expected 8 bits per channel; write 8-bit copies as the "
        "model's own loader makes them (keep the originals), or audit saved features"
    )


def decode(data: bytes, where: str) -> Any:
    """The image in `data`, decoded by Pillow, in its own mode; errors name `where`."""
    pillow = need("PIL.Image")
    try:
        image = _opened(pillow, data, where)
        check(where, "pixels", image.width * image.height)
        check_unpacked(where, image.width * image.height * len(image.getbands()), len(data))
        mode = own_mode(image)
        image.load()
    except InputError:
        raise
    except Exception as error:  # Pillow raises whatever the format's own parser stumbled over
        raise InputError(f"{where} cannot be decoded as an image; replace or remove it") from error
    for each in (mode, image.mode):  # Pillow would cut such values off at 255 without a word
        if refusal := deep(each, where):
            raise refusal
    return image


def _opened(pillow: Any, data: bytes, where: str) -> Any:
    """The image whose header has been read. Pillow's own limit of pixels gives way to ours, with our sentence."""
    with _ONE_AT_A_TIME, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about damage: what can be decoded is, and the rest is refused
        warnings.simplefilter("error", pillow.DecompressionBombWarning)
        pillow.MAX_IMAGE_PIXELS = max(pillow.MAX_IMAGE_PIXELS or 0, limit("pixels"))
        try:
            return pillow.open(io.BytesIO(data), formats=FORMATS)
        except (pillow.DecompressionBombWarning, pillow.DecompressionBombError) as error:
            size = re.search(r"\d+", str(error))
            check(where, "pixels", int(size[0]) if size else 1 << 60)
            raise


def pixels(image: Any, channels: int, size: int | None = None) -> npt.NDArray[np.uint8]:
    """The image as (H, W, channels), with `size` as (size, size, channels).

    For that its shorter side becomes `size` and the middle is kept, in one resampling.
    """
    mode = "L" if channels == 1 else "RGB"
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    if image.mode != mode:
        image = image.convert(mode)
    if size is not None and image.size != (size, size):
        width, height = image.size
        side = min(width, height)
        left, top = (width - side) / 2, (height - side) / 2
        bilinear = need("PIL.Image").Resampling.BILINEAR
        image = image.resize((size, size), bilinear, box=(left, top, left + side, top + side))
    return np.asarray(image).reshape(image.size[1], image.size[0], channels)


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
        """True if all images are read at once, as they are: small ones of one size, and squares that need no shrinking."""
        small = self.uniform and max(self.height, self.width) <= SMALL
        return small and (size is None or self.height == self.width <= size)


def examine(paths: Sequence[Path], size: int | None) -> Look | None:
    """Size (of the first) and channels of the images; None if no header can be read.

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
        except Exception:  # decoding it will say why
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


def files_in_memory(paths: Sequence[Path], look: Look, where: object) -> npt.NDArray[np.uint8]:
    """All images (N, C, H, W) of these files, decoded."""
    check(where, "memory", len(paths) * look.height * look.width * look.channels)
    images = np.empty((len(paths), look.height, look.width, look.channels), np.uint8)

    def fill(i: int) -> None:
        image = decode(content(paths[i]), str(paths[i]))
        if image.size != (look.width, look.height):
            raise InputError(
                f"{paths[i]} has {image.size[0]} x {image.size[1]} pixels but the others have {look.width} x "
                f"{look.height}; give the size that the model was trained on, such as --size 32 (in Python, size=)"
            )
        if look.channels == 1 and image.mode not in ("L", "1"):
            raise InputError(f"{paths[i]} is a colour image among grey ones; bring all to one kind")
        images[i] = pixels(image, look.channels)

    with ThreadPoolExecutor(cores()) as pool:
        list(pool.map(fill, range(len(paths)), chunksize=64))
    return images.transpose(0, 3, 1, 2)
