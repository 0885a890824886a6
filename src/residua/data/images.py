"""Image files: examined by their headers before any is decoded, decoded to pixels, small ones read into memory."""

from __future__ import annotations

import io
import json
import logging
import math
import re
import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from residua.confined import beginning, image_memory, in_parts, once, shared
from residua.data.checks import content, need
from residua.errors import InputError
from residua.files import open_regular
from residua.limits import Clock, check, check_unpacked, limit
from residua.text import from_json

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


Window = Sequence[float]  # area, shape, left, top and mirroring, each from 0 to 1
# Fractions of an image's area, and ratios of width to height, of windows: those of ImageNet's usual training.
LEAST_AREA, RATIO = 0.08, 4 / 3


def box_of(window: Window, width: int, height: int) -> tuple[float, float, float, float]:
    """The part of an image that a window shows: a fraction of its area in a random shape, at a random place."""
    area = (LEAST_AREA + (1 - LEAST_AREA) * window[0]) * width * height
    ratio = RATIO ** (2 * window[1] - 1)
    w, h = min(math.sqrt(area * ratio), width), min(math.sqrt(area / ratio), height)
    left, top = (width - w) * window[2], (height - h) * window[3]
    return left, top, left + w, top + h


def decode(data: bytes, where: str, drafted: tuple[int, Window] | None = None) -> Any:
    """The image in `data`, decoded by Pillow, in its own mode; errors name `where`.

    For a training that takes `size` x `size` pixels of a window (`drafted`), a JPEG is decoded at the smallest size, a
    half, quarter or eighth, of which the window still has that many.
    """
    pillow = need("PIL.Image")
    beginning(where)
    try:
        image = _opened(pillow, data, where)
        check(where, "pixels", image.width * image.height)
        check_unpacked(where, image.width * image.height * len(image.getbands()), len(data))
        mode = own_mode(image)
        if drafted is not None and image.format == "JPEG":
            left, top, right, bottom = box_of(drafted[1], *image.size)
            scale = min(1.0, max(drafted[0] / (right - left), drafted[0] / (bottom - top)))
            image.draft(image.mode, (math.ceil(image.width * scale), math.ceil(image.height * scale)))
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


def pixels(image: Any, channels: int, size: int | None = None, window: Window | None = None) -> npt.NDArray[np.uint8]:
    """The image as (H, W, channels), with `size` as (size, size, channels).

    For that its shorter side becomes `size` and the middle is kept, in one resampling; a `window` shows another part of
    it (`box_of`), and where its last number is below a half, mirrored.
    """
    mode = "L" if channels == 1 else "RGB"
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    if image.mode != mode:
        image = image.convert(mode)
    if size is not None and window is not None:
        resampling = need("PIL.Image").Resampling.BILINEAR
        image = image.resize((size, size), resampling, box=box_of(window, *image.size))
        array = np.asarray(image).reshape(size, size, channels)
        return array[:, ::-1] if window[4] < 0.5 else array
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
    need("PIL.Image")
    work = partial(_examined, paths, size)
    fields = from_json(once(work, paths[0], memory=image_memory(), seconds=Clock(paths[0], 0).most * 10))
    return None if fields is None else Look(*fields)


def _examined(paths: Sequence[Path], size: int | None) -> bytes:
    """The fields of `Look`, or null."""
    pillow = need("PIL.Image")
    step = max(1, len(paths) // HEADERS)
    first: tuple[Path, tuple[int, int]] | None = None
    channels, uniform = 1, size is None or step == 1
    for path in paths[::step]:
        beginning(str(path))
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
    return json.dumps(None if first is None else [first[1][1], first[1][0], channels, uniform]).encode()


def files_in_memory(paths: Sequence[Path], look: Look, where: object) -> npt.NDArray[np.uint8]:
    """All images (N, C, H, W) of these files, decoded."""
    check(where, "memory", len(paths) * look.height * look.width * look.channels)
    images = shared((len(paths), look.height, look.width, look.channels))

    rows: dict[Path, list[int]] = {}  # a list may name one file many times
    for row, path in enumerate(paths):
        rows.setdefault(path, []).append(row)
    files = list(rows)

    def fill(path: Path) -> None:
        image = decode(content(path), str(path))
        if image.size != (look.width, look.height):
            raise InputError(
                f"{path} has {image.size[0]} x {image.size[1]} pixels but the others have {look.width} x "
                f"{look.height}; give the size that the model was trained on, such as --size 32 (in Python, size=)"
            )
        if look.channels == 1 and image.mode not in ("L", "1"):
            raise InputError(f"{path} is a colour image among grey ones; bring all to one kind")
        images[rows[path]] = pixels(image, look.channels)

    def work(part: int, parts: int) -> bytes:
        for path in files[part::parts]:
            fill(path)
        return b""

    slowest = limit("seconds") + len(files)  # a second each
    list(in_parts(work, where, len(files), memory=image_memory(), seconds=slowest))
    return images.transpose(0, 3, 1, 2)
