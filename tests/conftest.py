"""Small data and models that every room's tests share."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

import residua as rs
from residua.measure import InformationCurve, Recovery
from residua.measure import _outputs as outputs
from residua.measure.information import critics
from residua.report import pages
from residua.study import executors, presets

torch.set_num_threads(min(2, torch.get_num_threads()))


@pytest.fixture(autouse=True)
def _few_steps_of_the_perceptron(request, monkeypatch) -> None:
    """One critic of many takes most of the time on data this small. Tests of the estimator have it whole, and those of
    studies, whose workers are other processes."""
    if not {"information", "study"} & set(request.path.parts):
        monkeypatch.setattr(critics, "FEWEST_STEPS", 15)


@pytest.fixture(scope="session", autouse=True)
def _equal_figures_are_drawn_once():
    """An audit is drawn when it is saved and again whenever it is verified; equal reports and records have equal figures."""
    draw, drawn = pages._figures, {}

    def once(report, records):
        key = (report.model_dump_json(), tuple(sorted((role, each.sha256) for role, each in records.items())))
        if key not in drawn:
            drawn[key] = draw(report, records)
        return drawn[key]

    pages._figures = once
    yield
    pages._figures = draw


def make_arrays(n: int, classes: int = 4, channels: int = 1, side: int = 8, seed: int = 0):
    """Images whose class shows in their brightness, with noise: learnable within seconds."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % classes
    level = 40 + 170 * labels / max(classes - 1, 1)
    images = level[:, None, None, None] + rng.normal(0, 12, (n, channels, side, side))
    return images.clip(0, 255).astype(np.uint8), labels.astype(np.int64)


@pytest.fixture(scope="session")
def data() -> rs.Dataset:
    return rs.data.arrays(*make_arrays(240, seed=0), *make_arrays(80, seed=1), name="levels")


@pytest.fixture(scope="session")
def task(data) -> rs.ForgetTask:
    return rs.forget_classes(data, 2)


def make_stripes(n: int, seed: int = 0):
    """Stripes in four directions under noise. Who never saw the slanted ones knows less of them, but something."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 4
    y, x = np.mgrid[:8, :8]
    waves = np.sin(np.pi * np.stack([0 * x, x, x + y, y]) / 2)
    images = 128 + 60 * waves[labels] * rng.uniform(0.4, 1, (n, 1, 1)) + rng.normal(0, 25, (n, 8, 8))
    return images[:, None].clip(0, 255).astype(np.uint8), labels.astype(np.int64)


@pytest.fixture(scope="session")
def stripes_training() -> rs.Pretraining:
    return rs.Pretraining(epochs=6, batch=32, lr=0.05, crop=0, flip=False, warmup=0.2, precision="float32")


@pytest.fixture(scope="session")
def stripes() -> rs.Dataset:
    return rs.data.arrays(*make_stripes(600, seed=0), *make_stripes(300, seed=1), name="stripes")


@pytest.fixture(scope="session")
def truths(stripes, stripes_training) -> dict[str, rs.Classifier]:
    """Models whose truth is known: the class of slanted stripes, 2, is what was to be forgotten.

    The seeds of the two Retrains are chosen: on data this small Retrains scatter more than the verdict's
    margin. How often the verdict is right is a question for many seeds, not for these tests.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    task = rs.forget_classes(stripes, 2)
    with rs.seeded(0):
        network = rs.models.resnet18(classes=4, channels=1, width=4)
        found = {"original": stripes_training(network, task.train)}
    retrain = rs.unlearn.Retrain(stripes_training)
    hd = rs.unlearn.HeadDistillation(epochs=5, crop=0, flip=False, batch=32)
    methods = {"reference": (11, retrain), "retrain": (13, retrain), "hd": (1, hd)}
    for name, (seed, method) in (methods | {"random": (1, rs.unlearn.Random())}).items():
        with rs.seeded(seed):
            found[name] = method(found["original"], task)
    torch.set_num_threads(threads)
    return found


@pytest.fixture(autouse=True)
def _no_pass_remembered():
    """Each test makes its own forward passes."""
    outputs._passes.clear()


@pytest.fixture
def net() -> rs.Classifier:
    with rs.seeded(0):
        return rs.models.resnet18(classes=4, channels=1, width=2)


@pytest.fixture
def one_thread():
    """Small linear algebra is faster, and never depends on the number of cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class Pickling(executors.InProcess):
    """Does jobs here, but what they are given and what they give is pickled, as between processes."""

    def give(self, job: executors.Job) -> None:
        call, arguments = pickle.loads(pickle.dumps((job.call, job.arguments)))
        super().give(dataclasses.replace(job, call=lambda: pickle.loads(pickle.dumps(call(*arguments))), arguments=()))


@pytest.fixture
def as_if_in_processes(monkeypatch) -> None:
    """A process takes five seconds to start; `tests/study/test_workers.py` starts real ones."""
    monkeypatch.setattr(executors, "Workers", lambda *_, **more: contextlib.nullcontext(Pickling()))


@pytest.fixture
def quick_stack(monkeypatch) -> None:
    """The measures of the demo and of built-in studies, with one short fit each where they would make many."""
    monkeypatch.setattr(presets, "Recovery", lambda: Recovery(repeats=1))
    quick = tuple(Recovery(repeats=1) if m.label == "recovery" else m for m in presets.FULL_STACK)
    monkeypatch.setattr(presets, "EVERYTHING", quick)
    monkeypatch.setattr(presets, "InformationCurve", lambda **fields: InformationCurve(steps=5, rounds=1, **fields))


@pytest.fixture
def folder(tmp_path):
    """MNIST's four files with 24 training and 4 test images a class, and two networks for them."""
    random = np.random.default_rng(0)
    for stem, per_class in (("train", 24), ("t10k", 4)):
        labels = np.repeat(np.arange(10, dtype=np.uint8), per_class)
        noise = random.integers(0, 40, (len(labels), 12, 12))
        images = (labels[:, None, None] * 22 + noise).astype(np.uint8)
        for name, array in (("images", images), ("labels", labels)):
            head = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
            (tmp_path / f"{stem}-{name}-idx{array.ndim}-ubyte").write_bytes(head + array.tobytes())
    for seed, name in enumerate(("one", "two")):
        with rs.seeded(seed):
            rs.save(rs.models.resnet18(classes=10, channels=1, width=2), tmp_path / f"{name}.safetensors")
    return tmp_path


# torchvision, timm and transformers: their absence skips, and `make test` installs them.
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
