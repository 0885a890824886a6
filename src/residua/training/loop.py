"""descend(): the one training loop, and the optimizers that it steps."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from inspect import unwrap
from typing import Any, Protocol, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from residua.device import (
    Precision,
    autocast,
    exact_float32,
    keep_memory,
    keeps_channels_last,
    resolve_precision,
    safe_kernels,
)
from residua.errors import Diverged, InputError
from residua.models.classifier import keep_frozen
from residua.progress import holding
from residua.training import distributed
from residua.training.keeping import Keeper
from residua.training.settings import OptimizerName, Schedule


class _Plain(torch.optim.Optimizer):
    """PyTorch's optimizers without the compiler: same code, same weights, a second less to start.

    The methods of `torch.optim` are wrapped so that `torch.compile` may trace or skip them, and the first call of a wrapper
    imports the whole compiler (`torch._dynamo`): seconds in every process that trains anything. Nothing is compiled here,
    so these classes take the methods inside the wrappers.
    """

    add_param_group = unwrap(torch.optim.Optimizer.add_param_group)
    zero_grad = unwrap(torch.optim.Optimizer.zero_grad)
    state_dict = unwrap(torch.optim.Optimizer.state_dict)
    load_state_dict = unwrap(torch.optim.Optimizer.load_state_dict)


class SGD(_Plain, torch.optim.SGD):
    """`torch.optim.SGD`, to the bit."""

    step = torch.no_grad()(unwrap(torch.optim.SGD.step))


class Adam(_Plain, torch.optim.Adam):
    """`torch.optim.Adam`, to the bit."""

    step = torch.no_grad()(unwrap(torch.optim.Adam.step))


Loss = Callable[..., Tensor]


class BatchSource(Protocol):
    """Batches that `descend` passes over once an epoch; they may stop before their announced end. `Split.batches(...)` is one."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...


@dataclass(frozen=True, eq=False)
class Tick:
    """Progress of a training, sent to every watcher after each step."""

    model: nn.Module
    epoch: int
    epochs: int
    step: int
    steps: int
    loss: float
    lr: float

    @property
    def epoch_done(self) -> bool:
        return self.step == self.steps


Watcher = Callable[[Tick], None]
_watchers: ContextVar[tuple[Watcher, ...]] = ContextVar("watchers", default=())


def watching(watcher: Watcher) -> AbstractContextManager[None]:
    """Every `descend` inside the body reports to `watcher`: progress bars, trajectories.

    Args:
        watcher: Called with a `Tick` after each step. It may look at `tick.model`, preferably when `tick.epoch_done`;
            the mode and the random state are restored, so that watching changes nothing.
    """
    return holding(_watchers, (*_watchers.get(), watcher))


def unwatched() -> AbstractContextManager[None]:
    """No `descend` inside the body reports to anybody: critics and attackers are fitted by the dozen on the way to
    one number, and a watcher of a training does not mean theirs."""
    return holding(_watchers, ())


_pieces: ContextVar[int] = ContextVar("pieces", default=1)


def accumulating(pieces: int) -> AbstractContextManager[None]:
    """Trainings in the body that minimise the cross-entropy pass over each batch in so many pieces, for less memory.

    The step is that of the whole batch, up to rounding, but BatchNorm sees a piece at a time. Other losses, which may
    compare the samples of a batch, are given whole batches.
    """
    if pieces < 1:
        raise InputError(f"a batch cannot have {pieces} pieces, expected 1 or more")
    return holding(_pieces, pieces)


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Same seed, same machine: same numbers. The generator's state is restored afterwards.

    Args:
        seed: Any integer of 64 bits, for all of PyTorch's generators.
    """
    state = torch.get_rng_state()
    # A driver that nobody uses yet stays untouched: forked processes could not use it any more.
    gpu = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    deterministic = torch.backends.cudnn.deterministic
    if not -(2**63) <= seed < 2**63:
        raise InputError(f"seed {seed} does not fit into 64 bits; choose a smaller one")
    torch.manual_seed(seed)
    torch.backends.cudnn.deterministic = True
    try:
        yield
    finally:
        torch.set_rng_state(state)
        torch.backends.cudnn.deterministic = deterministic
        if gpu:
            torch.cuda.set_rng_state_all(gpu)


def optimizer_for(
    name: OptimizerName, parameters: Iterable[nn.Parameter], lr: float, momentum: float, weight_decay: float
) -> torch.optim.Optimizer:
    """SGD with momentum and weight decay, or Adam, which has neither here."""
    if name == "adam":
        return Adam(parameters, lr=lr)
    return SGD(parameters, lr=lr, momentum=momentum, weight_decay=weight_decay)


def cross_entropy(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(model(x), y)


# Epochs after which the schedule `steps` divides the rate by ten, as in the public code of SCRUB.
STEPS = (3, 5, 9)


def rate(schedule: Schedule, done: float, warmup: float = 0.0, *, epochs: float = 1.0, floor: float = 0.0) -> float:
    """The factor on the learning rate when `done` of `epochs` epochs are over.

    It rises linearly during `warmup`, a fraction of the training. Then

        constant    it stays at 1;
        cosine      it falls to `floor` as c(t) = floor + (1 - floor) (1 + cos(pi t)) / 2, step by step;
        restarts    it falls so over 1, then 2, 4, 8, ... epochs and begins at 1 each time, epoch by epoch: the first
                    three epochs have c(0), c(0), c(1/2);
        steps       it is a tenth after the third epoch, a hundredth after the fifth, a thousandth after the ninth.
    """
    progress, whole = done / epochs, int(done)
    if schedule not in get_args(Schedule):
        names = get_args(Schedule)
        raise InputError(f"schedule {schedule!r} is unknown; choose {', '.join(names[:-1])} or {names[-1]}")
    if progress < warmup:
        return progress / warmup
    if schedule == "constant":
        return 1.0
    if schedule == "steps":
        return float(0.1 ** sum(whole >= step for step in STEPS))
    if schedule == "restarts":
        length = 1 << ((whole + 1).bit_length() - 1)
        fallen = (whole + 1 - length) / length
    else:
        fallen = (progress - warmup) / (1 - warmup)
    return floor + (1 - floor) * (1 + math.cos(math.pi * fallen)) / 2


# The factor on the learning rate after so many epochs, the running one in parts.
Course = Callable[[float], float]


def descend(
    model: nn.Module,
    batches: BatchSource,
    loss: Loss = cross_entropy,
    *,
    optimizer: torch.optim.Optimizer,
    epochs: int,
    schedule: Schedule | Course = "constant",
    warmup: float = 0.0,
    clip: float | None = None,
    precision: Precision = "auto",
    after_step: Callable[[], None] | None = None,
    at_epoch: Callable[[int], None] | None = None,
    keep: Keeper | None = None,
) -> list[float]:
    """Minimise `loss(model, *batch)` in place and return the mean loss of each epoch.

    The model is in eval mode afterwards; frozen parts stay so all the time. A loss that is not finite is `Diverged`.

    Args:
        batches: Source of batches, passed over once in each of the `epochs`.
        optimizer: Optimizer of the parameters that learn; the schedule scales its learning rates.
        schedule: Name of a schedule, or a function from epochs done to the factor on the learning rate.
        warmup: Fraction of the training in which the learning rate rises linearly.
        clip: Largest norm of the gradient.
        after_step: Called after each update, for methods that hold some weights in place.
        at_epoch: Called with its number before each epoch, for losses that change.
        keep: Saves the state now and then, and resumes from a saved one.
    """
    _prepare(model, batches, epochs)
    course = schedule if callable(schedule) else partial(rate, schedule, warmup=warmup, epochs=epochs)
    base_rates = [group["lr"] for group in optimizer.param_groups]
    device, steps, together = next(model.parameters()).device, len(batches), distributed.together.get()
    scaler = torch.amp.GradScaler(device.type, enabled=resolve_precision(precision, device) is torch.float16)
    history = keep.restore(model, optimizer, scaler) if keep else []
    if together:
        distributed.agree(model.state_dict())
    for epoch in range(len(history) + 1, epochs + 1):
        keep_frozen(model.train())
        if at_epoch:
            at_epoch(epoch)
        total, step, read_at, mean = torch.zeros((), device=device), 0, 0, math.nan
        for step, batch in enumerate(distributed.parts(batches, together) if together else batches, start=1):
            _set_rates(optimizer, base_rates, course(epoch - 1 + (step - 1) / steps))
            total += _step(model, batch, loss, optimizer, scaler, clip, precision)
            if after_step:
                after_step()
            if reads_loss(device, step) or step == steps:
                mean, read_at = _finite(float(total) / step, epoch, step, max(base_rates)), step
                if _watchers.get():
                    _tell(Tick(model, epoch, epochs, step, steps, mean, optimizer.param_groups[0]["lr"]))
        history.append(mean if step == read_at else _finite(float(total) / step, epoch, step, max(base_rates)))
        if together:
            distributed.agree(dict(model.named_buffers()))  # each has BatchNorm's statistics of its own parts
        if keep and distributed.leads():
            keep.keep(model, optimizer, history, scaler, end=epoch == epochs)
    _set_rates(optimizer, base_rates, 1.0)
    model.eval()
    return history


def _prepare(model: nn.Module, batches: BatchSource, epochs: int) -> None:
    """Refuse a training of nothing, and put the model into the layout in which it trains fastest."""
    if epochs < 0:
        raise InputError(f"epochs is {epochs}, expected 0 or more")
    if not len(batches):
        raise InputError("there is nothing to train on: the data give no batch; choose a larger set")
    if next(model.parameters()).device.type == "cpu":
        keep_memory()
    if keeps_channels_last(model):
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def _set_rates(optimizer: torch.optim.Optimizer, base_rates: list[float], factor: float) -> None:
    for group, base in zip(optimizer.param_groups, base_rates, strict=True):
        group["lr"] = base * factor


def _step(
    model: nn.Module,
    batch: tuple[Any, ...],
    loss: Loss,
    optimizer: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    clip: float | None,
    precision: Precision,
) -> Tensor:
    """One update; the loss before it. In float16 losses are scaled, or small gradients would vanish; see `GradScaler`."""
    optimizer.zero_grad(set_to_none=True)
    device = next(model.parameters()).device
    total = torch.zeros((), device=device)
    many = min(_pieces.get(), len(batch[0])) if loss is cross_entropy else 1
    pieces = [batch] if many == 1 else list(zip(*(each.tensor_split(many) for each in batch), strict=True))
    with safe_kernels(model), exact_float32(resolve_precision(precision, device), device):
        for piece in pieces:
            weight = 1.0 if len(pieces) == 1 else len(piece[0]) / len(batch[0])
            with autocast(precision, device):
                value = loss(model, *piece)
            scaler.scale(value if weight == 1 else weight * value).backward()
            total += weight * value.detach()
    if distributed.together.get():
        distributed.average(optimizer, batch)
    if clip is not None:
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], clip)
    scaler.step(optimizer)
    scaler.update()
    return total


def reads_loss(device: torch.device, step: int) -> bool:
    """True if the loss is read after this step. Reading a GPU's number waits for the GPU: there, now and then."""
    return device.type == "cpu" or step % 20 == 0


def _finite(mean: float, epoch: int, step: int, lr: float) -> float:
    if not math.isfinite(mean):
        raise Diverged(
            f"the loss is {mean} at epoch {epoch}, step {step}, with lr {lr:g}; "
            "use a smaller learning rate or clip the gradient"
        )
    return mean


def _tell(tick: Tick) -> None:
    state = torch.get_rng_state()
    for watcher in _watchers.get():
        watcher(tick)
    torch.set_rng_state(state)
    keep_frozen(tick.model.train())
