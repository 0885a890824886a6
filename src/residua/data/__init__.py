"""Data sets: one file for each source, all ending in a `Dataset`."""

from __future__ import annotations

from residua.data.cifar import cifar10, cifar100
from residua.data.fetching import fetch
from residua.data.from_arrays import arrays, fashion_sample, npz
from residua.data.from_files import csv, image_folder
from residua.data.hub import hf_datasets, parquet
from residua.data.idx import fashion_mnist, mnist
from residua.data.parsing import open_dataset
from residua.data.preprocessing import Preprocessing, prepare

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
