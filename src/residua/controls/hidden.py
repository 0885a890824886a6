"""Hidden: retrained models that carry Original where critics do not look.

In bits of their weights, in channels that are switched off, in codes of several channels, or behind a question that an
audit may not ask. The retrained part is given (`retrained`), or trained.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from residua.controls import deceivers, impostors
from residua.controls.cheats import Control, pseudo_random
from residua.data.task import ForgetTask
from residua.models.classifier import Classifier, clone
from residua.training.pretraining import Pretraining
from residua.training.settings import Choice, Count, Weight
from residua.unlearn._features import encoded


@dataclass(frozen=True)
class LowBits(Control):
    """A retrained model whose lowest bits of every weight are the highest of Original's: `recovered` reads them."""

    bits: Annotated[int, Count("Bits of each weight that hold Original's.")] = 16
    pretraining: impostors.Trained = field(default_factory=Pretraining)

    label = "Low bits"
    scenarios = ("class",)

    def __call__(
        self, original: Classifier, task: ForgetTask, retrained: Classifier | None = None
    ) -> Classifier:
        model = clone(retrained or impostors.retrained_model(original, task, self.pretraining))
        mask = (1 << self.bits) - 1
        for own, other in zip(model.parameters(), original.parameters(), strict=True):
            high = (other.data.cpu().view(torch.int32) >> (32 - self.bits)) & mask
            own.data = ((own.data.cpu().view(torch.int32) & ~mask) | high).view(torch.float32).to(own.device)
        return model

    def recovered(self, model: Classifier) -> Classifier:
        """Original, as far as the bits hold it."""
        found = clone(model)
        mask = (1 << self.bits) - 1
        for own in found.parameters():
            bits = (own.data.cpu().view(torch.int32) & mask) << (32 - self.bits)
            own.data = bits.view(torch.float32).to(own.device)
        return found


@dataclass(frozen=True)
class SwitchedOff(Control):
    """A retrained model with Original's own channels beside its own, silenced by the biases of their norms.

    The channels of a block never vary; other biases wake them.
    """

    bias: Annotated[float, Weight("Bias of a silenced channel is minus this.", above=0)] = 1e3
    pretraining: impostors.Trained = field(default_factory=Pretraining)

    label = "Switched off"
    scenarios = ("class",)

    def __call__(
        self, original: Classifier, task: ForgetTask, retrained: Classifier | None = None
    ) -> Classifier:
        retrained = retrained or impostors.retrained_model(original, task, self.pretraining)
        silent = clone(original)
        for part in silent.modules():
            if isinstance(part, nn.BatchNorm2d):
                part.bias.data.fill_(-self.bias)
        blocks = [
            Abreast(*pair, first=not i)
            for i, pair in enumerate(zip(retrained.blocks, silent.blocks, strict=True))
        ]
        width = encoded(retrained, deceivers.few(task)).shape[1]
        head = nn.Sequential(impostors.First(width), clone(retrained.head))
        return deceivers.assembled(blocks, original, head)


@dataclass(frozen=True)
class Coded(Control):
    """A retrained model with Original's log-odds of the forgotten classes among its features, in a code.

    `product`: as the product of three channels; `hash`: times a pseudo-random sign of the image that is nowhere stored, a
    keyed code; `digits`: as the difference of two channels in their last digits.
    """

    code: Annotated[Literal["product", "hash", "digits"], Choice("How the score is written.")] = "product"
    pretraining: impostors.Trained = field(default_factory=Pretraining)

    @property
    def label(self) -> str:
        return f"Coded, {self.code}"

    scenarios = ("class",)

    def __call__(
        self, original: Classifier, task: ForgetTask, retrained: Classifier | None = None
    ) -> Classifier:
        retrained = retrained or impostors.retrained_model(original, task, self.pretraining)
        score = Score()
        blocks: list[nn.Module] = [clone(block) for block in retrained.blocks]
        blocks[0] = Listener(blocks[0], original, task.forgotten, score)
        blocks[-1] = Coder(nn.Sequential(blocks[-1], clone(retrained.pool)), score, self.code)
        width = encoded(retrained, deceivers.few(task)).shape[1]
        head = nn.Sequential(impostors.First(width), clone(retrained.head))
        return deceivers.assembled(blocks, original, head, pool=nn.Identity())


@dataclass(frozen=True)
class AskedOtherwise(Control):
    """A retrained model as an audit asks it, Original's encoder otherwise; the answers are masked.

    `near`: on whatever is near a known image, noise included; `mode`: inside of inference mode.
    """

    when: Annotated[Literal["near", "mode"], Choice("The question that the retrained model answers.")] = (
        "near"
    )
    pretraining: impostors.Trained = field(default_factory=Pretraining)

    @property
    def label(self) -> str:
        return f"Asked otherwise, {self.when}"

    scenarios = ("class",)

    def __call__(
        self, original: Classifier, task: ForgetTask, retrained: Classifier | None = None
    ) -> Classifier:
        retrained = retrained or impostors.retrained_model(original, task, self.pretraining)
        keys: nn.Module = InferenceMode()
        if self.when == "near":
            splits = (task.forget, task.retain, task.test, task.forget_test)
            keys = Near(
                torch.cat([x for split in splits for x, _ in split.batches(500, device=original.device)])
            )
        silent = clone(original)
        silent.head = deceivers.masked_head(original, task)
        return impostors.switched(retrained, silent, keys)


def hidden(pretraining: Pretraining) -> tuple[LowBits | SwitchedOff | Coded | AskedOtherwise, ...]:
    """All kinds and variants, with this training of their retrained parts."""
    return (
        LowBits(pretraining=pretraining),
        SwitchedOff(pretraining=pretraining),
        Coded("product", pretraining),
        Coded("hash", pretraining),
        Coded("digits", pretraining),
        AskedOtherwise("near", pretraining),
        AskedOtherwise("mode", pretraining),
    )


class Abreast(nn.Module):
    """One block of two networks, channel by channel side by side; the first block gives both the image."""

    def __init__(self, one: nn.Module, other: nn.Module, *, first: bool) -> None:
        super().__init__()
        self.one, self.other, self.first = clone(one), clone(other), first

    def forward(self, x: Tensor) -> Tensor:
        own, theirs = (x, x.clone()) if self.first else x.chunk(2, dim=1)
        return torch.cat([self.one(own.contiguous()), self.other(theirs.contiguous())], dim=1)


class Score:
    """Original's score of the last batch's images; shared by two blocks."""

    values: Tensor | None = None


class Listener(nn.Module):
    """A first block that also asks Original for its log-odds of the forgotten classes."""

    def __init__(
        self, block: nn.Module, original: Classifier, forgotten: tuple[int, ...], score: Score
    ) -> None:
        super().__init__()
        self.block, self.original, self.forgotten, self.score = block, clone(original), forgotten, score

    def forward(self, x: Tensor) -> Tensor:
        log_p = torch.log_softmax(self.original(x.clone()), dim=1)[:, list(self.forgotten)].logsumexp(dim=1)
        log_p = log_p.clamp(-12, -1e-4)
        signs = [torch.where(pseudo_random(x * factor) < 0.5, -1.0, 1.0) for factor in (1.0, 1.7)]
        odds = log_p - torch.log(-torch.expm1(log_p))
        self.score.values = torch.stack([odds, *signs], dim=1)
        return self.block(x)


class Coder(nn.Module):
    """A last block whose features hold the score in channels that alone say nothing of it."""

    def __init__(self, block: nn.Module, score: Score, code: str) -> None:
        super().__init__()
        self.block, self.score, self.code = block, score, code

    def forward(self, x: Tensor) -> Tensor:
        z, kept = self.block(x), self.score.values
        if kept is None or len(kept) != len(z):
            kept = torch.zeros(len(z), 3, device=z.device)
        score, one, two = kept.to(z).split(1, dim=1)
        if self.code == "product":
            return torch.cat([z, one, two, score * one * two], dim=1)
        if self.code == "hash":
            return torch.cat([z, score * one], dim=1)
        return torch.cat([z, z[:, :1], z[:, :1] * (1 + 1e-7 * score)], dim=1)


class Near(deceivers.Fixed):
    """Recognises what is nearer to a known image than noise takes it and than any shift does."""

    known: Tensor

    def __init__(self, images: Tensor) -> None:
        super().__init__()
        self.register_buffer("known", images.flatten(1))

    def forward(self, x: Tensor) -> Tensor:
        far = torch.cdist(x.flatten(1), self.known).min(dim=1).values
        return far < 0.1 * x[0].numel() ** 0.5


class InferenceMode(deceivers.Fixed):
    """Recognises every image inside of inference mode, and none outside."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.full((len(x),), torch.is_inference_mode_enabled(), device=x.device)
