"""Shadow models: who was trained on what, and an attack whose truth is planted in the network itself."""

from __future__ import annotations

import dataclasses
import shutil

import numpy as np
import pytest
import torch
from torch import nn

import residua as rs
from residua import budget, networks
from residua.attack import contents
from residua.compare import Observations, ulira
from residua.shadow import Shadows, scores, sides
from residua.unlearn import FineTune, Original, Retrain

pytestmark = pytest.mark.usefixtures("one_thread")
CODES = 400
MEMORISING = rs.Pretraining(
    epochs=4, batch=20, lr=4.0, momentum=0.0, weight_decay=0.0, crop=0, flip=False, precision="float32"
)


class Code(nn.Module):
    """The two pixels of an image, as a number to base 256, and from it a row of a table."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        digits = (x.flatten(1) * 255).round().long()
        return nn.functional.one_hot(digits[:, 0] * 256 + digits[:, 1], CODES).float()


def table(*, classes: int) -> rs.Classifier:
    """A network that learns each image by heart and nothing beyond it: what it says of an image that it was
    not trained on is as it was drawn."""
    architecture = {"network": "table", "classes": classes}
    return rs.Classifier([Code()], nn.Linear(CODES, classes, bias=False), architecture=architecture).eval()


def codes(images: np.ndarray | None = None) -> rs.Dataset:
    numbers = np.arange(CODES)
    pixels = np.stack([numbers // 256, numbers % 256], axis=1).astype(np.uint8)[:, None, None, :]
    pixels = pixels if images is None else images
    labels = numbers % 4
    return rs.datasets.arrays(
        pixels, labels, pixels[:8] // 2 + 100, labels[:8], mean=[0.0], std=[1.0], classes=4, name="codes"
    )


@pytest.fixture
def shadows(tmp_path, monkeypatch) -> Shadows:
    monkeypatch.setitem(networks.NETWORKS, "table", table)
    return Shadows(codes(), {"network": "table", "classes": 4}, MEMORISING, tmp_path / "shadows", size=25)


def observe(shadows: Shadows, method, models: int, sets: int) -> Observations:
    rows = []
    for model in range(models):
        if shadows.find_model(model) is None:
            shadows.train(model)
        for number in range(sets):
            found = shadows.score(method, model, number).arrays
            rows.append(
                [np.full(len(found["score"]), model), *(found[k] for k in ("example", "trained", "score"))]
            )
    return Observations(*(np.concatenate(parts) for parts in zip(*rows, strict=True)))


def test_what_was_learned_by_heart_is_found_and_what_was_never_seen_is_not(shadows):
    """Original and a method that leaves the forgotten alone are told at once; Retrain is a coin."""
    found = {
        method.label: ulira(observe(shadows, method, 8, 4), sides(8), "shared").values["U-LiRA"]
        for method in (Original(), FineTune(epochs=1, batch=20, crop=0, flip=False), Retrain(MEMORISING))
    }
    assert found["Original"] > 0.99
    assert found["FT"] > 0.99
    assert found["Retrain"] == pytest.approx(0.5, abs=0.04)


def test_each_pair_divides_the_data_and_no_model_depends_on_their_number(shadows):
    halves = [shadows.half(model) for model in range(6)]
    for pair in range(0, 6, 2):
        assert torch.cat(halves[pair : pair + 2]).sort().values.tolist() == list(range(CODES))
        assert len(halves[pair]) == CODES // 2
    shared = len(set(halves[0].tolist()) & set(halves[2].tolist()))
    assert 70 < shared < 130  # two random halves of 400 share about 100
    assert shadows.half(0).tolist() == halves[0].tolist()
    assert dataclasses.replace(shadows, seed=1).half(0).tolist() != halves[0].tolist()


def test_forget_sets_share_nothing_until_the_candidates_are_used_up(shadows):
    of_class = dataclasses.replace(shadows, of_class=2, size=20)
    sets = [of_class.forget_set(number).tolist() for number in range(5)]
    assert all(len(set(chosen)) == 40 for chosen in sets)
    assert {example % 4 for chosen in sets for example in chosen} == {2}
    assert not set(sets[0]) & set(sets[1])
    assert not set(sets[2]) & set(sets[3])
    assert sets[0] != sets[2]


def test_in_was_trained_and_unlearned_and_out_never_touched(shadows):
    """A method that notes its task: it is given nothing but the model's own half."""
    given = []

    @dataclasses.dataclass(frozen=True)
    class Spy:
        label = "Spy"

        def __call__(self, original, task):
            given.append(task)
            return rs.clone(original)

    shadows.train(3)
    found = shadows.score(Spy(), 3, 1).arrays
    half, asked = set(shadows.half(3).tolist()), shadows.forget_set(1).tolist()
    assert found["example"].tolist() == asked
    assert found["trained"].tolist() == [example in half for example in asked]
    assert 10 < found["trained"].sum() < 40
    [task] = given
    everything = contents(shadows.data.train)
    assert set(contents(task.forget)) == {everything[i] for i in asked if i in half}
    assert set(contents(task.forget)) | set(contents(task.retain)) == {everything[i] for i in half}
    assert not set(contents(task.forget)) & set(contents(task.retain))


def test_a_picture_that_the_data_hold_twice_is_never_asked_about(shadows):
    """Its copy may be in the half that the model was trained on while it itself counts as out."""
    images = shadows.data.train.images.pixels.permute(0, 3, 1, 2).numpy().copy()
    images[7] = images[3]
    twins = dataclasses.replace(shadows, data=codes(images))
    assert sorted(set(range(CODES)) - set(twins.candidates.tolist())) == [3, 7]
    asked = {example for number in range(8) for example in twins.forget_set(number).tolist()}
    assert not asked & {3, 7}


def test_a_model_is_found_by_what_it_depends_on_and_made_anew_when_damaged(shadows):
    shadows.train(0)
    found = shadows.find_model(0)
    assert found is not None
    assert shadows.find_model(1) is None
    upside_down = shadows.data.train.images.pixels.flip(0).permute(0, 3, 1, 2).numpy()
    for changed in (
        {"pretraining": dataclasses.replace(MEMORISING, lr=0.5)},
        {"seed": 1},
        {"data": codes(upside_down)},
    ):
        assert dataclasses.replace(shadows, **changed).find_model(0) is None, changed
    # size and class decide what is forgotten, not what is trained on
    assert dataclasses.replace(shadows, size=20, of_class=1).find_model(0) is not None
    path = shadows.folder / f"{shadows.model_key(0)}.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:-4] + b"\0\0\0\x3f")
    assert shadows.find_model(0) is None
    path.write_bytes(whole[:50])
    assert shadows.find_model(0) is None
    with pytest.raises(rs.InputError, match="shadow model 0 is missing or damaged"):
        shadows.score(Original(), 0, 0)
    shadows.train(0)
    assert path.read_bytes() == whole


def test_scores_are_found_by_method_model_and_set(shadows):
    shadows.train(0)
    method = FineTune(epochs=1, batch=20, crop=0, flip=False)
    first = shadows.score(method, 0, 0)
    assert shadows.find_scores(method, 0, 0) == first
    assert (shadows.score(method, 0, 0).arrays["score"] == first.arrays["score"]).all()
    for other in ((dataclasses.replace(method, lr=1e-3), 0, 0), (method, 0, 1), (method, 1, 0)):
        assert shadows.find_scores(*other) is None
    assert dataclasses.replace(shadows, size=20).find_scores(method, 0, 0) is None


def test_scores_are_of_the_weights_that_are_there_or_are_made_again(shadows, monkeypatch):
    """A model trained again, on another number of threads, has the same key and other weights."""
    monkeypatch.setattr(budget, "cost", lambda *_: budget.Cost(1.0))
    method, new_network = Original(), Shadows.new_network
    for model in range(4):
        shadows.train(model)
        shadows.score(method, model, 0)
    shutil.rmtree(shadows.folder)
    plan = budget.Plan(shadows, [method], 4, 1, 1)
    assert not plan.to_train.any()  # nobody needs them
    assert not plan.to_score[method].any()
    plan = budget.Plan(shadows, [method], 4, 2, 1)
    assert plan.to_train.all()
    assert plan.to_score[method].all()

    def otherwise(self) -> rs.Classifier:
        network = new_network(self)
        with torch.no_grad():
            network.head.weight.mul_(1.001)
        return network

    monkeypatch.setattr(Shadows, "new_network", otherwise)
    shadows.train(0)
    assert shadows.find_scores(method, 0, 0) is None
    mixed = shadows.score(method, 0, 1)
    shutil.rmtree(shadows.folder)
    monkeypatch.setattr(Shadows, "new_network", new_network)
    assert shadows.find_scores(method, 0, 0) is not None
    assert shadows.find_scores(method, 0, 1) == mixed  # without the model nobody can tell, but
    assert budget.Plan(shadows, [method], 4, 2, 1).to_train[0]  # they are not of one model
    shadows.train(0)
    assert shadows.find_scores(method, 0, 0) is not None
    assert shadows.find_scores(method, 0, 1) is None


def test_scores_of_other_pictures_are_not_taken_for_these(shadows):
    """A picture that the model was not trained on changes no model, but what is said of it is another score."""
    shadows.train(0)
    shadows.score(Original(), 0, 0)
    own = set(shadows.half(0).tolist())
    strange = next(example for example in shadows.forget_set(0).tolist() if example not in own)
    images = shadows.data.train.images.pixels.permute(0, 3, 1, 2).numpy().copy()
    images[strange] = 255
    other = dataclasses.replace(shadows, data=codes(images))
    assert other.find_model(0) is not None
    assert strange in other.forget_set(0)
    assert other.find_scores(Original(), 0, 0) is None
    assert shadows.find_scores(Original(), 0, 0) is not None


def test_scores_are_log_odds_finite_where_probabilities_are_not():
    z = torch.tensor([[1.0, 2.0, 0.5], [-1.0, 0.0, 3.0]])
    y = torch.tensor([1, 0])
    p = torch.softmax(z.double(), 1)[torch.arange(2), y]
    assert scores(z, y) == pytest.approx((p.log() - (1 - p).log()).numpy(), abs=1e-12)
    extreme = scores(
        torch.tensor([[1e4, -1e4, -1e4], [1e4, -1e4, 0.0], [0.0, 0.0, 0.0]]), torch.tensor([0, 1, 2])
    )
    assert extreme == pytest.approx([2e4 - np.log(2), -2e4, -np.log(2)])


def test_what_cannot_be_shadowed_is_refused(shadows):
    for changed, sentence in (
        ({"size": 9}, "expected 10 or more"),
        ({"size": 101}, "need 404 candidates"),
        ({"of_class": 4}, "class 4 is not in codes"),
        ({"of_class": 1, "size": 26}, "but codes has 100"),
    ):
        with pytest.raises(rs.InputError, match=sentence):
            dataclasses.replace(shadows, **changed)
    for models in (0, 2, 6, -4):
        with pytest.raises(rs.InputError, match="a multiple of 4"):
            sides(models)
    assert [list(side) for side in sides(8)] == [[0, 1, 2, 3], [4, 5, 6, 7]]
