"""adopt against the real torchvision, timm and transformers, with random weights.

Their absence skips; `make test` installs them.
"""

from __future__ import annotations

import copy
import math
from typing import NamedTuple

import pytest
import torch
from torch import nn

import residua as rs
from residua.models.classifier import weights_digest

pytestmark = pytest.mark.usefixtures("one_thread")

RESNET18 = ("stem", "layer1", "layer2", "layer3", "layer4")
RESNET50 = ("stem", "layer1", "layer2", "layer3a", "layer3b", "layer4")
TWO = ("block1", "block2")


def tiny_resnet(net):
    """The same network with a sixteenth of its channels, which its class cannot be asked for."""
    first = next(part for part in net.modules() if isinstance(part, nn.Conv2d))
    for part in net.modules():
        if isinstance(part, nn.Conv2d):
            part.out_channels //= 16
            part.in_channels //= 1 if part is first else 16
            part.weight = nn.Parameter(part.weight[: part.out_channels, : part.in_channels].detach().clone())
        elif isinstance(part, nn.BatchNorm2d):
            part.num_features //= 16
            for name in ("weight", "bias"):
                setattr(part, name, nn.Parameter(getattr(part, name)[: part.num_features].detach().clone()))
            part.reset_running_stats()
            part.running_mean, part.running_var = (torch.zeros(part.num_features), torch.ones(part.num_features))
        elif isinstance(part, nn.Linear):
            part.in_features //= 16
            part.weight = nn.Parameter(part.weight[:, : part.in_features].detach().clone())
    return net


def torchvision_vit(package, **more):
    return package.models.VisionTransformer(16, 8, 2, 2, 8, 16, num_classes=3, **more)


def timm_vit(package, **more):
    small = {"img_size": 16, "patch_size": 8, "embed_dim": 8, "depth": 2, "num_heads": 2, "num_classes": 3}
    return package.models.VisionTransformer(**small | more)


def transformers_resnet(package, **more):
    config = package.ResNetConfig(embedding_size=4, hidden_sizes=[4, 4, 8, 8], num_labels=3, **more)
    return package.AutoModelForImageClassification.from_config(config)


def transformers_vit(package, **more):
    config = package.ViTConfig(
        hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16, image_size=16,
        patch_size=8, num_labels=3, **more,
    )  # fmt: skip
    return package.AutoModelForImageClassification.from_config(config)


NETWORKS = {
    "torchvision resnet18": ("torchvision", RESNET18, lambda p: tiny_resnet(p.models.resnet18(num_classes=3))),
    "torchvision resnet50": ("torchvision", RESNET50, lambda p: tiny_resnet(p.models.resnet50(num_classes=3))),
    "torchvision vit": ("torchvision", TWO, torchvision_vit),
    "torchvision vit with dropout": (
        "torchvision", TWO, lambda p: torchvision_vit(p, dropout=0.2, attention_dropout=0.2, representation_size=5)
    ),
    "timm resnet18": ("timm", RESNET18, lambda p: tiny_resnet(p.create_model("resnet18", num_classes=3))),
    "timm resnet18 with dropout": (
        "timm", RESNET18,
        lambda p: tiny_resnet(p.create_model("resnet18", num_classes=3, drop_rate=0.3, drop_path_rate=0.3)),
    ),
    "timm resnet50": ("timm", RESNET50, lambda p: tiny_resnet(p.create_model("resnet50", num_classes=3))),
    "timm vit": ("timm", TWO, timm_vit),
    "timm vit by name": (
        "timm", ("block1", "block2", "block3"),
        lambda p: p.create_model("vit_tiny_patch16_224", num_classes=3, img_size=32, depth=3, embed_dim=24),
    ),
    "timm vit with dropout, layer scale, registers and mean": (
        "timm", TWO,
        lambda p: timm_vit(
            p, drop_rate=0.2, drop_path_rate=0.3, pos_drop_rate=0.2, init_values=0.5, reg_tokens=2, global_pool="avg"
        ),
    ),
    "transformers resnet18": ("transformers", RESNET18, lambda p: transformers_resnet(p, depths=[2, 2, 2, 2], layer_type="basic")),
    "transformers resnet50": ("transformers", RESNET50, transformers_resnet),
    "transformers vit": ("transformers", TWO, transformers_vit),
    "transformers vit with dropout": (
        "transformers", TWO, lambda p: transformers_vit(p, hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.2)
    ),
}  # fmt: skip


class Made(NamedTuple):
    net: nn.Module
    adopted: rs.Classifier
    fresh: nn.Module
    blocks: tuple[str, ...]
    narrowed: bool
    untouched: bool


@pytest.fixture(scope="module", params=NETWORKS)
def made(request) -> Made:
    """A network with weights that nothing can mistake for fresh ones, adopted."""
    package, names, make = NETWORKS[request.param]
    with rs.seeded(0):
        fresh = make(request.getfixturevalue(package))
        net = copy.deepcopy(fresh)
        with torch.no_grad():
            for p in net.parameters():
                p.add_(torch.randn_like(p) * 0.1)
    generator, mode, before = torch.get_rng_state(), net.training, weights_digest(net)
    adopted = rs.adopt(net)
    untouched = torch.equal(torch.get_rng_state(), generator) and net.training == mode and weights_digest(net) == before
    narrowed = names != TWO and package != "transformers" and "vit" not in request.param
    return Made(net, adopted, fresh, names, narrowed, untouched)


def images(net) -> torch.Tensor:
    side = 16 if hasattr(net, "encoder") or hasattr(net, "vit") else 32
    side = getattr(getattr(net, "patch_embed", None), "img_size", (side,))[0]
    return torch.randn(5, 3, side, side, generator=torch.Generator().manual_seed(1))


def run(net, x):
    with rs.seeded(3), torch.no_grad():
        found = net(x)
    return getattr(found, "logits", found)


def test_outputs_are_the_same_in_eval_and_in_train_mode(made):
    x, net, adopted = images(made.net), copy.deepcopy(made.net), rs.clone(made.adopted)
    expected = run(net.eval(), x)
    assert expected.std() > 1e-3
    torch.testing.assert_close(run(adopted, x), expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(run(adopted.train(), x), run(net.train(), x), atol=1e-5, rtol=0)
    # And batch statistics have moved in the same way.
    torch.testing.assert_close(run(adopted.eval(), x), run(net.eval(), x), atol=1e-5, rtol=0)


def test_what_is_adopted_is_a_copy_in_blocks_and_all_of_it(made):
    net, adopted = made.net, made.adopted
    assert made.untouched
    assert adopted.block_names == made.blocks
    assert not adopted.training
    theirs = {p.data_ptr() for p in net.state_dict().values()}
    assert not theirs & {p.data_ptr() for p in adopted.state_dict().values()}
    assert sum(p.numel() for p in adopted.parameters()) == sum(p.numel() for p in net.parameters())
    assert next(adopted.pool.parameters(), None) is None


def test_the_house_can_use_it(made):
    x, adopted = images(made.net), made.adopted
    expected = run(adopted, x)
    with torch.no_grad():
        found = adopted.features(x, range(adopted.depth + 1))
        for block, z in found.items():
            assert torch.equal(z, adopted.upto(block)(x))
            assert torch.equal(adopted.head(adopted.after(block)(z)), expected)
        assert adopted.encode(x).ndim == 2
    copied = rs.clone(adopted)
    assert weights_digest(copied) == weights_digest(adopted)
    before = weights_digest(copied.upto(1))
    rs.freeze(copied.upto(1))
    copied.train()(x).sum().backward()
    assert weights_digest(copied.upto(1)) == before
    assert all(p.grad is None for p in copied.upto(1).parameters())
    assert any(p.grad is not None for p in copied.after(1).parameters())


def test_reinitialise_draws_every_weight_as_the_package_does(made):
    adopted = rs.clone(made.adopted)
    with torch.no_grad():
        for tensor in adopted.state_dict().values():
            tensor.fill_(7)
    with rs.seeded(1):
        rs.reinitialise(adopted)
    assert [name for name, t in adopted.state_dict().items() if (t == 7).any()] == []
    fresh = rs.adopt(made.fresh)
    for (name, ours), theirs in zip(adopted.named_parameters(), fresh.parameters(), strict=True):
        ours, theirs = ours.detach(), theirs.detach()
        if theirs.unique().numel() == 1:
            assert torch.equal(ours, theirs), name
        else:
            # A sixteenth of the channels, so four times the spread that the wide network has left behind.
            expected = theirs.std().item() * (4 if made.narrowed else 1)
            apart = abs(math.log(ours.std().item() / expected))
            assert apart < 4 / math.sqrt(ours.numel()), name


@pytest.mark.parametrize("name", ["resnet18", "resnet50"])
def test_torchvisions_weights_open_as_our_network(torchvision, name, tmp_path):
    """Not only the names fit: ours computes what torchvision's computes."""
    with rs.seeded(0):
        net = tiny_resnet(getattr(torchvision.models, name)(num_classes=3)).eval()
    torch.save(net.state_dict(), tmp_path / "m.pth")
    model = rs.open_model(tmp_path / "m.pth", name, classes=3, channels=3, image=(32, 32))
    assert model.architecture == {"network": name, "classes": 3, "channels": 3, "width": 4, "stem": "imagenet"}
    x = images(net)
    torch.testing.assert_close(run(model, x), run(net, x), atol=1e-5, rtol=0)


def test_a_packages_own_function_builds_the_network(torchvision, tmp_path):
    with rs.seeded(0):
        net = torchvision.models.resnet18(num_classes=3).eval()
    torch.save(net.state_dict(), tmp_path / "m.pth")
    model = rs.open_model(tmp_path / "m.pth", "torchvision.models:resnet18", classes=3, channels=3, image=(32, 32))
    x = images(net)
    torch.testing.assert_close(run(model, x), run(net, x), atol=1e-5, rtol=0)
    assert model.block_names == RESNET18


@pytest.mark.parametrize("pooled", [False, True])
def test_a_published_cifar_resnet_opens_and_what_its_weights_do_not_show_is_reported(torchvision, pooled, tmp_path):
    """Torchvision's names, a 3 x 3 stem, with or without max-pooling, in a file of tensors alone."""
    with rs.seeded(0):
        net = torchvision.models.resnet18(num_classes=3)
        net.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        net = tiny_resnet(net).eval()
    if not pooled:
        net.maxpool = nn.Identity()
    torch.save(net.state_dict(), tmp_path / "m.pth")
    x = images(net)
    model = rs.load(tmp_path / "m.pth", "resnet18")
    assert "stride 1 and no max-pooling" in model.notes[0]
    assert "--network resnet18,stem=cifar-pool" in model.notes[0]
    assert torch.allclose(run(model, x), run(net, x), atol=1e-5) is not pooled
    chosen = rs.load(tmp_path / "m.pth", "resnet18,stem=cifar-pool" if pooled else "resnet18,stem=cifar")
    assert not chosen.notes
    torch.testing.assert_close(run(chosen, x), run(net, x), atol=1e-5, rtol=0)
