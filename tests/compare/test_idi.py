from __future__ import annotations

import dataclasses
import importlib

import numpy as np
import pytest

import residua as rs
from residua.compare import check_comparable, curve_of, idi
from residua.measure import InformationCurve
from residua.readings import Curve


def curve(level: float, *, noise: int = 0, n: int = 4000, restarts: int = 1, data: str = "d", **measure) -> Curve:
    """A curve of two blocks that know `level` and twice that, each with its own noise."""
    common = np.random.default_rng(99).normal(0, 0.3, n)
    random = np.random.default_rng(noise)
    terms = np.empty((restarts, 2, n), np.float32)
    for r in range(restarts):
        shift = random.normal(0, 0.004) if restarts > 1 else 0.0
        own = random.normal(0, 0.1, (2, n))
        own -= own.mean(1, keepdims=True)
        terms[r] = np.array([[level], [2 * level]]) + shift + (common - common.mean()) + own
    means = terms.mean((0, 2), dtype=np.float64)
    return Curve(
        {"H": 0.69, "I4": float(means[0]), "I5": float(means[1])},
        {"terms": terms, "blocks": np.array([4, 5]), "labels": np.zeros(n, np.int32), "index": np.arange(n)},
        {"data": data, "measure": {"folds": 2} | measure},
    )


ORIGINAL, RETRAIN = curve(0.2, noise=1), curve(0.1, noise=2)


def test_original_is_one_and_the_reference_zero_without_doubt():
    for restarts in (1, 3):
        original, reference = curve(0.2, noise=1, restarts=restarts), curve(0.1, noise=2, restarts=restarts)
        one = idi(original, original=original, reference=reference)
        assert one.value == 1
        assert one.interval == pytest.approx((1, 1))
        zero = idi(reference, original=original, reference=reference)
        assert zero.value == 0
        assert zero.interval == pytest.approx((0, 0))


def test_the_value_is_the_ratio_of_the_differences():
    found = idi(curve(0.15, noise=3), original=ORIGINAL, reference=RETRAIN)
    assert found.value == pytest.approx(0.5, abs=1e-4)
    assert found.id_original == pytest.approx(0.3, abs=1e-4)
    assert found.interval[0] < found.value < found.interval[1]
    assert sum(found.blocks.values()) == pytest.approx(found.value)
    assert found.blocks[5] == pytest.approx(2 * found.blocks[4], rel=1e-3)


def test_last_takes_the_last_blocks_only():
    found = idi(curve(0.15, noise=3), original=ORIGINAL, reference=RETRAIN, last=1)
    assert list(found.blocks) == [5]
    assert found.id_original == pytest.approx(0.2, abs=1e-4)


def test_another_reference_keeps_the_order():
    models = [curve(level, noise=10 + i) for i, level in enumerate((0.05, 0.12, 0.19))]
    for reference in (RETRAIN, curve(0.02, noise=5)):
        values = [idi(model, original=ORIGINAL, reference=reference).value for model in models]
        assert values == sorted(values)


def test_the_interval_covers_what_resampling_the_samples_would_give():
    """Fresh samples of the same three models: the 95 % interval of each holds the true ratio about as often."""
    random = np.random.default_rng(0)
    held = 0
    for _ in range(200):
        common, own = random.normal(0, 0.5, 400), random.normal(0, 0.3, (3, 400))
        curves = []
        for level, noise in zip((0.15, 0.3, 0.1), own, strict=True):
            terms = (level + common + noise)[None, None].astype(np.float32)
            curves.append(
                Curve({"H": 0.69, "I5": 0.0}, {"terms": terms, "blocks": np.array([5]), "labels": np.zeros(400)}, {})
            )
        found = idi(curves[0], original=curves[1], reference=curves[2])
        held += found.interval is not None and found.interval[0] <= 0.25 <= found.interval[1]
    assert 0.90 <= held / 200 <= 0.99


def test_restarts_are_kept_apart_and_widen_the_interval():
    curves = [curve(level, noise=i, restarts=3) for i, level in enumerate((0.15, 0.2, 0.1), start=4)]
    found = idi(curves[0], original=curves[1], reference=curves[2])
    assert found.restarts > 0
    assert found.samples > 0
    assert idi(curve(0.15, noise=3), original=ORIGINAL, reference=RETRAIN).restarts is None


def test_nothing_is_determined_when_original_knows_no_more_than_the_reference():
    same = curve(0.2, noise=7)
    found = idi(curve(0.1, noise=8), original=ORIGINAL, reference=same)
    assert found.value is None
    assert found.interval is None
    assert "does not clearly know more" in found.reason


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        (curve(0.1, data="e"), "data differs"),
        (curve(0.1, folds=5), "folds 5 and 2|folds 2 and 5"),
        (curve(0.1, restarts=2), "other blocks"),
    ],
)
def test_curves_of_other_settings_or_data_are_refused(other, sentence):
    with pytest.raises(rs.InputError, match=sentence):
        idi(ORIGINAL, original=ORIGINAL, reference=other)
    with pytest.raises(rs.InputError, match="cannot be compared"):
        check_comparable(other, ORIGINAL)


def test_blocks_that_were_not_measured_are_refused():
    with pytest.raises(rs.InputError, match="last is 3, expected 1 to 2"):
        idi(ORIGINAL, original=ORIGINAL, reference=RETRAIN, last=3)
    with pytest.raises(rs.InputError, match="block 2 was not measured"):
        ORIGINAL.terms([2])


def test_a_curve_survives_its_record(tmp_path):
    record = rs.Record(name="o", setting={}, method={"label": "Original"}, seeds={}, readings={})
    record = record.with_reading(InformationCurve(), ORIGINAL, 0.0)
    again = curve_of(rs.Record.read(record.write(tmp_path)))
    assert idi(again, original=ORIGINAL, reference=RETRAIN) == idi(ORIGINAL, original=ORIGINAL, reference=RETRAIN)
    assert dataclasses.asdict(again)["values"] == dict(ORIGINAL.values)


def test_of_very_many_samples_normal_draws_give_the_interval_of_resampling(monkeypatch):
    u, o, r = (curve(level, noise=20 + i, n=25_000) for i, level in enumerate((0.15, 0.2, 0.1)))
    fast = idi(u, original=o, reference=r)
    monkeypatch.setattr(importlib.import_module("residua.compare.information"), "NORMAL", 10**9)
    slow = idi(u, original=o, reference=r)
    assert fast.value == slow.value
    width = slow.interval[1] - slow.interval[0]
    assert fast.interval == pytest.approx(slow.interval, abs=0.1 * width)
    assert fast.block_intervals[5] == pytest.approx(slow.block_intervals[5], abs=0.1 * width)


def test_draws_of_the_bootstrap_are_means_of_resampled_rows():
    information = importlib.import_module("residua.compare.information")
    table = np.random.default_rng(1).normal(size=(37, 3))
    drawn = information._resampled(list(table.T), np.random.default_rng(5))
    rows = np.random.default_rng(5).integers(0, 37, (information.DRAWS, 37))
    assert np.allclose(np.stack(drawn, axis=1), table[rows].mean(axis=1), rtol=0, atol=1e-12)
