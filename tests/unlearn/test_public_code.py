"""Parts that methods have from their public code: schedules, clipping, penalties, bounds."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import pytest
import torch
from quick_settings import small
from torch import nn

import residua as rs
from residua import unlearn
from residua.training.loop import rate
from residua.training.settings import Epochs, Scheduled, described
from residua.unlearn import METHODS

pytestmark = pytest.mark.usefixtures("one_thread")

TRAINS = [
    method for method in METHODS if any(isinstance(field.setting, Epochs) for field in described(type(method)).values())
]


def rates(method, original, task) -> list[list[float]]:
    """The learning rates of a method's steps, one list for each phase and epoch."""
    epochs: list[list[float]] = [[]]

    def listen(tick) -> None:
        epochs[-1].append(tick.lr)
        if tick.epoch_done:
            epochs.append([])

    with rs.seeded(1), rs.watching(listen):
        method(original, task)
    return epochs[:-1]


def per_epoch(method, original, task) -> list[float]:
    """The learning rate of each epoch, which must not change in it."""
    found = rates(method, original, task)
    assert all(len(set(epoch)) == 1 for epoch in found)
    return [epoch[0] for epoch in found]


def test_the_methods_that_train_are_those_that_one_expects():
    still = {"Original", "Retrain", "Random", "SSD", "ESC", "POUR-P", "DAMP"}  # Retrain's schedule is its pretraining's
    assert {method.label for method in METHODS} - {method.label for method in TRAINS} == still


@pytest.mark.parametrize("method", TRAINS, ids=lambda method: method.label)
def test_every_method_that_trains_follows_its_schedule_in_every_phase(method, net, task):
    assert described(type(method))["schedule"].setting is Scheduled.__metadata__[0]
    fields = {name: 2 for name, field in described(type(method)).items() if isinstance(field.setting, Epochs)}
    fields |= {"lowest_lr": 0.0} if hasattr(method, "lowest_lr") else {}
    fields |= {"schedule": "cosine"}
    found = rates(dataclasses.replace(small(method), **fields), net, task)
    assert len(found) % 2 == 0
    for first, second in zip(found[::2], found[1::2], strict=True):
        steps = len(first)
        assert len(second) == steps
        expected = [rate("cosine", step / steps, epochs=2) for step in range(2 * steps)]
        assert [each / first[0] for each in first + second] == pytest.approx(expected)


@pytest.mark.parametrize("method", TRAINS, ids=lambda method: method.label)
def test_the_rate_is_constant_unless_the_public_code_lowers_it(method):
    lowers = {"EU-5": "restarts", "EU-10": "restarts", "CF-5": "restarts", "CF-10": "restarts", "SCRUB": "steps"}
    assert method.schedule == lowers.get(method.label, "constant")


# --- EU-k and CF-k --------------------------------------------------------------------------------

LAST = [unlearn.ExactLast, unlearn.CatastrophicLast]


@pytest.mark.parametrize("kind", LAST)
def test_the_last_layers_learn_with_warm_restarts(net, task, kind):
    found = per_epoch(kind(k=1, epochs=14, lr=0.1, batch=180, crop=0), net, task)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    theirs = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=1, T_mult=2, eta_min=0.005)
    expected = []
    for _ in range(14):
        expected.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        theirs.step()
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("kind", LAST)
@pytest.mark.parametrize("lr", [5e-3, 1e-3, 0.0])
def test_a_rate_that_is_not_above_the_lowest_stays(net, task, kind, lr):
    found = per_epoch(kind(k=1, epochs=3, lr=lr, batch=180, crop=0), net, task)
    assert found == pytest.approx([lr] * 3)


@pytest.mark.parametrize(("clip", "expected"), [(0.01, 0.01), (None, None), (10.0, None)])
def test_the_last_layers_gradients_are_clipped(net, task, clip, expected):
    settings = {"epochs": 1, "lr": 1.0, "momentum": 0.0, "weight_decay": 0.0, "batch": 180, "crop": 0}
    with rs.seeded(1):
        found = unlearn.CatastrophicLast(k=1, clip=clip, **settings)(net, task)
    moved = nn.utils.parameters_to_vector(found.parameters()) - nn.utils.parameters_to_vector(net.parameters())
    if expected is None:
        assert moved.norm() > 0.1
    else:
        assert float(moved.norm().detach()) == pytest.approx(expected, rel=1e-3)


def test_defaults_are_the_public_codes():
    for kind in LAST:
        assert (kind().weight_decay, kind().clip, kind().lowest_lr) == (5e-5, 10.0, 5e-3)
    for kind in (unlearn.BoundaryShrink, unlearn.BoundaryExpand):
        assert kind().weight_decay == 0
    assert unlearn.Saliency().labels == "uniform"


def test_methods_that_answer_otherwise_than_before_have_another_revision():
    """Or a study would find results of the older ones."""
    for kind in (unlearn.Unsir, unlearn.BoundaryShrink, unlearn.Cola, unlearn.ColaPlus):
        assert kind.revision >= 2


# --- SCRUB ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("forget_epochs", [0, 2, 4, 6])
def test_scrubs_rate_falls_after_the_third_and_the_fifth_epoch_whatever_the_phase(net, task, forget_epochs):
    method = unlearn.Scrub(epochs=6, forget_epochs=forget_epochs, lr=0.01, retain_batch=180, forget_batch=60, crop=0)
    assert per_epoch(method, net, task) == pytest.approx([1e-2] * 3 + [1e-3] * 2 + [1e-4])


def test_scrubs_cosine_goes_over_both_phases(net, task):
    settings = {"epochs": 3, "lr": 0.01, "retain_batch": 180, "forget_batch": 60, "crop": 0, "schedule": "cosine"}
    (first, *_), (second,), (third,) = rates(unlearn.Scrub(forget_epochs=1, **settings), net, task)
    assert [first, second, third] == pytest.approx([0.01, 0.0075, 0.0025])


# --- Boundary Shrink ------------------------------------------------------------------------------


class Watched(nn.Module):
    """Passes images on, and keeps those that come without a gradient being asked for."""

    seen: ClassVar[list[torch.Tensor]] = []

    def forward(self, x):
        if not torch.is_grad_enabled():
            self.seen.append(x)
        return x


def test_boundary_shrink_moves_images_within_zero_and_one(net, task):
    model = rs.Classifier([nn.Sequential(Watched(), net.blocks[0]), *net.blocks[1:]], net.head, pool=net.pool)
    Watched.seen.clear()
    with rs.seeded(1):
        unlearn.BoundaryShrink(epochs=1, lr=0.0, step=0.7, batch=20, crop=0)(model, task)
    pixels = torch.cat(Watched.seen) * task.forget.std[0] + task.forget.mean[0]
    assert len(pixels) == 60
    assert pixels.min() >= -1e-6
    assert pixels.max() <= 1 + 1e-6
    # Nothing but the bounds keeps them there: the step is too long for either side.
    at_bounds = (pixels < 1e-6) | (pixels > 1 - 1e-6)
    assert at_bounds.double().mean() > 0.3


# --- UNSIR ----------------------------------------------------------------------------------------


class Silent(nn.Module):
    """Answers the same to everything, so that the penalty is all there is."""

    def __init__(self) -> None:
        super().__init__()
        self.anything = nn.Parameter(torch.zeros(()))

    def forward(self, x):
        return x.flatten(1)[:, :4] * 0 * self.anything


@pytest.mark.parametrize("side", [4, 16])
def test_unsirs_penalty_sums_over_pixels(side, monkeypatch):
    """Its gradient at a pixel is 2 penalty n / images, whatever the number of pixels."""
    images = torch.zeros(8, 1, side, side, dtype=torch.uint8).numpy()
    labels = torch.arange(8).remainder(4).numpy()
    data = rs.data.arrays(images, labels, images, labels, mean=[0.5], std=[0.25])
    gradients, starts = [], []

    class Spy(torch.optim.Adam):
        def step(self, closure=None):
            (noise,) = self.param_groups[0]["params"]
            gradients.append(noise.grad.clone())
            starts.append(noise.detach().clone())

    monkeypatch.setattr("residua.unlearn.unsir.Adam", Spy)

    model = rs.Classifier([nn.Identity()], Silent())
    unlearn.Unsir(noise_steps=1, forget_batch=5, penalty=0.1)._noise(model, rs.forget_classes(data, 2))
    torch.testing.assert_close(gradients[0], 2 * 0.1 * starts[0] / 5)
