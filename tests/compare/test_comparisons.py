"""Divergences, AUS, relearning, distances: parity with libraries and formulas, and planted truths."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch
from scipy.spatial.distance import jensenshannon

import residua as rs
from residua.compare import (
    ain,
    aus,
    average_gap,
    cka,
    class_changes,
    jsd,
    jsd_paper,
    linear_cka,
    relearn_time,
    weight_distance,
    zrf,
)
from residua.readings import Reading


def random_log_p(n: int = 50, classes: int = 7, seed: int = 0, sharp: float = 2.0) -> np.ndarray:
    return scipy.special.log_softmax(np.random.default_rng(seed).normal(0, sharp, (n, classes)), axis=1)


SATURATED = scipy.special.log_softmax(1e4 * np.eye(5), axis=1)


def test_jsd_is_scipys():
    p, q = random_log_p(seed=0), random_log_p(seed=1)
    assert jsd(p, q) == pytest.approx((jensenshannon(np.exp(p), np.exp(q), axis=1) ** 2).mean(), abs=1e-12)


def test_jsd_paper_exchanges_the_arguments():
    p, q = np.exp(random_log_p(seed=0)), np.exp(random_log_p(seed=1))
    m = (p + q) / 2
    expected = (scipy.stats.entropy(m, p, axis=1) + scipy.stats.entropy(m, q, axis=1)) / 2
    assert jsd_paper(np.log(p), np.log(q)) == pytest.approx(expected.mean())


def test_jsd_of_a_model_with_itself_is_0_and_with_its_opposite_ln_2():
    for log_p in (random_log_p(sharp=30), SATURATED):
        assert jsd(log_p, log_p) == 0
        assert jsd_paper(log_p, log_p) == 0
    assert jsd(SATURATED, np.roll(SATURATED, 1, axis=0)) == pytest.approx(math.log(2), abs=1e-12)
    assert jsd_paper(SATURATED, np.roll(SATURATED, 1, axis=0)) > 3  # the paper's tables reach 4.5
    hard = np.log(np.eye(5), where=np.eye(5) > 0, out=np.full((5, 5), -np.inf))
    assert jsd(hard, np.roll(hard, 1, axis=0)) == pytest.approx(math.log(2), abs=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_jsd_never_leaves_its_range_and_is_symmetric(seed):
    sharp = 10.0 ** (seed % 5 - 1)
    p, q = random_log_p(seed=seed, sharp=sharp), random_log_p(seed=seed + 100, sharp=sharp)
    assert 0 <= jsd(p, q) <= math.log(2)
    assert jsd(p, q) == pytest.approx(jsd(q, p))


def test_zrf_at_its_limits():
    assert zrf(SATURATED, SATURATED) == 1
    assert zrf(SATURATED, np.roll(SATURATED, 1, axis=0)) == pytest.approx(0, abs=1e-12)


def test_outputs_that_do_not_belong_together_are_refused():
    with pytest.raises(rs.InputError, match="same samples"):
        jsd(random_log_p(50), random_log_p(49))
    with pytest.raises(rs.InputError, match="sum to 1"):
        jsd(np.exp(random_log_p()), random_log_p())


def test_aus_at_its_limits():
    perfect = {"test": 0.9, "original_test": 0.9}
    assert aus(**perfect, forgotten=0.0, scenario="class") == 1
    assert aus(**perfect, forgotten=1.0, scenario="class") == 0.5
    assert aus(**perfect, forgotten=0.9, scenario="random") == 1
    assert aus(test=0.0, original_test=1.0, forgotten=0.0, scenario="class") == 0
    assert aus(test=0.7, original_test=0.9, forgotten=0.25, scenario="class") == pytest.approx(0.8 / 1.25)
    assert aus(test=0.7, original_test=0.9, forgotten=0.5, scenario="random") == pytest.approx(0.8 / 1.2)
    with pytest.raises(rs.InputError, match=r"test is 70, expected an accuracy in \[0, 1\]"):
        aus(test=70, original_test=0.9, forgotten=0.5, scenario="random")


def test_the_average_gap_is_over_what_both_have_whatever_its_sign():
    u, r = {"UA": 0.9, "RA": 0.8, "E-MIA": 0.3, "x": 1.0}, {"UA": 1.0, "RA": 0.7, "E-MIA": 0.3}
    assert average_gap(u, r) == pytest.approx(0.2 / 3)
    with pytest.raises(rs.InputError, match="share none"):
        average_gap({"x": 1.0}, r)


def course(*accuracies: float) -> Reading:
    return Reading({"relearning.before": accuracies[0]}, {"course": np.array(accuracies)})


def test_relearning_is_counted_in_mini_batches_until_5_per_cent_below_original():
    original = course(0.8, 0.9)
    assert relearn_time(course(0.0, 0.5, 0.759, 0.7601), original).values == {"RT": 3.0}
    assert relearn_time(original, original).values == {"RT": 0.0}
    never = relearn_time(course(0.0, 0.1, 0.2), original)
    assert never.values == {}
    assert never.notes == {"RT": "not relearned within 2 mini-batches"}


def test_ain_divides_two_counts_or_says_why_not():
    original, slow, fast = course(0.8), course(0, 0, 0, 0, 0.8), course(0, 0.8)
    assert ain(fast, original=original, reference=slow).values == {"AIN": 0.25}
    assert ain(slow, original=original, reference=slow).values == {"AIN": 1.0}
    assert "before any" in ain(slow, original=original, reference=original).notes["AIN"]
    assert "the reference was not" in ain(fast, original=original, reference=course(0, 0)).notes["AIN"]
    assert "the model was not" in ain(course(0, 0), original=original, reference=fast).notes["AIN"]


def by_class(right: list[int], count: list[int], forgotten: int) -> Reading:
    retained = np.arange(len(count)) != forgotten
    return Reading({}, {"right": np.array(right), "count": np.array(count), "retained": retained})


def test_the_most_damaged_neighbour_is_found():
    original, unlearned = (by_class([9, 8, 7, 0], [10, 10, 10, 0], 1), by_class([9, 0, 2, 0], [10, 10, 10, 0], 1))
    found = class_changes(unlearned, original)
    assert found.values == pytest.approx(
        {"class_change.0": 0.0, "class_change.1": -0.8, "class_change.2": -0.5, "class_change.worst": -0.5}
    )
    assert list(found.notes) == ["class_change.3"]
    with pytest.raises(rs.InputError, match="other test data"):
        class_changes(unlearned, by_class([9, 8, 7, 0], [10, 10, 9, 0], 1))


def test_cka_on_matrices_with_a_known_answer():
    random = np.random.default_rng(0)
    x = random.normal(size=(200, 6))
    rotation = np.linalg.qr(random.normal(size=(6, 6)))[0]
    assert linear_cka(x, 3.7 * x @ rotation + 5) == pytest.approx(1)
    one, two = np.array([1.0, -1, 1, -1]), np.array([1.0, 1, -1, -1])
    assert linear_cka(one[:, None], two[:, None]) == pytest.approx(0)
    # A plane against one of its two equal directions: |Y^T X|^2 = 16, |X^T X| = 4 sqrt 2, |Y^T Y| = 4.
    assert linear_cka(np.stack([one, two], axis=1), one[:, None]) == pytest.approx(1 / math.sqrt(2))
    assert linear_cka(np.ones((5, 2)), random.normal(size=(5, 2))) is None
    with pytest.raises(rs.InputError, match="same samples"):
        linear_cka(x, x[:5])


def test_cka_is_the_formula_with_centred_gram_matrices():
    random = np.random.default_rng(1)
    x, y = random.normal(size=(60, 5)), random.normal(size=(60, 9)) ** 2
    centre = np.eye(60) - 1 / 60
    k, m = centre @ x @ x.T @ centre, centre @ y @ y.T @ centre
    assert linear_cka(x, y) == pytest.approx((k * m).sum() / (np.linalg.norm(k) * np.linalg.norm(m)))


def test_two_models_are_compared_on_the_same_samples_only(net, task):
    measure = rs.measure.Representation(most=20)
    mine = measure(net, task)
    with rs.seeded(3):
        other = measure(rs.reinitialise(rs.clone(net)), task)
    same, found = cka(mine, mine), cka(mine, other, "CKA.original")
    assert len(same.values) == 10
    assert all(value == pytest.approx(1) for value in same.values.values())
    assert found.values.keys() == {f"CKA.original.{s}.{b}" for s in ("forget", "retain") for b in range(1, 6)}
    assert all(0 <= value < 0.999 for name, value in found.values.items() if not name.endswith(".1"))
    with pytest.raises(rs.InputError, match="other samples"):
        cka(mine, rs.measure.Representation(most=20, seed=1)(net, task))


@pytest.mark.parametrize("dim", [5000, 400])
def test_distances_of_weights_are_those_of_the_planted_steps(net, task, dim):
    measure = rs.measure.WeightSketch(dim=dim)
    moved = rs.clone(net)
    truth = {}
    with rs.seeded(5), torch.no_grad():
        for name, part in (("2", moved.blocks[1]), ("5", moved.blocks[4]), ("head", moved.head)):
            steps = [torch.randn_like(p) for p in part.parameters()]
            for p, step in zip(part.parameters(), steps, strict=True):
                p += step
            truth[name] = math.sqrt(sum(float(step.square().sum()) for step in steps))
    found = weight_distance(measure(moved, task), measure(net, task), "d").values
    assert found["d.1"] == found["d.3"] == 0
    for name, distance in truth.items():
        assert found[f"d.{name}"] == pytest.approx(distance, rel=4 / math.sqrt(2 * dim))
    assert found["d"] == pytest.approx(math.sqrt(sum(d**2 for d in truth.values())), rel=0.15)
    assert found["d"] > 0
    assert weight_distance(measure(net, task), measure(rs.clone(net), task)).values["weight_distance"] == 0
    norm = math.sqrt(sum(float(p.detach().double().square().sum()) for p in net.parameters()))
    assert measure(net, task).values["weight_norm"] == pytest.approx(norm)


def test_weights_of_other_networks_or_sketches_are_refused(net, task):
    measure = rs.measure.WeightSketch(dim=50)
    wider = rs.models.resnet18(classes=4, channels=1, width=3)
    apart = weight_distance(measure(net, task), measure(wider, task))
    assert "weight_distance" not in apart.values
    assert "not of one architecture" in apart.notes["weight_distance"]
    assert "another size" in apart.notes["weight_distance.1"]
    with pytest.raises(rs.InputError, match="other settings"):
        weight_distance(measure(net, task), rs.measure.WeightSketch(dim=50, seed=1)(net, task))
