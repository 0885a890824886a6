from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from torch import nn

import residua as rs
from residua.errors import Diverged
from residua.measure import Accuracy
from residua.measure._outputs import logits
from residua.models.classifier import weights_digest
from residua.training import loop as training
from residua.training.loop import rate
from residua.training.recipes import TINY, WIDTH
from residua.unlearn import Retrain

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = rs.Pretraining(epochs=2, batch=60, lr=0.05, crop=1)


def sgd(model: nn.Module, lr: float = 0.05, **options: float) -> torch.optim.SGD:
    return torch.optim.SGD((p for p in model.parameters() if p.requires_grad), lr=lr, **options)


def accuracy(model: rs.Classifier, split: rs.Split) -> float:
    return float((logits(model, split).argmax(1) == split.labels).double().mean())


def line(slope: float = 1.0) -> tuple[nn.Linear, list[tuple[torch.Tensor, torch.Tensor]]]:
    """A line through four points and the line that fits them: small enough to work out by hand."""
    model = nn.Linear(1, 1)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    x = torch.tensor([[-1.0], [1.0], [-2.0], [2.0]])
    return model, [(x[:2], slope * x[:2]), (x[2:], slope * x[2:])]


def squared(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return ((model(x) - y) ** 2).mean()


# --- it learns ------------------------------------------------------------------------------------


def test_descending_learns_what_there_is_to_learn(data):
    with rs.seeded(0):
        net = rs.models.resnet18(classes=4, channels=1, width=8)
        batches = data.train.batches(48, shuffle=True)
        optimizer = sgd(net, lr=0.02, momentum=0.9)
        history = rs.descend(net, batches, optimizer=optimizer, epochs=5, schedule="cosine")
    assert len(history) == 5
    assert history[-1] < history[0] / 4
    assert accuracy(net, data.test) > 0.9


def test_two_steps_are_what_one_works_out_by_hand():
    # d/dw (w x - y)^2 = 2 x (w x - y), averaged: -2 at w = 0 where x = +-1, then 8 w - 8.
    model, batches = line()
    history = rs.descend(model, batches, squared, optimizer=sgd(model, lr=0.1), epochs=1)
    w = 0.0 + 0.1 * 2
    assert model.weight.item() == pytest.approx(w - 0.1 * (8 * w - 8))
    assert model.bias.item() == pytest.approx(0, abs=1e-6)
    assert history == pytest.approx([(1 + 4 * (1 - w) ** 2) / 2])


def test_the_history_is_the_mean_loss_of_each_epoch():
    values = iter([1.0, 3.0, 10.0, 20.0])
    model, batches = line()

    def planted(model, x, y):
        return model.weight.sum() * 0 + next(values)

    assert rs.descend(model, batches, planted, optimizer=sgd(model), epochs=2) == [2.0, 15.0]


def test_no_epochs_change_nothing(net, data):
    before = weights_digest(net)
    assert rs.descend(net, data.train.batches(32), optimizer=sgd(net), epochs=0) == []
    assert weights_digest(net) == before
    assert not net.training


@pytest.mark.parametrize("was_training", [True, False])
def test_the_model_trains_in_train_mode_and_comes_back_in_eval(net, data, was_training):
    modes = []
    net.train(was_training)

    def loss(model, x, y):
        modes.append(model.training)
        return nn.functional.cross_entropy(model(x), y)

    rs.descend(net, data.train.batches(120), loss, optimizer=sgd(net), epochs=1)
    assert modes == [True, True]
    assert not any(part.training for part in net.modules())


# --- the learning rate ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schedule", "progress", "warmup", "expected"),
    [
        ("constant", 0.0, 0.0, 1.0),
        ("constant", 0.99, 0.0, 1.0),
        ("cosine", 0.0, 0.0, 1.0),
        ("cosine", 0.25, 0.0, (1 + math.sqrt(0.5)) / 2),
        ("cosine", 0.5, 0.0, 0.5),
        ("cosine", 1.0, 0.0, 0.0),
        ("constant", 0.1, 0.2, 0.5),
        ("constant", 0.2, 0.2, 1.0),
        ("constant", 0.9, 0.2, 1.0),
        ("cosine", 0.0, 0.2, 0.0),
        ("cosine", 0.05, 0.2, 0.25),
        ("cosine", 0.2, 0.2, 1.0),
        ("cosine", 0.6, 0.2, 0.5),
        ("cosine", 1.0, 0.2, 0.0),
    ],
)
def test_the_rate_rises_then_stays_or_falls(schedule, progress, warmup, expected):
    assert rate(schedule, progress, warmup) == pytest.approx(expected, abs=1e-12)


def test_restarts_fall_over_one_two_four_and_eight_epochs_and_change_once_an_epoch():
    """The rates of PyTorch's scheduler with a first cycle of one epoch, each next one twice as long."""
    weight = nn.Parameter(torch.zeros(()))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    theirs = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=1, T_mult=2, eta_min=0.005)
    for epoch in range(20):
        for part in (0.0, 0.4, 0.999):
            ours = rate("restarts", epoch + part, epochs=20, floor=0.05)
            assert 0.1 * ours == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-9)
        optimizer.step()
        theirs.step()


def test_steps_are_tenths_after_three_five_and_nine_epochs():
    found = [rate("steps", epoch + part, epochs=11) for epoch in range(11) for part in (0.0, 0.999)]
    expected = [1.0] * 6 + [0.1] * 4 + [0.01] * 8 + [0.001] * 4
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(("progress", "expected"), [(0.0, 1.0), (0.5, 0.6), (1.0, 0.2)])
def test_a_cosine_falls_to_its_floor(progress, expected):
    assert rate("cosine", 10 * progress, epochs=10, floor=0.2) == pytest.approx(expected)


def test_two_trainings_are_one_if_the_second_goes_on_with_the_schedule():
    found = []
    for parts in ([4], [1, 3]):
        model, batches = line()
        optimizer = sgd(model, lr=0.1, momentum=0.9)
        before = 0
        for epochs in parts:
            rs.descend(model, batches, squared, optimizer=optimizer, epochs=epochs,
                       schedule=lambda done, before=before: rate("cosine", before + done, epochs=4))  # fmt: skip
            before += epochs
        found.append(weights_digest(model))
    model, batches = line()
    rs.descend(model, batches, squared, optimizer=sgd(model, lr=0.1, momentum=0.9), epochs=4, schedule="cosine")
    assert found == [weights_digest(model)] * 2


@pytest.mark.parametrize("progress", [0.0, 0.5])
def test_an_unknown_schedule_is_refused_from_the_first_step_on(progress):
    with pytest.raises(rs.InputError, match="'linear' is unknown; choose constant, cosine, restarts or steps"):
        rate("linear", progress, warmup=0.2)


def test_every_group_of_weights_follows_the_schedule_and_gets_its_rate_back():
    model, batches = line()
    optimizer = torch.optim.SGD([{"params": [model.weight], "lr": 0.1}, {"params": [model.bias], "lr": 0.02}], lr=1.0)
    used = []
    rs.descend(
        model,
        batches,
        squared,
        optimizer=optimizer,
        epochs=2,
        schedule="cosine",
        after_step=lambda: used.append([group["lr"] for group in optimizer.param_groups]),
    )
    factors = [1.0, (1 + math.sqrt(0.5)) / 2, 0.5, (1 - math.sqrt(0.5)) / 2]
    assert used == [pytest.approx([0.1 * f, 0.02 * f]) for f in factors]
    assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.02]


# --- clipping, frozen parts, holding weights in place ---------------------------------------------


@pytest.mark.parametrize(("clip", "expected"), [(0.5, 0.05), (3.0, 0.3), (None, 20.0)])
def test_clipping_bounds_every_step_and_nothing_else_does(clip, expected):
    model, batches = line(slope=100.0)
    places = [nn.utils.parameters_to_vector(model.parameters()).detach()]
    rs.descend(
        model,
        batches[:1],
        squared,
        optimizer=sgd(model, lr=0.1),
        epochs=1,
        clip=clip,
        after_step=lambda: places.append(nn.utils.parameters_to_vector(model.parameters()).detach()),
    )
    assert (places[1] - places[0]).norm().item() == pytest.approx(expected, rel=1e-4)


def test_clipping_leaves_small_gradients_alone():
    found = []
    for clip in (None, 100.0):
        model, batches = line()
        rs.descend(model, batches, squared, optimizer=sgd(model, lr=0.1), epochs=2, clip=clip)
        found.append(weights_digest(model))
    assert found[0] == found[1]


def test_frozen_blocks_stay_to_the_last_bit_and_the_others_move(net, data):
    rs.freeze(net.blocks[0])
    rs.freeze(net.blocks[2])
    before = [weights_digest(block) for block in net.blocks]
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=0.1)
    rs.descend(net, data.train.batches(60), optimizer=optimizer, epochs=2)
    after = [weights_digest(block) for block in net.blocks]
    assert [a == b for a, b in zip(after, before, strict=True)] == [True, False, True, False, False]
    assert int(net.blocks[1][0].norm1.num_batches_tracked) == 8
    assert int(net.blocks[2][0].norm1.num_batches_tracked) == 0


def test_frozen_blocks_stay_when_a_watcher_puts_the_model_in_train_mode(net, data):
    rs.freeze(net.blocks[0])
    before = weights_digest(net.blocks[0])
    with rs.watching(lambda tick: tick.model.train()):
        rs.descend(net, data.train.batches(60), optimizer=sgd(net), epochs=1)
    assert weights_digest(net.blocks[0]) == before


def test_a_frozen_part_of_any_module_keeps_its_statistics(data):
    """`descend` takes modules that are no classifier too: a critic on a frozen encoder, say."""
    frozen = rs.freeze(nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64)))
    before = weights_digest(frozen)
    model = nn.Sequential(frozen, nn.Linear(64, 4))
    rs.descend(model, data.train.batches(60), optimizer=sgd(model), epochs=1)
    assert weights_digest(frozen) == before


def test_after_step_runs_after_every_update_and_may_hold_weights_in_place(net, data):
    held = net.head.weight.detach().clone()
    calls = []

    def hold() -> None:
        calls.append((net.head.weight - held).abs().max().item())
        with torch.no_grad():
            net.head.weight.copy_(held)

    rs.descend(net, data.train.batches(60), optimizer=sgd(net), epochs=2, after_step=hold)
    assert len(calls) == 8
    assert min(calls) > 0
    assert torch.equal(net.head.weight, held)


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_no_number_stops_the_training_and_says_where(net, data, bad):
    steps = iter(range(1, 100))

    def loss(model, x, y):
        value = nn.functional.cross_entropy(model(x), y)
        return value + (bad if next(steps) == 7 else 0.0)

    with pytest.raises(Diverged, match=r"loss is .* at epoch 2, step 3, with lr 0\.05; use a smaller") as stop:
        rs.descend(net, data.train.batches(60), loss, optimizer=sgd(net), epochs=3)
    assert isinstance(stop.value, rs.InputError)
    assert stop.value.exit_code == 3


def test_a_learning_rate_that_is_far_too_large_diverges(net, data):
    settings = dataclasses.replace(SMALL, lr=1e30)
    with pytest.raises(Diverged, match=r"lr 1e\+30"):
        settings(net, data.train)


def test_negative_epochs_are_refused(net, data):
    with pytest.raises(rs.InputError, match="epochs is -1, expected 0 or more"):
        rs.descend(net, data.train.batches(60), optimizer=sgd(net), epochs=-1)


@pytest.mark.parametrize("drop_last", [True, False])
def test_no_data_are_refused(net, data, drop_last):
    nothing = data.train.subset(torch.arange(0)).batches(8, drop_last=drop_last)
    with pytest.raises(rs.InputError, match="nothing to train on"):
        rs.descend(net, nothing, optimizer=sgd(net), epochs=1)
    with pytest.raises(rs.InputError, match="nothing to train on"):
        SMALL(net, nothing.split)


@pytest.mark.parametrize(
    "fields",
    [
        {"lr": -0.1},
        {"momentum": -1.0},
        {"weight_decay": -1.0},
        {"nesterov": True, "momentum": 0.0},
        {"crop": -1},
        {"batch": 0},
        {"epochs": -1},
        {"schedule": "linear"},
        {"precision": "float8"},
    ],
)
def test_settings_that_make_no_sense_are_bad_input(net, data, fields):
    with pytest.raises(rs.InputError):
        dataclasses.replace(SMALL, **fields)(net, data.train)


# --- watching -------------------------------------------------------------------------------------


def test_a_watcher_hears_of_every_step(net, data):
    ticks = []
    with rs.watching(ticks.append):
        history = rs.descend(net, data.train.batches(50), optimizer=sgd(net, lr=0.04), epochs=3, schedule="cosine")
    assert [(t.epoch, t.step) for t in ticks] == [(e, s) for e in (1, 2, 3) for s in (1, 2, 3, 4, 5)]
    assert {(t.epochs, t.steps) for t in ticks} == {(3, 5)}
    assert [t.loss for t in ticks if t.epoch_done] == history
    assert [t.step for t in ticks if t.epoch_done] == [5, 5, 5]
    assert all(t.model is net for t in ticks)
    assert [t.lr for t in ticks] == pytest.approx([0.04 * rate("cosine", i / 15) for i in range(15)])


def test_watching_changes_nothing_though_the_watcher_evaluates_and_draws(net, data):
    def nosy(tick):
        tick.model.eval()
        with torch.no_grad():
            tick.model(torch.randn(4, 1, 8, 8))
        torch.rand(tick.step)

    found = []
    for watcher in (None, nosy):
        with rs.seeded(3):
            if watcher is None:
                found.append(SMALL(net, data.train))
            else:
                with rs.watching(watcher):
                    found.append(SMALL(net, data.train))
    assert weights_digest(found[0]) == weights_digest(found[1])


def test_an_accuracy_taken_at_each_epoch_changes_nothing(net, data, task):
    seen = []
    with rs.seeded(3):
        alone = SMALL(net, data.train)
    with rs.seeded(3), rs.watching(lambda t: seen.append(Accuracy()(t.model, task)) if t.epoch_done else None):
        watched = SMALL(net, data.train)
    assert len(seen) == 2
    assert weights_digest(alone) == weights_digest(watched)


def test_watchers_nest_and_leave(net, data):
    heard = []
    batches = data.train.batches(120)
    with rs.watching(lambda tick: heard.append("outer")):
        with rs.watching(lambda tick: heard.append("inner")):
            rs.descend(net, batches, optimizer=sgd(net), epochs=1)
        assert heard == ["outer", "inner"] * 2
        rs.descend(net, batches, optimizer=sgd(net), epochs=1)
        assert heard == ["outer", "inner"] * 2 + ["outer"] * 2
    rs.descend(net, batches, optimizer=sgd(net), epochs=1)
    assert len(heard) == 6


def test_a_watcher_leaves_when_the_body_fails(net, data):
    heard = []
    with pytest.raises(KeyError), rs.watching(heard.append):
        raise KeyError
    rs.descend(net, data.train.batches(120), optimizer=sgd(net), epochs=1)
    assert heard == []


# --- seeds and Pretraining ------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(net, data):
    digests = []
    for seed in (5, 5, 6):
        with rs.seeded(seed):
            digests.append(weights_digest(SMALL(net, data.train)))
    assert digests[0] == digests[1] != digests[2]


def test_the_generator_goes_on_as_if_nothing_had_been_seeded():
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    with rs.seeded(1):
        first = torch.rand(2)
    again = []

    def fail() -> None:
        with rs.seeded(1):
            again.append(torch.rand(2))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert torch.equal(again[0], first)
    assert torch.equal(torch.rand(3), expected)


def test_pretraining_does_not_touch_the_model_it_is_given(net, data):
    rs.freeze(net.blocks[1])
    net.train()
    before = weights_digest(net)
    flags = [(part.training, [p.requires_grad for p in part.parameters()]) for part in net.modules()]
    trained = SMALL(net, data.train)
    assert weights_digest(net) == before
    assert flags == [(part.training, [p.requires_grad for p in part.parameters()]) for part in net.modules()]
    assert all(p.grad is None for p in net.parameters())
    assert all(p.requires_grad for p in trained.parameters())
    for ours, theirs in zip(trained.parameters(), net.parameters(), strict=True):
        assert not torch.equal(ours, theirs)


OTHER_SETTINGS = {
    "epochs": 3,
    "batch": 40,
    "lr": 0.04,
    "momentum": 0.8,
    "weight_decay": 5e-2,
    "schedule": "constant",
    "warmup": 0.5,
    "nesterov": True,
    "clip": 0.1,
    "crop": 2,
    "flip": False,
}


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(rs.Pretraining) if f.name != "precision"])
def test_every_setting_of_the_pretraining_matters(net, data, field):
    digests = []
    for settings in (SMALL, dataclasses.replace(SMALL, **{field: OTHER_SETTINGS[field]})):
        with rs.seeded(9):
            digests.append(weights_digest(settings(net, data.train)))
    assert digests[0] != digests[1]


def test_the_precision_of_the_pretraining_reaches_the_products(net, data, monkeypatch):
    asked = []
    real = training.autocast

    def spy(precision, device):
        asked.append(precision)
        return real("float32", device)

    monkeypatch.setattr("residua.training.loop.autocast", spy)
    dataclasses.replace(SMALL, epochs=1, precision="bfloat16")(net, data.train)
    assert set(asked) == {"bfloat16"}


# --- the default recipe on the embedded data ------------------------------------------------------


@pytest.mark.slow
def test_the_tiny_recipe_is_good_enough_to_audit():
    torch.set_num_threads(2)
    data = rs.data.fashion_sample()
    task = rs.forget_classes(data, 6)
    with rs.seeded(0):
        original = TINY(rs.models.resnet18(channels=1, width=WIDTH["tiny"]), data.train)
    assert accuracy(original, data.test) >= 0.85
    with rs.seeded(1):
        retrained = Retrain(TINY)(original, task)
    found = Accuracy()(retrained, task).values
    assert found["TA"] >= 0.90
    assert found["UA"] == 1.0


@pytest.mark.parametrize("pieces", [2, 3, 100])
def test_a_batch_in_pieces_is_the_step_of_the_whole_batch(task, pieces):
    with rs.seeded(0):
        net = rs.models.build("vit", classes=4, channels=1, image=8, variant="micro", patch=4)
    passed = []
    net.register_forward_pre_hook(lambda _, x: passed.append(len(x[0])))
    settings = dataclasses.replace(SMALL, precision="float32", lr=0.01)

    def trained(pieces: int) -> rs.Classifier:
        with rs.seeded(1), training.accumulating(pieces):
            return settings(net, task.train)

    whole = trained(1)
    assert set(passed) == {60}
    passed.clear()
    parts = trained(pieces)
    assert max(passed) == -(-60 // min(pieces, 60))
    for one, other in zip(whole.parameters(), parts.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def test_losses_that_may_compare_samples_are_given_whole_batches():
    model, batches = line()
    with training.accumulating(2):
        passed = []
        training.descend(
            model, batches, lambda m, x, y: passed.append(len(x)) or squared(m, x, y), optimizer=sgd(model), epochs=1
        )
    assert passed == [2, 2]
    with pytest.raises(rs.InputError, match="cannot have 0 pieces"), training.accumulating(0):
        pass
