"""Shadow models: who was trained on what, and an attack whose truth is planted in the network itself."""

from __future__ import annotations

import dataclasses
import shutil

import numpy as np
import pytest
import torch
from torch import nn

import residua as rs
from residua.compare import Observations, ulira
from residua.measure.membership import contents
from residua.models import networks
from residua.study.cells import Context
from residua.study.executors import How
from residua.study.schedule import Run, computing
from residua.study.shadows import Shadows, ShadowScoring, ShadowTraining, scores, sides
from residua.study.store import Store
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
    return rs.data.arrays(
        pixels, labels, pixels[:8] // 2 + 100, labels[:8], mean=[0.0], std=[1.0], classes=4, name="codes"
    )


@pytest.fixture
def shadows(monkeypatch) -> Shadows:
    monkeypatch.setitem(networks.NETWORKS, "table", table)
    return Shadows(codes(), {"network": "table", "classes": 4}, MEMORISING, size=25)


def conducted(shadows: Shadows, cells, out) -> Run:
    with computing(out, Context({}, "cpu", shadows), How()) as compute:
        return compute(cells)


def scored(shadows: Shadows, method, model: int, number: int, out) -> dict[str, np.ndarray]:
    training = ShadowTraining(model)
    cell = ShadowScoring(method, number, training)
    run = conducted(shadows, [training, cell], out)
    assert run.failures == {}
    return run.store.arrays(run.results[cell])


def observe(shadows: Shadows, method, models: int, sets: int, out) -> Observations:
    trainings = [ShadowTraining(model) for model in range(models)]
    scorings = [ShadowScoring(method, number, each) for each in trainings for number in range(sets)]
    run = conducted(shadows, [*trainings, *scorings], out)
    rows = []
    for cell in scorings:
        found = run.store.arrays(run.results[cell])
        columns = (found[k] for k in ("example", "trained", "score"))
        rows.append([np.full(len(found["score"]), cell.trained.model), *columns])
    return Observations(*(np.concatenate(parts) for parts in zip(*rows, strict=True)))


def test_what_was_learned_by_heart_is_found_and_what_was_never_seen_is_not(shadows, tmp_path):
    """Original and a method that leaves the forgotten alone are told at once; Retrain is a coin."""
    found = {
        method.label: ulira(observe(shadows, method, 8, 4, tmp_path), sides(8), "shared").values["U-LiRA"]
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


def test_in_was_trained_and_unlearned_and_out_never_touched(shadows, tmp_path):
    """A method that notes its task: it is given nothing but the model's own half."""
    given = []

    @dataclasses.dataclass(frozen=True)
    class Spy:
        label = "Spy"

        def __call__(self, original, task):
            given.append(task)
            return rs.clone(original)

    found = scored(shadows, Spy(), 3, 1, tmp_path)
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


def missing(shadows: Shadows, cells, out) -> int:
    """The number of cells that would be computed."""
    run = Run(cells, Store(out), Context({}, "cpu", shadows))
    run.look()
    return len(cells) - len(run.results)


def test_a_model_is_found_by_what_it_depends_on(shadows, tmp_path):
    conducted(shadows, [ShadowTraining(0)], tmp_path)
    assert missing(shadows, [ShadowTraining(0)], tmp_path) == 0
    assert missing(shadows, [ShadowTraining(1)], tmp_path) == 1
    upside_down = shadows.data.train.images.pixels.flip(0).permute(0, 3, 1, 2).numpy()
    for changed in (
        {"pretraining": dataclasses.replace(MEMORISING, lr=0.5)},
        {"seed": 1},
        {"data": codes(upside_down)},
    ):
        other = dataclasses.replace(shadows, **changed)
        assert missing(other, [ShadowTraining(0)], tmp_path) == 1, changed
    # size and class decide what is forgotten, not what is trained on
    assert missing(dataclasses.replace(shadows, size=20, of_class=1), [ShadowTraining(0)], tmp_path) == 0


def test_scores_are_found_by_method_model_set_and_pictures(shadows, tmp_path):
    def left(method, model, number, of=shadows) -> int:
        training = ShadowTraining(model)
        return missing(of, [training, ShadowScoring(method, number, training)], tmp_path)

    method = FineTune(epochs=1, batch=20, crop=0, flip=False)
    scored(shadows, method, 0, 0, tmp_path)
    assert left(method, 0, 0) == 0
    assert left(dataclasses.replace(method, lr=1e-3), 0, 0) == 1
    assert left(method, 0, 1) == 1
    assert left(method, 1, 0) == 2
    assert left(method, 0, 0, dataclasses.replace(shadows, size=20)) == 1
    # A picture that the model was not trained on changes no model, but what is said of it is another score.
    own = set(shadows.half(0).tolist())
    unknown = next(example for example in shadows.forget_set(0).tolist() if example not in own)
    images = shadows.data.train.images.pixels.permute(0, 3, 1, 2).numpy().copy()
    images[unknown] = 255
    assert left(method, 0, 0, dataclasses.replace(shadows, data=codes(images))) == 1


def test_a_model_that_is_gone_is_needed_only_for_further_scores(shadows, tmp_path):
    before = scored(shadows, Original(), 0, 0, tmp_path)["score"]
    shutil.rmtree(tmp_path / "models")
    assert (scored(shadows, Original(), 0, 0, tmp_path)["score"] == before).all()
    assert not (tmp_path / "models").exists()
    scored(shadows, Original(), 0, 1, tmp_path)
    assert len(list((tmp_path / "models").iterdir())) == 1


def test_scores_are_log_odds_finite_where_probabilities_are_not():
    z = torch.tensor([[1.0, 2.0, 0.5], [-1.0, 0.0, 3.0]])
    y = torch.tensor([1, 0])
    p = torch.softmax(z.double(), 1)[torch.arange(2), y]
    assert scores(z, y) == pytest.approx((p.log() - (1 - p).log()).numpy(), abs=1e-12)
    extreme = scores(torch.tensor([[1e4, -1e4, -1e4], [1e4, -1e4, 0.0], [0.0, 0.0, 0.0]]), torch.tensor([0, 1, 2]))
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
