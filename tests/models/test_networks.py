from __future__ import annotations

import pytest
import torch

import residua as rs


def parameters(model: rs.Classifier) -> int:
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(
    ("network", "fields", "count"),
    [
        # torchvision's resnet18, resnet50 with 1,000 classes
        ("resnet18", {"classes": 1000, "stem": "imagenet"}, 11_689_512),
        ("resnet50", {"classes": 1000, "stem": "imagenet"}, 25_557_032),
        # the usual CIFAR variants with a 3 x 3 stem
        ("resnet18", {}, 11_173_962),
        ("resnet50", {}, 23_520_842),
        # timm's vit_{tiny,small,base}_patch16_224
        ("vit", {"variant": "tiny", "classes": 1000}, 5_717_416),
        ("vit", {"variant": "small", "classes": 1000}, 22_050_664),
        ("vit", {"variant": "base", "classes": 1000}, 86_567_656),
    ],
)
def test_parameter_counts_are_the_standard_ones(network, fields, count):
    with torch.device("meta"):
        assert parameters(rs.models.build(network, **fields)) == count


def test_blocks_are_the_papers():
    assert rs.models.resnet18(width=1).block_names == ("stem", "layer1", "layer2", "layer3", "layer4")
    assert rs.models.resnet50(width=1).block_names == ("stem", "layer1", "layer2", "layer3a", "layer3b", "layer4")
    with torch.device("meta"):
        assert rs.models.vit().depth == 12


@pytest.mark.parametrize("stem", ["cifar", "imagenet"])
@pytest.mark.parametrize("network", ["resnet18", "resnet50"])
def test_any_width_and_channels(network, stem):
    model = rs.models.build(network, classes=7, channels=2, width=3, stem=stem)
    assert model(torch.randn(2, 2, 32, 32)).shape == (2, 7)
    sides = [z.shape[-1] for z in model.features(torch.randn(1, 2, 64, 64), range(1, model.depth + 1)).values()]
    first = 64 if stem == "cifar" else 16
    assert sides[0] == first
    assert sides[-1] == first // 8


@pytest.mark.parametrize(("image", "patch"), [(28, 7), (32, 4), (32, 16)])
def test_any_patch_and_image_size(image, patch):
    model = rs.models.vit(variant="tiny", classes=3, channels=1, image=image, patch=patch)
    assert model(torch.randn(2, 1, image, image)).shape == (2, 3)
    assert model.upto(1)(torch.randn(2, 1, image, image)).shape[1] == (image // patch) ** 2 + 1


@pytest.mark.parametrize(
    ("network", "fields", "sentence"),
    [
        ("resnet19", {}, "resnet19' is unknown; choose one of resnet18, resnet50, vit"),
        ("resnet18", {"width": 0}, "width of resnet18 is 0"),
        ("resnet18", {"stem": "none"}, "stem 'none' is unknown"),
        ("resnet18", {"depth": 3}, "cannot be built"),
        ("vit", {"variant": "huge"}, "variant 'huge' is unknown"),
        ("vit", {"image": 32, "patch": 5}, "not a multiple"),
        ("vit", {"classes": 0}, "at least 1"),
    ],
)
def test_networks_that_do_not_exist_are_refused(network, fields, sentence):
    with pytest.raises(rs.InputError, match=sentence):
        rs.models.build(network, **fields)
