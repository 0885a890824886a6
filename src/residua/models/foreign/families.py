"""Networks that are recognised by their class, of torchvision, timm and Hugging Face.

None of the packages is imported. A class is known by its module and name, and a subclass that brings its own `forward`
is not taken for it. The blocks are cut as in `residua.models.networks`:

- of a ResNet: stem and stages, the third stage of a ResNet-50 in two;
- of other convolutional networks: stem and stages, a DenseNet's transition with the dense block before it. Layers between
  the last stage and the pooling (a last convolution, norm or activation) belong to the last block. A norm after the
  pooling belongs to the head, because `pool` has no weights;
- of ViT, DeiT and BEiT: the layers, with the patch embedding in the first and the final norm in the last;
- of a Swin: patch embedding and stages, whose features are maps (N, C, H, W), whatever the order of axes inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from residua.errors import InputError, first_line
from residua.models.classifier import Classifier
from residua.models.foreign import draws
from residua.models.networks import ClassToken


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
    stem: nn.Module, stages: Iterable[nn.Module], pool: nn.Module, head: nn.Module, *, last: Sequence[nn.Module] = ()
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


def opened(features: Sequence[nn.Module]) -> list[nn.Module]:
    """The stages behind the stem. What makes maps smaller between two of them belongs to the one that it opens."""
    _, first, *rest = features
    return [first, *(nn.Sequential(*pair) for pair in zip(rest[::2], rest[1::2], strict=True))]


def torchvision_convnext(net: Any) -> Classifier:
    draws.layers(net, draws.truncated(0.02), linear=draws.truncated(0.02))
    head = nn.Sequential(AsMap(), net.classifier)
    return in_stages(net.features[0], opened(net.features), as_vector(net.avgpool), head)


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
        body.embeddings, body.encoder.stages, mean_over_places(), nn.Sequential(body.layernorm, net.classifier)
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


class ChannelsLast(nn.Module):
    """Maps (N, C, H, W) as the inside of a Swin has them, (N, H, W, C)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.permute(0, 2, 3, 1)


class ChannelsFirst(nn.Module):
    """Maps (N, H, W, C) as everything outside of a Swin has them, (N, C, H, W)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.permute(0, 3, 1, 2)


def torchvision_swin(net: Any) -> Classifier:
    draws.layers(net, None, linear=draws.truncated(0.02))
    return _swin(net.features[0], opened(net.features), net.norm, mean_over_places(), net.head)


def timm_swin(net: Any) -> Classifier:
    draws.timm_swin(net)
    head = net.head
    if str(head.global_pool.pool_type) != "avg":
        raise InputError(
            f"this Swin pools its maps by {head.global_pool.pool_type or 'nothing'}, expected avg; build it with "
            "global_pool='avg' or give cuts"
        )
    return _swin(net.patch_embed, net.layers, net.norm, mean_over_places(), in_a_row([head.drop, head.fc]))


def timm_swin_cr(net: Any) -> Classifier:
    draws.layers(net, None, linear=draws.truncated(0.02))
    head = net.head
    pool = as_vector(head.global_pool)
    return in_stages(net.patch_embed, net.stages, pool, in_a_row([head.drop, head.fc]))


def _swin(stem: nn.Module, stages: Any, norm: nn.Module, pool: nn.Module, head: nn.Module) -> Classifier:
    parts = [[stage] for stage in stages]
    parts[-1].append(norm)
    inside = [nn.Sequential(ChannelsLast(), *part, ChannelsFirst()) for part in parts]
    return in_stages(nn.Sequential(stem, ChannelsFirst()), inside, pool, head)


class SwinPatches(nn.Module):
    """Image -> map of tokens: the embedding of a Hugging Face Swin."""

    def __init__(self, embeddings: nn.Module) -> None:
        super().__init__()
        self.embeddings = embeddings

    def forward(self, x: Tensor) -> Tensor:
        tokens, (height, width) = self.embeddings(x)
        return tokens.unflatten(1, (height, width)).permute(0, 3, 1, 2)


class SwinStage(nn.Module):
    """Map -> map: a stage of a Hugging Face Swin, which works on tokens and is told their places."""

    def __init__(self, stage: Any, norm: nn.Module) -> None:
        super().__init__()
        self.stage, self.norm = stage, norm
        self.halves = stage.downsample is not None

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[2:]
        tokens = self.norm(self.stage(x.flatten(2).transpose(1, 2), (height, width))[0])
        if self.halves:
            height, width = (height + 1) // 2, (width + 1) // 2
        return tokens.unflatten(1, (height, width)).permute(0, 3, 1, 2)


def transformers_swin(net: Any) -> Classifier:
    draws.transformers(net)
    body = net.swin if hasattr(net, "swin") else net.swinv2
    stages = [SwinStage(stage, nn.Identity()) for stage in body.encoder.layers]
    stages[-1].norm = body.layernorm
    return in_stages(SwinPatches(body.embeddings), stages, mean_over_places(), net.classifier)


def in_layers(
    patches: nn.Module, layers: list[nn.Module], norm: nn.Module, pool: nn.Module, head: nn.Module
) -> Classifier:
    """A block per layer, with the embedding in the first and the norm in the last."""
    layers[-1] = in_a_row([layers[-1], norm])
    layers[0] = nn.Sequential(patches, layers[0])
    return Classifier(layers, head, pool=pool)


class BeitPatches(nn.Module):
    """Image -> tokens: what a timm BEiT does before its first layer."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.patch_embed, self.pos_drop = net.patch_embed, net.pos_drop
        self.cls_token, self.pos_embed = net.cls_token, net.pos_embed

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch_embed(x)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1)
        return self.pos_drop(x if self.pos_embed is None else x + self.pos_embed)


def timm_beit(net: Any) -> Classifier:
    draws.timm_beit(net)
    if net.rel_pos_bias is not None or net.global_pool not in ("avg", "token"):
        raise InputError(
            "this BEiT shares one relative position bias among its layers, or pools in another way than avg or token; "
            "build it with use_shared_rel_pos_bias=False and such a global_pool, or give cuts"
        )
    pool = TokenPool(str(net.global_pool), int(net.num_prefix_tokens))
    head = in_a_row([net.fc_norm, net.head_drop, net.head])
    patches = BeitPatches(net)
    draws.known(patches)
    draws.by(patches, cls_token=draws.truncated(0.02))
    return in_layers(patches, list(net.blocks), net.norm, pool, head)


class BeitLayer(nn.Module):
    """A layer of a Hugging Face BEiT, which asks for the size of the image in pixels."""

    def __init__(self, layer: nn.Module, resolution: tuple[int, int]) -> None:
        super().__init__()
        self.layer, self.resolution = layer, resolution

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x, resolution=self.resolution)


def transformers_beit(net: Any) -> Classifier:
    draws.transformers(net)
    body, config = net.beit, net.config
    if body.shared_position_bias is not None:
        raise InputError(
            "this BEiT shares one relative position bias among its layers; build it with "
            "use_shared_relative_position_bias=False"
        )
    side = config.image_size
    resolution = (side, side) if isinstance(side, int) else tuple(side)
    layers: list[nn.Module] = [BeitLayer(layer, resolution) for layer in body.layers]
    if config.use_mean_pooling:
        return in_layers(
            body.embeddings, layers, body.layernorm, TokenPool("avg", 1),
            nn.Sequential(body.pooler.layernorm, net.classifier),
        )  # fmt: skip
    return in_layers(body.embeddings, layers, body.layernorm, ClassToken(), net.classifier)


class TwoTokens(nn.Module):
    """The class token and the distillation token, one after the other in one vector."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :2].flatten(1)


class TwoHeads(nn.Module):
    """The mean of what two heads say, each of its own token."""

    def __init__(self, one: nn.Module, other: nn.Module) -> None:
        super().__init__()
        self.one, self.other = one, other

    def forward(self, x: Tensor) -> Tensor:
        first, second = x.chunk(2, dim=1)
        return (self.one(first) + self.other(second)) / 2


def transformers_deit_distilled(net: Any) -> Classifier:
    draws.transformers(net)
    body = net.deit
    head = TwoHeads(net.cls_classifier, net.distillation_classifier)
    return in_layers(body.embeddings, list(body.layers), body.layernorm, TwoTokens(), head)


def recognise(module: nn.Module) -> Classifier | None:
    """The classifier made of this module's own parts, or None where its class is not known."""
    forward = getattr(type(module), "forward", None)
    for (package, name), take_apart in FAMILIES.items():
        known: Any
        for known in type(module).__mro__:
            if (known.__module__, known.__name__) == (package, name) and forward is known.forward:
                try:
                    return take_apart(module)
                except (AttributeError, TypeError, IndexError) as error:
                    raise InputError(
                        f"this {name} of {package} is built otherwise than expected ({first_line(error)}); give cuts"
                    ) from error
    return None


def torchvision_resnet(net: Any) -> Classifier:
    draws.resnet(net)
    stem = nn.Sequential(net.conv1, net.bn1, net.relu, net.maxpool)
    layers = [net.layer1, net.layer2, net.layer3, net.layer4]
    return _resnet(stem, layers, as_vector(net.avgpool), net.fc)


def timm_resnet(net: Any) -> Classifier:
    draws.resnet(net)
    stem = nn.Sequential(net.conv1, net.bn1, net.act1, net.maxpool)
    layers = [net.layer1, net.layer2, net.layer3, net.layer4]
    head = nn.Sequential(nn.Dropout(float(net.drop_rate)), net.fc) if net.drop_rate else net.fc
    return _resnet(stem, layers, net.global_pool, head)


def transformers_resnet(net: Any) -> Classifier:
    draws.resnet(net)
    body = net.resnet
    layers = [stage.layers for stage in body.encoder.stages]
    return _resnet(body.embedder, layers, as_vector(body.pooler), net.classifier)


def _resnet(stem: nn.Module, layers: Sequence[nn.Sequential], pool: nn.Module, head: nn.Module) -> Classifier:
    blocks, names = [stem], ["stem"]
    fifty = [len(stage) for stage in layers] == [3, 4, 6, 3] and _convolutions(layers[1][1]) == 3
    for number, stage in enumerate(layers, start=1):
        parts = [stage[:3], stage[3:]] if fifty and number == 3 else [stage]
        blocks += parts
        names += [f"layer{number}" + ("ab"[i] if len(parts) > 1 else "") for i in range(len(parts))]
    return Classifier(blocks, head, pool=pool, block_names=names)


def _convolutions(unit: nn.Module) -> int:
    return sum(isinstance(part, nn.Conv2d) for part in unit.modules())


class TorchvisionPatches(nn.Module):
    """Image -> tokens: what a torchvision ViT does before its first layer."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        net.encoder.layers, net.encoder.ln, net.heads = nn.Sequential(), nn.Identity(), nn.Identity()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        net: Any = self.net
        x = net._process_input(x)
        return net.encoder(torch.cat([net.class_token.expand(len(x), -1, -1), x], dim=1))


def torchvision_vit(net: Any) -> Classifier:
    draws.torchvision_vit(net)
    layers, norm, head = list(net.encoder.layers), net.encoder.ln, net.heads
    return _vit(TorchvisionPatches(net), layers, [norm], ClassToken(), head)


class TimmPatches(nn.Module):
    """Image -> tokens: a timm ViT whose layers have been taken out."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        for taken in ("norm", "attn_pool", "fc_norm", "head_drop", "head"):
            setattr(net, taken, nn.Identity())
        net.blocks = nn.Sequential()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        return self.net.forward_features(x)


class TokenPool(nn.Module):
    """Tokens -> a vector: the class token, or the mean or maximum of those after the first `skip`."""

    def __init__(self, kind: str, skip: int) -> None:
        super().__init__()
        self.kind, self.skip = kind, skip

    def forward(self, x: Tensor) -> Tensor:
        if self.kind == "token":
            return x[:, 0]
        x = x[:, self.skip :]
        if self.kind == "avg":
            return x.mean(dim=1)
        return x.amax(dim=1) if self.kind == "max" else 0.5 * (x.amax(dim=1) + x.mean(dim=1))


def timm_vit(net: Any) -> Classifier:
    draws.layers(net, None, linear=draws.truncated(0.02))
    kind, attention = str(net.global_pool), net.attn_pool
    skip = 0 if getattr(net, "pool_include_prefix", False) else int(net.num_prefix_tokens)
    if attention is not None or kind not in ("token", "avg", "max", "avgmax"):
        raise InputError(
            f"this ViT pools its tokens by {kind or 'nothing'}, expected token, avg, max or avgmax, which need no "
            "weights; build it with another global_pool or give cuts"
        )
    layers, norm = list(net.blocks), net.norm
    head = [net.fc_norm, net.head_drop, net.head]
    return _vit(TimmPatches(net), layers, [norm], TokenPool(kind, skip), in_a_row(head))


class TransformersLayer(nn.Module):
    """A layer of a Hugging Face ViT, which in older versions answers with a tuple."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        found = self.layer(x)
        return found[0] if isinstance(found, tuple) else found


def timm_deit_distilled(net: Any) -> Classifier:
    draws.layers(net, None, linear=draws.truncated(0.02))
    layers, norm, heads = list(net.blocks), net.norm, TwoHeads(net.head, net.head_dist)
    return _vit(TimmPatches(net), layers, [norm], TwoTokens(), heads)


def transformers_vit(net: Any) -> Classifier:
    """ViT, and DeiT, which differs from it by one more token."""
    if hasattr(net, "vit"):
        draws.transformers_vit(net)
        body = net.vit
    else:
        draws.transformers(net)
        body = net.deit
    layers = body.layers if hasattr(body, "layers") else body.encoder.layer
    return _vit(body.embeddings, map(TransformersLayer, layers), [body.layernorm], ClassToken(), net.classifier)


def _vit(
    patches: nn.Module, layers: Iterable[nn.Module], last: list[nn.Module], pool: nn.Module, head: nn.Module
) -> Classifier:
    blocks = list(layers)
    blocks[-1] = nn.Sequential(blocks[-1], *last)
    blocks[0] = nn.Sequential(patches, blocks[0])
    return Classifier(blocks, head, pool=pool)


Take = Callable[[Any], Classifier]


def _of_transformers(name: str, kind: str, take_apart: Take) -> dict[tuple[str, str], Take]:
    return {(f"transformers.models.{name}.modeling_{name}", f"{kind}ForImageClassification"): take_apart}


FAMILIES: dict[tuple[str, str], Take] = {
    ("torchvision.models.resnet", "ResNet"): torchvision_resnet,
    ("torchvision.models.vision_transformer", "VisionTransformer"): torchvision_vit,
    ("torchvision.models.convnext", "ConvNeXt"): torchvision_convnext,
    ("torchvision.models.efficientnet", "EfficientNet"): torchvision_features,
    ("torchvision.models.mobilenetv2", "MobileNetV2"): torchvision_features,
    ("torchvision.models.mobilenetv3", "MobileNetV3"): torchvision_features,
    ("torchvision.models.regnet", "RegNet"): torchvision_regnet,
    ("torchvision.models.densenet", "DenseNet"): densenet,
    ("torchvision.models.swin_transformer", "SwinTransformer"): torchvision_swin,
    ("timm.models.resnet", "ResNet"): timm_resnet,
    # Before the class that it is derived from.
    ("timm.models.deit", "VisionTransformerDistilled"): timm_deit_distilled,
    ("timm.models.vision_transformer", "VisionTransformer"): timm_vit,
    ("timm.models.beit", "Beit"): timm_beit,
    ("timm.models.convnext", "ConvNeXt"): timm_convnext,
    ("timm.models.efficientnet", "EfficientNet"): timm_efficientnet,
    ("timm.models.mobilenetv3", "MobileNetV3"): timm_efficientnet,
    ("timm.models.regnet", "RegNet"): timm_regnet,
    ("timm.models.densenet", "DenseNet"): densenet,
    ("timm.models.swin_transformer", "SwinTransformer"): timm_swin,
    ("timm.models.swin_transformer_v2", "SwinTransformerV2"): timm_swin,
    ("timm.models.swin_transformer_v2_cr", "SwinTransformerV2Cr"): timm_swin_cr,
    **_of_transformers("resnet", "ResNet", transformers_resnet),
    **_of_transformers("vit", "ViT", transformers_vit),
    **_of_transformers("deit", "DeiT", transformers_vit),
    ("transformers.models.deit.modeling_deit", "DeiTForImageClassificationWithTeacher"): (transformers_deit_distilled),
    **_of_transformers("beit", "Beit", transformers_beit),
    **_of_transformers("swin", "Swin", transformers_swin),
    **_of_transformers("swinv2", "Swinv2", transformers_swin),
    **_of_transformers("convnext", "ConvNext", transformers_convnext),
    **_of_transformers("convnextv2", "ConvNextV2", transformers_convnext),
    **_of_transformers("efficientnet", "EfficientNet", transformers_efficientnet),
    **_of_transformers("mobilenet_v1", "MobileNetV1", transformers_mobilenet),
    **_of_transformers("mobilenet_v2", "MobileNetV2", transformers_mobilenet),
    **_of_transformers("regnet", "RegNet", transformers_regnet),
}
