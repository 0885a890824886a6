"""Classifier: a list of blocks and a head."""

from __future__ import annotations

import contextlib
import copy
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from residua.errors import InputError

Module = TypeVar("Module", bound=nn.Module)


class Classifier(nn.Module):
    """A network x -> blocks 1..L -> pool -> head -> logits.

    Z_l, the features of block l, are `upto(l)(x)`. What is between them and the head is
    `after(l)`: blocks l+1..L and the parameter-free `pool` that turns the last block's output
    into one vector per sample. So the encoder is `after(0)` and, for every l,

        model(x) = head(after(l)(upto(l)(x))).

    Slices share the model's weights; `clone` them before changing anything.
    `architecture` says how to build the network again (see `checkpoint.py`).
    """

    def __init__(
        self,
        blocks: Sequence[nn.Module],
        head: nn.Module,
        *,
        pool: nn.Module | None = None,
        block_names: Sequence[str] = (),
        architecture: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.pool = pool if pool is not None else nn.Identity()
        self.head = head
        self.block_names = tuple(block_names) or tuple(f"block{i + 1}" for i in range(len(blocks)))
        self.architecture = dict(architecture or {})
        # Names that tensors had in the network that was adopted, by their names here; empty for our own.
        self.own_names: dict[str, str] = {}
        # Choices that the file left open, for the user who opened it.
        self.notes: tuple[str, ...] = ()
        # Shape, mean and std of the images that it was trained on, where that is known (data/preprocessing.py).
        self.preprocessing: dict[str, Any] | None = None

    @property
    def depth(self) -> int:
        """L, the number of blocks."""
        return len(self.blocks)

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def upto(self, block: int) -> nn.Sequential:
        """Blocks 1..l."""
        return nn.Sequential(*self.blocks[: self._checked(block)])

    def after(self, block: int) -> nn.Sequential:
        """Blocks l+1..L, then the pooling: one vector per sample."""
        return nn.Sequential(*self.blocks[self._checked(block) :], self.pool)

    def encode(self, x: Tensor) -> Tensor:
        """The encoder's output, before the head: one vector per sample."""
        for block in self.blocks:
            x = block(x)
        return self.pool(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encode(x))

    def features(self, x: Tensor, blocks: Sequence[int]) -> dict[int, Tensor]:
        """Z_l for each requested l, from one pass that stops at the last of them."""
        wanted = {self._checked(block) for block in blocks}
        found = {0: x} if 0 in wanted else {}
        for i, block in enumerate(self.blocks[: max(wanted, default=0)], start=1):
            x = block(x)
            if i in wanted:
                found[i] = x
        return found

    def train(self, mode: bool = True) -> Classifier:
        super().train(mode)
        keep_frozen(self)
        return self

    def _checked(self, block: int) -> int:
        if not 0 <= block <= self.depth:
            raise InputError(f"block {block} does not exist; this network has blocks 1 to {self.depth}")
        return block


def clone(module: Module) -> Module:
    """A copy that shares nothing, trains freely, and is in eval mode: where every method starts."""
    return thaw(copy.deepcopy(module)).eval()


def freeze(module: Module) -> Module:
    """No gradient *and* no moving BatchNorm statistics, in place.

    A frozen part of a classifier stays in eval mode when the classifier is put in train mode.
    """
    for part in module.modules():
        part.residua_frozen = True  # type: ignore[assignment]
    return module.requires_grad_(False).eval()


def thaw(module: Module) -> Module:
    """Undo `freeze`, in place."""
    for part in module.modules():
        part.__dict__.pop("residua_frozen", None)
    return module.requires_grad_(True)


@contextlib.contextmanager
def evaluated(module: nn.Module) -> Iterator[None]:
    """The module in eval mode in the body, and in its own afterwards."""
    was_training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(was_training)


def keep_frozen(module: nn.Module) -> None:
    for part in module.modules():
        if "residua_frozen" in part.__dict__:
            part.training = False


def reinitialise(module: Module) -> Module:
    """Draw every weight again, in place, as when the module was built.

    Every module that owns parameters must know how, at any depth: one that does not would silently
    keep what it has learned. It knows by `reset_parameters`, and an adopted one also by
    `residua_draws`, which says for single tensors how they were drawn (see `foreign/draws.py`). Buffers of
    a module without either are fixed parts of the network, such as a projection, and are kept.
    """
    check_redrawn(module)
    for part in module.modules():
        reset = getattr(part, "reset_parameters", None)
        draws: dict[str, Callable[[Tensor], object]] = part.__dict__.get("residua_draws", {})
        # Numbers are drawn in the order of memory: equal weights in another layout must get equal draws.
        for parameter in part.parameters(recurse=False):
            parameter.data = parameter.data.contiguous()
        if callable(reset):
            reset()
        for own, draw in draws.items():
            draw(getattr(part, own))
    return module


class StartingWeights(dict[str, Tensor]):
    """The tensors of one module as its training began; copies of the module share them."""

    def __deepcopy__(self, memo: dict[int, object]) -> StartingWeights:
        return self


def remember_start(module: Module, weights: Mapping[str, Tensor]) -> Module:
    """Note on each part of `module` the weights that its training began with, for `restart`; nothing is loaded."""
    for name, tensor in weights.items():
        place, _, own = name.rpartition(".")
        part = module.get_submodule(place)
        part.__dict__.setdefault("residua_start", StartingWeights())[own] = tensor
    return module


def restart(module: Module) -> Module:
    """Put every weight back to where the training began, in place: as it was loaded, or else drawn again."""
    reinitialise(module)
    with torch.no_grad():
        for part in module.modules():
            for own, tensor in part.__dict__.get("residua_start", {}).items():
                getattr(part, own).copy_(tensor)
    return module


def check_redrawn(module: nn.Module) -> None:
    """Refuse a module with parameters that nothing can draw again."""
    for name, part in module.named_modules():
        draws = part.__dict__.get("residua_draws", {})
        owned = [own for own, _ in part.named_parameters(recurse=False) if own not in draws]
        if owned and not callable(getattr(part, "reset_parameters", None)):
            raise InputError(
                f"{type(part).__name__} at {name or 'the root'} owns parameters but has no reset_parameters() "
                f"that would draw {owned[0]} again; add that method so that it can be re-initialised"
            )


def probabilities(outputs: Tensor) -> bool:
    """True if these rows of outputs have been through a softmax: none is negative, and each sums to 1."""
    z = outputs.detach().float()  # not every device has float64
    return bool((z >= 0).all()) and bool(((z.sum(dim=1) - 1).abs() <= 1e-3).all())  # float16 rounds so far


def weights_digest(module: nn.Module) -> str:
    """SHA-256 of every parameter and buffer under its name: equal if and only if the weights are.

    Tensors of an adopted network are hashed under the names that they had there, so that cuts change nothing.
    """
    sha = hashlib.sha256()
    own = getattr(module, "own_names", {})
    named = [(own.get(name, name), tensor) for name, tensor in module.state_dict().items()]
    for name, tensor in sorted(named, key=lambda pair: pair[0]) if own else named:
        sha.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        sha.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return sha.hexdigest()
