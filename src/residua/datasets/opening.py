"""open_dataset: a data set by its name and folder, as one types it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from residua.datasets.checks import folder, side, unknown
from residua.datasets.cifar import cifar10, cifar100
from residua.datasets.fashion import fashion_sample
from residua.datasets.idx import fashion_mnist, mnist
from residua.datasets.image_folder import image_folder
from residua.datasets.parquet import parquet
from residua.errors import InputError
from residua.task import Dataset

EMBEDDED: dict[str, Callable[..., Dataset]] = {
    "fashion-sample": fashion_sample,
}
ON_DISK: dict[str, Callable[..., Dataset]] = {
    "fashion-mnist": fashion_mnist,
    "mnist": mnist,
    "cifar10": cifar10,
    "cifar100": cifar100,
    "parquet": parquet,
    "image-folder": image_folder,
}


def open_dataset(spec: str, *, size: int | None = None) -> Dataset:
    """The data set that NAME or NAME:DIR stands for; `size` overrides the loader's own."""
    # Only the first colon separates: DIR may begin with a drive letter.
    name, _, dir = spec.partition(":")
    options = {} if size is None else {"size": side(size)}
    if name in EMBEDDED:
        if dir:
            raise InputError(f"{spec} names a folder but {name} comes with the package; write {name} alone")
        return EMBEDDED[name](**options)
    if name not in ON_DISK:
        raise unknown("data set", name, [*EMBEDDED, *ON_DISK])
    if not dir:
        raise InputError(f"{spec} names no folder, expected {name}:DIR; add the folder that holds the data")
    try:
        place = Path(dir).expanduser()
    except RuntimeError as error:
        raise InputError(f"{dir} names the home of nobody here; write the folder out") from error
    return ON_DISK[name](folder(place), **options)
