"""Transformers other than the plain ViT: Swin, DeiT and BEiT.

A Swin's blocks are its patch embedding and its stages, and their features are maps (N, C, H, W), whatever the order
of axes inside. DeiT and BEiT have a block per layer, like a ViT.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from residua.errors import InputError
from residua.models.classifier import Classifier
from residua.models.foreign import draws
from residua.models.foreign.stages import as_vector, in_a_row, in_stages, mean_over_places
from residua.models.transformer import ClassToken


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
    stem, *rest = net.features
    stages = [rest[0], *(nn.Sequential(rest[i], rest[i + 1]) for i in range(1, len(rest), 2))]
    return _swin(stem, stages, net.norm, mean_over_places(), net.head)


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


class MeanToken(nn.Module):
    """Tokens -> the mean of those after the first `skip`."""

    def __init__(self, skip: int) -> None:
        super().__init__()
        self.skip = skip

    def forward(self, x: Tensor) -> Tensor:
        return x[:, self.skip :].mean(dim=1)


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
    pool = MeanToken(int(net.num_prefix_tokens)) if net.global_pool == "avg" else ClassToken()
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
            body.embeddings, layers, body.layernorm, MeanToken(1),
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
