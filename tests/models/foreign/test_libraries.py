"""Adopted networks in our checkpoints: saved with library, name and arguments, and built again."""

from __future__ import annotations

import json
import re
import sys
import types

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

import residua as rs
from residua.cli import COMMANDS, loaded
from residua.models.classifier import weights_digest
from residua.models.foreign.building import build_listed, from_words

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = "timm:convnext_atto,depths=[1,1,1,1],dims=[8,8,8,16]"


def check_comes_back(model, path):
    x = torch.randn(3, *model.architecture["input"])
    rs.save(model, path)
    again = rs.load(path)
    assert weights_digest(again) == weights_digest(model)
    assert again.architecture == model.architecture
    assert again.block_names == model.block_names
    with torch.no_grad():
        assert torch.equal(again(x), model(x))
    with rs.seeded(5):
        ours = rs.clone(model).train()(x)
    with rs.seeded(5):
        assert torch.equal(rs.clone(again).train()(x), ours)


def test_a_network_of_timm_comes_back_bit_for_bit(timm, tmp_path):
    net = timm.create_model("mobilenetv3_small_050", num_classes=3, drop_rate=0.2)
    model = rs.adopt(net, example=torch.randn(4, 3, 32, 32))
    assert model.architecture["network"] == "timm:mobilenetv3_small_050"
    check_comes_back(model, tmp_path / "m.safetensors")


def test_a_network_of_transformers_comes_back_bit_for_bit(transformers, tmp_path):
    config = transformers.SwinConfig(
        embed_dim=8, depths=[1, 1], num_heads=[2, 2], image_size=16, patch_size=2, window_size=4, num_labels=3
    )
    model = rs.adopt(transformers.SwinForImageClassification(config))
    assert model.architecture["network"] == "transformers:SwinForImageClassification"
    check_comes_back(model, tmp_path / "m.safetensors")


def test_a_network_of_torchvision_comes_back_with_its_cuts(torchvision, tmp_path):
    net = torchvision.models.shufflenet_v2_x0_5(num_classes=3)
    model = rs.adopt(net, cuts=["stage2", "stage3", "conv5"], example=torch.randn(4, 3, 32, 32))
    assert model.architecture["network"] == "torchvision:shufflenet_v2_x0_5"
    check_comes_back(model, tmp_path / "m.safetensors")


def test_a_network_that_no_library_builds_so_is_not_given_a_librarys_name(timm, tmp_path):
    net = timm.create_model("mobilenetv3_small_050", num_classes=3)
    net.act2 = torch.nn.Tanh()
    model = rs.adopt(net, example=torch.randn(4, 3, 32, 32))
    assert "network" not in model.architecture
    with pytest.raises(rs.InputError, match="does not say how it is built"):
        rs.save(model, tmp_path / "m.safetensors")


def test_words_name_a_library_a_network_and_arguments(timm):
    found = from_words(SMALL)
    assert found == {"network": "timm:convnext_atto", "arguments": {"depths": [1, 1, 1, 1], "dims": [8, 8, 8, 16]}}
    net = build_listed(**from_words(SMALL, 3, 1))
    assert net(torch.randn(2, 1, 32, 32)).shape == (2, 3)
    assert from_words("timm:create_model") is None
    assert from_words("mycode:make") is None
    assert from_words("torchvision.models:resnet18") is None


def test_the_networks_that_help_texts_name_are_built(timm):
    commands = [loaded(name, ["COLA"] if name == "unlearn" else []) for name in COMMANDS]
    commands += [part for each in commands for part in getattr(each, "commands", {}).values()]
    helps = [parameter.help or "" for each in commands for parameter in each.params]
    words = {word for text in helps for word in re.findall(r"timm:[a-z][\w=,.\[\]]*\w", text)}
    assert words
    for word in words:
        assert rs.adopt(build_listed(**from_words(word, 10, 3)), example=torch.randn(4, 3, 32, 32)).depth > 2


@pytest.mark.parametrize(
    "arguments",
    [{"pretrained": True}, {"checkpoint_path": "x"}, {"_attn_implementation": "a/b"}, {"act_layer": "../x"},
     {"norm_layer": {"a": 1}}, {"pretrained_cfg": "x"}],
)  # fmt: skip
def test_a_file_cannot_name_weights_places_or_code(timm, arguments, tmp_path):
    with rs.seeded(0):
        model = rs.adopt(build_listed(**from_words(SMALL, 3, 3)), example=torch.randn(4, 3, 32, 32))
    architecture = model.architecture | {"network": "timm:convnext_atto", "arguments": arguments}
    path = tmp_path / "m.safetensors"
    save_file({k: v.contiguous() for k, v in model.state_dict().items()}, path, {"residua": json.dumps(architecture)})
    with pytest.raises(rs.InputError, match="expected plain numbers and words"):
        rs.load(path)


@pytest.mark.parametrize("network", ["timm:hf-hub:someone/else", "timm:nothing_like_it", "transformers:pipeline"])
def test_a_file_cannot_name_what_the_library_does_not_list(timm, transformers, network, tmp_path):
    path = tmp_path / "m.safetensors"
    about = {"network": network, "arguments": {}, "input": [3, 32, 32], "classes": 3, "channels": 3}
    save_file({"a": torch.zeros(2)}, path, {"residua": json.dumps(about)})
    with pytest.raises(rs.InputError, match="does not list a network"):
        rs.load(path)


def test_a_small_file_cannot_ask_for_a_large_network(timm, tmp_path):
    path = tmp_path / "m.safetensors"
    about = {"network": "timm:vit_huge_patch14_224", "arguments": {}, "input": [3, 224, 224]}
    save_file({"a": torch.zeros(2)}, path, {"residua": json.dumps(about)})
    with pytest.raises(rs.InputError, match="far larger than its weights"):
        rs.load(path)


def test_weights_under_the_packages_names_open_by_the_packages_word(timm, tmp_path):
    with rs.seeded(0):
        net = build_listed(**from_words(SMALL, 3, 3)).eval()
    torch.save(net.state_dict(), tmp_path / "m.pth")
    model = rs.load(tmp_path / "m.pth", SMALL, classes=3, channels=3, image=(32, 32))
    x = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(model(x), net(x), atol=1e-5, rtol=0)
    check_comes_back(model, tmp_path / "m.safetensors")
    with safe_open(tmp_path / "m.safetensors", framework="pt") as file:
        kept = json.loads(file.metadata()["residua"])
    assert kept["arguments"]["dims"] == [8, 8, 8, 16]


def test_a_library_that_fails_late_is_named_in_one_sentence(monkeypatch):
    """transformers imports a network when it is asked for, and then finds that torchvision does not fit."""

    class Late(types.ModuleType):
        def __getattr__(self, name: str) -> object:
            raise ModuleNotFoundError("no module") from RuntimeError("operator torchvision::nms does not exist")

    monkeypatch.setitem(sys.modules, "transformers", Late("transformers"))
    with pytest.raises(
        rs.InputError, match=r"transformers's, which cannot be imported here \(operator torchvision::nms"
    ):
        from_words("transformers:ConvNextForImageClassification", 4, 3)
