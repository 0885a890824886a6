"""From an encoded image to pixels: shared by parquet and image_folder."""

from __future__ import annotations

import io
import os
from typing import Any

import numpy as np
import numpy.typing as npt

from residua.datasets.checks import need
from residua.errors import InputError


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def decode(data: bytes, where: str) -> Any:
    """The image in `data`, decoded by Pillow, in its own mode; errors name `where`."""
    pillow = need("PIL.Image")
    try:
        image = pillow.open(io.BytesIO(data))
        image.load()
    except Exception as error:  # Pillow raises whatever the format's own parser stumbled over
        raise InputError(f"{where} cannot be decoded as an image; replace or remove it") from error
    if image.mode in ("I", "F") or ";" in image.mode:
        # Pillow would cut such values off at 255 without a word.
        raise InputError(
            f"{where} has pixels of mode {image.mode}, expected 8 bits a channel; convert it to 8 bits"
        )
    return image


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
