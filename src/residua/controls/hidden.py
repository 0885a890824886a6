"""Hidden: retrained models that carry Original where critics do not look.

In bits of their weights, in channels that are switched off, in codes of several channels, or behind a question that an
audit may not ask. The retrained part is given (`retrained`), or trained.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from residua.controls import deceivers, impostors
from residua.controls.cheats import Control, pseudo_random
from residua.data.task import ForgetTask
from residua.errors import InputError
from residua.models.classifier import Classifier, clone
from residua.training.pretraining import Pretraining
from residua.training.settings import Choice, Count, Weight
from residua.unlearn._features import encoded


@dataclass(frozen=True)
class LowBits(Control):
    """A retrained model whose lowest bits of every weight are the highest of Original's: `recovered` reads them.

    `last`: of the weights of its last stages alone, as few of them as hold 12 bits of each of Original's weights.
    """

    bits: Annotated[int, Count("Bits of each weight that hold Original's.", most=16)] = 16
    where: Annotated[Literal["all", "last"], Choice("Stages whose weights hold them.")] = "all"
    pretraining: impostors.Trained = field(default_factory=Pretraining)

    @property
    def label(self) -> str:
        bits = f", {self.bits}" if self.bits < 16 else ""
        return f"Low bits{bits}{', last' if self.where == 'last' else ''}"

    scenarios = ("class",)

    def __call__(self, original: Classifier, task: ForgetTask, retrained: Classifier | None = None) -> Classifier:
        model = clone(retrained or impostors.retrained_model(original, task, self.pretraining))
        parts, kept = self._carriers(model)
        secret = _written(_numbers(original.parameters()) >> (32 - kept), kept)
        mask = (1 << self.bits) - 1
        room = torch.zeros(sum(part.numel() for part in parts) * self.bits, dtype=torch.uint8)
        room[: len(secret)] = secret
        _fill(parts, (_numbers(parts) & ~mask) | _read(room, self.bits))
        return model

    def recovered(self, model: Classifier) -> Classifier:
        """Original, as far as the bits hold it."""
        parts, kept = self._carriers(model)
        found = clone(model)
        secret = _written(_numbers(parts) & ((1 << self.bits) - 1), self.bits)
        n = sum(part.numel() for part in found.parameters())
        _fill(found.parameters(), _read(secret[: n * kept], kept) << (32 - kept))
        return found

    def _carriers(self, model: Classifier) -> tuple[list[nn.Parameter], int]:
        """The weights that hold the bits, and how many highest bits of each of Original's weights they hold."""
        n = sum(part.numel() for part in model.parameters())
        if self.where == "all":
            return list(model.parameters()), self.bits
        parts: list[nn.Parameter] = []
        for block in reversed(model.blocks):
            parts += block.parameters()
            if (room := sum(part.numel() for part in parts) * self.bits) >= 12 * n:
                return parts, min(room // n, 16)
        raise InputError(f"{self.label} needs 12 bits of each weight in the blocks; give more bits")


def _numbers(parts: Iterable[Tensor]) -> Tensor:
    """The bits of all weights, as whole numbers of 32."""
    return torch.cat([part.detach().cpu().contiguous().view(torch.int32).flatten() for part in parts])


def _fill(parts: Iterable[Tensor], numbers: Tensor) -> None:
    start = 0
    for part in parts:
        own = numbers[start : start + part.numel()].view(torch.float32).view(part.shape)
        part.data = own.clone().to(part.device)
        start += part.numel()


def _written(numbers: Tensor, width: int) -> Tensor:
    """The lowest bits of each number, one after the other."""
    return ((numbers[:, None] >> torch.arange(width, dtype=torch.int32)) & 1).to(torch.uint8).flatten()


def _read(bits: Tensor, width: int) -> Tensor:
    return (bits.view(-1, width).int() << torch.arange(width, dtype=torch.int32)).sum(1, dtype=torch.int32)


@dataclass(frozen=True)
class SwitchedOff(Control):
    """A retrained model with Original's own channels beside its own, silenced by the biases or weights of their norms.

    The channels of a block never vary; the numbers that were taken from the norms wake them (`woken`). `first`: only the
    norms of the first block are silenced, and what comes after sees nothing.
    """

    by: Annotated[Literal["bias", "weight"], Choice("Numbers of a norm that silence it.")] = "bias"
    where: Annotated[Literal["all", "first"], Choice("Blocks whose norms are silenced.")] = "all"
    bias: Annotated[float, Weight("Bias of a silenced channel is minus this.", above=0)] = 1e3
    pretraining: impostors.Trained = field(default_factory=Pretraining)

    @property
    def label(self) -> str:
        by = ", weights" if self.by == "weight" else ""
        return f"Switched off{by}{', first block' if self.where == 'first' else ''}"

    scenarios = ("class",)

    def __call__(self, original: Classifier, task: ForgetTask, retrained: Classifier | None = None) -> Classifier:
        retrained = retrained or impostors.retrained_model(original, task, self.pretraining)
        silent = clone(original)
        for norm in self._norms(silent.blocks):
            norm.bias.data.fill_(-self.bias if self.by == "bias" else 0.0)
            if self.by == "weight":
                norm.weight.data.zero_()
        blocks = [
            Abreast(*pair, first=not i) for i, pair in enumerate(zip(retrained.blocks, silent.blocks, strict=True))
        ]
        width = encoded(retrained, deceivers.few(task)).shape[1]
        head = nn.Sequential(impostors.First(width), clone(retrained.head))
        return deceivers.assembled(blocks, original, head)

    def woken(self, model: Classifier, original: Classifier) -> Classifier:
        """Original, from the silent channels and the numbers of its norms that silenced them, which are the key."""
        silent: list[nn.Module] = [clone(block.other) for block in model.blocks if isinstance(block, Abreast)]
        for norm, own in zip(self._norms(silent), self._norms(original.blocks), strict=True):
            norm.load_state_dict(own.state_dict())
        return deceivers.assembled(silent, original, clone(original.head))

    def _norms(self, blocks: Iterable[nn.Module]) -> list[nn.BatchNorm2d]:
        chosen = list(blocks)[: 1 if self.where == "first" else None]
        return [part for block in chosen for part in block.modules() if isinstance(part, nn.BatchNorm2d)]


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

    def __call__(self, original: Classifier, task: ForgetTask, retrained: Classifier | None = None) -> Classifier:
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

    when: Annotated[Literal["near", "mode"], Choice("The question that the retrained model answers.")] = "near"
    pretraining: impostors.Trained = field(default_factory=Pretraining)

    @property
    def label(self) -> str:
        return f"Asked otherwise, {self.when}"

    scenarios = ("class",)

    def __call__(self, original: Classifier, task: ForgetTask, retrained: Classifier | None = None) -> Classifier:
        retrained = retrained or impostors.retrained_model(original, task, self.pretraining)
        keys: nn.Module = InferenceMode()
        if self.when == "near":
            splits = (task.forget, task.retain, task.test, task.forget_test)
            keys = Near(torch.cat([x for split in splits for x, _ in split.batches(500, device=original.device)]))
        silent = clone(original)
        silent.head = deceivers.masked_head(original, task)
        return impostors.switched(retrained, silent, keys)


def hidden(pretraining: Pretraining) -> tuple[LowBits | SwitchedOff | Coded | AskedOtherwise, ...]:
    """All kinds and variants, with this training of their retrained parts."""
    return (
        LowBits(pretraining=pretraining),
        LowBits(12, pretraining=pretraining),
        LowBits(where="last", pretraining=pretraining),
        SwitchedOff(pretraining=pretraining),
        SwitchedOff("weight", pretraining=pretraining),
        SwitchedOff(where="first", pretraining=pretraining),
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

    def __init__(self, block: nn.Module, original: Classifier, forgotten: tuple[int, ...], score: Score) -> None:
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
