"""The Vision Transformer (Dosovitskiy et al. 2021)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from residua.errors import InputError
from residua.models.classifier import Classifier

# Width and heads; every variant has twelve layers and a fourfold MLP. [ours] micro, for small images on two cores.
VARIANTS = {"micro": (64, 4), "tiny": (192, 3), "small": (384, 6), "base": (768, 12)}
LAYERS = 12


class Dense(nn.Linear):
    """A linear layer whose weights are drawn N(0, 0.02), cut at two units, with zero bias."""

    def reset_parameters(self) -> None:
        nn.init.trunc_normal_(self.weight, std=0.02)
        nn.init.zeros_(self.bias)


class Patches(nn.Module):
    """Image -> a class token and one token a patch, each with its position."""

    def __init__(self, image: int, patch: int, channels: int, dim: int) -> None:
        super().__init__()
        self.project = nn.Conv2d(channels, dim, patch, stride=patch)
        self.token = nn.Parameter(torch.empty(1, 1, dim))
        self.position = nn.Parameter(torch.empty(1, (image // patch) ** 2 + 1, dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.trunc_normal_(self.position, std=0.02)
        nn.init.normal_(self.token, std=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.project(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(len(tokens), -1, -1), tokens], dim=1)
        return tokens + self.position


class Attention(nn.Module):
    """Multi-head self-attention: softmax(Q K^T / sqrt(d)) V."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = Dense(dim, 3 * dim)
        self.out = Dense(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        n, tokens, dim = x.shape
        q, k, v = self.qkv(x).view(n, tokens, 3, self.heads, dim // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v)
        return self.out(mixed.transpose(1, 2).reshape(n, tokens, dim))


class Layer(nn.Module):
    """x + attention(norm(x)), then x + MLP(norm(x))."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.attention = Attention(dim, heads)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.mlp = nn.Sequential(Dense(dim, 4 * dim), nn.GELU(), Dense(4 * dim, dim))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class ClassToken(nn.Module):
    """The first token stands for the image."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, 0]


def vit(
    *, variant: str = "base", classes: int = 10, channels: int = 3, image: int = 224, patch: int = 16
) -> Classifier:
    """ViT micro, tiny, small or base. Twelve blocks, one a layer.

    Patch embedding, class token and position belong to the first block, the final norm to the
    last, so that every block maps tokens to tokens but the first.
    """
    if variant not in VARIANTS:
        raise InputError(f"ViT variant {variant!r} is unknown; choose one of {', '.join(VARIANTS)}")
    if patch < 1 or image < patch or image % patch:
        raise InputError(
            f"image size {image} is not a multiple of patch size {patch}; choose one that divides it"
        )
    if classes < 1 or channels < 1:
        raise InputError(f"classes is {classes} and channels {channels}, expected at least 1 of each")
    dim, heads = VARIANTS[variant]
    blocks: list[nn.Module] = [Layer(dim, heads) for _ in range(LAYERS)]
    blocks[0] = nn.Sequential(Patches(image, patch, channels, dim), blocks[0])
    blocks[-1] = nn.Sequential(blocks[-1], nn.LayerNorm(dim, eps=1e-6))
    return Classifier(
        blocks,
        Dense(dim, classes),
        pool=ClassToken(),
        architecture={
            "network": "vit",
            "variant": variant,
            "classes": classes,
            "channels": channels,
            "image": image,
            "patch": patch,
        },
    ).eval()
