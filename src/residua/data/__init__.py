"""Data sets: one file for each source, all ending in a `Dataset`."""

from __future__ import annotations

from residua.data.cifar import cifar10, cifar100
from residua.data.fashion import fashion_sample
from residua.data.fetching import fetch
from residua.data.from_arrays import arrays
from residua.data.from_arrow import hf_datasets
from residua.data.from_folder import image_folder
from residua.data.from_list import csv
from residua.data.from_npz import npz
from residua.data.from_parquet import parquet
from residua.data.idx import fashion_mnist, mnist
from residua.data.preprocessing import Preprocessing, prepare
from residua.data.words import open_dataset

__all__ = [
    "fashion_sample",
    "fashion_mnist",
    "mnist",
    "cifar10",
    "cifar100",
    "parquet",
    "image_folder",
    "hf_datasets",
    "npz",
    "csv",
    "arrays",
    "Preprocessing",
    "prepare",
    "open_dataset",
    "fetch",
]
