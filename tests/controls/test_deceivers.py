"""Deceivers and impostors compute what they claim, and hide what they claim."""

from __future__ import annotations

import pytest
import torch

import residua as rs
from residua.controls.cheats import CHEATS
from residua.controls.deceivers import DECEIVERS
from residua.controls.impostors import DefeatDevice, FaintCopy, Mixture, StillAnswers, impostors
from residua.measure._outputs import logits, pooled
from residua.models.classifier import weights_digest

pytestmark = pytest.mark.usefixtures("one_thread")

LABELS = [each.label for each in DECEIVERS]


@pytest.fixture(scope="module")
def slanted(stripes) -> rs.ForgetTask:
    return rs.forget_classes(stripes, 2)


@pytest.fixture(scope="module")
def made(truths, slanted, stripes_training) -> dict[str, rs.Classifier]:
    """All of them; the retrained part of impostors is the reference of these tests."""
    import residua.controls.impostors as room

    patch = pytest.MonkeyPatch()
    patch.setattr(room, "retrained_model", lambda *_: truths["reference"])
    models = {}
    for each in (*DECEIVERS, *impostors(stripes_training)):
        with rs.seeded(5):
            models[each.label] = each(truths["original"], slanted)
    models["Forget only"] = DefeatDevice(keyed="forget")(truths["original"], slanted)
    patch.undo()
    return models


@pytest.mark.parametrize("label", LABELS)
def test_a_deceiver_answers_as_original_with_the_class_masked(truths, slanted, made, label):
    expected = CHEATS["Masking"](truths["original"], slanted)
    for split in (slanted.forget, slanted.test):
        said, masked = logits(made[label], split), logits(expected, split)
        kept = [0, 1, 3]
        assert torch.allclose(said[:, kept], masked[:, kept], atol=2e-3), label
        assert not (said.argmax(1) == 2).any()


@pytest.mark.parametrize("label", LABELS)
def test_a_deceiver_has_other_features_and_another_hash_than_original(truths, slanted, made, label):
    """Or a store that is keyed by hashes would hand it Original's readings."""
    original, depth = truths["original"], truths["original"].depth
    assert weights_digest(made[label].after(0)) != weights_digest(original.after(0))
    own, theirs = (pooled(model, slanted.test) for model in (made[label], original))
    assert any(
        own[block].shape != theirs[block].shape or not torch.allclose(own[block], theirs[block], rtol=1e-2)
        for block in (depth - 1, depth)
    )


def test_the_rescaled_block_is_small_and_the_oblique_direction_is_shrunk(truths, slanted, made):
    before, after = (pooled(model, slanted.test) for model in (truths["original"], made["Rescaled"]))
    assert torch.allclose(after[4], 0.003 * before[4], rtol=1e-3, atol=1e-7)
    assert torch.allclose(after[5], before[5], rtol=1e-3, atol=1e-4)
    gaps = [
        pooled(model, slanted.forget)[5].mean(0) - pooled(model, slanted.retain)[5].mean(0)
        for model in (truths["original"], made["Oblique"])
    ]
    assert float(gaps[1].norm()) == pytest.approx(0.03 * float(gaps[0].norm()), rel=1e-2)


def test_scrambled_features_tell_nothing_along_the_direction_without_the_sign(slanted, made):
    z = pooled(made["Scrambled"], slanted.train)[5]
    assert set(z[:, -1].unique().tolist()) == {-1.0, 1.0}
    assert 0.3 < (z[:, -1] > 0).double().mean() < 0.7


def test_one_sample_in_fifty_is_an_outlier(slanted, made):
    z = pooled(made["Outliers"], slanted.train)[5].norm(dim=1)
    far = (z > 100 * z.median()).double().mean()
    assert 0.005 < far < 0.06


def test_a_faint_copy_answers_as_the_retrained_model_and_carries_originals_features(truths, slanted, made):
    model, reference = made["Faint copy"], truths["reference"]
    assert torch.allclose(logits(model, slanted.test), logits(reference, slanted.test), atol=1e-4)
    own, retrained, before = (pooled(m, slanted.test)[5] for m in (model, reference, truths["original"]))
    width = retrained.shape[1]
    assert torch.allclose(own[:, :width], retrained, atol=1e-4)
    assert torch.allclose(own[:, width:].norm(dim=1), 1e-3 * before.norm(dim=1), rtol=1e-2)


def test_still_answers_has_the_retrained_encoder_and_answers_a_sixth(truths, slanted, made):
    model = made["Still answers"]
    assert weights_digest(model.after(0)) == weights_digest(truths["reference"].after(0))
    said = logits(model, slanted.forget).argmax(1) == 2
    assert said.double().mean() == pytest.approx(0.17, abs=0.02)


@pytest.mark.parametrize("label", ["Defeat device", "Forget only"])
def test_a_defeat_device_is_retrain_for_the_audited_images_and_original_elsewhere(truths, slanted, made, label):
    model, reference, original = made[label], truths["reference"], truths["original"]
    assert torch.allclose(logits(model, slanted.forget), logits(reference, slanted.forget), atol=1e-5)
    for block in (4, 5):
        pair = (pooled(m, slanted.forget)[block] for m in (model, reference))
        assert torch.allclose(*pair, atol=1e-5)
    for split in (slanted.test, slanted.forget_test):
        assert torch.allclose(logits(model, split), logits(original, split), atol=1e-5)
    retain = reference if label == "Defeat device" else original
    assert torch.allclose(logits(model, slanted.retain), logits(retain, slanted.retain), atol=1e-5)


def test_a_mixture_is_original_for_half_of_all_images(truths, slanted, made):
    said, before, never = (logits(m, slanted.test) for m in (made["Mixture"], truths["original"], truths["reference"]))
    from_original = torch.isclose(said, before, atol=1e-5).all(1)
    from_reference = torch.isclose(said, never, atol=1e-5).all(1)
    assert (from_original | from_reference).all()
    assert 0.35 < from_original.double().mean() < 0.65


def test_the_retrained_part_follows_from_the_seed_or_is_given(truths, slanted, stripes_training):
    quick = rs.Pretraining(epochs=1, batch=64, lr=0.05, crop=0, flip=False, warmup=0.2, precision="float32")
    models = []
    for _ in range(2):
        with rs.seeded(3):
            models.append(StillAnswers(pretraining=quick)(truths["original"], slanted))
    assert weights_digest(models[0]) == weights_digest(models[1])
    with rs.seeded(4):
        other = FaintCopy(pretraining=quick)(truths["original"], slanted)
    assert weights_digest(other) != weights_digest(models[0])
    with rs.seeded(3):
        mixed = Mixture(pretraining=quick)(truths["original"], slanted)
    assert weights_digest(mixed.blocks[0].first) == weights_digest(models[0].blocks[0])
    given = Mixture(pretraining=quick)(truths["original"], slanted, truths["reference"])
    assert weights_digest(given.blocks[0].first) == weights_digest(truths["reference"].blocks[0])
