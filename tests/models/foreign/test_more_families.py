"""adopt without cuts against the other families of torchvision, timm and transformers: small, with random weights."""

from __future__ import annotations

import copy
import itertools
import math
from functools import partial

import pytest
import torch

import residua as rs
from residua.models.classifier import weights_digest

pytestmark = pytest.mark.usefixtures("one_thread")


def convnext(tv):
    unit = tv.models.convnext.CNBlockConfig
    return tv.models.ConvNeXt([unit(8, 16, 1), unit(16, None, 1)], stochastic_depth_prob=0.3, num_classes=3)


def swin(tv, **more):
    return tv.models.SwinTransformer(
        [4, 4], 8, [2, 1], [2, 2], [4, 4], stochastic_depth_prob=0.3, num_classes=3, **more
    )


def swin_v2(tv):
    places = tv.models.swin_transformer
    return swin(tv, block=places.SwinTransformerBlockV2, downsample_layer=places.PatchMergingV2)


def efficientnet(tv):
    unit = partial(tv.models.efficientnet.MBConvConfig, width_mult=1.0, depth_mult=1.0)
    return tv.models.EfficientNet([unit(1, 3, 1, 8, 8, 1), unit(4, 3, 2, 8, 16, 2)], 0.2, num_classes=3)


def mobilenet_v3(tv):
    unit = partial(tv.models.mobilenetv3.InvertedResidualConfig, dilation=1, width_mult=1.0)
    return tv.models.MobileNetV3(
        [unit(8, 3, 16, 8, True, "RE", stride=1), unit(8, 3, 16, 16, False, "HS", stride=2)], 16, num_classes=3
    )


def regnet(tv):
    units = tv.models.regnet.BlockParams.from_init_params(4, 8, 8, 2.0, 8, se_ratio=0.25)
    return tv.models.RegNet(units, num_classes=3, stem_width=8)


def hugging_face(kind, package, **more):
    return getattr(package, f"{kind}ForImageClassification")(getattr(package, f"{kind}Config")(num_labels=3, **more))


TOKENS = {
    "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16, "image_size": 16,
    "patch_size": 8,
}  # fmt: skip
WINDOWS = {"embed_dim": 8, "depths": [2, 1], "num_heads": [2, 2], "image_size": 16, "patch_size": 2, "window_size": 4}
STAGES = {"hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 2, 1]}
THREE = ("stem", "stage1", "stage2")
FIVE = (*THREE, "stage3", "stage4")
TWO = ("block1", "block2")


def timm_swin(p):
    small = {"img_size": 16, "patch_size": 2, "embed_dim": 8, "depths": (2, 1), "num_heads": (2, 2), "window_size": 4}
    return p.models.SwinTransformer(**small, num_classes=3, drop_rate=0.2)


def timm_swin_v2(p):
    small = {"img_size": 16, "patch_size": 2, "embed_dim": 8, "depths": (2, 1), "num_heads": (2, 2), "window_size": 4}
    return p.models.SwinTransformerV2(**small, num_classes=3)


def timm_tokens(p, kind, **more):
    small = {"img_size": 16, "patch_size": 8, "embed_dim": 8, "depth": 2, "num_heads": 2, "num_classes": 3}
    return getattr(p.models, kind)(**small | more)


NETWORKS = {
    "torchvision convnext": ("torchvision", THREE, convnext),
    "torchvision swin": ("torchvision", THREE, swin),
    "torchvision swin v2": ("torchvision", THREE, swin_v2),
    "torchvision efficientnet": ("torchvision", THREE, efficientnet),
    "torchvision mobilenet v2": (
        "torchvision", THREE,
        lambda p: p.models.MobileNetV2(3, inverted_residual_setting=[[1, 8, 1, 1], [2, 16, 2, 2]], width_mult=0.25),
    ),
    "torchvision mobilenet v3": ("torchvision", THREE, mobilenet_v3),
    "torchvision regnet": ("torchvision", None, regnet),
    "torchvision densenet": ("torchvision", THREE, lambda p: p.models.DenseNet(4, (2, 1), 8, num_classes=3)),
    "timm convnext": (
        "timm", FIVE,
        lambda p: p.create_model("convnext_atto", depths=(1, 1, 1, 1), dims=(8, 8, 8, 16), num_classes=3),
    ),
    "timm convnext v2": (
        "timm", FIVE,
        lambda p: p.create_model("convnextv2_atto", depths=(1, 1, 1, 1), dims=(8, 8, 8, 16), num_classes=3),
    ),
    "timm swin": ("timm", THREE, timm_swin),
    "timm swin v2": ("timm", THREE, timm_swin_v2),
    "timm deit distilled": ("timm", TWO, lambda p: timm_tokens(p, "VisionTransformerDistilled")),
    "timm beit": ("timm", TWO, lambda p: timm_tokens(p, "Beit", use_rel_pos_bias=True, init_values=0.1, drop_rate=0.1)),
    "timm mobilenet v3": ("timm", None, lambda p: p.create_model("mobilenetv3_small_050", num_classes=3, drop_rate=0.2)),
    "timm mobilenet v2": ("timm", None, lambda p: p.create_model("mobilenetv2_035", num_classes=3)),
    "timm regnet": ("timm", FIVE, lambda p: p.create_model("regnety_002", num_classes=3)),
    "timm densenet": (
        "timm", THREE, lambda p: p.models.DenseNet(growth_rate=4, block_config=(2, 1), num_classes=3, drop_rate=0.2)
    ),
    "transformers convnext": ("transformers", FIVE, lambda p: hugging_face("ConvNext", p, **STAGES, drop_path_rate=0.2)),
    "transformers convnext v2": ("transformers", FIVE, lambda p: hugging_face("ConvNextV2", p, **STAGES)),
    "transformers swin": ("transformers", THREE, lambda p: hugging_face("Swin", p, **WINDOWS)),
    "transformers swin v2": ("transformers", THREE, lambda p: hugging_face("Swinv2", p, **WINDOWS)),
    "transformers deit": ("transformers", TWO, lambda p: hugging_face("DeiT", p, **TOKENS)),
    "transformers deit distilled": (
        "transformers", TWO, lambda p: p.DeiTForImageClassificationWithTeacher(p.DeiTConfig(num_labels=3, **TOKENS))
    ),
    "transformers beit": ("transformers", TWO, lambda p: hugging_face("Beit", p, **TOKENS, use_relative_position_bias=True)),
    "transformers beit by its class token": (
        "transformers", TWO, lambda p: hugging_face("Beit", p, **TOKENS, use_mean_pooling=False)
    ),
    "transformers efficientnet": (
        "transformers", None,
        lambda p: hugging_face("EfficientNet", p, width_coefficient=0.25, depth_coefficient=0.2, hidden_dim=320),
    ),
    "transformers mobilenet v1": ("transformers", None, lambda p: hugging_face("MobileNetV1", p, depth_multiplier=0.25)),
    "transformers mobilenet v2": ("transformers", None, lambda p: hugging_face("MobileNetV2", p, depth_multiplier=0.35)),
    "transformers regnet": (
        "transformers", FIVE, lambda p: hugging_face("RegNet", p, **STAGES, embedding_size=8, groups_width=8)
    ),
}  # fmt: skip


def run(net, x):
    with rs.seeded(3), torch.no_grad():
        found = net(x)
    return getattr(found, "logits", found)


# Those that come in one size only take a second or more each; timm has what torchvision has.
LARGE = ("timm mobilenet", "timm regnet", "transformers efficientnet", "transformers mobilenet", "torchvision")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n.startswith(LARGE) else n for n in NETWORKS]
)
def test_a_known_family_is_adopted_without_cuts(name, request):
    """Equal outputs in both modes, maps with channels first, every weight taken over and drawn as the package does."""
    package, names, make = NETWORKS[name]
    with rs.seeded(0):
        fresh = make(request.getfixturevalue(package))
        net = copy.deepcopy(fresh)
        with torch.no_grad():
            for p in net.parameters():
                p.add_(torch.randn_like(p) * 0.05)
    before = weights_digest(net)
    side = 16 if any(word in name for word in ("swin", "deit", "beit")) else 32
    x = torch.randn(4, 3, side, side, generator=torch.Generator().manual_seed(1))
    adopted = rs.adopt(net, example=x)
    assert weights_digest(net) == before
    assert names is None or adopted.block_names == names
    theirs = sum(p.numel() for n, p in net.named_parameters() if "mask_token" not in n)
    assert sum(p.numel() for n, p in adopted.named_parameters() if "mask_token" not in n) == theirs

    expected = run(net.eval(), x)
    assert expected.std() > 1e-3
    torch.testing.assert_close(run(adopted, x), expected, atol=1e-5, rtol=1e-5)
    with torch.no_grad():
        maps = [z for z in adopted.features(x, range(1, adopted.depth + 1)).values() if z.ndim == 4]
    assert all(a.shape[2] >= b.shape[2] and a.shape[2] == a.shape[3] for a, b in itertools.pairwise(maps))
    copied = rs.clone(adopted)
    torch.testing.assert_close(run(copied.train(), x), run(net.train(), x), atol=1e-5, rtol=1e-5)

    check_draws(adopted, rs.adopt(fresh, example=x))


def check_draws(adopted, fresh):
    with torch.no_grad():
        for tensor in adopted.state_dict().values():
            tensor.fill_(7)
    with rs.seeded(1):
        rs.reinitialise(adopted)
    for (name, ours), theirs in zip(adopted.named_parameters(), fresh.parameters(), strict=True):
        ours, theirs = ours.detach(), theirs.detach()
        if theirs.unique().numel() == 1:
            assert torch.equal(ours, theirs), name
        elif theirs.numel() > 60:
            apart = abs(math.log(ours.std().item() / theirs.std().item()))
            assert apart < 5 / math.sqrt(ours.numel()), f"{name}: {ours.std():.4f}, expected {theirs.std():.4f}"
