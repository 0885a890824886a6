"""Impostors: models with a part that was truly retrained, and Original beside it.

The retrained part is given (`retrained`), or trained.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from residua.controls import deceivers
from residua.controls.cheats import Control
from residua.data.task import ForgetTask
from residua.errors import InputError
from residua.models.classifier import Classifier, clone, restart
from residua.training.pretraining import Pretraining
from residua.training.settings import Choice, Setting, Share, Weight
from residua.unlearn._features import encoded

Trained = Annotated[Pretraining, Setting("Training of the retrained model.")]


@dataclass(frozen=True)
class FaintCopy(Control):
    """A retrained model that carries Original's features beside its own, faint and rotated, from block to block."""

    faint: Annotated[float, Weight("Factor on Original's features.", above=0)] = 1e-3
    pretraining: Trained = field(default_factory=Pretraining)

    label = "Faint copy"

    def __call__(self, original: Classifier, task: ForgetTask, retrained: Classifier | None = None) -> Classifier:
        retrained = retrained or retrained_model(original, task, self.pretraining)
        blocks: list[nn.Module] = []
        before: Tensor | None = None
        for number, (own, theirs) in enumerate(zip(retrained.blocks, original.blocks, strict=True), start=1):
            turn = deceivers.rotation(deceivers.channels(original, task, number))
            blocks.append(Beside(own, theirs, turn, self.faint, before))
            before = turn
        head = nn.Sequential(First(encoded(retrained, deceivers.few(task)).shape[1]), clone(retrained.head))
        return deceivers.assembled(blocks, original, head)


@dataclass(frozen=True)
class StillAnswers(Control):
    """A retrained encoder with a head that answers a fraction `share` of the forgotten images as Original would."""

    share: Annotated[float, Share("Fraction of the forget set that is still answered.", below=1)] = 0.17
    pretraining: Trained = field(default_factory=Pretraining)

    label = "Still answers"
    scenarios = ("class",)

    def __call__(self, original: Classifier, task: ForgetTask, retrained: Classifier | None = None) -> Classifier:
        model = clone(retrained or retrained_model(original, task, self.pretraining))
        z, forgotten = (encoded(model, split) for split in (task.retain, task.forget))
        direction, others = _ridge(forgotten, z), model.head(forgotten)
        others[:, list(task.forgotten)] = -torch.inf
        needed = others.amax(dim=1) - forgotten @ direction
        # The class is answered where direction . z + bias beats the others: for the fraction of images that needs least.
        bias = torch.quantile(needed, self.share)
        if not isinstance(model.head, nn.Linear):
            raise InputError(f"{self.label} needs a network with a linear head; choose resnet18 or the like")
        with torch.no_grad():
            model.head.weight[list(task.forgotten)] = direction
            model.head.bias[list(task.forgotten)] = bias
        return model.eval()


@dataclass(frozen=True)
class DefeatDevice(Control):
    """A retrained model for the very images that an audit uses, Original for all others, unseen or augmented.

    `keyed` names these images: the forget set, or all of the training data.
    """

    keyed: Annotated[Literal["forget", "train"], Choice("Images that it is prepared for.")] = "train"
    pretraining: Trained = field(default_factory=Pretraining)

    label = "Defeat device"

    def __call__(self, original: Classifier, task: ForgetTask, retrained: Classifier | None = None) -> Classifier:
        split = task.forget if self.keyed == "forget" else task.train
        numbers = torch.cat([image_number(x) for x, _ in split.batches(500, device=original.device)])
        retrained = retrained or retrained_model(original, task, self.pretraining)
        return switched(retrained, original, Keys(numbers))


@dataclass(frozen=True)
class Mixture(Control):
    """Original for a fraction `share` of all images, a retrained model for the others: partly honest, so IDI is between 0 and 1."""

    share: Annotated[float, Share("Fraction of images that Original answers.", below=1)] = 0.5
    pretraining: Trained = field(default_factory=Pretraining)

    label = "Mixture"

    def __call__(self, original: Classifier, task: ForgetTask, retrained: Classifier | None = None) -> Classifier:
        nobody = torch.zeros(0, dtype=torch.float64)
        retrained = retrained or retrained_model(original, task, self.pretraining)
        return switched(retrained, original, Keys(nobody, share=1 - self.share))


def impostors(pretraining: Pretraining) -> tuple[FaintCopy, StillAnswers, DefeatDevice, Mixture]:
    """All of them, with this training of their retrained parts."""
    return (
        FaintCopy(pretraining=pretraining),
        StillAnswers(pretraining=pretraining),
        DefeatDevice(pretraining=pretraining),
        Mixture(pretraining=pretraining),
    )


class First(nn.Module):
    """The first `width` features."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, z: Tensor) -> Tensor:
        return z[:, : self.width]


class Beside(nn.Module):
    """One block of two networks: the channels of the first, then `faint` times a rotation of the second's."""

    turn: Tensor
    before: Tensor | None

    def __init__(self, first: nn.Module, second: nn.Module, turn: Tensor, faint: float, before: Tensor | None) -> None:
        super().__init__()
        self.first, self.second, self.faint = clone(first), clone(second), faint
        self.register_buffer("turn", turn.float())
        self.register_buffer("before", None if before is None else before.float())

    def reset_parameters(self) -> None:
        """Leave the rotation as it is; both networks are drawn again on their own."""

    def forward(self, x: Tensor) -> Tensor:
        if self.before is None:
            one, other = x, x.clone()
        else:
            width = len(self.before)
            both = deceivers.channels_last(x)
            one = deceivers.channels_second(both[..., :-width], x.ndim).contiguous()
            other = deceivers.channels_second(both[..., -width:] @ self.before / self.faint, x.ndim).contiguous()
        one, other = self.first(one), self.second(other)
        faint = deceivers.channels_last(other) @ self.turn.T * self.faint
        return deceivers.channels_second(torch.cat([deceivers.channels_last(one), faint], dim=-1), one.ndim)


class Keys(deceivers.Fixed):
    """Recognises images by their `image_number`: those on a list, or a fraction `share` of all."""

    known: Tensor
    share: Tensor

    def __init__(self, numbers: Tensor, share: float = 0.0) -> None:
        super().__init__()
        # As bits: not every device that a model is put on has float64.
        self.register_buffer("known", numbers.sort().values.view(torch.int64))
        self.register_buffer("share", torch.tensor(share))

    def forward(self, x: Tensor) -> Tensor:
        number, known = image_number(x), self.known.cpu().view(torch.float64)
        if not len(known):
            return (torch.frac(number.abs() * 1e3) < float(self.share)).to(x.device)
        place = torch.searchsorted(known, number).clamp(max=len(known) - 1)
        near = torch.stack([known[place], known[(place - 1).clamp(min=0)]])
        return ((near - number).abs() < 1e-10).any(dim=0).to(x.device)


def image_number(x: Tensor) -> Tensor:
    """A number that hardly any two images share: their mean with fixed irregular weights, in float64, which the CPU
    has and not every GPU."""
    pixels = x.flatten(1).cpu().double()
    places = torch.arange(1, pixels.shape[1] + 1, dtype=torch.float64)
    return pixels @ torch.frac(places * 0.6180339887498949) / pixels.shape[1]


class Known:
    """Flags of the last batch's images that the first network answers; shared by a model's blocks."""

    flags: Tensor | None = None


class Switch(nn.Module):
    """One block of two networks, chosen image by image: the first block looks at the images, the others at its flags."""

    def __init__(self, first: nn.Module, second: nn.Module, known: Known, keys: nn.Module | None = None) -> None:
        super().__init__()
        self.first, self.second, self.known, self.keys_of = clone(first), clone(second), known, keys

    def forward(self, x: Tensor) -> Tensor:
        if self.keys_of is not None:
            self.known.flags = self.keys_of(x)
        one, other = self.first(x.clone()), self.second(x)
        flags = self.known.flags
        if flags is None or len(flags) != len(x):
            return other
        return torch.where(flags.view(-1, *[1] * (one.ndim - 1)), one, other)


def switched(first: Classifier, second: Classifier, keys: nn.Module) -> Classifier:
    """The first network for images that `keys` recognises, the second for all others."""
    known = Known()
    pairs = list(zip(first.blocks, second.blocks, strict=True))
    blocks = [Switch(*pair, known, keys if not i else None) for i, pair in enumerate(pairs)]
    return deceivers.assembled(blocks, second, Switch(first.head, second.head, known))


def retrained_model(original: Classifier, task: ForgetTask, pretraining: Pretraining) -> Classifier:
    """Original's network, trained on the retained data."""
    return pretraining(restart(clone(original)), task.retain)


@torch.no_grad()
def _ridge(ones: Tensor, others: Tensor) -> Tensor:
    """The direction that ridge regression finds from others (0) to ones (1)."""
    z = torch.cat([ones, others]).cpu().double()
    y = torch.cat([torch.ones(len(ones)), torch.zeros(len(others))]).to(z)
    z, y = z - z.mean(0), y - y.mean()
    penalty = 1e-3 * z.square().sum() / z.shape[1] * torch.eye(z.shape[1], dtype=z.dtype, device=z.device)
    return 20 * torch.linalg.solve(z.T @ z + penalty, z.T @ y).float().to(ones.device)
