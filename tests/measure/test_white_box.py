"""Recovery, probes, white-box attacks, relearning, representations, t-SNE: cases whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import residua as rs
from residua.measure import (
    ClassAccuracy,
    Embedding,
    ForgetOutputs,
    Probe,
    Recovery,
    Relearning,
    Representation,
    WhiteBoxMembership,
)
from residua.measure._outputs import logits
from residua.measure.probe import linear_answers

pytestmark = pytest.mark.usefixtures("one_thread")


def noise(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, 1, 6, 6), dtype=np.uint8)


@pytest.fixture(scope="module")
def nothing_to_learn() -> rs.Dataset:
    """Noise with random labels: whoever is right has memorised."""
    labels = np.random.default_rng(2).integers(0, 4, 800)
    return rs.data.arrays(noise(400, 0), labels[:400], noise(400, 1), labels[400:], classes=4)


def perceptron() -> rs.Classifier:
    return rs.Classifier(
        [nn.Sequential(nn.Flatten(), nn.Linear(36, 128), nn.ReLU()), nn.Sequential(nn.Linear(128, 64), nn.ReLU())],
        nn.Linear(64, 4),
    )


@pytest.fixture(scope="module")
def memorising(nothing_to_learn) -> rs.Classifier:
    with rs.seeded(0):
        model = perceptron()
        rs.descend(
            model,
            nothing_to_learn.train.batches(50, shuffle=True),
            optimizer=torch.optim.Adam(model.parameters(), lr=3e-3),
            epochs=60,
            precision="float32",
        )
    return model


def test_the_attack_networks_see_memorisation_and_nothing_in_a_random_network(memorising, nothing_to_learn):
    task = rs.forget_samples(nothing_to_learn, 20, seed=0)
    assert rs.measure.Accuracy()(memorising, task).values["RA"] == 1.0
    found = WhiteBoxMembership(held_out=0.5)(memorising, task).values
    for name in ("A-MIA", "G-MIA"):
        assert found[f"{name}.accuracy"] > 0.65
        assert found[f"{name}.AUC"] > 0.7
    assert found["G-MIA"] > 0.8  # they were trained on, too
    chance = [
        WhiteBoxMembership(held_out=0.5, seed=seed)(rs.reinitialise(rs.clone(memorising)), task).values
        for seed in range(3)
    ]
    for name in ("A-MIA", "G-MIA"):
        assert np.mean([values[f"{name}.accuracy"] for values in chance]) == pytest.approx(0.5, abs=0.07)


def test_gradients_are_those_of_the_loss_with_the_true_label(net, data):
    measure = WhiteBoxMembership(dim=7)
    split = data.test.subset(torch.arange(5))
    found = measure._gradients(net, split, None)
    weights = list(net.head.parameters())
    projection = torch.randn(sum(p.numel() for p in weights), 7, generator=torch.Generator().manual_seed(0)) / 7**0.5
    for i, (x, y) in enumerate(split.batches(1)):
        loss = nn.functional.cross_entropy(net(x), y)
        flat = torch.cat([g.flatten() for g in torch.autograd.grad(loss, weights)])
        expected = torch.cat([flat @ projection, flat.norm().log()[None]])
        torch.testing.assert_close(found[i], expected, atol=1e-4, rtol=1e-3)


def test_a_head_without_weights_has_no_gradients(nothing_to_learn):
    with rs.seeded(0):
        model = rs.Classifier([nn.Sequential(nn.Flatten(), nn.Linear(36, 4))], nn.Identity())
    found = WhiteBoxMembership()(model, rs.forget_samples(nothing_to_learn, 5))
    assert "A-MIA" in found.values
    assert "no gradients" in found.notes["G-MIA"]


class Halves(nn.Module):
    """Means of the image's four quarters."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.avg_pool2d(x, x.shape[-1] // 2).flatten(1)


class Blind(nn.Module):
    """Features that hold nothing of the image."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(x)


def quarters(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Four classes: which quarter is bright."""
    labels = np.arange(n) % 4
    images = np.random.default_rng(seed).integers(0, 120, (n, 1, 6, 6))
    for quarter in range(4):
        rows, columns = np.divmod(quarter, 2)
        images[labels == quarter, :, 3 * rows : 3 * rows + 3, 3 * columns : 3 * columns + 3] += 130
    return images.astype(np.uint8), labels


@pytest.fixture(scope="module")
def seen() -> rs.ForgetTask:
    data = rs.data.arrays(*quarters(800, 0), *quarters(200, 1), name="quarters")
    return rs.forget_classes(data, 1)


def with_head(*blocks: nn.Module) -> rs.Classifier:
    """A head that never says class 1, as after head distillation."""
    head = nn.Linear(4, 4)
    head.bias.data[1] = -100
    return rs.Classifier(blocks, head)


def test_the_other_reading_tells_forgotten_from_retained_images_whoever_was_trained_on(seen):
    """Nothing was trained here, so nobody is a member; a class can be told all the same, unless features hold nothing."""
    with rs.seeded(0):
        knows, blind = with_head(Halves()), with_head(Halves(), Blind())
    found = WhiteBoxMembership()(knows, seen).values
    assert found["A-MIA.retain"] > 0.95
    assert found["A-MIA.accuracy"] == pytest.approx(0.5, abs=0.12)
    nothing = WhiteBoxMembership(last=1)(blind, seen)
    assert "A-MIA.retain" not in nothing.values
    assert "the same for every example" in nothing.notes["A-MIA.retain"]


def test_recovery_asks_the_encoder_and_not_the_head(seen):
    with rs.seeded(0):
        knows, knows_too, blind = with_head(Halves()), with_head(Halves()), with_head(Halves(), Blind())
    measure = Recovery(share=0.1)
    assert rs.measure.Accuracy()(knows, seen).values["UA"] == 1.0
    found = [measure(model, seen).values for model in (knows, knows_too, blind)]
    assert found[0]["recovery"] > 0.9
    assert found[0] == found[1]  # another head, the same encoder
    assert found[2]["recovery"] + 3 * found[2]["recovery.test"] == pytest.approx(1)  # one class for all


def test_recovery_of_original_is_far_above_that_of_random():
    """Classes that a random projection to three numbers hardly tells apart, and a trained one can."""
    random = np.random.default_rng(0)
    patterns = random.integers(0, 256, (6, 36))

    def draw(n, seed):
        labels = np.arange(n) % 6
        images = 0.35 * patterns[labels] + 0.65 * np.random.default_rng(seed).integers(0, 256, (n, 36))
        return images.astype(np.uint8).reshape(n, 1, 6, 6), labels

    data = rs.data.arrays(*draw(1200, 1), *draw(300, 2))
    task = rs.forget_classes(data, 3)
    with rs.seeded(0):
        model = rs.Classifier(
            [nn.Sequential(nn.Flatten(), nn.Linear(36, 64), nn.ReLU(), nn.Linear(64, 3))], nn.Linear(3, 6)
        )
        fresh = rs.clone(model)
        rs.descend(
            model, data.train.batches(50, shuffle=True), optimizer=torch.optim.Adam(model.parameters(), lr=3e-3),
            epochs=6, precision="float32",
        )  # fmt: skip
    original, blank = (Recovery()(m, task).values["recovery"] for m in (model, fresh))
    assert original > blank + 0.3


def test_a_probe_reads_what_is_there_block_by_block(seen):
    found = Probe()(with_head(Halves(), Blind()), seen).values
    assert found["probe.1"] > 0.95
    assert found["probe.test.1"] > 0.95
    assert found["probe.2"] in (0.0, 1.0)  # one class for all
    assert found["probe.2"] + 3 * found["probe.test.2"] == pytest.approx(1)


def test_a_probe_of_forgotten_samples_is_fitted_on_retained_ones(memorising, nothing_to_learn):
    """The memorised labels of forgotten samples can be read from the last block, those of test data cannot."""
    found = Probe()(memorising, rs.forget_samples(nothing_to_learn, 20, seed=0)).values
    assert found["probe.2"] > 0.9
    assert found["probe.test.2"] < 0.4


def clusters(n: int, classes: int = 5, d: int = 12) -> tuple[torch.Tensor, torch.Tensor]:
    random = np.random.default_rng(0)
    y = np.arange(n) % classes
    centres, scale = random.normal(size=(classes, d)), 10.0 ** random.uniform(-3, 3, d)
    z = (centres[y] + 1.2 * random.normal(size=(n, d))) * scale + 7 * scale
    return torch.tensor(z, dtype=torch.float32), torch.tensor(y)


def test_a_linear_classifier_is_scikit_learns_and_that_of_the_formula():
    z, y = clusters(600)
    found = linear_answers(z[:300], y[:300], z, ridge=1e-2)
    theirs = make_pipeline(StandardScaler(), LogisticRegression(C=1 / (1e-2 * 300), max_iter=1000))
    theirs.fit(z[:300].double().numpy(), y[:300].numpy())
    assert (found.numpy() == theirs.predict(z.double().numpy())).mean() > 0.995
    standard = ((z - z[:300].mean(0)) / z[:300].std(0)).double()
    w, b = torch.zeros(12, 5, dtype=torch.float64), torch.zeros(5, dtype=torch.float64)
    optimizer = torch.optim.LBFGS([w.requires_grad_(), b.requires_grad_()], max_iter=500, line_search_fn="strong_wolfe")

    def objective() -> torch.Tensor:
        optimizer.zero_grad()
        value = nn.functional.cross_entropy(standard[:300] @ w + b, y[:300]) + 1e-2 / 2 * w.square().sum()
        value.backward()
        return value

    optimizer.step(objective)
    assert (found == (standard @ w + b).argmax(1)).double().mean() > 0.995
    assert 0.6 < (found[300:] == y[300:]).double().mean() < 0.95  # neither trivial nor hopeless


def test_a_linear_classifier_makes_nothing_of_rounding():
    """A feature that tells the class in its last digits only, and another that tells nothing."""
    y = torch.arange(400) % 2
    last_digit = 1000 * (1 + 1e-7 * y)
    noise = torch.randn(400, generator=torch.Generator().manual_seed(0))
    z = torch.stack([last_digit.float(), noise], dim=1)
    assert z[:, 0].unique().numel() == 2
    found = linear_answers(z[:200], y[:200], z[200:], ridge=1e-3)
    assert (found == y[200:]).double().mean() < 0.65


@pytest.mark.parametrize(("measure", "ridge"), [(Probe, 0.0), (Recovery, -1.0)])
def test_no_ridge_is_refused(measure, ridge):
    with pytest.raises(rs.InputError, match="ridge"):
        measure(ridge=ridge)


def test_relearning_ends_when_there_is_nothing_left_and_keeps_its_course(net, task):
    found = Relearning(lr=0.05, steps=30)(net, task)
    course = found.arrays["course"]
    assert course[0] == float((logits(net, task.forget).argmax(1) == 2).double().mean())
    assert course[-1] == found.values["relearning.after"] == 1.0
    assert len(course) <= 31
    assert (course[1:-1] < 1).all()
    slow = Relearning(lr=0.0, steps=4)(net, task).arrays["course"]
    assert len(slow) == 5


def test_relearning_refuses_what_makes_no_sense(net, task):
    for wrong, sentence in (({"steps": 0}, "steps is 0"), ({"on": "test"}, "choose forget or all")):
        with pytest.raises(rs.InputError, match=sentence):
            Relearning(**wrong)(net, task)


def test_class_accuracies_are_counts(net, task):
    found = ClassAccuracy()(net, task)
    said = torch.cat([logits(net, split).argmax(1) for split in (task.test, task.forget_test)])
    truth = torch.cat([task.test.labels, task.forget_test.labels])
    for c in range(4):
        assert found.values[f"class_accuracy.{c}"] == pytest.approx(float((said[truth == c] == c).double().mean()))
    assert found.values["FTA"] == found.values["class_accuracy.2"]
    assert found.values["class_accuracy.worst"] == min(found.values[f"class_accuracy.{c}"] for c in (0, 1, 3))


def test_the_random_network_of_zrf_is_the_same_for_all_models_of_a_network(net, task):
    trained = rs.Pretraining(epochs=1, lr=0.05)(net, task.train)
    one, two = (ForgetOutputs()(model, task).arrays for model in (net, trained))
    # The weights are the same; the layout in memory, which training changes, moves the last digits.
    np.testing.assert_allclose(one["random"], two["random"], atol=1e-5)
    assert not np.array_equal(one["log_probabilities"], two["log_probabilities"])


def test_the_effective_dimension_counts_directions():
    side = np.tile(np.arange(16, dtype=np.uint8)[:, None] * 10, (1, 1)).reshape(16, 1, 1, 1)
    images = np.zeros((32, 3, 1, 1), np.uint8)
    images[:16, :1] = side
    images[16:, 1:2] = side
    data = rs.data.arrays(images, np.arange(32) % 2, images + 1, np.arange(32) % 2, mean=[0] * 3, std=[1] * 3)
    one = rs.Classifier([nn.Flatten()], nn.Linear(3, 2))
    line = rs.forget_indices(data, list(range(16)))
    assert Representation()(one, line).values["dimension.1"] == pytest.approx(1)
    plane = rs.forget_indices(data, [15, 31, 0])
    assert Representation()(one, plane).values["dimension.1"] == pytest.approx(1.6)
    point = rs.forget_indices(data, [0, 16])
    assert Representation()(one, point).values["dimension.1"] == 0


def test_the_embedding_keeps_clusters_together_and_says_who_is_forgotten(seen):
    found = Embedding(most=100)(with_head(Halves()), seen).arrays
    assert found["coordinates"].shape == (100, 2)
    assert found["forgotten"].sum() == 20
    assert np.array_equal(found["forgotten"] == 1, found["labels"] == 1)
    distance = np.linalg.norm(found["coordinates"][:, None] - found["coordinates"][None], axis=2)
    np.fill_diagonal(distance, np.inf)
    nearest = distance.argmin(axis=1)
    assert (found["labels"][nearest] == found["labels"]).mean() > 0.9


class Routed(nn.Linear):
    """A head that looks at its input's value to decide what to answer."""

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return super().forward(z if float(z.sum()) > 0 else -z)


def test_white_box_attacks_refuse_a_head_that_decides_by_its_values(nothing_to_learn):
    model = rs.Classifier([nn.Flatten()], Routed(36, 4))
    task = rs.forget_indices(nothing_to_learn, list(range(100)))
    with pytest.raises(rs.InputError, match="gradients cannot be taken image by image"):
        WhiteBoxMembership(last=1)(model, task)
