"""Metrics of other papers, on cases whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

import residua as rs
from residua.compare import jsd_paper, klom, metrics, zrf_paper
from residua.readings import Reading

rng = np.random.default_rng(0)


def outputs(logits: np.ndarray) -> Reading:
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return Reading({}, {"log_probabilities": log_p, "random": np.full_like(log_p, -np.log(log_p.shape[1]))})


def features(forget: np.ndarray, retain: np.ndarray) -> Reading:
    index = {"forget.index": np.arange(len(forget)), "retain.index": np.arange(len(retain))}
    return Reading({}, {"forget.2": forget - forget.mean(0), "retain.2": retain - retain.mean(0), **index})


def test_equal_outputs_agree_and_opposite_ones_do_not():
    sure, other = 50 * np.eye(3)[[0, 1, 1]], 50 * np.eye(3)[[0, 1, 2]]
    same = metrics({"outputs": outputs(sure)}, reference={"outputs": outputs(sure)}).values
    assert (same["activation_distance"], same["completeness"]) == (0, 1)
    found = metrics({"outputs": outputs(sure)}, reference={"outputs": outputs(other)}).values
    assert found["activation_distance"] == pytest.approx(np.sqrt(2) / 3)
    assert found["completeness"] == pytest.approx(2 / 3)


def test_the_public_zrf_is_close_to_one_with_many_classes_whatever_is_answered():
    log_p, random = (outputs(5 * np.eye(100)[:9]).arrays[name] for name in ("log_probabilities", "random"))
    assert zrf_paper(log_p, random) == 1 - jsd_paper(log_p, random) / 100
    assert zrf_paper(log_p, random) > 0.99


def test_kr_is_the_last_probe_and_lpr_a_fraction_of_originals():
    mine = Reading({"probe.1": 0.3, "probe.2": 0.2, "probe.test.2": 0.9})
    before = Reading({"probe.1": 0.3, "probe.2": 0.8, "probe.test.2": 0.9})
    found = metrics({"probe": mine}, original={"probe": before}).values
    assert found["KR"] == 0.2
    assert (found["LPR.1"], found["LPR.2"], found["LPR"]) == pytest.approx((1, 0.25, 0.625))
    unread = Reading({"probe.test.2": 0.9}, notes={"probe.1": "no image"})
    assert metrics({"probe": unread}, original={"probe": before}).notes["KR"] == "no image"


def test_rus_rewards_changed_forget_and_equal_retain_features_alone():
    forget, retain, new = (rng.normal(size=(200, 8)) for _ in range(3))
    original = {"representation": features(forget, retain)}

    def rus(*parts: np.ndarray) -> float:
        return metrics({"representation": features(*parts)}, original=original).values["RUS"]

    assert rus(forget, retain) == pytest.approx(0, abs=1e-9)
    assert rus(new, retain) > 0.9
    assert rus(new, rng.normal(size=(200, 8))) < 0.2


def test_klom_is_larger_for_other_margins_than_for_other_draws():
    reference, again = rng.normal(size=(2, 400, 5))
    assert klom(reference, reference).max() == 0
    assert klom(again, reference).max() < 0.2
    assert klom(again + 3, reference).min() > 1
    with pytest.raises(rs.InputError, match="19 are too few; give 20 or more"):
        klom(reference[:19], reference)
