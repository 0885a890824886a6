"""descend(): the one training loop; Pretraining: how Original and Retrain are made."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, fields
from typing import Any, Literal, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from residua.classifier import Classifier, clone, keep_frozen
from residua.device import Precision, autocast, keep_memory
from residua.errors import Diverged, InputError
from residua.split import Augmentation, Split

Loss = Callable[..., Tensor]


class BatchSource(Protocol):
    """What `descend` runs through once an epoch; `Split.batches(...)` is one."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...


@dataclass(frozen=True, eq=False)
class Tick:
    """Where a training stands; sent to every watcher after each step."""

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


@contextlib.contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Every `descend` inside the body reports to `watcher`: progress bars, trajectories.

    A watcher may look at `tick.model`, which is best done when `tick.epoch_done`: the mode and the random
    state are put back as they were, so that watching changes nothing.
    """
    token = _watchers.set((*_watchers.get(), watcher))
    try:
        yield
    finally:
        _watchers.reset(token)


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Same seed, same machine: same numbers. The generator's state is restored afterwards."""
    state = torch.get_rng_state()
    gpu = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
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


def cross_entropy(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(model(x), y)


Schedule = Literal["constant", "cosine"]


def rate(schedule: Schedule, progress: float, warmup: float = 0.0) -> float:
    """The factor on the learning rate when this share of the training is done.

    It rises linearly during `warmup`, then stays or falls as (1 + cos(pi t)) / 2.
    """
    if schedule not in ("constant", "cosine"):
        raise InputError(f"schedule {schedule!r} is unknown; choose constant or cosine")
    if progress < warmup:
        return progress / warmup
    if schedule == "constant":
        return 1.0
    return (1 + math.cos(math.pi * (progress - warmup) / (1 - warmup))) / 2


def descend(
    model: nn.Module,
    batches: BatchSource,
    loss: Loss = cross_entropy,
    *,
    optimizer: torch.optim.Optimizer,
    epochs: int,
    schedule: Schedule = "constant",
    warmup: float = 0.0,
    clip: float | None = None,
    precision: Precision = "auto",
    after_step: Callable[[], None] | None = None,
) -> list[float]:
    """Minimise `loss(model, *batch)` by `optimizer` for `epochs` passes over `batches`, in place.

    Returns the mean loss of each epoch. The model trains on the device it is on, in
    channels-last, and is handed back in eval mode. Parts that are frozen stay in eval mode all the
    time. `clip` bounds the norm of the gradient; `after_step` runs after each update, for methods
    that hold some weights in place. A loss that is not finite raises `Diverged`.
    """
    if epochs < 0:
        raise InputError(f"epochs is {epochs}, expected 0 or more")
    if not len(batches):
        raise InputError("there is nothing to train on: the data give no batch; choose a larger set")
    device = next(model.parameters()).device
    if device.type == "cpu":
        keep_memory()
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    base_rates = [group["lr"] for group in optimizer.param_groups]
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    steps = len(batches)
    history = []
    for epoch in range(1, epochs + 1):
        keep_frozen(model.train())
        total = torch.zeros((), device=device)
        for step, batch in enumerate(batches, start=1):
            factor = rate(schedule, (epoch - 1 + (step - 1) / steps) / epochs, warmup)
            for group, base in zip(optimizer.param_groups, base_rates, strict=True):
                group["lr"] = base * factor
            optimizer.zero_grad(set_to_none=True)
            with autocast(precision, device):
                value = loss(model, *batch)
            value.backward()
            if clip is not None:
                nn.utils.clip_grad_norm_(parameters, clip)
            optimizer.step()
            if after_step:
                after_step()
            total += value.detach()
            # Reading a GPU's number waits for the GPU, so there it is read now and then.
            if device.type == "cpu" or step % 20 == 0 or step == steps:
                mean = float(total) / step
                if not math.isfinite(mean):
                    raise Diverged(
                        f"the loss is {mean} at epoch {epoch}, step {step}, with lr {max(base_rates):g}; "
                        "use a smaller learning rate or clip the gradient"
                    )
                _tell(Tick(model, epoch, epochs, step, steps, mean, base_rates[0] * factor))
        history.append(mean)
    for group, base in zip(optimizer.param_groups, base_rates, strict=True):
        group["lr"] = base
    model.eval()
    return history


def _tell(tick: Tick) -> None:
    watchers = _watchers.get()
    if not watchers:
        return
    state = torch.get_rng_state()
    for watcher in watchers:
        watcher(tick)
    torch.set_rng_state(state)
    keep_frozen(tick.model.train())


# The least value of each hyperparameter that methods share, by name: one word per idea.
LEAST: dict[str, float] = {
    "epochs": 0,
    "forget_epochs": 0,
    "collapse_epochs": 0,
    "align_epochs": 0,
    "repair_epochs": 0,
    "noise_steps": 0,
    "batch": 1,
    "retain_batch": 1,
    "forget_batch": 1,
    "lr": 0,
    "collapse_lr": 0,
    "align_lr": 0,
    "repair_lr": 0,
    "noise_lr": 0,
    "momentum": 0,
    "weight_decay": 0,
    "crop": 0,
    "clip": 0,
    "penalty": 0,
    "step": 0,
}
# What logits are divided by.
POSITIVE = ("temperature",)


def check_settings(method: object) -> None:
    """Refuse values that no method can work with; a dataclass's `__post_init__`."""
    for field in fields(method):  # type: ignore[arg-type]
        value = getattr(method, field.name)
        least = LEAST.get(field.name)
        if least is not None and value is not None and not value >= least:
            raise InputError(f"{field.name} is {value}, expected {least:g} or more")
        if field.name in POSITIVE and not value > 0:
            raise InputError(f"{field.name} is {value}, expected above 0")


@dataclass(frozen=True)
class Pretraining:
    """How Original is trained on D, and Retrain on the retain set: SGD with momentum, crop and flip.

    The defaults are the paper's for CIFAR and ResNet; `recipes.pretraining` has the others.
    """

    epochs: int = 300
    batch: int = 128
    lr: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 5e-4
    schedule: Schedule = "cosine"
    warmup: float = 0.0
    nesterov: bool = False
    clip: float | None = None
    crop: int = 4
    flip: bool = True
    precision: Precision = "auto"

    def __post_init__(self) -> None:
        check_settings(self)
        if not 0 <= self.warmup < 1:
            raise InputError(f"warmup is {self.warmup}, expected a share of the training from 0 to below 1")
        if self.nesterov and not self.momentum:
            raise InputError("nesterov is on but momentum is 0; give a momentum or turn nesterov off")

    def __call__(self, model: Classifier, split: Split) -> Classifier:
        """A trained copy of `model`."""
        trained = clone(model)
        optimizer = torch.optim.SGD(
            trained.parameters(),
            lr=self.lr,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            nesterov=self.nesterov,
        )
        batches = split.batches(
            self.batch,
            shuffle=True,
            augment=Augmentation(self.crop, self.flip),
            drop_last=True,
            device=trained.device,
        )
        descend(
            trained,
            batches,
            optimizer=optimizer,
            epochs=self.epochs,
            schedule=self.schedule,
            warmup=self.warmup,
            clip=self.clip,
            precision=self.precision,
        )
        return trained
