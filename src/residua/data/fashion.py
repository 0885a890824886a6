"""fashion_sample: the data set that comes with the package."""

from __future__ import annotations

import io
from importlib import resources

import numpy as np

from residua.data.from_arrays import Scale, arrays
from residua.data.idx import FASHION_CLASSES
from residua.data.task import Dataset


def fashion_sample(*, size: int | None = None, mean: Scale = None, std: Scale = None) -> Dataset:
    """6,000 training and 1,000 test images of Fashion-MNIST, 600 and 100 of each class.

    No image occurs twice, so nothing that is forgotten is also retained or asked about. Made by
    `embedded/make_fashion_sample.py`; Fashion-MNIST is Zalando SE's, under the MIT licence kept
    next to it.
    """
    packed = resources.files("residua.data.embedded").joinpath("fashion_sample.npz").read_bytes()
    with np.load(io.BytesIO(packed), allow_pickle=False) as file:
        train, labels, test, answers = (
            file[key] for key in ("train_images", "train_labels", "test_images", "test_labels")
        )
    return arrays(
        train[:, None], labels, test[:, None], answers,
        class_names=FASHION_CLASSES, name="fashion-sample", size=size, mean=mean, std=std,
    )  # fmt: skip
