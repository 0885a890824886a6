from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import nn

import residua as rs
from residua.measure.information import calibration, critics, fitting, network, summary
from residua.measure.information import curve as information_curve
from residua.measure.information.curve import InformationCurve
from residua.measure.information.network import stratified
from residua.measure.information.paper_protocol import LABEL_LR, paper_lr
from residua.measure.information.samples import FIT_ONLY, READ_ONLY, samples
from residua.models.classifier import weights_digest

pytestmark = pytest.mark.usefixtures("one_thread")
QUICK = InformationCurve(steps=10, rounds=1, batch=32)


@pytest.fixture
def few_steps(monkeypatch):
    """For tests of many curves. What the perceptron reads is asked in test_estimate.py and test_calibration.py."""
    monkeypatch.setattr(critics, "FEWEST_STEPS", 15)


@pytest.fixture
def known(task, net):
    """A model that knows the levels, and one that knows nothing."""
    with rs.seeded(0):
        trained = rs.Pretraining(epochs=4, batch=32, lr=0.05, crop=0)(net, task.train)
    return trained, net


def test_a_trained_encoder_knows_what_was_trained(known, task):
    curve = QUICK(known[0], task)
    assert curve.blocks == [4, 5]
    assert curve.ceiling == pytest.approx(-(0.25 * np.log(0.25) + 0.75 * np.log(0.75)))
    assert curve.information[5] > 0.5 * curve.ceiling
    assert all(value <= curve.ceiling for value in curve.information.values())
    assert curve.accuracy[5] > 0.85


@pytest.mark.usefixtures("few_steps")
def test_terms_are_kept_for_every_sample_and_average_to_the_curve(net, task):
    curve = InformationCurve(steps=5, rounds=1, batch=32, restarts=2)(net, task)
    assert curve.arrays["terms"].shape == (4, 2, 2, 240)
    assert curve.families == ["stack", "linear", "network", "nonlinear"]
    for block in (4, 5):
        assert curve.residue(block).mean() == pytest.approx(curve.information[block], abs=1e-5)
        by_label = [curve.residue(block)[curve.labels == label].mean() for label in (0, 1)]
        assert 0.75 * by_label[0] + 0.25 * by_label[1] == pytest.approx(curve.information[block], abs=1e-5)
    assert np.array_equal(np.bincount(curve.labels), [180, 60])
    assert set(curve.arrays["index"][curve.labels == 1]) == set(task.forget.index.tolist())


def test_shuffled_labels_are_not_known(data, known):
    random = rs.forget_indices(data, torch.randperm(240, generator=torch.Generator().manual_seed(0))[:60])
    scrambled = rs.ForgetTask("levels", "class", (), random.forget, random.retain, random.test, random.forget_test)
    curve = QUICK(known[0], scrambled)
    assert all(low <= 0.02 for low, _ in curve.intervals.values())
    assert all(abs(value) < 0.1 for value in curve.information.values())


def test_every_curve_says_what_its_critics_read_of_labels_exchanged_at_random(known, task, monkeypatch):
    trained, _ = known
    curve = InformationCurve(last=1)(trained, task)
    assert 0 <= curve.values["random5"] < 0.02 < curve.values["I5"] / 5
    asked, fits = [], []

    def watched(model, stored, given, *more, **named):
        asked.append((list(stored), given))
        fits.append(fitting.fit_blocks(model, stored, given, *more, **named))
        return fits[-1]

    monkeypatch.setattr(information_curve, "fit_blocks", watched)
    again = InformationCurve(last=2, seed=1, family="linear")(trained, task)
    (_, plain), (blocks, exchanged) = asked
    assert blocks == [5]
    assert "random5" in again.values
    assert fits[0].fewer[5]
    assert not fits[1].fewer[5], "what is read by chance has no shortfall to pay for"
    assert torch.equal(plain.fold, exchanged.fold)
    assert not torch.equal(plain.y, exchanged.y)
    for kind in (plain.fold >= 0, plain.fold == FIT_ONLY, plain.fold == READ_ONLY):
        assert torch.equal(plain.y[kind].sort().values, exchanged.y[kind].sort().values)


def test_the_papers_reading_of_the_fitting_data_memorises(known, data):
    random = rs.forget_indices(data, torch.randperm(240, generator=torch.Generator().manual_seed(0))[:60])
    scrambled = rs.ForgetTask("levels", "class", (), random.forget, random.retain, random.test, random.forget_test)
    settings = {"epochs": 30, "batch": 32, "blocks": (1,), "lr": 3e-3, "label_lr": 3e-3}
    read_again = InformationCurve(protocol="paper", **settings)(known[0], scrambled)
    unseen = InformationCurve(**settings)(known[0], scrambled)
    assert read_again.information[1] > unseen.information[1] + 0.05


def test_random_forgetting_asks_for_the_class_on_the_forget_set(data, known):
    task = rs.forget_samples(data, per_class=30, seed=0)
    curve = QUICK(known[0], task)
    assert len(curve.labels) == 120
    assert curve.ceiling == pytest.approx(np.log(4))
    assert curve.information[5] > 0.8


def test_the_model_and_the_generator_are_untouched(net, task):
    before, state = weights_digest(net), torch.get_rng_state()
    QUICK(net, task)
    assert weights_digest(net) == before
    assert torch.equal(torch.get_rng_state(), state)
    assert all(p.requires_grad for p in net.parameters())


def test_an_equal_encoder_gives_the_same_curve_without_fitting(net, task, monkeypatch):
    first = QUICK(net, task)
    other = rs.clone(net).to(memory_format=torch.channels_last)  # as training leaves it
    with torch.no_grad():
        other.head.weight.add_(1.0)
    monkeypatch.setattr(information_curve, "fit_blocks", None)
    assert QUICK(other, task) is first
    information_curve._curves.clear()
    monkeypatch.undo()
    other = other.to(memory_format=torch.contiguous_format)
    assert np.array_equal(QUICK(other, task).arrays["terms"], first.arrays["terms"])


def test_equal_weights_in_another_network_are_another_encoder(task):
    with rs.seeded(0):
        layer, head = nn.Linear(64, 6), nn.Linear(6, 4)
    made = [rs.Classifier([nn.Sequential(nn.Flatten(), layer, f)], head) for f in (nn.ReLU(), nn.Tanh())]
    first, second = (InformationCurve(last=1)(model, task) for model in made)
    assert weights_digest(made[0]) == weights_digest(made[1])
    assert not np.array_equal(first.arrays["terms"], second.arrays["terms"])
    made[0].blocks[0][2].inplace = True  # the same function, but who could tell
    assert InformationCurve(last=1)(made[0], task) is not first


class Masked(nn.Module):
    """Multiplies by what no checkpoint holds."""

    def __init__(self, mask: torch.Tensor, how: str) -> None:
        super().__init__()
        if how == "attribute":
            self.mask = mask
        else:
            self.register_buffer("mask", mask, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.mask


@pytest.mark.parametrize("how", ["attribute", "buffer that is not saved"])
def test_what_no_checkpoint_holds_makes_another_encoder(data, how):
    brightest = rs.forget_classes(data, 3)
    with rs.seeded(0):
        layer, head = nn.Linear(64, 6), nn.Linear(6, 4)
    seeing, blind = (
        InformationCurve(last=1)(
            rs.Classifier([nn.Sequential(nn.Flatten(), layer, Masked(mask, how))], head), brightest
        )
        for mask in (torch.ones(6), torch.zeros(6))
    )
    assert seeing.information[1] > 0.1
    assert abs(blind.information[1]) < 0.01


@pytest.mark.parametrize(("ratio", "kept"), [("all", 180), ("1:2", 120), ("1:0.5", 30), ("15%", 27), ("50%", 90)])
def test_ratios_keep_all_of_forget_and_some_of_retain(task, ratio, kept):
    chosen = samples(task, ratio=ratio)
    retain, forget = chosen.parts[:2]
    assert (len(retain), len(forget)) == (kept, 60)
    assert set(forget.labels.tolist()) == {2}
    assert int(chosen.y[chosen.asked].sum()) == 60


@pytest.mark.parametrize("fit_on", ["forget", "retain"])
def test_what_is_read_is_never_fitted_on(data, fit_on):
    chosen = samples(rs.forget_samples(data, per_class=30, seed=0), fit_on=fit_on)
    for halves in (False, True):
        for fold in range(2 if halves else 4):
            inside, outside = chosen.inside(fold, halves), chosen.outside(fold, halves)
            assert not set(inside.tolist()) & set(outside.tolist())
            assert len(inside) + len(outside) == (120 if fit_on == "forget" else 240) + len(data.test)
            assert len(outside) - len(data.test) == pytest.approx(60 if halves else 30, abs=4)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"ratio": "1:9"}, "ratio '1:9' cannot be kept"),
        ({"ratio": "some"}, "ratio 'some'"),
        ({"ratio": "0%"}, "ratio '0%'"),
        ({"blocks": (6,)}, "block 6 does not exist"),
        ({"blocks": (0,)}, "block 0 does not exist"),
        ({"last": 9}, "this network has 5 blocks"),
        ({"last": 0}, "last is 0, expected 1 or more"),
        ({"folds": 1}, "folds is 1, expected 2 or more"),
        ({"folds": 3}, "expected an even number"),
        ({"family": "guess"}, "family 'guess' is unknown"),
        ({"fit_on": "test"}, "fit_on 'test' is unknown"),
        ({"rounds": 0}, "rounds is 0"),
        ({"restarts": 0}, "restarts is 0"),
        ({"protocol": "guess"}, "protocol 'guess' is unknown"),
    ],
)
def test_settings_that_make_no_sense_are_refused(net, task, settings, sentence):
    with pytest.raises(rs.InputError, match=sentence):
        InformationCurve(**{"steps": 1, "rounds": 1} | settings)(net, task)


def test_too_few_forgotten_samples_are_refused(data, net):
    forget, retain = data.train.subset(torch.arange(2, 42, 4)), data.train.subset(torch.arange(100, 200))
    few = rs.ForgetTask("levels", "class", (2,), forget, retain, data.test, data.test)
    with pytest.raises(rs.InputError, match="only 10 samples"):
        QUICK(net, few)


@pytest.mark.usefixtures("few_steps")
def test_any_classifier_has_a_curve(data, task):
    vit = rs.models.vit(variant="tiny", classes=4, channels=1, image=8, patch=4)
    resnet50 = rs.models.resnet50(classes=4, channels=1, width=1)
    for model in (vit, resnet50):
        curve = InformationCurve(steps=5, rounds=1, batch=64)(model, task)
        assert curve.blocks == [model.depth - 2, model.depth - 1, model.depth]


def test_batches_have_the_datas_share_of_each_label():
    labels = torch.tensor([0] * 90 + [1] * 10)
    source = stratified(labels, torch.arange(100), 20)
    batches = [next(source) for _ in range(5)]
    assert [int(labels[chosen].sum()) for chosen in batches] == [2] * 5
    assert sorted(torch.cat(batches).tolist()) == list(range(100))
    assert not torch.equal(next(source), batches[0])  # the next pass has an order of its own


@pytest.mark.usefixtures("few_steps")
def test_every_family_is_within_its_bounds_and_no_curve_rises(known, task):
    for model in known:
        curve = InformationCurve(blocks=(1, 2, 3, 4, 5), steps=5, rounds=1, batch=32)(model, task)
        for family in curve.families:
            values = [curve.terms([block], family).mean() for block in curve.blocks]
            assert all(-1e-4 <= value <= curve.ceiling + 1e-4 for value in values)
            assert all(early >= late - 1e-4 for early, late in itertools.pairwise(values))
        assert all(0 <= curve.information[b] <= curve.ceiling for b in curve.blocks)


@pytest.mark.parametrize("family", ["linear", "network", "nonlinear"])
def test_a_family_alone_reads_what_it_reads_within_the_stack(known, task, family):
    settings = {"steps": 5, "rounds": 1, "batch": 32}
    alone = InformationCurve(family=family, **settings)(known[0], task)
    stack = InformationCurve(**settings)(known[0], task)
    assert alone.families == [family]
    # The perceptron and the network draw from their own seeds; what is solved is the same to the last digits.
    assert alone.terms([4, 5]).mean() == pytest.approx(stack.terms([4, 5], family).mean(), abs=2e-3)


def test_the_course_is_kept_and_a_critic_that_was_cut_off_is_noted(known, task):
    cut = InformationCurve(steps=2, rounds=1, batch=32)(known[0], task)
    assert cut.arrays["course"][:, 3].tolist() == [2, 2]
    assert "still gaining after 2 steps" in cut.notes["plateau4"]
    whole = InformationCurve(steps=20, rounds=5, batch=32)(known[0], task)
    assert not whole.notes
    assert set(whole.arrays["course"][:, 1]) == {4.0}


def test_critics_with_half_the_samples_make_the_rounds_that_read_the_most(known, task, monkeypatch):
    """Another schedule would show its own shortfall, not that of the data."""
    monkeypatch.setenv("RESIDUA_PROCESSES", "1")
    made, fit = [], fitting.fit_network
    monkeypatch.setattr(
        fitting, "fit_network", lambda *arguments: made.append((arguments[6], fit(*arguments)[1])) or fit(*arguments)
    )
    InformationCurve(blocks=(4,), steps=4, rounds=4, batch=32, family="network")(known[0], task)
    # The last ones are those of labels exchanged at random.
    whole, half = ([course for how, course in made if how.fixed == fixed][:2] for fixed in (False, True))
    assert [course.steps for course in half] == [course.steps[: course.best] for course in whole]


def test_of_many_samples_the_best_round_alone_is_read_on_all_of_them(known, task, monkeypatch):
    monkeypatch.setenv("RESIDUA_PROCESSES", "1")
    found, fit = [], fitting.fit_network
    monkeypatch.setattr(
        fitting, "fit_network", lambda *arguments: found.append((arguments, fit(*arguments))) or found[-1][1]
    )
    measure = InformationCurve(blocks=(4, 5), steps=10, rounds=3, batch=32)
    whole = measure(known[0], task)
    information_curve._curves.clear()
    found.clear()
    monkeypatch.setattr(network, "JUDGE", 50)
    judged = measure(known[0], task)
    information_curve._curves.clear()
    assert found
    for (_, _, data, _, outside, prior, *_), (scores, course) in found:
        assert scores.shape[:2] == (1, len(outside))
        every = -(-len(outside) // 50)
        kept = network._read_alone(scores[0][::every], data.y[outside[::every]], prior)
        assert kept == pytest.approx(max(course.nats), abs=1e-6)
    assert judged.information[5] == whole.information[5]
    assert judged.information[4] == pytest.approx(whole.information[4], abs=0.05)


def test_a_critic_of_many_samples_ends_only_where_it_neither_adds_nor_will():
    """Scores of two labels: `strong` knows what `weak` knows, `other` knows something else."""
    with rs.seeded(0):
        y = torch.arange(4000) % 2
        side = (2 * y - 1).double()
        strong, noise = side + torch.randn(4000).double(), torch.randn(4000).double()
        weak, other = strong + 2 * noise, side + 2 * torch.randn(4000).double()
    prior = torch.tensor([0.5, 0.5], dtype=torch.float64)

    def hopeless(own, nats):
        scores, others = (torch.stack([-z / 2, z / 2], dim=1) for z in (own, strong))
        return network._hopeless(scores, nats, others, y, prior)

    assert hopeless(weak, [0.02, 0.04, 0.05])
    assert not hopeless(weak, [0.04, 0.05])  # too early to say
    assert not hopeless(weak, [0.02, 0.06, 0.20])  # it gains fast enough to come to more
    assert not hopeless(other, [0.02, 0.04, 0.05])  # it reads less, but knows what they do not


@pytest.mark.usefixtures("few_steps")
def test_a_reading_that_misses_much_for_want_of_samples_says_so(known, task, monkeypatch):
    assert "samples5" not in QUICK(known[0], task).notes
    information_curve._curves.clear()
    monkeypatch.setattr(summary, "interval", lambda terms, fewer, ceiling: (0.0, 0.1, 0.5))
    assert "twice as many gained 0.500 nats" in QUICK(known[0], task).notes["samples5"]
    information_curve._curves.clear()


@pytest.mark.usefixtures("few_steps")
def test_few_samples_of_many_labels_are_warned_of(data, net):
    """Four classes of 60, of which 20 are to be forgotten."""
    random = rs.forget_samples(data, 20, seed=0)
    few = QUICK(net, random).notes["labels"]
    assert few.startswith("there are 4 labels and only 60 samples of the rarest")
    alone = InformationCurve(steps=10, rounds=1, batch=32, fit_on="forget")(net, random)
    assert "only 20 samples" in alone.notes["labels"]


@pytest.mark.usefixtures("few_steps")
def test_numbers_do_not_depend_on_how_many_processes_run(known, task, monkeypatch):
    curves = []
    for count in ("1", "3"):
        monkeypatch.setenv("RESIDUA_PROCESSES", count)
        information_curve._curves.clear()
        curves.append(QUICK(known[0], task))
    assert np.array_equal(curves[0].arrays["terms"], curves[1].arrays["terms"])
    assert curves[0].values == curves[1].values


def test_seconds_are_told_apart_from_what_was_found(net, task):
    curve = QUICK(net, task)
    assert curve.seconds.keys() == {"block4", "block5"}
    assert all(seconds > 0 for seconds in curve.seconds.values())
    assert not any("second" in name for name in curve.values)


def test_a_critic_with_new_weights_is_fitted_for_every_block_but_the_last(net, task, monkeypatch):
    monkeypatch.setenv("RESIDUA_PROCESSES", "1")  # what forked copies do is not seen here
    fitted = []
    fit = fitting.fit_network
    monkeypatch.setattr(
        fitting, "fit_network", lambda model, block, *more: fitted.append(block) or fit(model, block, *more)
    )
    InformationCurve(blocks=(2, 4, 5), steps=2, rounds=1, batch=32)(net, task)
    assert sorted(fitted) == [2] * 2 + [4] * 2  # two halves; they add nothing here, so none has half the samples
    fitted.clear()
    InformationCurve(blocks=(2, 4, 5), steps=2, rounds=1, batch=32, family="network")(net, task)
    assert sorted(fitted) == [2] * 4 + [4] * 4  # alone, each is also fitted on half the samples


@pytest.mark.parametrize(
    ("dataset", "network", "lr"),
    [
        ("cifar10", "resnet18", 2e-5),
        ("cifar10-jpeg", "resnet18", 2e-5),
        ("imagenet", "vit", 2e-6),
        ("cifar10", "vit", 1e-5),
        ("cifar100", "resnet50", 1e-5),
    ],
)
def test_the_papers_protocol_has_the_papers_learning_rates(dataset, network, lr):
    assert paper_lr(dataset, network) == lr
    assert LABEL_LR == 5e-4


def test_the_paper_reads_two_blocks_of_resnet18_and_three_of_others(task):
    networks = rs.models
    for model, last in (
        (networks.resnet18(classes=4, channels=1, width=1), 2),
        (networks.resnet50(classes=4, channels=1, width=1), 3),
        (networks.vit(variant="tiny", classes=4, channels=1, image=8, patch=4), 3),
    ):
        assert len(InformationCurve()._blocks(model)) == last


def test_a_reading_by_network_critics_alone_is_warned_of():
    maps = calibration.read(calibration.Problem("maps", "texture", 600, 8, 3.0), 0)
    assert "are read by network critics alone" in maps.notes["network1"]
    clouds = calibration.read(calibration.Problem("clouds", "shift", 600, 8, 3.0), 0)
    assert clouds.information[1] > 0.2
    assert "network1" not in clouds.notes
