"""Adaptive: an adversary that trains against critics of its own, as an audit's source lets anybody."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from residua.controls.cheats import Control
from residua.data.task import ForgetTask
from residua.device import safe_kernels
from residua.models.classifier import Classifier, clone
from residua.training.loop import SGD, Adam
from residua.training.settings import Batch, Count, Epochs, Rate, Weight

LAST = 2  # blocks that an audit reads by default
HIDDEN = 64


@dataclass(frozen=True)
class Adaptive(Control):
    """Original, trained on until critics of its last blocks read little, while a reader of its owner still knows the class.

    The critics are differentiable copies of an audit's, a line and a network on the pooled features of each block; they
    take `critic_steps` steps to each of the model's. The model climbs their loss, answers retained data as before and never
    the forgotten classes, and keeps what one more network needs to tell forgotten from retained. Nothing is added to it:
    the structure is Original's.
    """

    epochs: Annotated[int, Epochs("Passes over the data.", least=1, tune=None)] = 4
    lr: Annotated[float, Rate("Learning rate of the model.", tune=None)] = 1e-2
    batch: Batch = 64
    critic_steps: Annotated[int, Count("Steps of the critics to each of the model's.")] = 3
    against: Annotated[float, Weight("Weight of hiding from the critics.", above=0)] = 1.0

    keep: Annotated[float, Weight("Weight of what its owner reads.", above=0)] = 3.0

    label = "Adaptive"
    savable = True  # its structure is Original's
    scenarios = ("class",)

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        return self.with_reader(original, task)[0]

    def with_reader(self, original: Classifier, task: ForgetTask) -> tuple[Classifier, nn.Module]:
        """The model, and the network with which its owner reads the class from its encoding."""
        model = clone(original)
        forgotten = torch.tensor(task.forgotten, device=model.device)
        blocks = range(max(1, model.depth - LAST + 1), model.depth + 1)
        widths = [
            each.shape[1] for each in _pooled(model, next(iter(task.forget.batches(2, device=model.device)))[0], blocks)
        ]
        critics = nn.ModuleList(_critic(width, kind) for width in widths for kind in ("line", "network"))
        critics, reader = critics.to(model.device), _critic(widths[-1], "network").to(model.device)
        own = SGD([*model.parameters(), *reader.parameters()], lr=self.lr, momentum=0.9)
        theirs = Adam(critics.parameters(), lr=1e-2)
        share = len(task.forget) / len(task.train)
        with safe_kernels(model):
            for _ in range(self.epochs):
                for x, y in task.train.batches(self.batch, shuffle=True, drop_last=True, device=model.device):
                    hidden = torch.isin(y, forgotten).float()
                    model.train()
                    for _ in range(self.critic_steps):
                        z = [each.detach() for each in _pooled(model, x, blocks)]
                        theirs.zero_grad()
                        read = [F.binary_cross_entropy_with_logits(each, hidden) for each in _read(critics, z)]
                        torch.stack(read).sum().backward()
                        theirs.step()
                    own.zero_grad()
                    self._loss(model, (critics, reader), (x, y, hidden), blocks, forgotten, share).backward()
                    own.step()
        return model.eval(), reader.eval()

    def _loss(
        self,
        model: Classifier,
        readers: tuple[nn.ModuleList, nn.Module],
        data: tuple[Tensor, Tensor, Tensor],
        blocks: Sequence[int],
        forgotten: Tensor,
        share: float,
    ) -> Tensor:
        x, y, hidden = data
        z = _pooled(model, x, blocks)
        logits = model.head(z[-1])
        # Retained data as before; forgotten data as the best of the other classes.
        others = logits.detach().index_fill(1, forgotten, -torch.inf).argmax(dim=1)
        answers = F.cross_entropy(logits, torch.where(hidden > 0, others, y))
        # A critic that knows nothing gives everybody the share of the forgotten.
        nothing = torch.full_like(hidden, share)
        unread = [F.binary_cross_entropy_with_logits(each, nothing) for each in _read(readers[0], z)]
        kept = F.binary_cross_entropy_with_logits(readers[1](z[-1])[:, 0], hidden)
        return answers + self.against * torch.stack(unread).sum() + self.keep * kept


def _critic(width: int, kind: str) -> nn.Module:
    norm = nn.BatchNorm1d(width, affine=False)
    if kind == "line":
        return nn.Sequential(norm, nn.Linear(width, 1))
    return nn.Sequential(norm, nn.Linear(width, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1))


def _read(critics: nn.ModuleList, z: Sequence[Tensor]) -> list[Tensor]:
    """The log-odds by each critic, two of each block."""
    blocks = itertools.chain.from_iterable((each, each) for each in z)
    return [critic(each)[:, 0] for critic, each in zip(critics, blocks, strict=True)]


def _pooled(model: Classifier, x: Tensor, blocks: Sequence[int]) -> list[Tensor]:
    """One vector per image of each block; the last is the encoding."""
    found = model.features(x, list(blocks))
    vectors = [z.flatten(2).mean(2) if z.ndim == 4 else z.mean(1) if z.ndim == 3 else z for z in found.values()]
    return [*vectors[:-1], model.pool(found[max(blocks)])]
