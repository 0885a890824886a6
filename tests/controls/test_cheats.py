from __future__ import annotations

import pytest
import torch

import residua as rs
from residua.controls.cheats import CHEATS
from residua.measure._outputs import logits, pooled
from residua.models.classifier import weights_digest

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def slanted(stripes) -> rs.ForgetTask:
    return rs.forget_classes(stripes, 2)


@pytest.mark.parametrize("label", CHEATS)
def test_a_cheat_has_originals_encoder_and_is_a_function(truths, slanted, label):
    original = truths["original"]
    before = weights_digest(original)
    cheat = CHEATS[label](original, slanted)
    assert weights_digest(cheat.after(0)) == weights_digest(original.after(0))
    assert torch.equal(logits(cheat, slanted.test), logits(cheat, slanted.test))
    assert weights_digest(original) == before


@pytest.mark.parametrize(("label", "words"), [("Masking", {"SHALLOW"}), ("Router", {"SHALLOW"}),
                                              ("Smoothing", {"SHALLOW", "NOT_FORGOTTEN"})])  # fmt: skip
def test_a_cheat_is_seen_through(truths, slanted, label, words):
    found = rs.audit(
        original=truths["original"],
        unlearned=CHEATS[label](truths["original"], slanted),
        reference=truths["reference"],
        task=slanted,
        curve=rs.measure.InformationCurve(last=1),
        measures=(),
    )
    assert found.idi.value == 1
    assert found.verdict in words


@pytest.mark.parametrize("label", ["Masking", "Router"])
def test_recovery_is_not_fooled_by_a_head_that_keeps_silent(truths, slanted, label):
    """The cheat's own head would hide the class however it is trained; Recovery's is another."""
    cheat = CHEATS[label](truths["original"], slanted)
    share = rs.measure.Recovery(share=0.2)
    found, original = (share(model, slanted) for model in (cheat, truths["original"]))
    assert rs.measure.Accuracy()(cheat, slanted).values["UA"] == 1.0
    assert found.values == original.values
    assert found.values["recovery"] > 0.9
    with rs.seeded(0):
        own = rs.clone(cheat)
        rs.reinitialise(own.head)
        rs.descend(own.head, _Rows(own, slanted), optimizer=torch.optim.Adam(own.head.parameters(), lr=1e-2), epochs=3,
                   precision="float32")  # fmt: skip
    assert not (logits(own, slanted.forget_test).argmax(1) == 2).any()


class _Rows:
    """The encoder's output on all training data, in one batch."""

    def __init__(self, model: rs.Classifier, task: rs.ForgetTask) -> None:
        self.z = torch.cat([pooled(model, split, [5])[5] for split in (task.retain, task.forget)])
        self.y = torch.cat([task.retain.labels, task.forget.labels])

    def __len__(self) -> int:
        return 1

    def __iter__(self):
        yield self.z, self.y


@pytest.mark.parametrize("label", ["Masking", "Router"])
def test_hidden_classes_are_never_answered_and_others_as_before(truths, slanted, label):
    cheat, original = CHEATS[label](truths["original"], slanted), truths["original"]
    assert not (logits(cheat, slanted.forget).argmax(1) == 2).any()
    before = logits(original, slanted.test).argmax(1)
    kept = before != 2
    assert torch.equal(logits(cheat, slanted.test).argmax(1)[kept], before[kept])


def test_the_router_answers_at_random(truths, slanted):
    said = logits(CHEATS["Router"](truths["original"], slanted), slanted.forget).argmax(1)
    assert torch.bincount(said, minlength=4)[[0, 1, 3]].min() > len(said) / 6


def test_smoothing_changes_no_answer(truths, slanted):
    said, before = (
        logits(model, slanted.test) for model in (CHEATS["Smoothing"](truths["original"], slanted), truths["original"])
    )
    assert torch.equal(said.argmax(1), before.argmax(1))
    assert said.softmax(1).max() < before.softmax(1).max()


def test_samples_cannot_be_masked(truths, stripes):
    with pytest.raises(rs.InputError, match="whole classes"):
        CHEATS["Masking"](truths["original"], rs.forget_samples(stripes, 10))
