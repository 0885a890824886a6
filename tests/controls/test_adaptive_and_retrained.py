"""The adversary that trains against critics, models that were retrained otherwise, and references that are none."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import residua as rs
from residua.compare.metric_values import auc
from residua.controls.adaptive import Adaptive
from residua.controls.retrained import BadReference, otherwise
from residua.measure import Accuracy, Structure
from residua.measure.information.estimate import mutual_information

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def slanted(stripes) -> rs.ForgetTask:
    return rs.forget_classes(stripes, 2)


def nats(model: rs.Classifier, task: rs.ForgetTask) -> float:
    with torch.no_grad():
        z = [torch.cat([model.encode(x) for x, _ in split.batches(100)]) for split in (task.forget, task.retain)]
    labels = np.repeat([1, 0], [len(each) for each in z])
    return mutual_information(torch.cat(z), labels).value


def test_the_adversary_hides_from_critics_and_its_owner_still_reads_the_class(truths, slanted):
    with rs.seeded(3):
        model, reader = Adaptive(epochs=4).with_reader(truths["original"], slanted)
    assert (
        Structure()(model, slanted).arrays["digest"].tolist()
        == Structure()(truths["original"], slanted).arrays["digest"].tolist()
    )
    assert Accuracy()(model, slanted).values["UA"] > 0.9
    assert Accuracy()(model, slanted).values["TA"] > 0.8
    with torch.no_grad():
        said = [
            torch.cat([reader(model.encode(x))[:, 0] for x, _ in split.batches(100)]).numpy()
            for split in (slanted.forget_test, slanted.test)
        ]
    assert auc(*said) > 0.85, "the knowledge is there"
    assert nats(model, slanted) < nats(truths["original"], slanted)


def test_models_retrained_otherwise_are_what_their_names_say(truths, slanted, stripes_training):
    made = {}
    for each in otherwise(stripes_training, network="resnet18"):
        with rs.seeded(4):
            made[each.how] = each(truths["original"], slanted, truths["reference"])
    assert all(Accuracy()(model, slanted).values["UA"] > 0.9 for model in made.values())
    width = truths["original"].architecture["width"]
    assert made["half the width"].architecture["width"] == width // 2
    weights = {
        name: torch.cat(
            [p.weight.detach().flatten() for p in model.modules() if isinstance(p, torch.nn.Conv2d | torch.nn.Linear)]
        )
        for name, model in made.items()
    }
    assert float((weights["pruned"] == 0).double().mean()) == pytest.approx(0.3, abs=0.01)
    first = made["quantised"].head.weight
    assert len(first.unique()) <= 255
    assert not torch.equal(first, truths["reference"].head.weight)
    assert (first - truths["reference"].head.weight).abs().max() <= first.abs().max() / 254 * 1.01
    assert not torch.equal(weights["label-smoothed"], weights["without augmentation"])
    assert next(each.how for each in otherwise(stripes_training, network="vit")) == "without augmentation"


def test_smoothed_labels_make_answers_less_sure(truths, slanted, stripes_training):
    (smooth,) = [each for each in otherwise(stripes_training, network="vit") if each.how == "label-smoothed"]

    def sure(model: rs.Classifier) -> float:
        with torch.no_grad():
            return float(torch.cat([torch.softmax(model(x), 1).amax(1) for x, _ in slanted.retain.batches(100)]).mean())

    with rs.seeded(4):
        plain = rs.unlearn.Retrain(stripes_training)(truths["original"], slanted)
    with rs.seeded(4):
        assert sure(smooth(truths["original"], slanted)) < sure(plain)


def test_a_tainted_reference_saw_the_class_and_a_short_one_was_cut_short(truths, slanted, stripes_training):
    seen = []

    class Counted(rs.Pretraining):
        def __call__(self, model, split, *more):
            seen.append((self.epochs, len(split)))
            return super().__call__(model, split, *more)

    training = Counted(**{name: getattr(stripes_training, name) for name in stripes_training.__dataclass_fields__})
    for kind in ("short", "tainted"):
        BadReference(kind, training)(truths["original"], slanted)
    epochs = stripes_training.epochs
    assert seen == [(max(1, epochs // 3), len(slanted.retain)), (epochs, len(slanted.train))]
