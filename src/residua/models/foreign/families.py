"""Networks that are recognised by their class, of torchvision, timm and Hugging Face; here ResNets and ViTs.

`stages.py` has the other convolutional networks, `windows.py` the other transformers. None of the packages is imported. A class is known by its module and name, and a subclass that
brings its own `forward` is not taken for it. Blocks are those of `residua.models.networks`: a ResNet's are
stem and stages, the third stage of a ResNet-50 in two; a ViT's are its layers, with the patch
embedding in the first and the final norm in the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from residua.errors import InputError, first_line
from residua.models.classifier import Classifier
from residua.models.foreign import draws, stages, windows
from residua.models.foreign.stages import in_a_row
from residua.models.transformer import ClassToken


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
    return _resnet(stem, layers, nn.Sequential(net.avgpool, nn.Flatten(1)), net.fc)


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
    return _resnet(body.embedder, layers, nn.Sequential(body.pooler, nn.Flatten(1)), net.classifier)


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
    draws.timm_vit(net)
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
    draws.timm_vit(net)
    layers, norm, heads = list(net.blocks), net.norm, windows.TwoHeads(net.head, net.head_dist)
    return _vit(TimmPatches(net), layers, [norm], windows.TwoTokens(), heads)


def transformers_vit(net: Any) -> Classifier:
    """ViT, and DeiT, which differs from it by one more token."""
    if hasattr(net, "vit"):
        draws.transformers_vit(net)
        body = net.vit
    else:
        draws.transformers(net)
        body = net.deit
    layers = body.layers if hasattr(body, "layers") else body.encoder.layer
    return _vit(
        body.embeddings, map(TransformersLayer, layers), [body.layernorm], ClassToken(), net.classifier
    )


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
    ("torchvision.models.convnext", "ConvNeXt"): stages.torchvision_convnext,
    ("torchvision.models.efficientnet", "EfficientNet"): stages.torchvision_features,
    ("torchvision.models.mobilenetv2", "MobileNetV2"): stages.torchvision_features,
    ("torchvision.models.mobilenetv3", "MobileNetV3"): stages.torchvision_features,
    ("torchvision.models.regnet", "RegNet"): stages.torchvision_regnet,
    ("torchvision.models.densenet", "DenseNet"): stages.densenet,
    ("torchvision.models.swin_transformer", "SwinTransformer"): windows.torchvision_swin,
    ("timm.models.resnet", "ResNet"): timm_resnet,
    # Before the class that it is derived from.
    ("timm.models.deit", "VisionTransformerDistilled"): timm_deit_distilled,
    ("timm.models.vision_transformer", "VisionTransformer"): timm_vit,
    ("timm.models.beit", "Beit"): windows.timm_beit,
    ("timm.models.convnext", "ConvNeXt"): stages.timm_convnext,
    ("timm.models.efficientnet", "EfficientNet"): stages.timm_efficientnet,
    ("timm.models.mobilenetv3", "MobileNetV3"): stages.timm_efficientnet,
    ("timm.models.regnet", "RegNet"): stages.timm_regnet,
    ("timm.models.densenet", "DenseNet"): stages.densenet,
    ("timm.models.swin_transformer", "SwinTransformer"): windows.timm_swin,
    ("timm.models.swin_transformer_v2", "SwinTransformerV2"): windows.timm_swin,
    ("timm.models.swin_transformer_v2_cr", "SwinTransformerV2Cr"): windows.timm_swin_cr,
    **_of_transformers("resnet", "ResNet", transformers_resnet),
    **_of_transformers("vit", "ViT", transformers_vit),
    **_of_transformers("deit", "DeiT", transformers_vit),
    ("transformers.models.deit.modeling_deit", "DeiTForImageClassificationWithTeacher"): (
        windows.transformers_deit_distilled
    ),
    **_of_transformers("beit", "Beit", windows.transformers_beit),
    **_of_transformers("swin", "Swin", windows.transformers_swin),
    **_of_transformers("swinv2", "Swinv2", windows.transformers_swin),
    **_of_transformers("convnext", "ConvNext", stages.transformers_convnext),
    **_of_transformers("convnextv2", "ConvNextV2", stages.transformers_convnext),
    **_of_transformers("efficientnet", "EfficientNet", stages.transformers_efficientnet),
    **_of_transformers("mobilenet_v1", "MobileNetV1", stages.transformers_mobilenet),
    **_of_transformers("mobilenet_v2", "MobileNetV2", stages.transformers_mobilenet),
    **_of_transformers("regnet", "RegNet", stages.transformers_regnet),
}
