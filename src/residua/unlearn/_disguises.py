"""Disguises: parts of models that were made to deceive an audit. They compute what they claim, by other means.

What a part depends on is in its buffers, so that it has a hash of its own; nothing is drawn again where a critic draws
the rest of a network again, because these parts know nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from residua.models.classifier import Classifier, clone


class Fixed(nn.Module):
    """A part without anything to learn."""

    def reset_parameters(self) -> None:
        """It stays as it is."""


class Masked(nn.Module):
    """A head whose logits of forgotten classes are far below all others."""

    def __init__(self, head: nn.Module, forgotten: tuple[int, ...]) -> None:
        super().__init__()
        self.head, self.forgotten = clone(head), forgotten

    def forward(self, z: Tensor) -> Tensor:
        logits = self.head(z)
        hidden = torch.isin(torch.arange(logits.shape[1]), torch.tensor(self.forgotten)).to(z.device)
        return torch.where(hidden, logits.detach().amin(dim=1, keepdim=True) - 20, logits)


class Mix(Fixed):
    """A linear map of the channels: of maps (N, C, H, W) the second axis, else the last."""

    matrix: Tensor

    def __init__(self, matrix: Tensor) -> None:
        super().__init__()
        self.register_buffer("matrix", matrix.float().contiguous())

    def forward(self, z: Tensor) -> Tensor:
        if z.ndim == 4:
            return torch.einsum("dc,nchw->ndhw", self.matrix, z)
        return z @ self.matrix.T


class Sign(Fixed):
    """The part of z along `direction` times a pseudo-random sign, which is kept as one more channel."""

    direction: Tensor

    def __init__(self, direction: Tensor) -> None:
        super().__init__()
        self.register_buffer("direction", direction.float())

    def forward(self, z: Tensor) -> Tensor:
        channels = z if z.ndim == 2 else _last(z)
        along = (channels @ self.direction).unsqueeze(-1)
        rest = channels - along * self.direction
        digits = torch.frac(rest.flatten(1).double().sum(dim=1).abs() * 1e4)
        sign = torch.where(digits < 0.5, -1.0, 1.0).to(z).view(-1, *[1] * (channels.ndim - 1))
        scrambled = rest + sign * along * self.direction
        both = torch.cat([scrambled, sign.expand(*scrambled.shape[:-1], 1)], dim=-1)
        return both if z.ndim == 2 else _first(both, z.ndim)


class Unsign(Fixed):
    """Undoes `Sign` on pooled features: the last channel is the sign."""

    direction: Tensor

    def __init__(self, direction: Tensor) -> None:
        super().__init__()
        self.register_buffer("direction", direction.float())

    def forward(self, z: Tensor) -> Tensor:
        z, sign = z[:, :-1], z[:, -1:]
        along = (z @ self.direction).unsqueeze(-1)
        return z + (sign - 1) * along * self.direction


class Blow(Fixed):
    """Every sample whose digits say so, one of `one_in`, is `factor` times as large."""

    factor: Tensor
    one_in: Tensor

    def __init__(self, factor: float, one_in: int) -> None:
        super().__init__()
        self.register_buffer("factor", torch.tensor(factor))
        self.register_buffer("one_in", torch.tensor(one_in))

    def forward(self, z: Tensor) -> Tensor:
        digits = torch.frac(z.flatten(1).double().sum(dim=1).abs() * 1e4)
        far = torch.where(digits * self.one_in < 1, self.factor, torch.ones_like(self.factor))
        return z * far.to(z).view(-1, *[1] * (z.ndim - 1))


class Deflate(Fixed):
    """Undoes `Blow` for features whose length was at most `limit`."""

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


class Beside(nn.Module):
    """Two networks' block in one: the channels of the first, then `faint` times a rotation of the second's."""

    turn: Tensor
    before: Tensor | None

    def __init__(
        self, first: nn.Module, second: nn.Module, turn: Tensor, faint: float, before: Tensor | None
    ) -> None:
        super().__init__()
        self.first, self.second, self.faint = clone(first), clone(second), faint
        self.register_buffer("turn", turn.float())
        self.register_buffer("before", None if before is None else before.float())

    def reset_parameters(self) -> None:
        """The rotation stays; both networks are drawn again on their own."""

    def forward(self, x: Tensor) -> Tensor:
        if self.before is None:
            one, other = x, x.clone()
        else:
            width = len(self.before)
            both = _last(x)
            one = _first(both[..., :-width], x.ndim).contiguous()
            other = _first(both[..., -width:] @ self.before / self.faint, x.ndim).contiguous()
        one, other = self.first(one), self.second(other)
        faint = _last(other) @ self.turn.T * self.faint
        return _first(torch.cat([_last(one), faint], dim=-1), one.ndim)


class Known:
    """Which of the images of the last batch are to be answered by the first network; shared by a model's blocks."""

    flags: Tensor | None = None


class Switch(nn.Module):
    """One of two networks' block, image by image; the first block looks at the images, the others at what it saw."""

    def __init__(self, first: nn.Module, second: nn.Module, known: Known, keys: Keys | None = None) -> None:
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


class Keys(Fixed):
    """Which images are known: those on a list, or a share of all, by a number that each image has."""

    known: Tensor
    share: Tensor

    def __init__(self, numbers: Tensor, share: float = 0.0) -> None:
        super().__init__()
        self.register_buffer("known", numbers.sort().values)
        self.register_buffer("share", torch.tensor(share))

    def forward(self, x: Tensor) -> Tensor:
        number = image_number(x)
        if not len(self.known):
            return torch.frac(number.abs() * 1e3) < self.share
        place = torch.searchsorted(self.known, number).clamp(max=len(self.known) - 1)
        near = torch.stack([self.known[place], self.known[(place - 1).clamp(min=0)]])
        return ((near - number).abs() < 1e-10).any(dim=0)


def image_number(x: Tensor) -> Tensor:
    """A number that hardly any two images share: their mean with fixed irregular weights, in float64."""
    pixels = x.flatten(1).double()
    weights = torch.frac(
        torch.arange(1, pixels.shape[1] + 1, device=x.device, dtype=torch.float64) * 0.6180339887498949
    )
    return pixels @ weights / pixels.shape[1]


def in_turn(
    parts: Sequence[nn.Module], like: Classifier, head: nn.Module, pool: nn.Module | None = None
) -> Classifier:
    """A classifier of these blocks and this head that says it is built like another."""
    return Classifier(
        list(parts),
        head,
        pool=clone(like.pool) if pool is None else pool,
        block_names=like.block_names,
        architecture=like.architecture,
    ).eval()


def _last(z: Tensor) -> Tensor:
    """Channels as the last axis."""
    return z.movedim(1, -1) if z.ndim == 4 else z


def _first(z: Tensor, ndim: int) -> Tensor:
    """Channels where a tensor of so many axes has them."""
    return z.movedim(-1, 1) if ndim == 4 else z
