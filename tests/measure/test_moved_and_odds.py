"""Moved images, the model's own log-odds, and offline attacks by the references."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import rankdata

import residua as rs
from residua.compare import offline_attacks
from residua.measure import LogOdds, Moved
from residua.readings import Reading

pytestmark = pytest.mark.usefixtures("one_thread")


def pixels(split) -> torch.Tensor:
    return torch.cat([x for x, _ in split.batches(64)])


def test_every_image_is_moved_by_a_pixel_in_the_same_way_each_time(task):
    moved = Moved(crop=0).moved(task)
    own, other = pixels(task.forget), pixels(moved.forget)
    assert torch.equal(other, pixels(Moved(crop=0).moved(task).forget))
    assert all(not torch.equal(a, b) for a, b in zip(own, other, strict=True))
    assert not torch.equal(other, pixels(Moved(seed=1, crop=0).moved(task).forget))
    assert moved.forget.digest() != task.forget.digest()
    # The inside of each image is that of the image, shifted and perhaps mirrored.
    for a, b in zip(own[:20], other[:20], strict=True):
        kinds = [torch.roll(a, (y, x), (1, 2)) for y in (-1, 0, 1) for x in (-1, 0, 1) if (y, x) != (0, 0)]
        kinds += [each.flip(2) for each in kinds]
        assert any(torch.equal(each[:, 1:-1, 1:-1], b[:, 1:-1, 1:-1]) for each in kinds)


def windows(image: torch.Tensor, height: int, width: int) -> list[torch.Tensor]:
    """Every window of this size, enlarged to the whole image by the nearest pixel, and its mirror image."""
    _, rows, cols = image.shape
    y, x = ((torch.arange(n) + 0.5) * m / n for n, m in ((rows, height), (cols, width)))
    cut = [
        image[:, i : i + height, j : j + width][:, y.long()][:, :, x.long()]
        for i in range(rows - height + 1)
        for j in range(cols - width + 1)
    ]
    return cut + [each.flip(2) for each in cut]


def test_one_half_of_the_images_are_windows_of_themselves(task):
    own, shifted, other = (
        pixels(each.forget) for each in (task, Moved(crop=0).moved(task), Moved(crop=0.25).moved(task))
    )
    cropped = [i for i in range(len(own)) if not torch.equal(shifted[i], other[i])]
    assert 0.35 * len(own) < len(cropped) < 0.65 * len(own)
    for i in cropped:
        assert any(torch.equal(each, other[i]) for each in windows(own[i], 6, 6))
    assert Moved(crop=0.25).moved(task).forget.digest() != Moved(crop=0.5).moved(task).forget.digest()


def test_a_crop_leaves_out_a_pixel_at_least_and_never_all(task):
    other = pixels(Moved(crop=0.001).moved(task).forget)
    shifted = pixels(Moved(crop=0).moved(task).forget)
    for a, b, c in zip(pixels(task.forget), shifted, other, strict=True):
        assert torch.equal(b, c) or any(torch.equal(each, c) for each in windows(a, 7, 7))
    alone = pixels(Moved(crop=0.99).moved(task).forget)
    assert any(len(each.unique()) == 1 for each in alone), "one pixel, enlarged"
    with pytest.raises(rs.InputError, match="crop is 1"):
        Moved(crop=1)


def test_moved_images_are_read_as_the_others_are(truths, stripes):
    task = rs.forget_classes(stripes, 2)
    found = Moved()(truths["original"], task)
    assert found.arrays["terms"].shape[2:] == (1, len(task.forget) + len(task.retain))
    with torch.inference_mode():
        said = truths["original"](pixels(Moved().moved(task).forget)).argmax(1)
    assert found.values["UA_moved"] == pytest.approx(float((said != 2).double().mean()))


def test_log_odds_distinguish_the_forgotten_class_as_far_as_they_do(truths, stripes):
    task = rs.forget_classes(stripes, 2)
    found = {name: LogOdds()(truths[name], task) for name in ("original", "reference")}
    assert found["original"].values["log_odds"] > found["reference"].values["log_odds"]
    with torch.inference_mode():
        p = [torch.softmax(truths["original"](pixels(s)).double(), 1)[:, 2] for s in (task.forget_test, task.test)]
    ranks = rankdata(torch.cat(p).numpy())
    n, m = map(len, p)
    area = (ranks[:n].sum() - n * (n + 1) / 2) / (n * m)
    assert found["original"].values["log_odds"] == pytest.approx(area, abs=1e-6)
    assert len(found["original"].arrays["forget"]) == len(task.forget)


def test_offline_attacks_find_members_and_leave_strangers_at_chance():
    random = np.random.default_rng(0)
    hardness = {"forget": random.normal(0, 3, 400), "unseen": random.normal(0, 3, 300)}

    def reading(surplus: float) -> Reading:
        kept = {name: each + random.normal(0, 1, len(each)) for name, each in hardness.items()}
        return Reading({}, kept | {"forget": kept["forget"] + surplus})

    references = [reading(0.0) for _ in range(5)]
    honest, member = (offline_attacks(reading(surplus), references).values for surplus in (0.0, 2.0))
    assert abs(honest["offline_LiRA"] - 0.5) < 0.08
    assert abs(honest["offline_RMIA"] - 0.5) < 0.08
    # A difference of 2 with a variance of 1 + 1/5 in each: P(N(2, 2.4) > 0).
    assert member["offline_LiRA"] == pytest.approx(0.90, abs=0.04)
    assert member["offline_RMIA"] > 0.75
    assert member["offline_LiRA.low"] < member["offline_LiRA"] < member["offline_LiRA.high"]
    nothing = Reading({}, {"forget": np.zeros(3), "unseen": np.zeros(0)})
    assert "no unseen image" in offline_attacks(nothing, [nothing]).notes["offline_LiRA"]
