from __future__ import annotations

import json
import pickle

import pytest
import torch
from safetensors.torch import load_file, save_file

import residua as rs
from residua.models.classifier import weights_digest


@pytest.fixture
def saved(net, tmp_path):
    path = tmp_path / "model.safetensors"
    rs.save(net, path)
    return path


def rewrite(path, *, architecture=None, change=None, metadata=None):
    tensors = load_file(path)
    if change:
        change(tensors)
    words = json.dumps(architecture) if architecture is not None else metadata
    save_file(tensors, path, metadata={"residua": words} if words is not None else None)


@pytest.mark.parametrize(
    "build",
    [
        lambda: rs.models.resnet18(width=2, channels=1, classes=3),
        lambda: rs.models.resnet50(width=1, stem="imagenet"),
        lambda: rs.models.vit(variant="tiny", image=8, patch=4),
    ],
)
def test_a_checkpoint_alone_rebuilds_the_model(build, tmp_path):
    model = build().to(memory_format=torch.channels_last)
    rs.save(model, tmp_path / "deep" / "m.safetensors")
    again = rs.load(tmp_path / "deep" / "m.safetensors")
    assert weights_digest(again) == weights_digest(model)
    assert again.architecture == model.architecture
    assert again.block_names == model.block_names
    assert not again.training
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["m.safetensors"]


class Bomb:
    def __reduce__(self):
        return (exec, ("raise SystemExit('executed')",))


def other_shape(tensors):
    tensors["head.weight"] = torch.zeros(5, 16)


def with_nan(tensors):
    tensors["head.bias"][0] = float("nan")


def head_bias(value, kind):
    return lambda tensors: tensors.update({"head.bias": torch.full((4,), value, dtype=kind)})


ARCHITECTURE = {"network": "resnet18", "classes": 4, "channels": 1, "width": 2, "stem": "cifar"}


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda p: p.unlink(), "does not exist"),
        (lambda p: p.write_bytes(b""), "not a readable safetensors"),
        (lambda p: p.write_bytes(b"\x00\xff" * 500), "not a readable safetensors"),
        (lambda p: p.write_bytes(p.read_bytes()[:-10]), "not a readable safetensors"),
        (lambda p: p.write_bytes(pickle.dumps(Bomb())), "not a readable safetensors"),
        (lambda p: torch.save({"w": torch.zeros(2)}, p), "not a readable safetensors"),
        (lambda p: rewrite(p), "does not say which network"),
        (lambda p: rewrite(p, architecture=[1]), "damaged metadata"),
        (lambda p: rewrite(p, architecture={"network": "nonet"}), "'nonet' is unknown"),
        (lambda p: rewrite(p, architecture=ARCHITECTURE | {"width": "wide"}), "cannot be built"),
        (lambda p: rewrite(p, architecture=ARCHITECTURE | {"width": 10**6}), "does not fit its network"),
        (lambda p: rewrite(p, architecture=ARCHITECTURE | {"width": 10**18}), "cannot be built"),
        (lambda p: rewrite(p, architecture=ARCHITECTURE | {"width": float("inf")}), "damaged metadata"),
        (lambda p: rewrite(p, architecture=ARCHITECTURE | {"stem": "x" * 9999}), "how its network is built"),
        (lambda p: rewrite(p, architecture=ARCHITECTURE | {"x" * 9999: 1}), "cannot be built"),
        (lambda p: rewrite(p, metadata="[" * 100_000), "damaged metadata"),
        (lambda p: rewrite(p, metadata='{"network": ' + "9" * 5000 + "}"), "damaged metadata"),
        (lambda p: rewrite(p, architecture=ARCHITECTURE, change=other_shape), "does not fit its network"),
        (lambda p: rewrite(p, architecture=ARCHITECTURE, change=lambda t: t.pop("head.bias")), "is missing"),
        (lambda p: rewrite(p, architecture=ARCHITECTURE, change=with_nan), "NaN or infinite weights in head.bias"),
        (
            lambda p: rewrite(p, architecture=ARCHITECTURE, change=head_bias(1e300, torch.float64)),
            "NaN or infinite weights in head.bias",
        ),
        (
            lambda p: rewrite(p, architecture=ARCHITECTURE, change=head_bias(1, torch.int64)),
            "holds head.bias as torch.int64",
        ),
    ],
)
def test_a_bad_checkpoint_is_refused_in_one_sentence(saved, spoil, sentence):
    spoil(saved)
    with pytest.raises(rs.InputError, match=sentence) as refusal:
        rs.load(saved)
    assert str(saved) in str(refusal.value)
    assert len(str(refusal.value)) < len(str(saved)) + 300


def test_weights_of_eight_bits_are_read(saved):
    """PyTorch cannot ask some of them whether they are finite."""
    rewrite(saved, architecture=ARCHITECTURE, change=head_bias(0.5, torch.float8_e4m3fn))
    assert rs.load(saved).head.bias.tolist() == [0.5] * 4


def test_a_checkpoint_of_another_architecture_is_refused(saved):
    with pytest.raises(rs.InputError, match="has classes 4, expected 10"):
        rs.load(saved, expect={"classes": 10})
    assert rs.load(saved, expect={"classes": 4, "channels": 1}).depth == 5


def test_tied_weights_are_saved_under_both_names(net, tmp_path):
    """Two layers that share their weights are two tensors in the file."""
    net.blocks[1][0].conv2.weight = net.blocks[1][0].conv1.weight
    rs.save(net, tmp_path / "m.safetensors")
    assert weights_digest(rs.load(tmp_path / "m.safetensors")) == weights_digest(net)


def test_a_model_of_unknown_make_is_not_saved(tmp_path):
    with pytest.raises(rs.InputError, match="does not say how it is built"):
        rs.save(rs.Classifier([torch.nn.Identity()], torch.nn.Linear(2, 2)), tmp_path / "m.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file_and_nothing_else(saved, net, monkeypatch):
    before = saved.read_bytes()

    def fail(tensors, part, metadata):
        part.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("residua.models.checkpoint.save_file", fail)
    with pytest.raises(rs.InputError, match="No space left"):
        rs.save(net, saved)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]
