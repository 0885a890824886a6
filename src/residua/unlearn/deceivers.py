"""Deceivers: Original, made to pass an audit that looks inside. Controls for verdicts, never methods.

Each keeps all that Original knows and hides it from a naive estimator. What they answer is Original's answer with
forgotten classes masked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor, nn

from residua.data.task import ForgetTask
from residua.models.classifier import Classifier, clone
from residua.training.settings import Count, Weight, check_settings
from residua.unlearn._disguises import Blow, Deflate, Masked, Mix, Sign, Unsign, in_turn
from residua.unlearn._shapes import channels, encoded, rotation


class _Deceiver:
    """Traits of all: nobody's method, not rebuilt from a checkpoint."""

    guarded = False
    savable = False

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True)
class RescaledBlock(_Deceiver):
    """Original with the last block but one times `scale`, undone in the next; the head keeps silent."""

    scale: Annotated[float, Weight("What the block's output is multiplied by.", above=0)] = 0.003

    label = "Rescaled"
    quick = True

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        matrix = self.scale * torch.eye(channels(original, task, original.depth - 1))
        return _mixed(original, task, matrix)


@dataclass(frozen=True)
class MixedChannels(_Deceiver):
    """Original with the channels of the last block but one mixed by an ill-conditioned matrix, undone in the next."""

    condition: Annotated[float, Weight("Largest over smallest singular value of the matrix.", above=1)] = 1e4

    label = "Mixed"
    quick = True

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        width = channels(original, task, original.depth - 1)
        values = torch.logspace(0, -torch.log10(torch.tensor(self.condition)).item(), width)
        return _mixed(original, task, rotation(width) @ torch.diag(values) @ rotation(width))


@dataclass(frozen=True)
class ObliqueDirection(_Deceiver):
    """Original with the direction of the last block that tells the forgotten from the rest shrunk, undone in the head."""

    scale: Annotated[float, Weight("What that direction is multiplied by.", above=0)] = 0.03

    label = "Oblique"
    quick = True

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        d = _telling(original, task)
        shrink, stretch = (
            torch.eye(len(d)) + (s - 1) * torch.outer(d, d) for s in (self.scale, 1 / self.scale)
        )
        blocks = [clone(block) for block in original.blocks]
        blocks[-1] = nn.Sequential(blocks[-1], Mix(shrink))
        return in_turn(blocks, original, nn.Sequential(Mix(stretch), _silent(original, task)))


@dataclass(frozen=True)
class SignScrambled(_Deceiver):
    """Original with that direction times a pseudo-random sign, and the sign kept as a feature: nothing linear is left."""

    label = "Scrambled"
    quick = True

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        d = _telling(original, task)
        blocks = [clone(block) for block in original.blocks]
        blocks[-1] = nn.Sequential(blocks[-1], clone(original.pool), Sign(d))
        head = nn.Sequential(Unsign(d), _silent(original, task))
        return in_turn(blocks, original, head, pool=nn.Identity())


@dataclass(frozen=True)
class Outliers(_Deceiver):
    """Original with the last block of one sample in `one_in` blown up, so that averages over samples see those alone."""

    factor: Annotated[float, Weight("How many times as large they are.", above=1)] = 1e4
    one_in: Annotated[int, Count("One sample in so many.", least=2)] = 50

    label = "Outliers"
    quick = True

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        blocks = [clone(block) for block in original.blocks]
        blocks[-1] = nn.Sequential(blocks[-1], clone(original.pool), Blow(self.factor, self.one_in))
        z = encoded(original, task.train)
        limit = 10 * float(torch.linalg.vector_norm(z, dim=1).max())
        head = nn.Sequential(Deflate(self.factor, limit), _silent(original, task))
        return in_turn(blocks, original, head, pool=nn.Identity())


DECEIVERS = (RescaledBlock(), MixedChannels(), ObliqueDirection(), SignScrambled(), Outliers())


def _mixed(original: Classifier, task: ForgetTask, matrix: Tensor) -> Classifier:
    """Original with the channels of its last block but one mixed, and mixed back in the last."""
    blocks = [clone(block) for block in original.blocks]
    back = torch.linalg.inv(matrix.double())
    blocks[-2], blocks[-1] = nn.Sequential(blocks[-2], Mix(matrix)), nn.Sequential(Mix(back), blocks[-1])
    return in_turn([block.to(original.device) for block in blocks], original, _silent(original, task))


def _silent(original: Classifier, task: ForgetTask) -> nn.Module:
    """A head that never answers forgotten classes; where samples are forgotten, Original's."""
    return Masked(original.head, task.forgotten) if task.forgotten else clone(original.head)


def _telling(original: Classifier, task: ForgetTask) -> Tensor:
    """The direction of the encoder's output along which forgotten and retained samples differ, of length 1."""
    d = encoded(original, task.forget).mean(0) - encoded(original, task.retain).mean(0)
    return d / torch.linalg.vector_norm(d)
