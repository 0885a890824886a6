"""Data sets: one file for each source, all ending in a `Dataset`."""

from __future__ import annotations

from residua.datasets.arrays import arrays
from residua.datasets.cifar import cifar10, cifar100
from residua.datasets.fashion import fashion_sample
from residua.datasets.fetch import fetch
from residua.datasets.idx import fashion_mnist, mnist
from residua.datasets.image_folder import image_folder
from residua.datasets.opening import open_dataset
from residua.datasets.parquet import parquet

__all__ = [
    "fashion_sample",
    "fashion_mnist",
    "mnist",
    "cifar10",
    "cifar100",
    "parquet",
    "image_folder",
    "arrays",
    "open_dataset",
    "fetch",
]
