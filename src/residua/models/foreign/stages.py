"""Convolutional networks in stages: ConvNeXt, EfficientNet, MobileNet, RegNet and DenseNet.

Blocks are the stem and the stages, as in a ResNet; a DenseNet's transition belongs to the dense block before it.
What comes after the last stage and before the pooling (a last convolution, norm or activation) belongs to the last
block. A norm that comes after the pooling belongs to the head, because `pool` has no weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor, nn

from residua.models.classifier import Classifier
from residua.models.foreign import draws


class AsMap(nn.Module):
    """Vectors (N, C) as maps of one place (N, C, 1, 1), for a head whose first layers expect maps."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :, None, None]


def in_a_row(parts: Iterable[nn.Module]) -> nn.Module:
    """These modules one after the other, without those that do nothing."""
    acting = [part for part in parts if not isinstance(part, nn.Identity) and not _idle_dropout(part)]
    return acting[0] if len(acting) == 1 else nn.Sequential(*acting)


def _idle_dropout(part: nn.Module) -> bool:
    return isinstance(part, nn.Dropout) and part.p == 0


def in_stages(
    stem: nn.Module,
    stages: Iterable[nn.Module],
    pool: nn.Module,
    head: nn.Module,
    *,
    last: Sequence[nn.Module] = (),
) -> Classifier:
    """Stem and stages as blocks; `last` is what follows the last stage."""
    blocks = [stem, *stages]
    blocks[-1] = in_a_row([blocks[-1], *last])
    names = ["stem", *(f"stage{i}" for i in range(1, len(blocks)))]
    return Classifier(blocks, head, pool=pool, block_names=names)


def mean_over_places() -> nn.Module:
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(1))


def as_vector(pool: nn.Module) -> nn.Module:
    return nn.Sequential(pool, nn.Flatten(1))


def by_resolution(layers: Sequence[nn.Module]) -> list[nn.Module]:
    """Consecutive layers in groups, each of which begins where a layer makes its maps smaller."""
    groups: list[list[nn.Module]] = []
    for layer in layers:
        strided = any(isinstance(p, nn.Conv2d) and max(p.stride) > 1 for p in layer.modules())
        if strided or not groups:
            groups.append([])
        groups[-1].append(layer)
    return [in_a_row(group) for group in groups]


def torchvision_convnext(net: Any) -> Classifier:
    draws.layers(net, draws.truncated(0.02), linear=draws.truncated(0.02))
    stem, *rest = net.features
    # Stages and what makes maps smaller before them alternate; the latter belongs to the stage that it opens.
    stages = [rest[0], *(nn.Sequential(rest[i], rest[i + 1]) for i in range(1, len(rest), 2))]
    head = nn.Sequential(AsMap(), net.classifier)
    return in_stages(stem, stages, as_vector(net.avgpool), head)


def timm_convnext(net: Any) -> Classifier:
    draws.layers(net, draws.truncated(0.02), linear=draws.truncated(0.02))
    head = net.head
    if not hasattr(head, "norm"):
        row = in_a_row([head.drop, head.fc])
    else:
        parts = in_a_row([head.norm, head.flatten, head.pre_logits, head.drop, head.fc])
        row = nn.Sequential(AsMap(), *parts) if isinstance(parts, nn.Sequential) else parts
    return in_stages(net.stem, net.stages, as_vector(head.global_pool), row, last=[net.norm_pre])


def transformers_convnext(net: Any) -> Classifier:
    draws.transformers(net)
    body = net.convnext if hasattr(net, "convnext") else net.convnextv2
    return in_stages(
        body.embeddings,
        body.encoder.stages,
        mean_over_places(),
        nn.Sequential(body.layernorm, net.classifier),
    )


def torchvision_features(net: Any) -> Classifier:
    """EfficientNet and MobileNet: a row of units, then mean, then a classifier on the vector."""
    in_stages_already = type(net).__name__ == "EfficientNet"
    draws.layers(net, draws.he_fan_out, linear=draws.by_outputs if in_stages_already else draws.normal(0.01))
    stem, *layers, last = net.features
    stages = layers if in_stages_already else by_resolution(layers)
    pool = as_vector(net.avgpool) if hasattr(net, "avgpool") else mean_over_places()
    return in_stages(stem, stages, pool, net.classifier, last=[last])


def timm_efficientnet(net: Any) -> Classifier:
    """EfficientNet and MobileNet-V2, whose last convolution comes before the pooling, and V3, where it comes after."""
    draws.layers(net, draws.he_by_group, linear=draws.by_outputs)
    dropout = nn.Dropout(float(net.drop_rate))
    stem = in_a_row([net.conv_stem, net.bn1])
    if hasattr(net, "bn2"):
        last, late = [net.conv_head, net.bn2], []
    else:
        last, late = [], [AsMap(), net.conv_head, net.norm_head, net.act2, net.flatten]
    return in_stages(
        stem, net.blocks, as_vector(net.global_pool), in_a_row([*late, dropout, net.classifier]), last=last
    )


def transformers_efficientnet(net: Any) -> Classifier:
    draws.transformers(net, norms=True)
    body = net.efficientnet
    encoder = body.encoder
    last = [encoder.top_conv, encoder.top_bn, encoder.top_activation]
    head = in_a_row([net.dropout, net.classifier])
    return in_stages(body.embeddings, by_resolution(encoder.blocks), as_vector(body.pooler), head, last=last)


def transformers_mobilenet(net: Any) -> Classifier:
    draws.transformers(net)
    body = net.mobilenet_v1 if hasattr(net, "mobilenet_v1") else net.mobilenet_v2
    last = [body.conv_1x1] if hasattr(body, "conv_1x1") else []
    head = in_a_row([net.dropout, net.classifier])
    return in_stages(body.conv_stem, by_resolution(body.layer), as_vector(body.pooler), head, last=last)


def torchvision_regnet(net: Any) -> Classifier:
    draws.layers(net, draws.he_fan_out, linear=draws.normal(0.01))
    return in_stages(net.stem, net.trunk_output, as_vector(net.avgpool), net.fc)


def timm_regnet(net: Any) -> Classifier:
    draws.layers(net, draws.he_by_group, linear=draws.normal(0.01))
    for part in net.modules():
        if callable(getattr(part, "zero_init_last", None)) and hasattr(part, "conv3"):
            draws.by(part.conv3.bn, weight=draws.zeros)
    head = net.head
    return in_stages(
        net.stem,
        [net.s1, net.s2, net.s3, net.s4],
        as_vector(head.global_pool),
        in_a_row([head.drop, head.fc]),
        last=[net.final_conv],
    )


def transformers_regnet(net: Any) -> Classifier:
    draws.resnet(net)
    body = net.regnet
    return in_stages(body.embedder, body.encoder.stages, as_vector(body.pooler), net.classifier)


def densenet(net: Any) -> Classifier:
    """torchvision's and timm's: stem, then dense blocks, each with the transition after it."""
    draws.layers(net, draws.he_fan_in, linear=None)
    groups: list[list[nn.Module]] = [[]]
    for name, part in net.features.named_children():
        if name.startswith("denseblock"):
            groups.append([])
        groups[-1].append(part)
    theirs = type(net).__module__.startswith("timm.")
    # torchvision applies its last activation in the forward of the network; timm has it in the norm before.
    last = [] if theirs else [nn.ReLU()]
    pool = as_vector(net.global_pool) if theirs else mean_over_places()
    head = in_a_row([net.head_drop, net.classifier]) if theirs else net.classifier
    stem, *stages = (in_a_row(group) for group in groups)
    return in_stages(stem, stages, pool, head, last=last)
