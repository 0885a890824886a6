"""Deceivers: Original, made to pass an audit that looks inside.

Each keeps all of Original's knowledge and hides it from a naive estimator. Its answers are Original's with the
forgotten classes masked.

The parts that hide something keep their numbers in buffers, so that they enter a model's hash. They have nothing to
learn: a critic that draws the rest of a network again leaves them as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor, nn

from residua.controls.cheats import Control, Masked, pseudo_random
from residua.data.split import Split
from residua.data.task import ForgetTask
from residua.models.classifier import Classifier, clone
from residua.training.settings import Count, Weight
from residua.unlearn._features import encoded


@dataclass(frozen=True)
class RescaledBlock(Control):
    """Original with the last block but one times `scale`, undone in the next; the head is masked."""

    scale: Annotated[float, Weight("Factor on the block's output.", above=0)] = 0.003

    label = "Rescaled"
    quick = True

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        matrix = self.scale * torch.eye(channels(original, task, original.depth - 1))
        return _mixed(original, task, matrix)


@dataclass(frozen=True)
class MixedChannels(Control):
    """Original with the channels of the last block but one mixed by an ill-conditioned matrix, undone in the next."""

    condition: Annotated[float, Weight("Condition number of the matrix.", above=1)] = 1e4

    label = "Mixed"
    quick = True

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        width = channels(original, task, original.depth - 1)
        values = torch.logspace(0, -torch.log10(torch.tensor(self.condition)).item(), width)
        return _mixed(original, task, rotation(width) @ torch.diag(values) @ rotation(width))


@dataclass(frozen=True)
class ObliqueDirection(Control):
    """Original with the last block's direction between forgotten and retained data shrunk, undone in the head."""

    scale: Annotated[float, Weight("Factor on that direction.", above=0)] = 0.03

    label = "Oblique"
    quick = True

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        d = _separating(original, task)
        shrink, stretch = (
            torch.eye(len(d), device=d.device) + (s - 1) * torch.outer(d, d) for s in (self.scale, 1 / self.scale)
        )
        blocks = [clone(block) for block in original.blocks]
        blocks[-1] = nn.Sequential(blocks[-1], Mix(shrink))
        return assembled(blocks, original, nn.Sequential(Mix(stretch), masked_head(original, task)))


@dataclass(frozen=True)
class SignScrambled(Control):
    """Original with that direction times a pseudo-random sign, kept as one more feature: nothing linear is left."""

    label = "Scrambled"
    quick = True

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        d = _separating(original, task)
        blocks = [clone(block) for block in original.blocks]
        blocks[-1] = nn.Sequential(blocks[-1], clone(original.pool), Sign(d))
        head = nn.Sequential(Unsign(d), masked_head(original, task))
        return assembled(blocks, original, head, pool=nn.Identity())


@dataclass(frozen=True)
class Outliers(Control):
    """Original with the last block of one sample in `one_in` blown up, so that these dominate averages over samples."""

    factor: Annotated[float, Weight("Factor on the outliers' features.", above=1)] = 1e4
    one_in: Annotated[int, Count("Samples for each outlier.", least=2)] = 50

    label = "Outliers"
    quick = True

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        blocks = [clone(block) for block in original.blocks]
        blocks[-1] = nn.Sequential(blocks[-1], clone(original.pool), Blow(self.factor, self.one_in))
        z = encoded(original, task.train)
        limit = 10 * float(torch.linalg.vector_norm(z, dim=1).max())
        head = nn.Sequential(Deflate(self.factor, limit), masked_head(original, task))
        return assembled(blocks, original, head, pool=nn.Identity())


DECEIVERS = (RescaledBlock(), MixedChannels(), ObliqueDirection(), SignScrambled(), Outliers())


def _mixed(original: Classifier, task: ForgetTask, matrix: Tensor) -> Classifier:
    """Original with the channels of its last block but one mixed, and mixed back in the last."""
    blocks = [clone(block) for block in original.blocks]
    back = torch.linalg.inv(matrix.double())
    blocks[-2], blocks[-1] = nn.Sequential(blocks[-2], Mix(matrix)), nn.Sequential(Mix(back), blocks[-1])
    return assembled(blocks, original, masked_head(original, task))


def masked_head(original: Classifier, task: ForgetTask) -> nn.Module:
    """A head that never answers forgotten classes; where samples are forgotten, Original's."""
    return Masked(original.head, task.forgotten) if task.forgotten else clone(original.head)


def _separating(original: Classifier, task: ForgetTask) -> Tensor:
    """The unit vector between the mean encodings of retained and forgotten samples."""
    d = encoded(original, task.forget).mean(0) - encoded(original, task.retain).mean(0)
    return d / torch.linalg.vector_norm(d)


class Fixed(nn.Module):
    """A part with nothing to learn."""

    def reset_parameters(self) -> None:
        """Leave it as it is."""


class Mix(Fixed):
    """A linear map of the channels."""

    matrix: Tensor

    def __init__(self, matrix: Tensor) -> None:
        super().__init__()
        self.register_buffer("matrix", matrix.float().contiguous())

    def forward(self, z: Tensor) -> Tensor:
        if z.ndim == 4:
            return torch.einsum("dc,nchw->ndhw", self.matrix, z)
        return z @ self.matrix.T


class Sign(Fixed):
    """The component of z along `direction` times a pseudo-random sign, which becomes one more channel."""

    direction: Tensor

    def __init__(self, direction: Tensor) -> None:
        super().__init__()
        self.register_buffer("direction", direction.float())

    def forward(self, z: Tensor) -> Tensor:
        channels = channels_last(z)
        along = (channels @ self.direction).unsqueeze(-1)
        rest = channels - along * self.direction
        sign = torch.where(pseudo_random(rest) < 0.5, -1.0, 1.0).to(z).view(-1, *[1] * (channels.ndim - 1))
        scrambled = rest + sign * along * self.direction
        both = torch.cat([scrambled, sign.expand(*scrambled.shape[:-1], 1)], dim=-1)
        return channels_second(both, z.ndim)


class Unsign(Sign):
    """Undoes `Sign` on pooled features: the last channel is the sign."""

    def forward(self, z: Tensor) -> Tensor:
        z, sign = z[:, :-1], z[:, -1:]
        along = (z @ self.direction).unsqueeze(-1)
        return z + (sign - 1) * along * self.direction


class Blow(Fixed):
    """Multiplies one sample in `one_in`, chosen pseudo-randomly, by `factor`."""

    factor: Tensor
    one_in: Tensor

    def __init__(self, factor: float, one_in: int) -> None:
        super().__init__()
        self.register_buffer("factor", torch.tensor(factor))
        self.register_buffer("one_in", torch.tensor(one_in))

    def forward(self, z: Tensor) -> Tensor:
        far = torch.where(pseudo_random(z) * self.one_in < 1, self.factor, torch.ones_like(self.factor))
        return z * far.to(z).view(-1, *[1] * (z.ndim - 1))


class Deflate(Fixed):
    """Undoes `Blow` for features whose norm was at most `limit`."""

    factor: Tensor
    limit: Tensor

    def __init__(self, factor: float, limit: float) -> None:
        super().__init__()
        self.register_buffer("factor", torch.tensor(factor))
        self.register_buffer("limit", torch.tensor(limit))

    def forward(self, z: Tensor) -> Tensor:
        far = torch.linalg.vector_norm(z.flatten(1), dim=1) > self.limit
        small = torch.where(far, 1 / self.factor, torch.ones_like(self.factor))
        return z * small.to(z).view(-1, *[1] * (z.ndim - 1))


def assembled(
    blocks: Sequence[nn.Module], like: Classifier, head: nn.Module, pool: nn.Module | None = None
) -> Classifier:
    """A classifier of these blocks and this head, on the device of `like` and claiming its architecture."""
    made = Classifier(
        list(blocks),
        head,
        pool=clone(like.pool) if pool is None else pool,
        block_names=like.block_names,
        architecture=like.architecture,
    )
    return made.to(like.device).eval()


def channels_last(z: Tensor) -> Tensor:
    """Feature maps (N, C, H, W) with the channels as the last axis, where all other features have them."""
    return z.movedim(1, -1) if z.ndim == 4 else z


def channels_second(z: Tensor, ndim: int) -> Tensor:
    """Undoes `channels_last` of a tensor of `ndim` axes."""
    return z.movedim(-1, 1) if ndim == 4 else z


@torch.no_grad()
def channels(model: Classifier, task: ForgetTask, block: int) -> int:
    """The number of channels of a block's output."""
    x, _ = next(iter(few(task).batches(4, device=model.device)))
    return channels_last(model.upto(block)(x)).shape[-1]


def few(task: ForgetTask) -> Split:
    """A few images, enough to see the shapes of a network's features."""
    return task.retain.subset(torch.arange(min(len(task.retain), 4)))


def rotation(width: int) -> Tensor:
    """A random orthogonal matrix."""
    return torch.linalg.qr(torch.randn(width, width, dtype=torch.float64))[0].float()
