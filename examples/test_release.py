"""In a pytest of yours: a release is blocked, with the reason, unless the model forgot."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import residua as rs


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    """Yours come from rs.load(...) or rs.open_model(...); these are untrained, and nothing to release."""
    random = np.random.default_rng(0)
    labels = np.arange(200) % 4
    images = (labels[:, None, None, None] * 50 + random.integers(0, 50, (200, 1, 8, 8))).astype(np.uint8)
    task = rs.forget_classes(rs.data.arrays(images, labels, images, labels), [2])
    with rs.seeded(0):
        original = rs.models.resnet18(classes=4, channels=1, width=2)
        reference = rs.unlearn.Random()(original, task)
    return {"original": original, "unlearned": original, "reference": reference, "task": task}


def test_an_untouched_model_is_not_released(models):
    with pytest.raises(AssertionError, match="NOT_FORGOTTEN"):
        rs.assert_forgot(**models, curve=rs.measure.InformationCurve(last=1), measures=())
