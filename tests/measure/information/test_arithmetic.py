"""The arithmetic behind a curve's numbers, from scores and terms that were made up."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.stats import norm

from residua.measure.information.estimate import interval, plain_interval, skewed
from residua.measure.information.families import read_family
from residua.measure.information.fitting import Fits
from residua.measure.information.network import Course
from residua.measure.information.samples import FIT_ONLY, READ_ONLY, Samples
from residua.measure.information.summary import _warnings, build_curve

Z = norm.ppf(0.975)


def shifted(terms: np.ndarray) -> tuple[float, float]:
    """The interval by the studentised expansion of Cornish and Fisher, to first order in the skewness."""
    n, mean, spread = len(terms), terms.mean(), terms.std(ddof=1)
    skewness = np.mean((terms - mean) ** 3) / spread**3
    shift = np.clip(skewness / math.sqrt(n) * (2 * Z**2 + 1) / 6, -1, 1)
    return mean - (Z - shift) * spread / math.sqrt(n), mean + (Z + shift) * spread / math.sqrt(n)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_interval_of_skewed_terms_is_cornishs_and_fishers(sign):
    terms = sign * np.random.default_rng(0).exponential(size=60)
    assert skewed(terms) == pytest.approx(shifted(terms), rel=1e-6)
    few = np.zeros(40)
    few[0] = sign
    assert skewed(few) == pytest.approx(shifted(few), rel=1e-6), "the correction ends at one standard error"
    assert skewed(np.full(9, 0.3)) == (0.3, 0.3)
    barely = 0.3 + 1e-9 * np.random.default_rng(0).normal(size=50)
    assert skewed(barely)[0] < skewed(barely)[1]


def test_the_interval_is_centred_on_what_more_data_would_read():
    random = np.random.default_rng(1)
    terms = 0.2 + random.normal(0, 0.3, (1, 80))
    fewer = terms[0] - 0.05 + random.normal(0, 0.01, 80)
    low, high, shortfall = interval(terms, fewer, 0.69)
    assert shortfall == pytest.approx(terms.mean() - fewer.mean())
    assert (low, high) == pytest.approx(shifted(2 * terms[0] - fewer), rel=1e-6)
    more = terms[0] + 0.05
    assert interval(terms, more, 0.69) == pytest.approx((*shifted(terms[0]), 0.0), rel=1e-6), "no surplus of fewer"


def test_restarts_widen_the_interval_by_the_error_of_their_mean():
    random = np.random.default_rng(2)
    terms = 0.3 + random.normal(0, 0.1, (3, 200)) + np.array([[-0.05], [0.0], [0.08]])
    fewer = terms.mean(0)
    low, high, _ = interval(terms, fewer, 0.69)
    inner = shifted(terms.mean(0))
    extra = Z * terms.mean(1).std(ddof=1) / math.sqrt(3)
    centre = sum(inner) / 2
    ends = centre - math.hypot(centre - inner[0], extra), centre + math.hypot(inner[1] - centre, extra)
    assert (low, high) == pytest.approx(ends, rel=1e-6)
    two = interval(terms[:2], terms[:2].mean(0), 0.69)
    assert two[1] - two[0] > 2 * Z * terms[:2].mean(1).std(ddof=1) / math.sqrt(2) * 0.99


def test_an_interval_stays_between_nothing_and_all_and_holds_the_value():
    terms = np.full((1, 30), 0.05) + np.random.default_rng(3).normal(0, 0.4, 30)
    low, high, _ = interval(terms, terms[0], 0.1)
    assert (low, high) == (0.0, 0.1)
    below = np.random.default_rng(3).normal(-2.0, 0.01, (1, 30))
    assert interval(below, below[0], 0.1)[:2] == (0.0, 0.0)


def test_a_plain_interval_adds_samples_and_restarts():
    terms = np.random.default_rng(4).normal(0.2, 0.3, (3, 50))
    error = Z * math.sqrt(terms.mean(0).var(ddof=1) / 50 + terms.mean(1).var(ddof=1) / 3)
    mean = terms.mean()
    assert plain_interval(terms) == pytest.approx((mean, mean - error, mean + error), rel=1e-6)
    one = terms[:1]
    error = Z * math.sqrt(one[0].var(ddof=1) / 50)
    assert plain_interval(one) == pytest.approx((one.mean(), one.mean() - error, one.mean() + error), rel=1e-6)


def asked(sizes: tuple[int, ...] = (30, 90), fit: int = 20, test: int = 40) -> Samples:
    """Samples of folds 0 to 3, some that critics are fitted on, and test images; labels in turn."""
    own = torch.cat([torch.full((n,), label) for label, n in enumerate(sizes)])
    y = torch.cat([own, torch.arange(fit) % len(sizes), torch.arange(test) % len(sizes)])
    fold = torch.cat([torch.arange(len(own)) % 4, torch.full((fit,), FIT_ONLY), torch.full((test,), READ_ONLY)])
    return Samples((SimpleNamespace(index=torch.arange(len(y)) + 100),), y, fold)


def fits(some: Samples, strength: float, seed: int, weaker: float = 0.5) -> Fits:
    """A linear critic of two blocks, and one with half of the samples."""
    random = np.random.default_rng(seed)
    reading = some.fold != FIT_ONLY
    y, labels = some.y[reading].numpy(), len(some.prior)

    def scores(by: float) -> torch.Tensor:
        own = random.normal(0, 1, (1, len(y), labels))
        own[0, np.arange(len(y)), y] += by
        return torch.from_numpy(own)

    made = {block: {"linear": scores(strength * (6 - block)), "clouds": scores(strength)} for block in (4, 5)}
    fewer = {block: {"linear": scores(weaker * strength)} for block in (4, 5)}
    course = {4: [Course((50, 100), (0.1, 0.2), (0.3, 0.4), ended=seed == 0)]}
    return Fits(made, fewer, course, {4: 1.5, 5: 0.25})


def test_a_curve_holds_means_of_its_terms_and_their_intervals():
    some = asked()
    runs = [fits(some, 1.5, seed) for seed in (0, 1)]
    curve = build_curve(runs, some, [4, 5], ("linear", "nonlinear"), {"data": "d"})
    reading = some.fold != FIT_ONLY
    y, fold, prior = some.y[reading], some.fold[reading], some.prior
    own, test = fold >= 0, fold == READ_ONLY
    read = [read_family("linear", run.scores, y, fold, prior) for run in runs]
    both = [read_family("nonlinear", run.scores, y, fold, prior) for run in runs]
    fewer = [read_family("linear", run.fewer, y, fold, prior) for run in runs]
    assert curve.values["H"] == pytest.approx(-float((prior * prior.log()).sum()))
    assert curve.arrays["terms"].shape == (2, 2, 2, 120)
    assert curve.arrays["test_terms"].shape == (2, 2, 2, 40)
    assert curve.arrays["index"].tolist() == list(range(100, 220))
    assert curve.labels.tolist() == some.y[:120].tolist()
    assert curve.arrays["test_labels"].tolist() == some.y[140:].tolist()
    for row, block in enumerate((4, 5)):
        terms = np.stack([run[block].terms[own].numpy() for run in read])
        assert np.allclose(curve.arrays["terms"][0, :, row], terms, atol=2e-3)
        assert curve.values[f"I{block}"] == pytest.approx(terms.mean(), abs=2e-4)
        more = np.mean([run[block].terms[own].numpy() for run in both])
        assert abs(more - terms.mean()) > 1e-3
        assert curve.values[f"I{block}_nonlinear"] == pytest.approx(more, abs=2e-4)
        assert curve.values[f"I{block}_test"] == pytest.approx(
            np.mean([run[block].terms[test].numpy() for run in read]), abs=2e-4
        )
        less = np.mean([run[block].terms[own].numpy() for run in fewer], axis=0)
        low, high, shortfall = interval(curve.arrays["terms"][0, :, row].astype(float), less, curve.values["H"])
        assert (curve.values[f"I{block}_low"], curve.values[f"I{block}_high"]) == pytest.approx((low, high))
        assert curve.values[f"shortfall{block}"] == pytest.approx(shortfall)
        right = [((run[block].scores[own] + prior.log()).argmax(1) == y[own]).double().mean() for run in read]
        assert curve.values[f"accuracy{block}"] == pytest.approx(float(np.mean(right)))
        assert (f"samples{block}" in curve.notes) == (shortfall > max(0.02, 0.1 * curve.values[f"I{block}"]))
    assert curve.notes["samples4"].startswith("the critics of block 4 have too few samples")
    assert (
        curve.notes["plateau4"] == "the network critic of block 4 was still gaining after 100 steps; allow more rounds"
    )
    assert curve.arrays["course"].tolist() == pytest.approx(
        np.float32([[r, 4, 0, s, n, f] for r in (0, 1) for s, n, f in ((50, 0.1, 0.3), (100, 0.2, 0.4))])
    )
    assert curve.seconds == {"block4": 3.0, "block5": 0.5}
    assert curve.families == ["linear", "nonlinear"]


def test_without_test_images_there_are_no_terms_of_them():
    some = asked(test=0)
    curve = build_curve([fits(some, 1.5, 0)], some, [4, 5], ("linear",), {})
    assert "test_terms" not in curve.arrays
    assert "I5_test" not in curve.values


def test_a_mean_is_held_between_nothing_and_the_ceiling():
    some = asked((60, 60))
    perfect, silent = (build_curve([fits(some, strength, 0)], some, [4, 5], ("linear",), {}) for strength in (100, 0))
    means = perfect.arrays["terms"].mean(axis=-1, dtype=np.float64)
    assert (means > perfect.values["H"]).all(), "rounding carries the means beyond the ceiling"
    assert perfect.values["I4"] == perfect.values["I5"] == perfect.values["H"]
    assert silent.values["I4"] == silent.values["I5"] == 0


def test_few_samples_of_one_of_many_labels_are_warned_of():
    def few(given: Samples) -> dict[str, str]:
        return _warnings([], given, [], {})

    assert few(asked((99, 200, 300), fit=0)) != {}
    assert "only 99 samples" in few(asked((99, 200, 300), fit=0))["labels"]
    assert few(asked((100, 200, 300), fit=0)) == {}
    assert "only 1 samples" in few(asked((1, 200, 300), fit=0))["labels"]
    assert few(asked((20, 200))) == {}, "of two labels, the rarer is the forgotten one"
    assert "3 labels and only 67" in few(asked((60, 200, 300), fit=21))["labels"], "what critics are fitted on counts"


@pytest.mark.parametrize(
    ("stack", "linear", "nonlinear", "warned"),
    [
        (0.1, 0.04, 0.0, True),
        (0.1, 0.06, 0.0, False),
        (0.1, 0.0, 0.06, False),
        (0.03, 0.011, 0.0, False),
        (0.03, 0.009, 0.0, True),
    ],
)
def test_what_network_critics_read_alone_is_warned_of(stack, linear, nonlinear, warned):
    """More than 0.02 nats and more than half of the reading."""

    def of(**values: float) -> dict[str, str]:
        return _warnings([], asked((100, 200)), [4], {"I4": stack, "shortfall4": 0.0, **values})

    found = of(I4_linear=linear, I4_nonlinear=nonlinear)
    assert bool(found) == warned
    if warned:
        alone = stack - max(linear, nonlinear)
        assert found["network4"].startswith(f"{alone:.3f} of the {stack:.3f} nats of block 4")
    assert of() == {}
