"""Networks: ResNet-18 and ResNet-50 (He et al. 2016), and the Vision Transformer (Dosovitskiy et al. 2021).

Each is a function that builds a Classifier. Adding one is such a function and an entry in NETWORKS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from residua.errors import InputError, first_line
from residua.models.classifier import Classifier

__all__ = ["NETWORKS", "build", "resnet18", "resnet50", "stem_for", "vit"]

Stem = Literal["cifar", "cifar-pool", "imagenet", "imagenet-no-pool"]


class Conv(nn.Conv2d):
    """A convolution without bias whose weights are drawn N(0, 2 / fan_out)."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1) -> None:
        super().__init__(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)

    def reset_parameters(self) -> None:
        nn.init.kaiming_normal_(self.weight, mode="fan_out", nonlinearity="relu")


def _shortcut(inputs: int, outputs: int, stride: int) -> nn.Module:
    if stride == 1 and inputs == outputs:
        return nn.Identity()
    return nn.Sequential(Conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))


class BasicUnit(nn.Module):
    """Two 3 x 3 convolutions and a shortcut.

    The shortcut is defined last: EU-k and CF-k count layers in the order of definition.
    """

    expansion = 1

    def __init__(self, inputs: int, planes: int, stride: int) -> None:
        super().__init__()
        self.conv1 = Conv(inputs, planes, 3, stride)
        self.norm1 = nn.BatchNorm2d(planes)
        self.conv2 = Conv(planes, planes, 3)
        self.norm2 = nn.BatchNorm2d(planes)
        self.shortcut = _shortcut(inputs, planes, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)), inplace=True)
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x), inplace=True)


class BottleneckUnit(nn.Module):
    """1 x 1, 3 x 3, 1 x 1 and a shortcut; the stride is in the 3 x 3 convolution."""

    expansion = 4

    def __init__(self, inputs: int, planes: int, stride: int) -> None:
        super().__init__()
        outputs = planes * self.expansion
        self.conv1 = Conv(inputs, planes, 1)
        self.norm1 = nn.BatchNorm2d(planes)
        self.conv2 = Conv(planes, planes, 3, stride)
        self.norm2 = nn.BatchNorm2d(planes)
        self.conv3 = Conv(planes, outputs, 1)
        self.norm3 = nn.BatchNorm2d(outputs)
        self.shortcut = _shortcut(inputs, outputs, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)), inplace=True)
        y = F.relu(self.norm2(self.conv2(y)), inplace=True)
        return F.relu(self.norm3(self.conv3(y)) + self.shortcut(x), inplace=True)


class MeanPool(nn.Module):
    """A feature map becomes its mean over space."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=(2, 3))


def resnet18(*, classes: int = 10, channels: int = 3, width: int = 64, stem: Stem = "cifar") -> Classifier:
    """ResNet-18. Five blocks: the stem and the four stages."""
    return _resnet("resnet18", BasicUnit, [[2], [2], [2], [2]], classes, channels, width, stem)


def resnet50(*, classes: int = 10, channels: int = 3, width: int = 64, stem: Stem = "cifar") -> Classifier:
    """ResNet-50. Six blocks: the stem, the four stages, and stage 3 cut in two.

    The paper speaks of six blocks without naming them; a divided third stage, the longest, fits
    its table of run times best.
    """
    return _resnet("resnet50", BottleneckUnit, [[3], [4], [3, 3], [3]], classes, channels, width, stem)


def stem_for(side: int) -> Stem:
    """The stem for images of `side` x `side` pixels; ImageNet's makes them four times smaller at once."""
    return "imagenet" if side > 64 else "cifar"


def _resnet(
    name: str,
    unit: type[BasicUnit] | type[BottleneckUnit],
    stages: Sequence[Sequence[int]],
    classes: int,
    channels: int,
    width: int,
    stem: Stem,
) -> Classifier:
    for what, number in (("classes", classes), ("channels", channels), ("width", width)):
        if number < 1:
            raise InputError(f"{what} of {name} is {number}, expected at least 1")
    if stem not in ("cifar", "cifar-pool", "imagenet", "imagenet-no-pool"):
        raise InputError(
            f"stem {stem!r} is unknown; choose cifar (3 x 3), cifar-pool, imagenet (7 x 7 and pooling) or imagenet-no-pool"
        )
    # The stem: a 3 x 3 convolution, or a 7 x 7 one with stride 2, and where its name says so a max-pooling with stride 2.
    first = Conv(channels, width, 3) if stem.startswith("cifar") else Conv(channels, width, 7, 2)
    pool = [nn.MaxPool2d(3, 2, padding=1)] if stem in ("cifar-pool", "imagenet") else []
    blocks: list[nn.Module] = [nn.Sequential(first, nn.BatchNorm2d(width), nn.ReLU(inplace=True), *pool)]
    names = ["stem"]
    inputs = width
    for s, parts in enumerate(stages):
        planes = width * 2**s
        for p, units in enumerate(parts):
            layers: list[nn.Module] = []
            for _ in range(units):
                stride = 2 if s > 0 and p == 0 and not layers else 1
                layers.append(unit(inputs, planes, stride))
                inputs = planes * unit.expansion
            blocks.append(nn.Sequential(*layers))
            names.append(f"layer{s + 1}" + ("ab"[p] if len(parts) > 1 else ""))
    return Classifier(
        blocks,
        nn.Linear(inputs, classes),
        pool=MeanPool(),
        block_names=names,
        architecture={"network": name, "classes": classes, "channels": channels, "width": width, "stem": stem},
    ).eval()


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
        raise InputError(f"image size {image} is not a multiple of patch size {patch}; choose one that divides it")
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


NETWORKS: dict[str, Callable[..., Classifier]] = {"resnet18": resnet18, "resnet50": resnet50, "vit": vit}


def build(network: str, **fields: Any) -> Classifier:
    """The network of this name; `fields` are the arguments of its function."""
    if network not in NETWORKS:
        raise InputError(f"network {network!r} is unknown; choose one of {', '.join(NETWORKS)}")
    try:
        return NETWORKS[network](**fields)
    except InputError:
        raise
    except (TypeError, ValueError, RuntimeError) as error:  # fields of a file can be of any kind and size
        raise InputError(f"{network} cannot be built from these fields ({first_line(error)}); correct them") from error
