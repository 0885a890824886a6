from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

import residua as rs
from residua.cli import main
from residua.measure import Accuracy, InformationCurve
from residua.models.networks import LAYERS
from residua.study import presets, rehearsing
from residua.study.cells import starting_file
from residua.study.definition import Study
from residua.study.presets import BUILT_IN, Preset

PAPERS = [
    pytest.param(preset, id=name, marks=[pytest.mark.slow] if preset.network == "vit" else [])
    for name, preset in BUILT_IN.items()
    if name.startswith("paper-")
]
IMAGENET = 20  # classes; the number changes the head alone


def made_up(preset: Preset) -> rs.ForgetTask:
    """Noise in the shape of the study's data, under their name."""
    side = 224 if preset.dataset == "imagenet" else 32
    classes = {"cifar100": 100, "imagenet": IMAGENET}.get(preset.dataset, 10)
    n = 30 * classes
    random = np.random.default_rng(0)
    halves = [(random.integers(0, 256, (n, 3, side, side), dtype=np.uint8), np.arange(n) % classes) for _ in range(2)]
    size = 224 if preset.network == "vit" else None
    data = rs.data.arrays(*halves[0], *halves[1], name=preset.dataset, size=size)
    if preset.scenario == "random":
        return rs.forget_samples(data, 24)
    return rs.forget_classes(data, range(5) if preset.dataset == "imagenet" else 4)


def timm_names(model: rs.Classifier) -> dict[str, torch.Tensor]:
    """The weights of our ViT under timm's names, head of ImageNet-21k included."""
    named = {}
    for name, tensor in model.state_dict().items():
        name = name.replace("blocks.0.0.project.", "patch_embed.proj.").replace("blocks.0.1.", "blocks.0.")
        name = {"blocks.0.0.token": "cls_token", "blocks.0.0.position": "pos_embed"}.get(name, name)
        last = f"blocks.{LAYERS - 1}"
        name = name.replace(f"{last}.1.", "norm.").replace(f"{last}.0.", f"{last}.")
        name = name.replace("attention.qkv", "attn.qkv").replace("attention.out", "attn.proj")
        named[name.replace("mlp.0.", "mlp.fc1.").replace("mlp.2.", "mlp.fc2.")] = tensor
    return named


def study_of(preset: Preset, monkeypatch, tmp_path):
    task = made_up(preset)
    monkeypatch.setattr(Preset, "task", lambda *_: task)
    if preset.network != "vit":
        return preset()
    torch.save(timm_names(rs.models.vit(classes=30)), tmp_path / "vit.pth")
    return preset(init=tmp_path / "vit.pth")


@pytest.mark.parametrize("preset", PAPERS)
def test_the_sizes_of_every_study_of_the_paper_are_known_before_anything_is_trained(preset, monkeypatch, tmp_path):
    monkeypatch.setattr(rs.Pretraining, "__call__", lambda *_: pytest.fail("something was trained"))
    (found,) = rehearsing.sizes(study_of(preset, monkeypatch, tmp_path))
    least = {"resnet18": 11e6, "resnet50": 23e6, "vit": 85e6}[preset.network]
    assert 4 * least < found.weights < 4.4 * least
    assert found.features
    assert found.training > found.batch * found.image > 100e6


@pytest.mark.slow
@pytest.mark.parametrize("preset", PAPERS)
def test_every_study_of_the_paper_passes_its_rehearsal(preset, monkeypatch, tmp_path):
    found = rehearsing.rehearse(study_of(preset, monkeypatch, tmp_path), "cpu")
    assert found.failures == {}
    assert len(found.phases) > 20


def test_bytes_of_an_image_are_what_autograd_keeps():
    class Twice(torch.nn.Module):
        def forward(self, x):
            return torch.exp(x).sigmoid()  # each keeps its output

    blocks = [torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 16), Twice())]
    model = rs.Classifier(blocks, torch.nn.Linear(16, 3), pool=torch.nn.Identity(), architecture={}).to("meta")
    found = rehearsing._saved_bytes(model, torch.empty(2, 1, 4, 4, device="meta"), 3) / 2
    assert 3 * 16 * 4 <= found <= 3 * 16 * 4 + 40  # and the image, log-probabilities and a label


@pytest.fixture
def study(task) -> Study:
    network = {"network": "resnet18", "classes": 4, "channels": 1, "width": 2}
    training = rs.Pretraining(epochs=50, batch=32, crop=1)
    methods = [rs.unlearn.Original(), rs.unlearn.Retrain(training), rs.unlearn.FineTune(epochs=9)]
    measures = (Accuracy(), InformationCurve(last=1, family="linear"))
    return Study({"levels": task}, {"resnet18": network}, training, methods, measures)


def test_a_rehearsal_makes_and_measures_everything_once_and_estimates_the_time(study):
    found = rehearsing.rehearse(study, "cpu")
    assert [phase.name for phase in found.phases] == [
        "seed0-training", "seed0-original", "seed0-retrain", "seed0-ft", "seed0-training/accuracy",
        "seed0-training/information",
    ]  # fmt: skip
    assert not found.failures
    assert found.seconds > sum(phase.seconds for phase in found.phases) / 100


@dataclasses.dataclass(frozen=True)
class Broken:
    """A method that fails, as after days of training."""

    label = "Broken"

    def __call__(self, original, task):
        raise RuntimeError("after days")


def test_a_rehearsal_finds_what_would_fail(study):
    found = rehearsing.rehearse(dataclasses.replace(study, methods=[*study.methods, Broken()]), "cpu")
    assert found.failures == {"seed0-broken": "RuntimeError: after days"}


def test_the_command_rehearses_and_writes_nothing(tmp_path, capsys, quick_stack):
    words = [
        "study",
        "run",
        "tiny",
        "--method",
        "FT",
        "--no-information",
        "--out",
        str(tmp_path / "s"),
        "--device",
        "cpu",
    ]
    assert main([*words, "--rehearse"]) == 0
    printed = capsys.readouterr().out
    assert "a training takes about" in printed
    assert "phases passed" in printed
    assert not (tmp_path / "s").exists()


def test_cells_of_a_study_with_starting_weights_are_keyed_by_their_content(tmp_path):
    for name in ("one", "two"):
        with rs.seeded(0):
            rs.save(rs.models.vit(variant="micro", classes=3, channels=1, image=28, patch=7), tmp_path / name)
    one, two = starting_file(tmp_path / "one"), starting_file(tmp_path / "two")
    assert str(one) == str(two)
    assert one.path != two.path
    with pytest.raises(rs.InputError, match="run its study with --init"):
        presets.network_fields(10, (3, 224, 224), "full", "vit")
