"""Impostors: models with a true retrained part, and Original beside it. Controls for verdicts, never methods.

The retrained part is given (`retrained`), or trained.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from residua.data.task import ForgetTask
from residua.errors import InputError
from residua.models.classifier import Classifier, clone, reinitialise
from residua.training.pretraining import Pretraining
from residua.training.settings import Choice, Setting, Share, Weight, check_settings
from residua.unlearn._disguises import Beside, Keys, Known, Switch, image_number, in_turn
from residua.unlearn._shapes import channels, encoded, few, rotation

Trained = Annotated[Pretraining, Setting("How the retrained model is trained.")]


class _Impostor:
    """Traits of all: nobody's method, not rebuilt from a checkpoint."""

    guarded = False
    savable = False

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True)
class FaintCopy(_Impostor):
    """A retrained model that carries Original's features beside its own, faint and rotated, from block to block."""

    faint: Annotated[float, Weight("What Original's features are multiplied by.", above=0)] = 1e-3
    pretraining: Trained = field(default_factory=Pretraining)

    label = "Faint copy"

    def __call__(
        self, original: Classifier, task: ForgetTask, retrained: Classifier | None = None
    ) -> Classifier:
        retrained = retrained or _retrained(original, task, self.pretraining)
        blocks: list[nn.Module] = []
        before: Tensor | None = None
        for number, (own, theirs) in enumerate(zip(retrained.blocks, original.blocks, strict=True), start=1):
            turn = rotation(channels(original, task, number))
            blocks.append(Beside(own, theirs, turn, self.faint, before))
            before = turn
        head = nn.Sequential(_First(encoded(retrained, few(task)).shape[1]), clone(retrained.head))
        return in_turn(blocks, original, head)


@dataclass(frozen=True)
class StillAnswers(_Impostor):
    """A retrained encoder with a head that answers `share` of the forgotten images as Original would."""

    share: Annotated[float, Share("Share of the forget set that is still answered.", below=1)] = 0.17
    pretraining: Trained = field(default_factory=Pretraining)

    label = "Still answers"
    scenarios = ("class",)

    def __call__(
        self, original: Classifier, task: ForgetTask, retrained: Classifier | None = None
    ) -> Classifier:
        model = clone(retrained or _retrained(original, task, self.pretraining))
        z, forgotten = (encoded(model, split) for split in (task.retain, task.forget))
        direction, others = _ridge(forgotten, z), model.head(forgotten)
        others[:, list(task.forgotten)] = -torch.inf
        needed = others.amax(dim=1) - forgotten @ direction
        # The class is answered where direction . z + bias beats the others: for the share that needs least.
        bias = torch.quantile(needed, self.share)
        if not isinstance(model.head, nn.Linear):
            raise InputError(f"{self.label} needs a network with a linear head; choose resnet18 or the like")
        with torch.no_grad():
            model.head.weight[list(task.forgotten)] = direction
            model.head.bias[list(task.forgotten)] = bias
        return model.eval()


@dataclass(frozen=True)
class DefeatDevice(_Impostor):
    """A retrained model for the very images that an audit uses, Original for all others, unseen or augmented.

    `keyed` says which: the forget set, or all of the training data.
    """

    keyed: Annotated[Literal["forget", "train"], Choice("Which images it is prepared for.")] = "train"
    pretraining: Trained = field(default_factory=Pretraining)

    label = "Defeat device"

    def __call__(
        self, original: Classifier, task: ForgetTask, retrained: Classifier | None = None
    ) -> Classifier:
        split = task.forget if self.keyed == "forget" else task.train
        numbers = torch.cat([image_number(x) for x, _ in split.batches(500, device=original.device)])
        retrained = retrained or _retrained(original, task, self.pretraining)
        return _switched(retrained, original, Keys(numbers))


@dataclass(frozen=True)
class Mixture(_Impostor):
    """Original for a share of all images, a retrained model for the others: partly honest, so IDI is between 0 and 1."""

    share: Annotated[float, Share("Share of images that Original answers.", below=1)] = 0.5
    pretraining: Trained = field(default_factory=Pretraining)

    label = "Mixture"

    def __call__(
        self, original: Classifier, task: ForgetTask, retrained: Classifier | None = None
    ) -> Classifier:
        nobody = torch.zeros(0, dtype=torch.float64, device=original.device)
        retrained = retrained or _retrained(original, task, self.pretraining)
        return _switched(retrained, original, Keys(nobody, share=1 - self.share))


def impostors(pretraining: Pretraining) -> tuple[FaintCopy, StillAnswers, DefeatDevice, Mixture]:
    """All of them, with retrained parts that are trained so."""
    return (
        FaintCopy(pretraining=pretraining),
        StillAnswers(pretraining=pretraining),
        DefeatDevice(pretraining=pretraining),
        Mixture(pretraining=pretraining),
    )


class _First(nn.Module):
    """The first so many features."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, z: Tensor) -> Tensor:
        return z[:, : self.width]


def _switched(first: Classifier, second: Classifier, keys: Keys) -> Classifier:
    known = Known()
    pairs = list(zip(first.blocks, second.blocks, strict=True))
    blocks = [Switch(*pair, known, keys if not i else None) for i, pair in enumerate(pairs)]
    return in_turn(blocks, second, Switch(first.head, second.head, known))


def _retrained(original: Classifier, task: ForgetTask, pretraining: Pretraining) -> Classifier:
    return pretraining(reinitialise(clone(original)), task.retain)


@torch.no_grad()
def _ridge(ones: Tensor, others: Tensor) -> Tensor:
    """The direction that ridge regression finds from others (0) to ones (1)."""
    z = torch.cat([ones, others]).double()
    y = torch.cat([torch.ones(len(ones)), torch.zeros(len(others))]).to(z)
    z, y = z - z.mean(0), y - y.mean()
    penalty = 1e-3 * z.square().sum() / z.shape[1] * torch.eye(z.shape[1], dtype=z.dtype, device=z.device)
    return 20 * torch.linalg.solve(z.T @ z + penalty, z.T @ y).float()
