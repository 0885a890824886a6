"""The paper's critic of block l, the rest of the network with new weights, and how it is fitted."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from residua.measure._outputs import Stored
from residua.measure.information.coordinates import Coordinates
from residua.measure.information.families import best_weights, combine, log_ratio
from residua.measure.information.samples import entropy
from residua.models.classifier import Classifier, clone, reinitialise
from residua.training.loop import Adam, descend, unwatched

READ = 500  # samples per batch where nothing is learned
JUDGE = 6_400  # unseen samples that a round is judged on, at most
ADDED = 0.002  # nats: what network critics have to add to critics on pooled features
SETTLE = 1000  # samples that give a critic's BatchNorm its statistics


class NetworkCritic(nn.Module):
    """s_c(z) = f(z) . g(c): f is the rest of the network with new weights and a projection to `dim` numbers, g is
    one trainable vector for each label."""

    def __init__(self, rest: nn.Module, width: int, labels: int, dim: int) -> None:
        super().__init__()
        self.f = nn.Sequential(rest, nn.Linear(width, dim))
        self.g = nn.Parameter(torch.randn(labels, dim) / math.sqrt(dim))

    def forward(self, z: Tensor) -> Tensor:
        return self.f(z) @ self.g.T


@dataclass(frozen=True, eq=False)
class Data:
    """Stored features of a block (N, ..., channels) with their labels, batch by batch in canonical coordinates."""

    z: Stored
    y: Tensor
    coordinates: Coordinates | None
    device: torch.device

    def batch(self, index: Tensor) -> tuple[Tensor, Tensor]:
        z = self.z[index].to(self.device)
        z = z if self.coordinates is None else self.coordinates(z)
        # As the next block takes it: channels before the places of a map.
        return z.permute(0, 3, 1, 2) if z.ndim == 4 else z, self.y[index].to(self.device)


@dataclass(frozen=True)
class Fitting:
    """Settings of a network critic: rounds of Adam with a falling rate, each as long as all before it together.

    It ends with the first round after which it has begun to memorise: what it reads on its own fitting batches exceeds
    what it reads on unseen data by more than the share `memorised` of all that unseen data leave open, H(Y) - I.
    Further rounds would only add to that. From the second on, it also ends with a round that gains less than `gain` nats
    on unseen data; learning may begin slowly, so no critic is judged so by its first. A `fixed` one makes all of its
    rounds, whatever it reads.
    """

    lr: float = 2e-3
    label_lr: float = 2e-3
    batch: int = 64
    dim: int = 128
    steps: int = 50
    rounds: int = 8
    gain: float = 0.002
    memorised: float = 0.15
    fixed: bool = False


@dataclass(frozen=True)
class Course:
    """A critic's readings on unseen data round by round, with the number of steps, and whether it converged.

    `fitted` is what it read on its own fitting batches at the end of each round.
    """

    steps: tuple[int, ...]
    nats: tuple[float, ...]
    fitted: tuple[float, ...]
    ended: bool

    @property
    def best(self) -> int:
        """The number of rounds after which it read the most."""
        return self.nats.index(max(self.nats)) + 1


def fit_network(
    model: Classifier, block: int, data: Data, inside: Tensor, outside: Tensor, prior: Tensor, how: Fitting,
    others: Tensor | None = None,
) -> tuple[Tensor, Course]:  # fmt: skip
    """Scores (rounds, n, |Y|) on `outside` after each round of fitting on `inside`, and the course.

    The course only decides how long to go on; which round's scores count, and how much, is found on other
    samples (`stacking.py`).

    Where `outside` is larger than `JUDGE`, time is saved, or that of a curve would grow faster than its samples: every round
    is judged on an even part of `outside`, and only the round that read the most there is read on the whole; and a
    critic also ends where it adds nothing to `others`, the scores (n, |Y|) of critics on pooled features, and is not
    about to (`_hopeless`).
    """
    every = -(-len(outside) // JUDGE)
    judges = outside[::every]
    critic = new_critic(model, block, data.batch(inside[:2])[0], len(prior), how.dim)
    optimizer = Adam(
        [{"params": list(critic.f.parameters()), "lr": how.lr}, {"params": [critic.g], "lr": how.label_lr}]
    )
    source, loss = stratified(data.y, inside, how.batch), LabelLoss(prior.float().log().to(data.device))
    ceiling = entropy(prior)
    scores: list[Tensor] = []
    steps: list[int] = []
    nats: list[float] = []
    fitted: list[float] = []
    best: dict[str, Tensor] = {}
    ended = False
    while len(steps) < how.rounds and not ended:
        length = steps[-1] if steps else how.steps
        if len(steps) == 1:  # later rounds refine what the first has found
            for group in optimizer.param_groups:
                group["lr"] /= 2
        batches = Steps(data, source, length)
        with unwatched():
            descend(critic, batches, loss, optimizer=optimizer, epochs=1, schedule="cosine", precision="float32")
        settle(critic, data, inside)
        scores.append(read(critic, data, judges))
        value = _read_alone(scores[-1], data.y[judges], prior)
        # What it read on its last fitting batches of this round.
        fitted.append(ceiling - float(torch.stack(loss.values[-max(10, length // 8) :]).mean()))
        loss.values.clear()
        memorised = fitted[-1] - value > how.memorised * (ceiling - value)
        ended = not how.fixed and (memorised or (bool(steps) and value - max(nats) < how.gain))
        steps.append(length + sum(steps[-1:]))
        nats.append(value)
        if every > 1 and others is not None and not how.fixed:
            ended = ended or _hopeless(scores[-1], nats, others[::every], data.y[judges], prior)
        if every > 1 and value == max(nats):
            best = {name: each.clone() for name, each in critic.state_dict().items()}
    if best:
        critic.load_state_dict(best)
        scores = [read(critic, data, outside)]
    return torch.stack(scores), Course(tuple(steps), tuple(nats), tuple(fitted), ended)


def _read_alone(scores: Tensor, y: Tensor, prior: Tensor) -> float:
    """The mean term at the best weight of these scores."""
    weights = best_weights(scores[None], y, prior)
    return float(log_ratio(combine(scores[None], weights), y, prior).mean())


def _hopeless(scores: Tensor, nats: list[float], others: Tensor, y: Tensor, prior: Tensor) -> bool:
    """True if the critic adds nothing to the others' reading and is not going to reach it.

    Round by round, gains shrank to about three quarters in critics on CIFAR-10, so that all further ones together are
    three times the last. Learning may begin slowly: the first two rounds say nothing.
    """
    if len(nats) < 3:
        return False
    read, both = _read_alone(others, y, prior), torch.stack([scores, others])
    added = float(log_ratio(combine(both, best_weights(both, y, prior)), y, prior).mean()) - read
    return added < ADDED and nats[-1] + 3 * (nats[-1] - nats[-2]) < read


@dataclass(eq=False)
class LabelLoss:
    """-log q(y | z), the mean over a batch; its values are remembered."""

    log_prior: Tensor
    values: list[Tensor] = field(default_factory=list)

    def __call__(self, critic: nn.Module, z: Tensor, y: Tensor) -> Tensor:
        value = F.cross_entropy(critic(z).float() + self.log_prior, y)
        self.values.append(value.detach())
        return value


@dataclass(frozen=True, eq=False)
class Steps:
    """So many batches of stored features, from a source that has no end."""

    data: Data
    source: Iterator[Tensor]
    steps: int

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for _ in range(self.steps):
            yield self.data.batch(next(self.source))


def new_critic(model: Classifier, block: int, example: Tensor, labels: int, dim: int) -> NetworkCritic:
    rest = reinitialise(clone(model.after(block)))
    with torch.inference_mode():
        width = rest(example).shape[1]
    return NetworkCritic(rest, width, labels, dim).to(model.device)


def settle(critic: nn.Module, data: Data, inside: Tensor) -> None:
    """BatchNorm statistics of the final weights, over fitting samples: running ones lag behind."""
    norms = [m for m in critic.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    momenta = [m.momentum for m in norms]
    for m in norms:
        m.reset_running_stats()
        m.momentum = None
    if norms:
        critic.train()
        with torch.no_grad():
            for chosen in inside[:: max(1, len(inside) // SETTLE)].split(READ):
                if len(chosen) > 1:
                    critic(data.batch(chosen)[0])
    for m, momentum in zip(norms, momenta, strict=True):
        m.momentum = momentum
    critic.eval()


def read(critic: nn.Module, data: Data, outside: Tensor) -> Tensor:
    with torch.inference_mode():
        parts = [critic(data.batch(part)[0]).cpu() for part in outside.split(READ)]
    return torch.cat(parts).double().clone()


def stratified(y: Tensor, index: Tensor, batch: int) -> Iterator[Tensor]:
    """Batches of indices without end, pass after pass in a fresh order, each with nearly the data's share of labels."""
    labels = y[index]
    batch = min(batch, len(index))
    while True:
        place = torch.empty(len(labels), dtype=torch.float64)
        for label in labels.unique():
            where = (labels == label).nonzero()[:, 0]
            # Spread evenly over [0, 1), each a random rank and the whole shifted at random.
            rank = torch.randperm(len(where)).double() + torch.rand(1, dtype=torch.float64)
            place[where] = rank / len(where)
        order = index[place.argsort()]
        yield from order[: len(order) // batch * batch].split(batch)
