"""UA, RA and TA of models whose answers are planted, image by image."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import residua as rs
from residua.measure import Accuracy
from residua.measure import _outputs as outputs

CLASSES, TRAIN, TEST = 4, 160, 80


class Code(nn.Module):
    """Every image is one grey value, its code; this makes it a row of a table."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.one_hot((x.mean(dim=(1, 2, 3)) * 255).round().long(), 256).float()


def answering(answers: np.ndarray) -> rs.Classifier:
    """A classifier that says `answers[code]`."""
    head = nn.Linear(256, CLASSES, bias=False)
    head.weight.data.zero_()
    head.weight.data[torch.as_tensor(answers), torch.arange(len(answers))] = 1.0
    return rs.Classifier([Code()], head)


@pytest.fixture(scope="module")
def planted() -> rs.Dataset:
    """Training images have the codes 0 to 159, test images 160 to 239; the class is code mod 4."""
    codes = np.arange(TRAIN + TEST, dtype=np.uint8)
    images = np.tile(codes[:, None, None, None], (1, 1, 3, 3))
    return rs.data.arrays(
        images[:TRAIN], codes[:TRAIN] % CLASSES, images[TRAIN:], codes[TRAIN:] % CLASSES, mean=[0.0], std=[1.0]
    )


TRUTH = np.arange(TRAIN + TEST) % CLASSES


def measured(answers: np.ndarray, task: rs.ForgetTask) -> dict[str, float]:
    return dict(Accuracy()(answering(answers), task).values)


def test_a_model_that_is_always_right(planted):
    for task in (rs.forget_classes(planted, 1), rs.forget_samples(planted, 5)):
        assert measured(TRUTH, task) == {"UA": 0.0, "RA": 1.0, "TA": 1.0}


def test_a_model_that_is_always_wrong(planted):
    for task in (rs.forget_classes(planted, 1), rs.forget_samples(planted, 5)):
        assert measured((TRUTH + 1) % CLASSES, task) == {"UA": 1.0, "RA": 0.0, "TA": 0.0}


@pytest.mark.parametrize("forgotten", [[0], [2], [1, 3]])
def test_what_is_said_about_forgotten_classes_does_not_count_against_the_test(planted, forgotten):
    answers = np.where(np.isin(TRUTH, forgotten), (TRUTH + 1) % CLASSES, TRUTH)
    assert measured(answers, rs.forget_classes(planted, forgotten)) == {"UA": 1.0, "RA": 1.0, "TA": 1.0}


def test_forgotten_samples_leave_the_whole_test_set(planted):
    answers = np.where(TRUTH == 0, 1, TRUTH)
    found = measured(answers, rs.forget_samples(planted, 10))
    assert found == {"UA": 0.25, "RA": 0.75, "TA": 0.75}


def test_each_number_is_of_its_own_set(planted):
    task = rs.forget_indices(planted, [0, 1, 2, 3, 4, 5, 6, 7])
    answers = TRUTH.copy()
    wrong = [0, 5, 6, *range(8, 27), *range(160, 173)]  # 3 of 8, 19 of 152, 13 of 80
    answers[wrong] = (answers[wrong] + 1) % CLASSES
    found = measured(answers, task)
    assert found == pytest.approx({"UA": 3 / 8, "RA": 133 / 152, "TA": 67 / 80}, abs=1e-12)


@pytest.mark.parametrize("batch", [1, 7, 500])
@pytest.mark.parametrize("seed", range(3))
def test_random_answers_give_the_shares_one_counts(planted, monkeypatch, batch, seed):
    monkeypatch.setattr(outputs, "ON_CPU", batch)
    answers = np.random.default_rng(seed).integers(0, CLASSES, TRAIN + TEST)
    task = rs.forget_classes(planted, seed)
    right = answers == TRUTH
    train, test = np.arange(TRAIN), np.arange(TRAIN, TRAIN + TEST)
    expected = {
        "UA": 1 - right[train[TRUTH[train] == seed]].mean(),
        "RA": right[train[TRUTH[train] != seed]].mean(),
        "TA": right[test[TRUTH[test] != seed]].mean(),
    }
    assert measured(answers, task) == pytest.approx(expected, abs=1e-12)


def test_the_labels_that_count_are_those_of_the_task(planted):
    """A split under other labels is asked for those, not for the data set's."""
    task = rs.forget_classes(planted, 1)
    shifted = rs.ForgetTask(
        task.dataset, task.scenario, task.forgotten,
        forget=task.forget.relabel((task.forget.labels + 1) % CLASSES),
        retain=task.retain, test=task.test, forget_test=task.forget_test,
    )  # fmt: skip
    assert measured(TRUTH, shifted) == {"UA": 1.0, "RA": 1.0, "TA": 1.0}


def test_a_test_set_of_forgotten_classes_only_is_refused():
    """TA would be 0 / 0."""
    images, labels = np.zeros((8, 1, 3, 3), np.uint8), np.arange(8) % 2
    data = rs.data.arrays(images, labels, images[:3], np.ones(3, int), mean=[0.0], std=[1.0])
    with pytest.raises(rs.InputError, match="test"):
        Accuracy()(answering(TRUTH), rs.forget_classes(data, 1))


def test_a_model_that_says_nothing_finite_is_refused(planted):
    model = answering(TRUTH)
    model.head.weight.data[0, 0] = float("nan")
    with pytest.raises(rs.InputError, match="not finite"):
        Accuracy()(model, rs.forget_classes(planted, 1))
