"""From an encoded image to pixels: shared by parquet and image_folder."""

from __future__ import annotations

import io
import os
import re
import threading
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from residua.data.checks import need
from residua.errors import InputError
from residua.limits import check, check_unpacked, limit

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


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
