"""Networks that are recognised by their class: ResNets and ViTs of torchvision, timm and Hugging Face.

None of these packages is imported. A class is known by its module and name, and a subclass that
brings its own `forward` is not taken for it. Blocks are those of `residua.networks`: a ResNet's are
stem and stages, the third stage of a ResNet-50 in two; a ViT's are its layers, with the patch
embedding in the first and the final norm in the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from residua.adopt import anew
from residua.classifier import Classifier
from residua.errors import InputError, first_line
from residua.networks.vit import ClassToken


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
    anew.resnet(net)
    stem = nn.Sequential(net.conv1, net.bn1, net.relu, net.maxpool)
    stages = [net.layer1, net.layer2, net.layer3, net.layer4]
    return _resnet(stem, stages, nn.Sequential(net.avgpool, nn.Flatten(1)), net.fc)


def timm_resnet(net: Any) -> Classifier:
    anew.resnet(net)
    stem = nn.Sequential(net.conv1, net.bn1, net.act1, net.maxpool)
    stages = [net.layer1, net.layer2, net.layer3, net.layer4]
    head = nn.Sequential(nn.Dropout(float(net.drop_rate)), net.fc) if net.drop_rate else net.fc
    return _resnet(stem, stages, net.global_pool, head)


def transformers_resnet(net: Any) -> Classifier:
    anew.resnet(net)
    body = net.resnet
    stages = [stage.layers for stage in body.encoder.stages]
    return _resnet(body.embedder, stages, nn.Sequential(body.pooler, nn.Flatten(1)), net.classifier)


def _resnet(stem: nn.Module, stages: Sequence[nn.Sequential], pool: nn.Module, head: nn.Module) -> Classifier:
    blocks, names = [stem], ["stem"]
    fifty = [len(stage) for stage in stages] == [3, 4, 6, 3] and _convolutions(stages[1][1]) == 3
    for number, stage in enumerate(stages, start=1):
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
    anew.torchvision_vit(net)
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
    anew.timm_vit(net)
    kind, attention = str(net.global_pool), net.attn_pool
    skip = 0 if getattr(net, "pool_include_prefix", False) else int(net.num_prefix_tokens)
    if attention is not None or kind not in ("token", "avg", "max", "avgmax"):
        raise InputError(
            f"this ViT pools its tokens by {kind or 'nothing'}, expected token, avg, max or avgmax, which need no "
            "weights; build it with another global_pool or give cuts"
        )
    layers, norm = list(net.blocks), net.norm
    head = [net.fc_norm, net.head_drop, net.head]
    return _vit(TimmPatches(net), layers, [norm], TokenPool(kind, skip), _in_a_row(head))


class TransformersLayer(nn.Module):
    """A layer of a Hugging Face ViT, which in older versions answers with a tuple."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        found = self.layer(x)
        return found[0] if isinstance(found, tuple) else found


def transformers_vit(net: Any) -> Classifier:
    anew.transformers_vit(net)
    body = net.vit
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


def _in_a_row(parts: Sequence[nn.Module]) -> nn.Module:
    """These modules one after the other, without those that do nothing."""
    acting = [part for part in parts if not isinstance(part, nn.Identity) and not _idle_dropout(part)]
    return acting[0] if len(acting) == 1 else nn.Sequential(*acting)


def _idle_dropout(part: nn.Module) -> bool:
    return isinstance(part, nn.Dropout) and part.p == 0


FAMILIES: dict[tuple[str, str], Callable[[Any], Classifier]] = {
    ("torchvision.models.resnet", "ResNet"): torchvision_resnet,
    ("torchvision.models.vision_transformer", "VisionTransformer"): torchvision_vit,
    ("timm.models.resnet", "ResNet"): timm_resnet,
    ("timm.models.vision_transformer", "VisionTransformer"): timm_vit,
    ("transformers.models.resnet.modeling_resnet", "ResNetForImageClassification"): transformers_resnet,
    ("transformers.models.vit.modeling_vit", "ViTForImageClassification"): transformers_vit,
}
