"""ResNet-18 and ResNet-50 (He et al. 2016), for small images and for ImageNet's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from residua.errors import InputError
from residua.models.classifier import Classifier

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
    """Which stem images of `side` x `side` pixels get; ImageNet's makes them four times smaller at once."""
    return "imagenet" if side > 64 else "cifar"


def _stem(kind: Stem, channels: int, width: int) -> nn.Sequential:
    """A 3 x 3 convolution, or a 7 x 7 one with stride 2, and where the name says so a max-pooling with stride 2."""
    if kind not in ("cifar", "cifar-pool", "imagenet", "imagenet-no-pool"):
        raise InputError(
            f"stem {kind!r} is unknown; choose cifar (3 x 3), cifar-pool, imagenet (7 x 7 and pooling) or imagenet-no-pool"
        )
    first = Conv(channels, width, 3) if kind.startswith("cifar") else Conv(channels, width, 7, 2)
    pool = [nn.MaxPool2d(3, 2, padding=1)] if kind in ("cifar-pool", "imagenet") else []
    return nn.Sequential(first, nn.BatchNorm2d(width), nn.ReLU(inplace=True), *pool)


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
    blocks: list[nn.Module] = [_stem(stem, channels, width)]
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
        architecture={
            "network": name,
            "classes": classes,
            "channels": channels,
            "width": width,
            "stem": stem,
        },
    ).eval()
