"""The real packages. Their absence skips; `make test` installs them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch

_libraries = []


@pytest.fixture(scope="session")
def torchvision():
    """torchvision, whose wheel may expect a CUDA build of PyTorch: then two of its operators, which no
    network here uses, are declared in its place, or it could not be imported."""
    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.origin is None:
        pytest.skip("torchvision is not installed")
    try:
        torch.ops.load_library(Path(spec.origin).parent / "_C.so")
    except OSError:
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _libraries.append(library)  # its operators go when it goes
    return pytest.importorskip("torchvision")


@pytest.fixture(scope="session")
def timm(torchvision):
    return pytest.importorskip("timm")


@pytest.fixture(scope="session")
def transformers(torchvision):
    return pytest.importorskip("transformers")
