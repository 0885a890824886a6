"""Promises of each way to unlearn in particular."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import residua as rs
from conftest import make_arrays
from residua import plugins, unlearn
from residua.data.split import MemoryImages
from residua.device import safe_kernels
from residua.measure._outputs import logits
from residua.models.classifier import reinitialise, weights_digest
from residua.training.losses import distillation
from residua.training.streams import Relabelled, SideBySide, other_labels, shuffled
from residua.unlearn import cola, depth_aware, random_label
from residua.unlearn._features import encoded
from residua.unlearn.last_layers import last_layers
from residua.unlearn.random_label import salient
from residua.unlearn.synaptic_dampening import chunk, importance

pytestmark = pytest.mark.usefixtures("one_thread")

TRAINED = rs.Pretraining(epochs=30, batch=24, lr=0.05, warmup=0.1, crop=0, precision="float32")


class Mean(nn.Module):
    def forward(self, x):
        return x.mean(dim=(2, 3))


@pytest.fixture(scope="module")
def original(data) -> rs.Classifier:
    """A model that knows every class, so that there is something to forget.

    It has neither BatchNorm nor kinks: it computes in training what it computes afterwards, and no last digit of a
    machine decides where its training ends. Its head is halved, because a model that is sure of everything has
    next to no gradient left to follow.
    """

    def smooth(inputs: int, outputs: int, stride: int) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, padding=1), nn.Softplus(beta=4))

    with rs.seeded(0):
        blocks = [smooth(1, 8, 1), smooth(8, 16, 2)]
        model = TRAINED(rs.Classifier(blocks, nn.Linear(16, 4), pool=Mean()), data.train)
    with torch.no_grad():
        for parameter in model.head.parameters():
            parameter /= 2
    return model


@pytest.fixture(scope="module")
def resnet(data) -> rs.Classifier:
    """A network with BatchNorm and shortcuts whose statistics have moved; what it knows is left open."""
    with rs.seeded(0):
        model = rs.models.resnet18(classes=4, channels=1, width=2)
        return dataclasses.replace(TRAINED, epochs=2)(model, data.train)


def error(model, split) -> float:
    return float((logits(model, split).argmax(1) != split.labels).double().mean())


def run(method, original, task, seed=1):
    with rs.seeded(seed):
        return method(original, task)


def test_the_original_knows_what_is_to_be_forgotten(original, task):
    assert error(original, task.train) == 0
    assert error(original, task.test) == 0
    assert 0.01 < loss_on(original, task.forget) < 0.3


# --- HD -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("forget", [[2], [0, 3]])
def test_hd_silences_classes_and_leaves_the_encoder_to_the_last_bit(original, data, forget):
    task = rs.forget_classes(data, forget)
    found = run(unlearn.HeadDistillation(epochs=8, batch=16, lr=0.1, crop=0), original, task)
    assert weights_digest(found.after(0)) == weights_digest(original.after(0))
    assert weights_digest(found.head) != weights_digest(original.head)
    assert error(found, task.forget) > 0.9
    assert error(found, task.test) < 0.25


def test_hd_of_random_samples_moves_the_head_alone(resnet, data):
    task = rs.forget_samples(data, 10)
    found = run(unlearn.HeadDistillation(epochs=1, batch=16, lr=0.05, crop=0), resnet, task)
    assert weights_digest(found.after(0)) == weights_digest(resnet.after(0))
    assert weights_digest(found.head) != weights_digest(resnet.head)


# --- the last k layers ----------------------------------------------------------------------------


def reached(model: rs.Classifier, k: int) -> str:
    """The name of the first layer, in the order of definition, that learns."""
    chosen = last_layers(model, k)
    layers = [(n, m) for n, m in model.named_modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    return next(name for name, part in layers if any(part is c for c in chosen))


def test_k_means_what_the_paper_s_numbers_imply():
    small = rs.models.resnet18(classes=4, width=2)
    large = rs.models.resnet50(classes=4, width=2)
    assert reached(small, 10) == "blocks.3.0.conv2"  # layer3
    assert reached(small, 5) == "blocks.4.0.conv2"
    assert small.block_names[3] == "layer3"
    assert large.block_names[int(reached(large, 10).split(".")[1])] == "layer4"
    assert reached(small, 1) == "head"


@pytest.mark.parametrize("kind", [unlearn.ExactLast, unlearn.CatastrophicLast])
@pytest.mark.parametrize("k", [1, 5, 10])
def test_all_but_the_last_k_layers_stay_to_the_last_bit(resnet, task, kind, k):
    found = run(kind(k=k, epochs=1, batch=32, lr=0.05, crop=1), resnet, task)
    learning = [name for part in last_layers(resnet, k) for name, m in resnet.named_modules() if m is part]
    moved = 0
    for name, before in resnet.state_dict().items():
        after = found.state_dict()[name]
        if name.rsplit(".", 1)[0] in learning:
            moved += not torch.equal(before, after)
        else:
            assert torch.equal(before, after), name
    assert moved >= k


def test_eu_draws_the_last_layers_again_and_cf_does_not(resnet, task):
    still = {"k": 5, "epochs": 0, "batch": 32}
    eu, cf = (run(kind(**still), resnet, task) for kind in (unlearn.ExactLast, unlearn.CatastrophicLast))
    assert weights_digest(cf) == weights_digest(resnet)
    for part in last_layers(resnet, 5):
        name = next(n for n, m in resnet.named_modules() if m is part)
        same = torch.equal(eu.get_submodule(name).weight, part.weight)
        assert same == (not isinstance(part, nn.Conv2d | nn.Linear))  # norms are kept


def test_more_layers_than_there_are_is_one_sentence(resnet, task):
    with pytest.raises(rs.InputError, match="k is 99, expected 1 to 21: this network has 21 layers"):
        unlearn.ExactLast(k=99)(resnet, task)


# --- SALUN, l1-sparse, SSD ------------------------------------------------------------------------


def test_outside_saluns_mask_no_weight_moves_by_a_bit(resnet, task):
    method = unlearn.Saliency(epochs=1, lr=0.05, share=0.3, forget_batch=16, retain_batch=32, crop=1)
    found = run(method, resnet, task)
    mask = salient(rs.clone(resnet), task.forget, 0.3)
    share = sum(int(m.sum()) for m in mask) / sum(m.numel() for m in mask)
    assert share == pytest.approx(0.3, abs=0.001)
    moved = 0
    for before, after, moves in zip(resnet.parameters(), found.parameters(), mask, strict=True):
        assert torch.equal(before[~moves], after[~moves])
        moved += int((before[moves] != after[moves]).sum())
    assert moved > 0.9 * sum(int(m.sum()) for m in mask)


def test_saluns_mask_holds_the_largest_gradients(resnet, task):
    model = rs.clone(resnet)
    (x, y) = next(iter(task.forget.batches(len(task.forget))))
    with safe_kernels(model):
        F.cross_entropy(model(x), y, reduction="sum").backward()
    size = torch.cat([p.grad.abs().flatten() for p in model.parameters()])
    chosen = torch.cat([m.flatten() for m in salient(rs.clone(resnet), task.forget, 0.5)])
    assert size[chosen].min() >= size[~chosen].max() * 0.999


def test_l1_sparse_ends_sparser(resnet, task):
    settings = {"epochs": 6, "lr": 0.05, "batch": 32, "crop": 1}
    sparse = run(unlearn.L1Sparse(alpha=0.02, **settings), resnet, task)
    plain = run(unlearn.L1Sparse(alpha=0.0, **settings), resnet, task)

    def near_zero(model) -> float:
        weights = torch.cat([p.detach().flatten() for p in model.parameters()])
        return float((weights.abs() < 1e-2).double().mean())

    assert near_zero(sparse) > 2 * near_zero(plain)
    assert near_zero(sparse) > 2 * near_zero(resnet)


def test_ssd_importance_is_the_mean_of_single_samples_squares(resnet, task):
    split = task.forget.subset(torch.arange(5))
    expected = {name: torch.zeros_like(p) for name, p in resnet.named_parameters()}
    model = rs.clone(resnet)
    for x, y in split.batches(1):
        gradients = torch.autograd.grad(F.cross_entropy(model(x), y), list(model.parameters()))
        for name, gradient in zip(expected, gradients, strict=True):
            expected[name] += gradient.square() / 5
    found = importance(rs.clone(resnet), split)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-3, atol=1e-9)


def test_ssd_holds_as_many_gradients_as_fit_and_finds_the_same(resnet, task, monkeypatch):
    one = 2 * sum(p.numel() * 4 for p in resnet.parameters())
    assert [chunk(resnet, budget) for budget in (0, one, 7 * one + 1, 10**12)] == [1, 1, 7, 32]
    split = task.forget.subset(torch.arange(10))
    sizes = []
    real = type(split).batches

    def spy(self, size, **words):
        sizes.append(size)
        return real(self, size, **words)

    monkeypatch.setattr(type(split), "batches", spy)
    found = [importance(rs.clone(resnet), split, budget) for budget in (one, 4 * one, 10**12)]
    assert sizes == [1, 4, 32]
    for name, value in found[0].items():
        for other in found[1:]:
            torch.testing.assert_close(other[name], value, rtol=1e-3, atol=1e-9)


def test_ssd_dampens_and_never_enlarges(resnet, task):
    found = run(unlearn.SynapticDampening(alpha=1.0, samples=60), resnet, task)
    smaller = 0
    for before, after in zip(resnet.parameters(), found.parameters(), strict=True):
        assert (after.abs() <= before.abs()).all()
        smaller += int((after != before).sum())
    assert smaller > 0
    still = run(unlearn.SynapticDampening(alpha=1e12), resnet, task)
    assert weights_digest(still) == weights_digest(resnet)


# --- streams: GA, RL, COLA+ -----------------------------------------------------------------------


def test_forget_batches_are_shuffled_again_each_time_they_run_out(task):
    retain = shuffled(task.retain, 8, torch.device("cpu"), 0, False)
    forget = shuffled(task.forget, 20, torch.device("cpu"), 0, False)
    with rs.seeded(0):
        seen = [x_f for _, _, x_f, _ in SideBySide(retain, forget)]
    rounds = [torch.cat(seen[i : i + len(forget)]) for i in range(0, 2 * len(forget), len(forget))]
    assert not torch.equal(*rounds)
    # Every round is the whole forget set.
    pixels = [sorted(part.flatten(1).sum(1).tolist()) for part in rounds]
    assert pixels[0] == pytest.approx(pixels[1])


def test_random_labels_are_neither_right_nor_forgotten(data):
    task = rs.forget_classes(data, [1, 2])
    allowed = other_labels(task.classes, task.forgotten)
    drawn = Relabelled(task.forget, allowed, 16, torch.device("cpu"), 0, False)
    with rs.seeded(0):
        first, second = (torch.cat([y for _, y in drawn]) for _ in range(2))
    assert set(first.tolist()) == {0, 3}
    assert not torch.equal(first, second)
    random = rs.forget_samples(data, 10)
    for c in range(4):
        assert other_labels(4, random.forgotten)[c].tolist() == [other != c for other in range(4)]


def test_boundary_expand_moves_the_forgotten_away_and_its_class_is_gone(original, task):
    method = unlearn.BoundaryExpand(epochs=8, lr=0.02, batch=16, crop=0)
    found = run(method, original, task)
    assert found.head.out_features == original.head.out_features
    assert error(found, task.forget) > error(original, task.forget) + 0.3
    model = rs.clone(original)
    model.head = nn.Sequential(model.head)
    with pytest.raises(rs.InputError, match="needs a linear head, but this one is Sequential"):
        method(model, task)


def test_unsir_teaches_noise_under_the_label_of_each_forgotten_class(original, data):
    task = rs.forget_classes(data, [1, 3])
    method = unlearn.Unsir(noise_steps=25, forget_batch=8)
    with rs.seeded(0):
        noise = method._noise(rs.freeze(rs.clone(original)), task)
    assert [set(label.tolist()) for _, label in noise] == [{1}, {3}]
    for images, label in noise:
        with torch.no_grad():
            start = torch.randn_like(images)
            learned, drawn = (F.cross_entropy(original(x), label) for x in (images, start))
        assert learned > drawn + 1


# --- what each method must do, and would not if it were written wrongly ----------------------------

STILL = {"crop": 0, "flip": False}


def loss_on(model, split) -> float:
    return float(F.cross_entropy(logits(model, split), split.labels))


def apart(model, teacher, split) -> float:
    """KL(teacher || model)."""
    return float(distillation(logits(model, split), logits(teacher, split)))


def gradients(model, split) -> tuple[torch.Tensor, ...]:
    """Gradients of the mean loss of the whole split."""
    ((x, y),) = split.batches(len(split))
    return torch.autograd.grad(F.cross_entropy(model(x), y), list(model.parameters()))


@pytest.fixture
def drawn(monkeypatch) -> list[list[int]]:
    """The images that were asked for, in their order, one list for each pass over a split."""
    passes: list[list[int]] = []
    real = MemoryImages.stream

    def spy(self, batches, device):
        listed = list(batches)
        passes.append([i for batch in listed for i in batch.tolist()])
        return real(self, listed, device)

    monkeypatch.setattr(MemoryImages, "stream", spy)
    return passes


def of_forget(passes: list[list[int]], task) -> list[list[int]]:
    """Passes that were over the forget set."""
    return [one for one in passes if set(one) & set(task.forget.index.tolist())]


@pytest.mark.parametrize(
    "method",
    [
        unlearn.FineTune(epochs=1, batch=60, **STILL),
        unlearn.ExactLast(k=1, epochs=1, batch=60, **STILL),
        unlearn.CatastrophicLast(k=1, epochs=1, batch=60, **STILL),
        unlearn.L1Sparse(epochs=1, batch=60, **STILL),
        unlearn.Cola(collapse_epochs=1, align_epochs=1, batch=60, **STILL),
    ],
    ids=lambda method: method.label,
)
def test_what_learns_from_the_retain_set_never_draws_a_forgotten_image(resnet, task, method, drawn):
    run(method, resnet, task)
    assert {i for one in drawn for i in one} == set(task.retain.index.tolist())


@pytest.mark.parametrize(
    "method",
    [
        unlearn.GradientAscent(epochs=1, retain_batch=40, forget_batch=16, **STILL),
        unlearn.HeadDistillation(epochs=1, batch=16, **STILL),
        unlearn.ColaPlus(collapse_epochs=1, align_epochs=0, retain_batch=40, forget_batch=16, **STILL),
    ],
    ids=lambda method: method.label,
)
def test_forget_images_come_in_a_fresh_order_whenever_they_run_out(resnet, data, method, drawn):
    task = rs.forget_samples(data, 10, seed=1)
    run(method, resnet, task)
    found = of_forget(drawn, task)
    assert len(found) >= 2
    assert len({tuple(one) for one in found}) == len(found)


def test_a_step_of_ga_is_down_the_retain_loss_and_up_the_forget_loss(original, task):
    """theta - lr grad[alpha CE(retain) - (1 - alpha) CE(forget)], with both sets whole."""
    whole = {"retain_batch": len(task.retain), "forget_batch": len(task.forget), **STILL}
    plain = {"epochs": 1, "lr": 0.1, "momentum": 0.0, "weight_decay": 0.0}
    found = run(unlearn.GradientAscent(alpha=0.7, **plain, **whole), original, task)
    kept, forgotten = (gradients(original, split) for split in (task.retain, task.forget))
    for before, after, down, up in zip(original.parameters(), found.parameters(), kept, forgotten, strict=True):
        torch.testing.assert_close(after, before - 0.1 * (0.7 * down - 0.3 * up), rtol=0, atol=1e-5)


def test_ga_raises_the_forget_loss_and_keeps_the_rest(original, task):
    ascent = unlearn.GradientAscent(epochs=2, lr=0.01, retain_batch=32, alpha=0.5, **STILL)
    found = run(ascent, original, task)
    # Learning the rest alone raises it too, a little.
    alone = run(dataclasses.replace(ascent, alpha=1.0), original, task)
    assert loss_on(found, task.forget) > 1.1 * loss_on(alone, task.forget)
    assert loss_on(found, task.forget) > 1.2 * loss_on(original, task.forget)
    assert error(found, task.retain) < 0.1


def test_hd_raises_the_loss_of_random_samples(original, data):
    # They are like any others, so the ascent needs a large weight to be seen.
    samples = rs.forget_samples(data, 10, seed=1)
    hd = unlearn.HeadDistillation(epochs=1, lr=0.05, batch=40, alpha=0.1, **STILL)
    assert loss_on(run(hd, original, samples), samples.forget) > loss_on(original, samples.forget) + 0.5


def test_scrub_disobeys_on_forget_for_so_many_epochs(resnet, task, drawn):
    settings = {"epochs": 3, "lr": 1e-3, "retain_batch": 60, "forget_batch": 16, **STILL}
    for epochs in (0, 1, 2):
        drawn.clear()
        run(unlearn.Scrub(forget_epochs=epochs, **settings), resnet, task)
        assert len(of_forget(drawn, task)) == epochs


def test_scrub_disobeys_on_forget_and_obeys_on_retain(original, task):
    settings = {"epochs": 3, "lr": 0.01, "retain_batch": 60, "forget_batch": 16, **STILL}
    found = run(unlearn.Scrub(forget_epochs=3, **settings), original, task)
    obedient = run(unlearn.Scrub(forget_epochs=0, **settings), original, task)
    assert apart(found, original, task.forget) > 2 * apart(obedient, original, task.forget)
    assert loss_on(found, task.forget) > 1.1 * loss_on(obedient, task.forget)
    assert loss_on(obedient, task.retain) < loss_on(original, task.retain)
    assert error(found, task.retain) < 0.1


def test_bad_t_asks_the_bad_teacher_about_forget_and_the_good_one_about_retain(original, task):
    found = run(unlearn.BadTeacher(epochs=4, lr=5e-3, batch=24, **STILL), original, task)
    with rs.seeded(1):  # as in `run`: the bad teacher is drawn before anything else
        bad = reinitialise(rs.clone(original))
    assert apart(found, bad, task.forget) < 0.2 * apart(original, bad, task.forget)
    assert apart(found, original, task.retain) < 0.1 * apart(found, bad, task.retain)
    assert error(found, task.retain) < 0.1


def test_cola_draws_its_head_again_and_cola_plus_keeps_it(resnet, task):
    still = {"collapse_epochs": 0, "align_epochs": 0, **STILL}
    anew = run(unlearn.Cola(**still), resnet, task)
    assert weights_digest(anew.after(0)) == weights_digest(resnet.after(0))
    assert not (anew.head.weight == resnet.head.weight).any()
    collapse = {"collapse_epochs": 1, "align_epochs": 0, "retain_batch": 60, "forget_batch": 20}
    kept = run(unlearn.ColaPlus(**collapse, **STILL), resnet, task)
    assert weights_digest(kept.after(0)) != weights_digest(resnet.after(0))
    assert weights_digest(kept.head) == weights_digest(resnet.head)


@pytest.mark.parametrize("pseudo", ["original", "current"])
def test_cola_plus_collapses_forget_samples_into_their_likeliest_other_label(original, task, pseudo, monkeypatch):
    labels = []
    real = cola.supervised_contrastive

    def spy(z, y, temperature, normalise):
        labels.append(y)
        return real(z, y, temperature)

    monkeypatch.setattr(cola, "supervised_contrastive", spy)
    settings = {"collapse_epochs": 1, "align_epochs": 0, "retain_batch": 180, "forget_batch": 60}
    run(unlearn.ColaPlus(pseudo=pseudo, **settings, **STILL), original, task)
    (seen,) = labels
    assert seen[:180].bincount().tolist() == [60, 60, 0, 60]
    assert set(seen[180:].tolist()) <= {0, 1, 3}
    if pseudo == "original":
        said = logits(original, task.forget).clone()
        said[:, 2] = -torch.inf
        assert sorted(seen[180:].tolist()) == sorted(said.argmax(1).tolist())


def test_boundary_shrink_teaches_the_label_next_door(original, task):
    found = run(unlearn.BoundaryShrink(epochs=4, lr=0.01, batch=16, **STILL), original, task)
    # Class 2 is of a brightness between those of 1 and 3.
    labels = logits(found, task.forget).argmax(1)
    assert float(((labels == 1) | (labels == 3)).double().mean()) > 0.9


@pytest.mark.parametrize(
    ("room", "method", "taught"),
    [
        (random_label, unlearn.RandomLabel(), {0, 1, 3}),
        (random_label, unlearn.RandomLabel(labels="uniform"), {0, 1, 2, 3}),
        (random_label, unlearn.Saliency(share=1.0), {0, 1, 2, 3}),
        (random_label, unlearn.Saliency(share=1.0, labels="other"), {0, 1, 3}),
    ],
    ids=["RL other", "RL uniform", "SALUN uniform", "SALUN other"],
)
def test_wrong_labels_are_drawn_from_those_that_are_asked_for(original, task, room, method, taught, monkeypatch):
    wrong, right = set(), set()
    real = room.cross_entropy_in_turn

    def spy(model, x, y, first):
        (wrong if first else right).update(y.tolist())
        return real(model, x, y, first)

    monkeypatch.setattr(room, "cross_entropy_in_turn", spy)
    small = {"epochs": 3, "lr": 0.02, "retain_batch": 180, "forget_batch": 20, **STILL}
    found = run(dataclasses.replace(method, **small), original, task)
    assert wrong == taught
    assert right == {0, 1, 3}
    assert loss_on(found, task.forget) > loss_on(original, task.forget) + 0.5


def test_l1s_weight_falls_from_alpha_to_zero(resnet, task):
    told = []
    size = sum(float(p.detach().abs().sum()) for p in resnet.parameters())
    with rs.watching(lambda tick: told.append(tick.loss) if tick.epoch_done else None):
        run(unlearn.L1Sparse(epochs=4, lr=0.0, batch=180, alpha=1.0, **STILL), resnet, task)
    assert [value / size for value in told] == pytest.approx([1, 0.75, 0.5, 0.25], abs=0.02)


def test_unsir_impairs_by_its_noise(original, task):
    still = {"noise_steps": 5, "retain_batch": 30, "forget_batch": 30, **STILL}
    method = unlearn.Unsir(epochs=1, lr=5e-3, repair_epochs=0, **still)
    found = run(method, original, task)
    with rs.seeded(1):
        ((noise, label),) = method._noise(rs.freeze(rs.clone(original)), task)
    with torch.no_grad():
        before, after = (F.cross_entropy(model(noise), label) for model in (original, found))
    assert after < before / 2


# --- every method -----------------------------------------------------------------------------------

QUICK = {"crop": 1, "samples": 20, "noise_steps": 1, "batch": 64, "retain_batch": 64, "forget_batch": 30} | (
    dict.fromkeys(("epochs", "forget_epochs", "collapse_epochs", "align_epochs", "repair_epochs"), 1)
)


@pytest.fixture(scope="module")
def few() -> rs.Dataset:
    return rs.data.arrays(*make_arrays(128, seed=0), *make_arrays(16, seed=1), name="few levels")


@pytest.mark.parametrize(
    ("forget", "network"),
    [
        ("classes", "resnet50"),
        ("samples", "vit"),
        pytest.param("classes", "vit", marks=pytest.mark.slow),
        pytest.param("samples", "resnet50", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("method", unlearn.METHODS, ids=lambda method: method.label)
def test_other_networks_forget_several_classes_and_random_samples(method, forget, network, few):
    task = rs.forget_classes(few, [0, 2]) if forget == "classes" else rs.forget_samples(few, 8, seed=1)
    small = {**QUICK, "pretraining": rs.Pretraining(epochs=1, batch=64, lr=0.01, crop=1)}
    own = [field.name for field in dataclasses.fields(method)]
    method = dataclasses.replace(method, **{name: value for name, value in small.items() if name in own})
    with rs.seeded(0):
        if network == "vit":
            model = rs.models.vit(variant="tiny", classes=4, channels=1, image=8, patch=4)
        else:
            model = rs.models.resnet50(classes=4, channels=1, width=2)
        if task.scenario not in unlearn.traits(method).scenarios:
            with pytest.raises(rs.InputError, match=f"{method.label} cannot forget random samples"):
                method(model, task)
            return
        found = method(model, task)
    assert found.architecture == model.architecture
    assert all(torch.isfinite(tensor).all() for tensor in found.state_dict().values())
    # With SSD's defaults nothing matters ten times as much to so few samples.
    if not unlearn.traits(method).keeps_encoder and not hasattr(method, "dampening"):
        assert weights_digest(found) != weights_digest(model)


def test_a_method_is_found_by_what_the_paper_prints():
    assert unlearn.find("eu-10") == unlearn.ExactLast(k=10)
    assert unlearn.find("EU-7", lr=0.1) == unlearn.ExactLast(k=7, lr=0.1)
    assert unlearn.find("cf-3") == unlearn.CatastrophicLast(k=3)
    with pytest.raises(rs.InputError, match="method 'EU-' is unknown"):
        unlearn.find("EU-")
    assert unlearn.find("COLA", collapse_epochs=3).collapse_epochs == 3
    with pytest.raises(rs.InputError, match="method 'Amnesia' is unknown; choose one of Original, Retrain"):
        unlearn.find("Amnesia")
    with pytest.raises(rs.InputError, match="FT has no setting gamma; its settings are epochs, lr"):
        unlearn.find("FT", gamma=1)
    with pytest.raises(rs.InputError, match="lr is -1, expected 0 or more"):
        unlearn.find("FT", lr=-1)


@pytest.mark.parametrize(
    ("label", "name", "value", "sentence"),
    [
        *(("UNSIR", name, -1, f"{name} is -1, expected 0 or more") for name in
          ("epochs", "repair_epochs", "repair_lr", "noise_lr", "noise_steps", "penalty")),
        ("Boundary Shrink", "step", -0.1, "step is -0.1, expected 0 or more"),
        *((label, "labels", "typo", "labels 'typo' is unknown; choose other or uniform") for label in ("RL", "SALUN")),
        ("FT", "schedule", "typo", "schedule 'typo' is unknown; choose constant, cosine, restarts or steps"),
        ("EU-5", "clip", -1, "clip is -1, expected 0 or more"),
        ("CF-5", "lowest_lr", -1, "lowest_lr is -1, expected 0 or more"),
        *((label, "temperature", value, f"temperature is {value}, expected above 0") for label in
          ("SCRUB", "Bad-T", "COLA", "COLA+") for value in (0, -1.0)),
    ],
)  # fmt: skip
def test_settings_that_no_method_can_work_with_are_refused_before_anything_runs(label, name, value, sentence):
    with pytest.raises(rs.InputError) as refused:
        unlearn.find(label, **{name: value})
    assert str(refused.value) == sentence


def test_other_packages_bring_methods(monkeypatch):
    @dataclasses.dataclass(frozen=True)
    class Theirs:
        strength: float = 1.0
        label = "Theirs"

        def __call__(self, original, task):
            return rs.clone(original)

    class Entry:
        name, value = "theirs", "their.package:Theirs"

        def __init__(self, loaded):
            self.loaded = loaded

        def load(self):
            if isinstance(self.loaded, Exception):
                raise self.loaded
            return self.loaded

    def declare(loaded):
        monkeypatch.setattr(plugins, "entry_points", lambda group: [Entry(loaded)])

    declare(Theirs)
    assert unlearn.find("theirs", strength=2.0) == Theirs(2.0)
    declare(ImportError("no module"))
    with pytest.raises(rs.InputError, match=r"theirs = their\.package:Theirs .* cannot be used \(no module\)"):
        unlearn.methods()
    declare(unlearn.FineTune)
    with pytest.raises(rs.InputError, match="a method named FT, which is taken"):
        unlearn.methods()
    for label in ("cola", "EU-7", "cf-10"):
        declare(type("Named", (Theirs,), {"label": label}))
        with pytest.raises(rs.InputError, match=f"a method named {label}, which is taken"):
            unlearn.methods()

    class Plain:
        label = "Plain"

        def __call__(self, original, task):
            return rs.clone(original)

    silent = dataclasses.make_dataclass("Silent", [], namespace={"label": "Silent"}, frozen=True)
    for loaded in (Plain, silent, type("Numbered", (Theirs,), {"label": 3})):
        declare(loaded)
        with pytest.raises(rs.InputError, match=r"their\.package:Theirs .* names no method; make it a frozen"):
            unlearn.find("FT")


# --- methods that claim the features ---------------------------------------------------------------


class Projected(nn.Module):
    """z -> matrix z + offset before a head, in float64: what ESC's and POUR-P's authors run."""

    def __init__(self, head, matrix, offset):
        super().__init__()
        self.head, self.matrix, self.offset = rs.clone(head).double(), matrix, offset

    def forward(self, z):
        return self.head(z.double() @ self.matrix.T + self.offset)


@pytest.mark.parametrize("forget", [[2], [0, 3]])
@pytest.mark.parametrize("label", ["ESC", "POUR-P"])
def test_a_projection_folded_into_the_head_gives_equal_logits(original, data, label, forget):
    task = rs.forget_classes(data, forget)
    z, kept = (encoded(original, split).double() for split in (task.forget, task.retain))
    if label == "ESC":
        method, offset = unlearn.ErasingSpace(share=0.2), torch.zeros(16, dtype=torch.float64)
        basis = torch.linalg.eigh(z.T @ z).eigenvectors[:, -3:]
    else:
        method, offset = unlearn.Pour(), kept.mean(0)
        weight = original.head.weight.detach().double()
        basis = torch.linalg.svd((weight - weight.mean(0))[forget], full_matrices=False).Vh.T
    matrix = torch.eye(16) - basis @ basis.T
    found = run(method, original, task)
    assert weights_digest(found.after(0)) == weights_digest(original.after(0))
    head = Projected(original.head, matrix, offset - matrix @ offset)
    theirs = rs.Classifier(original.blocks, head, pool=original.pool).eval()
    torch.testing.assert_close(logits(found, task.test), logits(theirs, task.test).float(), rtol=0, atol=1e-5)
    assert (logits(found, task.test) - logits(original, task.test)).abs().max() > 0.1
    if label == "POUR-P":
        assert error(found, task.forget) > 0.9


def test_pour_p_leaves_the_other_classes_of_a_simplex_a_simplex(net, task):
    """The planted truth is neural collapse itself: four directions at equal angles, of which three remain at equal angles."""
    model = rs.clone(net)
    with torch.no_grad():
        basis = torch.linalg.qr(torch.randn(model.head.in_features, 4)).Q
        model.head.weight.copy_(((torch.eye(4) - 1 / 4) @ basis.T) * 3)
    found = run(unlearn.Pour(), model, task)
    directions = F.normalize(found.head.weight.detach(), dim=1)
    kept = directions[[c for c in range(4) if c not in task.forgotten]]
    assert len(kept) == 3
    torch.testing.assert_close(kept @ kept.T, 1.5 * torch.eye(3) - 0.5, atol=1e-5, rtol=0)
    assert found.head.weight[list(task.forgotten)].norm() < 1e-5


def test_esc_erases_at_least_one_direction_and_no_other(original, task):
    found = run(unlearn.ErasingSpace(share=1e-6), original, task)
    lost = original.head.weight - found.head.weight
    assert torch.linalg.matrix_rank(lost, atol=1e-4) == 1
    _, _, directions = torch.linalg.svd(encoded(original, task.forget))
    torch.testing.assert_close(lost @ directions[0], original.head.weight @ directions[0], atol=1e-4, rtol=0)


def test_esc_t_learns_to_be_wrong_where_it_was_right_and_leaves_the_encoder(original, task):
    still = run(unlearn.ErasingSpaceTrained(epochs=0), original, task)
    torch.testing.assert_close(still.head.weight, original.head.weight, atol=1e-5, rtol=0)
    found = run(unlearn.ErasingSpaceTrained(epochs=40, lr=0.1, batch=16), original, task)
    assert weights_digest(found.after(0)) == weights_digest(original.after(0))
    assert error(found, task.forget) > 0.9


def test_pour_d_moves_the_features_to_where_pour_p_would_project_them(original, task):
    found = run(unlearn.PourDistilled(epochs=30, lr=3e-3, batch=24, crop=0), original, task)
    assert weights_digest(found.head) == weights_digest(original.head)
    projected = run(unlearn.Pour(), original, task)
    before, after = (
        float((logits(model, task.forget) - logits(projected, task.forget)).square().mean())
        for model in (original, found)
    )
    assert after < 0.2 * before


def test_damp_edits_early_blocks_and_spares_what_retained_classes_look_like_on_average(resnet, task):
    found = run(unlearn.DepthAware(), resnet, task)
    changed = {name for name, p in found.named_parameters() if not torch.equal(p, resnet.get_parameter(name))}
    assert any(name.startswith("blocks.1") for name in changed) or any(name.startswith("blocks.2") for name in changed)
    assert "head.weight" in changed
    assert all(found.get_parameter(name).ndim > 1 for name in changed)
    z = encoded(resnet, task.retain)
    for c in task.retain.labels.unique():
        mean = z[task.retain.labels == c].mean(0)
        torch.testing.assert_close(found.head(mean), resnet.head(mean), atol=1e-4, rtol=1e-4)


def test_damp_removes_a_planted_direction_as_far_as_it_tells_the_class(task):
    """Class 2 alone has the third coordinate: separability 1, so the layer loses its weight on it, and nothing else."""
    z = F.one_hot(task.train.labels, 4).double() + 0.01
    q = depth_aware._own_directions(z, task.train.labels, (2,))
    assert q.shape == (4, 1)
    for c in (0, 1, 3):
        assert abs(float(q[:, 0] @ z[task.train.labels == c][0])) < 1e-9
    assert depth_aware._separability((z @ q).norm(dim=1), task.train.labels == 2) == 1
    assert depth_aware._own_directions(z[:, :2], task.train.labels, (2,)) is None


def test_opc_contracts_the_outputs_of_the_forget_set_alone(original, task):
    found = run(unlearn.OnePoint(epochs=20, lr=0.02, forget_batch=16, retain_batch=24, crop=0), original, task)
    size = [float(logits(model, task.forget).norm(dim=1).mean()) for model in (original, found)]
    assert size[1] < 0.3 * size[0]
    assert error(found, task.test) < 0.25


@pytest.mark.parametrize("forget", ["class", "samples"])
def test_cmf_ends_with_a_head_of_class_means(original, data, forget):
    task = rs.forget_classes(data, [2]) if forget == "class" else rs.forget_samples(data, 10, seed=1)
    found = run(unlearn.ClassMeans(epochs=2, retain_batch=24, crop=0), original, task)
    z, y = encoded(found, task.retain), task.retain.labels
    present = y.unique()
    means = torch.stack([z[y == c].mean(0) for c in present])
    nearest = present[torch.cdist(encoded(found, task.test), means).argmin(dim=1)]
    assert torch.equal(logits(found, task.test).argmax(dim=1), nearest)
    if forget == "class":
        assert error(found, task.forget) == 1


def test_representation_unlearning_compresses_what_the_head_is_given(original, task):
    found = run(unlearn.Bottleneck(epochs=40, lr=1e-2, batch=24, beta=10.0), original, task)
    assert weights_digest(found.after(0)) == weights_digest(original.after(0))
    spread = [float(logits(m, task.forget).sub(m.head.bias.detach()).norm()) for m in (original, found)]
    assert spread[1] < 0.5 * spread[0]
    assert error(found, task.test) < 0.25


def test_coun_never_looks_at_the_forget_set(original, data):
    task = rs.forget_samples(data, 10, seed=1)
    method = unlearn.Contrastive(epochs=1, batch=16, crop=1)
    other = dataclasses.replace(task, forget=task.forget.relabel((task.forget.labels + 1) % 4))
    assert weights_digest(run(method, original, task)) == weights_digest(run(method, original, other))
    weightless = run(dataclasses.replace(method, weight=0.0), original, task)
    assert weights_digest(weightless) != weights_digest(run(method, original, task))


def test_delete_brings_the_model_to_original_without_the_true_class(original, task):
    found = run(unlearn.Delete(epochs=30, lr=0.05, batch=16, crop=0), original, task)
    target = logits(original, task.forget).scatter(1, task.forget.labels[:, None], -torch.inf).softmax(1)
    gap = [float((logits(m, task.forget).softmax(1) - target).abs().sum(1).mean()) for m in (original, found)]
    assert gap[1] < 0.2 * gap[0]
    assert error(found, task.forget) == 1


@pytest.mark.parametrize("kind", [unlearn.Delete, unlearn.NegativeGradient])
@pytest.mark.parametrize("kept", [True, False])
def test_kept_statistics_are_original_s_to_the_last_bit(resnet, task, kind, kept):
    found = run(kind(epochs=1, lr=1e-4, batch=16, crop=0, keep_statistics=kept), resnet, task)
    same = [torch.equal(b, found.get_buffer(name)) for name, b in resnet.named_buffers() if "running" in name]
    assert same
    assert all(same) if kept else not any(same)
    assert weights_digest(found.head) != weights_digest(resnet.head)
