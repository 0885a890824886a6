"""Each trait is what the method does."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from quick_settings import small

import residua as rs
from residua.controls.cheats import CHEATS
from residua.models.classifier import weights_digest
from residua.unlearn import METHODS, Traits, traits

pytestmark = pytest.mark.usefixtures("one_thread")

EVERY = {method.label: method for method in (*METHODS, *CHEATS.values())}
every_method = pytest.mark.parametrize("method", EVERY.values(), ids=EVERY)


@pytest.fixture(scope="module")
def planted() -> rs.Classifier:
    """A model whose weights and statistics no initialisation would draw."""
    with rs.seeded(7), torch.no_grad():
        net = rs.models.resnet18(classes=4, channels=1, width=2)
        for name, tensor in net.state_dict().items():
            if tensor.is_floating_point():
                # Means around 0, or no activation would pass: features must vary, or there is nothing to remove.
                around = tensor.ndim > 1 or name.endswith("mean")
                tensor.uniform_(-0.3, 0.3) if around else tensor.uniform_(0.5, 1.5)
    return net.eval()


def made(method, model, task) -> rs.Classifier:
    with rs.seeded(1):
        return small(method)(model, task)


@pytest.fixture(scope="module")
def results(planted, task) -> dict[str, rs.Classifier]:
    """Each method's result on the planted model, filled by the first test that asks."""
    return Results(planted, task)


class Results(dict):
    def __init__(self, model: rs.Classifier, task: rs.ForgetTask) -> None:
        super().__init__()
        self.model, self.task = model, task

    def __missing__(self, label: str) -> rs.Classifier:
        self[label] = made(EVERY[label], self.model, self.task)
        return self[label]


@every_method
def test_from_scratch_means_that_originals_weights_do_not_matter(method, results, task):
    blank = rs.models.resnet18(classes=4, channels=1, width=2)
    of_blank, of_planted = made(method, blank, task), results[method.label]
    assert (weights_digest(of_blank) == weights_digest(of_planted)) == traits(method).from_scratch


@every_method
def test_keeps_encoder_means_equal_to_the_last_bit(method, results, planted):
    same = weights_digest(results[method.label].blocks) == weights_digest(planted.blocks)
    assert same == traits(method).keeps_encoder


@every_method
def test_quick_means_that_no_block_is_trained(method, planted, task):
    trained = []

    def watch(tick):
        # A module without blocks is a head, or a map before it; `keeps_encoder` is tested to the last bit above.
        blocks = getattr(tick.model, "blocks", () if traits(method).keeps_encoder else [tick.model])
        trained.append(any(p.requires_grad for block in blocks for p in block.parameters()))

    with rs.watching(watch):
        made(method, planted, task)
    assert not (traits(method).quick and any(trained))
    # SSD, which has no epochs, trains nothing either, but it takes a gradient of every sample.
    assert traits(method).quick or any(trained) or not hasattr(method, "epochs")


@every_method
def test_not_guarded_are_baselines_and_cheats(method, results, planted):
    unchanged = weights_digest(results[method.label]) == weights_digest(planted)
    assert traits(method).guarded == (not unchanged and not traits(method).from_scratch and method.label not in CHEATS)


@every_method
def test_savable_means_that_a_checkpoint_is_enough(method, results, tmp_path):
    result, path = results[method.label], tmp_path / "model.safetensors"
    rs.save(result, path)
    if traits(method).savable:
        assert weights_digest(rs.load(path)) == weights_digest(result)
    else:
        with pytest.raises(rs.InputError):
            rs.load(path)


@every_method
def test_scenarios_are_those_that_the_method_does(method, planted, data):
    can = traits(method).scenarios
    assert "class" in can  # the other tests
    request = rs.forget_samples(data, 10, seed=1)
    if "random" in can:
        assert isinstance(made(method, planted, request), rs.Classifier)
    else:
        with pytest.raises(rs.InputError, match="class"):
            made(method, planted, request)


def test_a_method_without_traits_has_the_defaults():
    @dataclass(frozen=True)
    class Mine:
        label = "Mine"

    assert traits(Mine()) == traits(Mine) == Traits()
