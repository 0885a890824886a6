"""A training starts from given weights: ours, or under the names of timm, torchvision or Hugging Face."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import residua as rs
from residua.models.foreign.opening import begin, make
from residua.models.networks import build

pytestmark = pytest.mark.usefixtures("one_thread")

VIT = {"variant": "tiny", "channels": 3, "image": 32, "patch": 16}


def vit_of(package, name: str, classes: int):
    if name == "timm":
        return package.create_model("vit_tiny_patch16_224", num_classes=classes, img_size=32)
    if name == "torchvision":
        return package.models.VisionTransformer(32, 16, 12, 3, 192, 768, num_classes=classes)
    config = package.ViTConfig(
        hidden_size=192, num_hidden_layers=12, num_attention_heads=3, intermediate_size=768, image_size=32,
        patch_size=16, num_labels=classes, layer_norm_eps=1e-6,
    )  # fmt: skip
    return package.ViTForImageClassification(config)


@pytest.mark.parametrize("name", ["timm", "torchvision", "transformers"])
def test_our_vit_starts_from_the_weights_of_each_library(name, request, tmp_path):
    package = request.getfixturevalue(name)
    with rs.seeded(0):
        net = vit_of(package, name, 5).eval()
        with torch.no_grad():
            for p in net.parameters():
                p.add_(torch.randn_like(p) * 0.02)
    torch.save(net.state_dict(), tmp_path / "w.pth")
    x = torch.randn(3, 3, 32, 32)
    same = begin(build("vit", classes=5, **VIT), tmp_path / "w.pth")
    with torch.no_grad():
        found = net(x)
        torch.testing.assert_close(same(x), getattr(found, "logits", found), atol=1e-4, rtol=1e-4)
    with rs.seeded(1):
        other = build("vit", classes=3, **VIT)
        head = other.head.weight.detach().clone()
        other = begin(other, tmp_path / "w.pth")
    assert torch.equal(other.head.weight, head)
    assert torch.equal(other.encode(x), same.encode(x))


def test_our_resnet_starts_from_ours_and_from_torchvisions_names(torchvision, tmp_path):
    with rs.seeded(0):
        ours = rs.models.resnet18(classes=5, channels=3, width=4)
        theirs = torchvision.models.resnet18(num_classes=5)
    rs.save(ours, tmp_path / "o.safetensors")
    torch.save(theirs.state_dict(), tmp_path / "t.pth")
    x = torch.randn(2, 3, 32, 32)
    begun = begin(rs.models.resnet18(classes=3, channels=3, width=4), tmp_path / "o.safetensors")
    assert torch.equal(begun.encode(x), ours.encode(x))
    begun = begin(rs.models.resnet18(classes=3, channels=3, stem="imagenet"), tmp_path / "t.pth")
    assert torch.equal(begun.blocks[0][0].weight, theirs.conv1.weight)
    with pytest.raises(rs.InputError, match=r"--init .* does not fit the network: blocks.0.0.weight is \(4, 3, 3, 3\)"):
        begin(rs.models.resnet18(classes=3, channels=3, width=8), tmp_path / "o.safetensors")


def test_a_librarys_network_starts_from_its_own_names(timm, tmp_path):
    words = "timm:convnext_atto,depths=[1,1,1,1],dims=[8,8,8,16]"
    shape = {"channels": 3, "image": (32, 32)}
    with rs.seeded(0):
        net = timm.create_model("convnext_atto", depths=(1, 1, 1, 1), dims=(8, 8, 8, 16), num_classes=7)
    torch.save(net.state_dict(), tmp_path / "w.pth")
    model = make(words, classes=3, start=tmp_path / "w.pth", **shape)
    assert torch.equal(model.blocks[0][0].weight, net.stem[0].weight)
    assert model.architecture["classes"] == 3


def test_networks_that_help_texts_name_can_be_built(timm):
    pages = Path(__file__).parents[3] / "docs"
    words = {
        each
        for name in ("commands.md", "models.md")
        for each in re.findall(r"timm:(?!NAME)[\w=.,]*\w", (pages / name).read_text())
    }
    assert len(words) > 1
    for each in words:
        assert make(each, classes=3, channels=3, image=(32, 32)).depth > 1, each


def test_an_adopted_vit_with_other_arguments_is_saved_and_opened(timm, tmp_path):
    net = timm.create_model("vit_tiny_patch16_224", img_size=32, patch_size=8, embed_dim=24, depth=2, num_heads=3,
                            num_classes=5, global_pool="avg")  # fmt: skip
    rs.save(rs.adopt(net), tmp_path / "vit.safetensors")
    again = rs.load(tmp_path / "vit.safetensors")
    x = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(again(x), net.eval()(x), atol=1e-5, rtol=0)
