from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import residua as rs
from residua.models.classifier import clone, reinitialise, restart
from residua.models.foreign.fitting import starting_weights
from residua.models.foreign.opening import begin, started


@pytest.fixture
def file(tmp_path):
    with rs.seeded(3):
        rs.save(rs.models.resnet18(classes=7, channels=1, width=2), tmp_path / "start.safetensors")
    return tmp_path / "start.safetensors"


def same(one, other) -> list[bool]:
    return [torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True)]


def test_a_model_starts_again_where_it_started_and_its_new_head_is_drawn(file, net):
    with rs.seeded(0):
        model = begin(rs.models.resnet18(classes=4, channels=1, width=2), file)
    encoder = clone(model.after(0))
    trained = clone(model)
    with torch.no_grad():
        for parameter in trained.parameters():
            parameter.zero_()
    again = restart(clone(trained))
    assert all(same(again.after(0), encoder))
    assert not torch.equal(again.head.weight, model.head.weight)
    assert not any(same(reinitialise(clone(trained)).after(0)[0][:1], encoder[0][:1]))  # critics and Random are drawn


def test_retrain_and_eu_start_where_original_did_though_original_was_saved_and_loaded(file, net, task, tmp_path):
    start = rs.load(file)
    loaded = started(net, file)
    with rs.seeded(1):
        retrained = rs.unlearn.Retrain(rs.Pretraining(epochs=0))(loaded, task)
        last = rs.unlearn.ExactLast(k=3, epochs=0)(loaded, task)
    assert all(same(retrained.after(0), start.after(0)))
    assert torch.equal(last.blocks[4][1].conv2.weight, start.blocks[4][1].conv2.weight)
    assert torch.equal(last.blocks[1][0].conv1.weight, net.blocks[1][0].conv1.weight)  # not among the last three


def test_an_adopted_network_starts_from_a_file_under_its_owners_names(tmp_path):
    def theirs(classes):
        layers = nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()
        return nn.Sequential(*layers, nn.Linear(4, classes))

    with rs.seeded(0):
        before, start = theirs(4), theirs(9)
    torch.save(start.state_dict(), tmp_path / "start.pth")
    again = restart(clone(started(rs.adopt(before), tmp_path / "start.pth")))
    assert all(same(again.after(0), rs.adopt(start).after(0)))


def test_libraries_fetch_weights_by_name_once(monkeypatch, tmp_path):
    asked = []

    def create_model(name, pretrained):
        asked.append((name, pretrained))
        return torch.nn.Linear(2, 3)

    monkeypatch.setitem(sys.modules, "timm", SimpleNamespace(create_model=create_model))
    first = starting_weights("timm:vit_base.in21k", tmp_path)
    assert starting_weights("timm:vit_base.in21k", tmp_path) == first
    assert asked == [("vit_base.in21k", True)]
    assert starting_weights("some/file.safetensors", tmp_path).name == "file.safetensors"


def test_a_name_that_cannot_be_fetched_is_one_sentence(monkeypatch, tmp_path):
    def from_pretrained(name, use_safetensors):
        raise OSError("no network")

    auto = SimpleNamespace(AutoModelForImageClassification=SimpleNamespace(from_pretrained=from_pretrained))
    monkeypatch.setitem(sys.modules, "transformers", auto)
    with pytest.raises(rs.InputError, match=r"hf:some/vit cannot be fetched \(no network\); give a file"):
        starting_weights("hf:some/vit", tmp_path)
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(rs.InputError, match=r"needs timm; install residua\[timm\]"):
        starting_weights("timm:vit", tmp_path)
    assert not list(tmp_path.iterdir())
