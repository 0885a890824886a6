"""E-MIA and C-MIA where the truth is planted, and what the attacker may see."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.stats
import torch
from planted import CLASSES, TEST, TRAIN, TRUTH, coded, memorised, saying
from sklearn.metrics import roc_auc_score
from sklearn.svm import SVC

import residua as rs
from residua.measure import Membership
from residua.measure import membership as attack
from residua.measure._outputs import log_probabilities
from residua.measure.membership import Sides, contents, sides

pytestmark = pytest.mark.usefixtures("one_thread")
MEMBER = np.arange(TRAIN + TEST) < TRAIN


@pytest.fixture(scope="module")
def forgotten() -> rs.ForgetTask:
    return rs.forget_samples(coded(), 25, seed=3)


@pytest.mark.parametrize("classifier", ["logistic", "svc"])
@pytest.mark.parametrize("name", ["E-MIA", "C-MIA"])
def test_a_memorising_model_gives_its_members_away(forgotten, classifier, name):
    found = Membership(classifier=classifier, held_out=0.5)(saying(memorised(MEMBER)), forgotten).values
    assert found[name] > 0.97
    assert found[f"{name}.accuracy"] > 0.95
    assert found[f"{name}.AUC"] > 0.97
    assert found[f"{name}.TPR@1e-2"] > 0.8


@pytest.mark.parametrize("classifier", ["logistic", "svc"])
def test_data_that_were_never_learned_are_not_called_members(forgotten, classifier):
    """The model memorised the retained data only: the forget set looks like test data."""
    known = MEMBER.copy()
    known[forgotten.forget.index] = False
    found = Membership(classifier=classifier)(saying(memorised(known)), forgotten).values
    assert found["E-MIA"] < 0.05
    assert found["C-MIA"] < 0.05
    assert found["C-MIA.accuracy"] > 0.95


def test_the_svc_sees_confidences_as_they_are_like_the_public_codes(forgotten):
    """Close together, as those of a converged model are, standardised ones would be another attack."""
    noise = np.random.default_rng(0).normal(0, 0.5, len(MEMBER))
    table = np.eye(CLASSES)[TRUTH] * (6.0 + 0.5 * MEMBER + noise)[:, None]
    measure = Membership(classifier="svc", held_out=0.5)
    chosen = sides(forgotten, held_out=0.5, most=measure.most, seed=0)
    seen = {
        name: log_probabilities(saying(table), split).gather(1, split.labels[:, None]).exp().numpy()
        for name, split in forgotten.splits.items()
    }
    fit = np.concatenate([seen["retain"][chosen.members], seen["test"][chosen.others]])
    truth = np.repeat([1, 0], [len(chosen.members), len(chosen.others)])
    called = SVC(C=3, gamma="auto", kernel="rbf").fit(fit, truth).predict(seen["forget"]).mean()
    assert measure(saying(table), forgotten).values["C-MIA"] == pytest.approx(called)
    narrow = SVC(C=3, gamma="auto", kernel="rbf").fit((fit - fit.mean()) / fit.std(), truth)
    other = narrow.predict((seen["forget"] - fit.mean()) / fit.std()).mean()
    assert abs(other - called) > 0.02, "else this shows nothing"


def test_lucky_guesses_are_called_members_as_often_as_chance_has_it(forgotten):
    """As sure of a guess as of what it memorised: of four classes one in four guesses is right."""
    known = MEMBER.copy()
    known[forgotten.forget.index] = False
    table = memorised(known)
    found = Membership()(saying(table / table.max(axis=1, keepdims=True) * 8), forgotten).values
    assert found["C-MIA"] == pytest.approx(1 / CLASSES, abs=0.1)
    assert found["C-MIA.accuracy"] == pytest.approx(1 - 1 / CLASSES / 2, abs=0.08)


def test_a_model_that_treats_all_alike_leaves_the_attacker_at_chance(forgotten):
    found = Membership()(saying(memorised(np.zeros(TRAIN + TEST, bool))), forgotten).values
    for name in ("E-MIA", "C-MIA"):
        assert found[f"{name}.accuracy"] == pytest.approx(0.5, abs=0.15)
        assert found[f"{name}.AUC"] == pytest.approx(0.5, abs=0.15)


def test_what_the_attacker_sees_is_entropy_and_confidence(forgotten, monkeypatch):
    seen = {}

    def spy(name, classifier, chosen, **sides):
        seen[name] = sides
        return rs.measure.membership.Reading({name: 0.0})

    monkeypatch.setattr("residua.measure.membership.attack", spy)
    table = np.random.default_rng(0).normal(0, 3, (TRAIN + TEST, CLASSES))
    Membership()(saying(table), forgotten)
    for name, split in (("forget", forgotten.forget), ("retain", forgotten.retain)):
        p = scipy.special.softmax(table[split.index.numpy()], axis=1)
        assert seen["E-MIA"][name][:, 0].numpy() == pytest.approx(scipy.stats.entropy(p, axis=1), abs=1e-5)
        own = p[np.arange(len(p)), split.labels.numpy()]
        assert seen["C-MIA"][name][:, 0].numpy() == pytest.approx(own, abs=1e-6)


def test_the_curve_is_that_of_the_held_out_scores():
    """ROC, AUC and TPR at low FPR of known scores, against scikit-learn and by counting."""

    class Known:
        def fit(self, x, y):
            return self

        def decision_function(self, x):
            return x[:, 0]

    random = np.random.default_rng(1)
    retain, test = (torch.tensor(random.normal(m, 1, (500, 1))) for m in (1.0, 0.0))
    halves = torch.arange(200), torch.arange(200, 500)
    chosen = Sides(halves[0], halves[0], halves[1], halves[1])
    forget = torch.tensor([[9.0], [9.0], [9.0], [-9.0]])
    found = attack.attack("X", Known(), chosen, retain=retain, test=test, forget=forget)
    members, others = retain[200:, 0].numpy(), test[200:, 0].numpy()
    truth = np.repeat([1, 0], 300)
    assert found.values["X"] == 0.75
    assert found.values["X.AUC"] == pytest.approx(roc_auc_score(truth, np.concatenate([members, others])))
    threshold = np.sort(others)[-4]  # three of 300 above it
    assert found.values["X.TPR@1e-2"] == pytest.approx((members > threshold).mean())
    assert "X.TPR@1e-3" not in found.values
    assert "1000 held-out" in found.notes["X.TPR@1e-3"]
    middle = torch.cat([retain[:200], test[:200]]).mean().item()  # scores are shifted to mean 0
    assert found.values["X.accuracy"] == pytest.approx(((members > middle).sum() + (others <= middle).sum()) / 600)
    assert np.trapezoid(found.arrays["X.tpr"], found.arrays["X.fpr"]) == pytest.approx(found.values["X.AUC"])


def test_the_attack_is_balanced_and_held_out_data_are_apart(forgotten):
    chosen = sides(forgotten, held_out=0.3, most=None, seed=0)
    assert len(chosen.members) == len(chosen.others) == 210  # 70 % of 300 retained
    assert len(chosen.members_held) == len(chosen.others_held) == 90
    assert not set(chosen.members.tolist()) & set(chosen.members_held.tolist())
    assert not set(chosen.others.tolist()) & set(chosen.others_held.tolist())
    capped = sides(forgotten, held_out=0.5, most=50, seed=0)
    assert [len(part) for part in dataclasses.astuple(capped)] == [25, 25, 25, 25]


def test_an_attacker_that_would_see_what_it_is_tested_on_is_refused(forgotten):
    leaking = dataclasses.replace(forgotten, retain=forgotten.retain.joined(forgotten.forget.subset(torch.arange(3))))
    for measure in (Membership(), rs.measure.WhiteBoxMembership()):
        with pytest.raises(rs.InputError, match="3 examples are in forget and in retain"):
            measure(saying(memorised(MEMBER)), leaking)


def test_equal_pictures_of_the_data_never_reach_the_attacker():
    """The third image is forgotten and, under another index, retained; the fifth is retained and tested."""
    data = coded()
    pixels = data.train.images.pixels.clone()
    pixels[7] = pixels[3]
    pixels[11] = data.test.images.pixels[5]
    twin = rs.data.arrays(
        pixels.permute(0, 3, 1, 2), data.train.labels, data.test.images.pixels.permute(0, 3, 1, 2),
        data.test.labels, mean=[0.0], std=[1.0],
    )  # fmt: skip
    task = rs.forget_indices(twin, [3, 4])
    chosen = sides(task, held_out=0.3, most=None, seed=0)
    fitted = contents(task.retain.subset(chosen.members)), contents(task.test.subset(chosen.others))
    held = contents(task.retain.subset(chosen.members_held)), contents(task.test.subset(chosen.others_held))
    assert not {*fitted[0], *fitted[1]} & {*held[0], *held[1]}
    members, others = fitted[0] + held[0], fitted[1] + held[1]
    assert len(members) == len(others) == 396  # 398 retained without the two twins
    assert not set(members) & set(others)
    assert not (set(members) | set(others)) & set(contents(task.forget))


def test_too_little_data_and_unknown_classifiers_are_refused(forgotten):
    few = dataclasses.replace(forgotten, test=forgotten.test.subset(torch.arange(9)))
    with pytest.raises(rs.InputError, match="needs 10 members"):
        Membership()(saying(memorised(MEMBER)), few)
    with pytest.raises(rs.InputError, match="choose logistic or svc"):
        Membership(classifier="forest")(saying(memorised(MEMBER)), forgotten)
    with pytest.raises(rs.InputError, match="held_out is 1"):
        Membership(held_out=1.0)(saying(memorised(MEMBER)), forgotten)
