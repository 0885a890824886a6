"""Retrained models that carry Original where critics do not look: the knowledge is there, and what the audit notices."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import residua as rs
from residua.controls.deceivers import masked_head
from residua.controls.hidden import AskedOtherwise, Coded, LowBits, Near, SwitchedOff
from residua.controls.impostors import switched
from residua.measure import Moved, Structure
from residua.measure.structure import canonical_form
from residua.models.classifier import clone

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def slanted(stripes) -> rs.ForgetTask:
    return rs.forget_classes(stripes, 2)


def answers(model, split) -> torch.Tensor:
    with torch.inference_mode():
        return torch.cat([model(x) for x, _ in split.batches(100)])


def caveats(model, truths, task) -> list[str]:
    read = [Structure()(each, task) for each in (model, truths["original"], truths["reference"])]
    return [each.text for each in rs.compare.structure_caveats(*read[:2], read[2:], "") if each.bars]


@pytest.mark.parametrize("control", [LowBits(), LowBits(12), LowBits(where="last")], ids=lambda control: control.label)
def test_low_bits_hold_original_and_a_release_does_not(truths, slanted, control):
    model = control(truths["original"], slanted, truths["reference"])
    x, _ = next(iter(slanted.test.batches(200)))
    assert (model(x) - truths["reference"](x)).abs().max() < 0.1 * truths["reference"](x).std()
    found = control.recovered(model)
    for own, other in zip(found.parameters(), truths["original"].parameters(), strict=True):
        assert ((own - other).abs() <= 0.13 * other.abs()).all()
    assert recall(found, truths["original"], slanted) > 0.8
    assert caveats(model, truths, slanted) == [], "the structure does not show it"
    gone = control.recovered(canonical_form(model, slanted))
    assert all(not own.any() for own in gone.parameters())


def test_the_last_stages_alone_are_changed(truths, slanted):
    model = LowBits(where="last")(truths["original"], slanted, truths["reference"])
    same = [
        all(map(torch.equal, one.parameters(), other.parameters()))
        for one, other in zip(model.blocks, truths["reference"].blocks, strict=True)
    ]
    assert same[0]
    assert not same[-1]


def recall(found, original, task) -> float:
    """Accuracy on unseen images of the forgotten class, with the statistics of Original's norms."""
    state = original.state_dict()
    state |= {name: own.detach() for name, own in found.named_parameters()}
    model = clone(original)
    model.load_state_dict(state)
    return float((answers(model, task.forget_test).argmax(1) == 2).double().mean())


@pytest.mark.parametrize(
    "control", [SwitchedOff(), SwitchedOff("weight"), SwitchedOff(where="first")], ids=lambda control: control.label
)
def test_channels_that_are_switched_off_are_noticed(truths, slanted, control):
    model = control(truths["original"], slanted, truths["reference"])
    assert torch.allclose(answers(model, slanted.test), answers(truths["reference"], slanted.test), atol=1e-4)
    assert recall(control.woken(model, truths["original"]), truths["original"], slanted) > 0.8
    for audited in (model, canonical_form(model, slanted)):
        found = caveats(audited, truths, slanted)
        assert any("never vary" in text for text in found)
        assert any("structure" in text for text in found)


@pytest.mark.parametrize("code", ["product", "hash", "digits"])
def test_a_code_holds_originals_score_and_is_another_structure(truths, slanted, code):
    model = Coded(code)(truths["original"], slanted, truths["reference"])
    x, _y = next(iter(slanted.forget.batches(50)))
    z = model.encode(x)
    assert torch.allclose(model(x), truths["reference"](x), atol=1e-4)
    log_p = torch.log_softmax(truths["original"](x), 1)[:, 2].clamp(-12, -1e-4)
    truth = log_p - torch.log(-torch.expm1(log_p))
    if code == "product":
        assert torch.allclose(z[:, -1] * z[:, -2] * z[:, -3], truth, atol=1e-3)
    elif code == "hash":
        assert torch.allclose(z[:, -1].abs(), truth.abs(), atol=1e-3)
    assert any("structure" in text for text in caveats(model, truths, slanted))


@pytest.mark.parametrize("when", ["near", "mode"])
def test_a_model_that_knows_when_it_is_audited_is_noticed(truths, slanted, when):
    model = AskedOtherwise(when)(truths["original"], slanted, truths["reference"])
    assert torch.allclose(answers(model, slanted.test), answers(truths["reference"], slanted.test), atol=1e-4)
    if when == "mode":
        assert any("how it is asked" in text for text in caveats(model, truths, slanted))
        return
    assert residue(Moved(), model, truths, slanted) > 0.5


def residue(measure: Moved, model, truths, task) -> float:
    """IDI on moved images."""
    own, original, reference = (
        measure(each, task).arrays["terms"].astype(np.float64).mean()
        for each in (model, truths["original"], truths["reference"])
    )
    return float((own - reference) / (original - reference))


def test_a_model_that_knows_shifted_and_mirrored_images_too_is_noticed_by_crops(truths, slanted):
    splits = (slanted.forget, slanted.retain, slanted.test, slanted.forget_test)
    images = torch.cat([x for split in splits for x, _ in split.batches(100)])
    framed = torch.nn.functional.pad(images, (1, 1, 1, 1), mode="replicate")
    shifted = torch.cat([framed[:, :, y : y + 8, x : x + 8] for y in range(3) for x in range(3)])
    silent = clone(truths["original"])
    silent.head = masked_head(truths["original"], slanted)
    model = switched(truths["reference"], silent, Near(torch.cat([shifted, shifted.flip(3)])))
    assert abs(residue(Moved(crop=0), model, truths, slanted)) < 0.02, "shifts alone do not show it"
    assert residue(Moved(), model, truths, slanted) > 0.3
