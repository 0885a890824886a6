"""Forward passes of a frozen model: logits, pooled features and whole feature maps of a split."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from residua import room
from residua.data.split import Split
from residua.device import Precision, autocast, memory_budget
from residua.errors import InputError
from residua.measure._memo import Memo, identity
from residua.models.classifier import Classifier, evaluated

# Samples of one forward pass. On a processor those whose maps stay in its caches: a ResNet-18 of width 16 passes a third
# more images of 32 x 32 a second in batches of 64 than of 500.
BATCH, ON_CPU = 500, 64
# Rows that estimate mean and covariance of a block's features: of maps every place is a row, and there are millions.
ENOUGH = 50_000
FEATURES = 512 << 20  # bytes of pooled features that a pass keeps unasked
LOGITS = 1 << 30  # bytes of logits from which a pass over some samples is not one over all


@dataclass(frozen=True, eq=False)
class Pass:
    """One forward pass: logits (N, classes) and pooled features (N, d) by block, on the CPU."""

    logits: Tensor
    features: dict[int, Tensor]


_passes: Memo[Pass] = Memo(entries=24, size=memory_budget() // 2)


def logits(model: Classifier, split: Split, *, precision: Precision = "float32") -> Tensor:
    """The model's logits (N, classes) in the order of the split, on the CPU, in eval mode.

    float32 by default, so that a reading does not depend on what the machine is good at. The pass is
    remembered by the content of model and split, so that every measure asks and only the first pays.
    """
    return _passed(model, split, precision, ()).logits.clone()


def log_probabilities(model: Classifier, split: Split) -> Tensor:
    """log softmax of the logits, in float64: finite for logits of any size."""
    return F.log_softmax(logits(model, split).double(), dim=1)


def pooled(
    model: Classifier, split: Split, blocks: Sequence[int] | None = None, some: Tensor | None = None
) -> dict[int, Tensor]:
    """One vector per sample for each block (all by default): the mean over places or tokens.

    The last block's is what the head is given. From the same forward pass as the logits, which all measures share; but
    where the split is so large that a pass is not kept whole, those who need `some` samples pass over these alone.
    """
    wanted = list(range(1, model.depth + 1)) if blocks is None else list(blocks)
    if some is not None and 4 * len(split) * split.classes > LOGITS:
        return pooled(model, split.subset(some), blocks)
    features = _passed(model, split, "float32", wanted).features
    for block in wanted:
        if not torch.isfinite(features[block]).all():
            raise InputError(
                f"the features of block {block} hold NaN or infinite values; the model's weights are damaged"
            )
    return {block: features[block].clone() if some is None else features[block][some] for block in wanted}


def _passed(
    model: Classifier, split: Split, precision: Precision, blocks: Sequence[int], keepers: Keepers | None = None
) -> Pass:
    """The pass with these blocks' features, which is run if none is remembered, or if there are `keepers`.

    These take the whole outputs of their blocks, batch by batch, the last block's pooled, and judge what they take.
    """
    data = (split.digest(), split.mean, split.std, split.size)
    function = identity(model)
    batch = ON_CPU if model.device.type == "cpu" else BATCH
    key = function and (function, data, precision, str(model.device), batch)
    kept = None if keepers else _passes.get(key)
    if kept is None or any(block not in kept.features for block in blocks):
        kept = _run(model, split, precision, batch, blocks, keepers or {})
        size = sum(t.nbytes for t in (kept.logits, *kept.features.values()))
        # Of too large a pass at least the logits are remembered: they are what most measures ask for.
        if size > _passes.size:
            _passes.put(key, Pass(kept.logits, {}), kept.logits.nbytes)
        else:
            _passes.put(key, kept, size)
    if not keepers and not torch.isfinite(kept.logits).all():
        raise InputError("the model's outputs are not finite numbers; its weights are damaged or have diverged")
    return kept


def _run(
    model: Classifier, split: Split, precision: Precision, batch: int, blocks: Sequence[int], keepers: Keepers
) -> Pass:
    """All blocks' features are kept if they are small, else only `blocks`."""
    outputs: list[Tensor] = []
    thought: dict[int, list[Tensor]] = {}
    with evaluated(model), torch.inference_mode(), autocast(precision, model.device):
        for x, _ in split.batches(batch, device=model.device):
            features: dict[int, Tensor] = {}
            for i, block in enumerate(model.blocks, start=1):
                x = model.pool(block(x)) if i == model.depth else block(x)
                if i == model.depth or x.ndim < 3:
                    features[i] = x.flatten(1).clone()  # the next block may work in place
                else:  # tokens (N, T, D), or maps (N, C, H, W)
                    features[i] = x.mean(dim=1) if x.ndim == 3 else x.flatten(2).mean(dim=2)
                if i in keepers:
                    keepers[i].take(_laid_out(x).float())
            outputs.append(model.head(x).float().cpu())
            numbers = sum(z.shape[1] for z in features.values())
            kept = features if 4 * len(split) * numbers <= FEATURES else {i: features[i] for i in blocks}
            for i, z in kept.items():
                thought.setdefault(i, []).append(z.float().cpu())
    if not outputs:
        nothing = {i: torch.zeros(0, 1) for i in range(1, model.depth + 1)}
        return Pass(torch.zeros(0, split.classes), nothing)
    return Pass(torch.cat(outputs), {i: torch.cat(parts) for i, parts in thought.items()})


@dataclass(frozen=True, eq=False)
class Recomputed:
    """Features of a block that neither memory nor disk can hold: computed again for each batch that is asked for.

    Kept are what critics need of all samples: `vectors`, the mean over places or tokens, and `rows`, single places that
    are evenly spaced, from which coordinates are estimated.
    """

    model: Classifier
    parts: tuple[Split, ...]
    block: int
    shape: tuple[int, ...]
    vectors: Tensor
    rows: Tensor

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __getitem__(self, index: Tensor) -> Tensor:
        """The features of these samples, on the model's device."""
        found = torch.empty(len(index), *self.shape[1:], device=self.model.device)
        first, batch = 0, ON_CPU if self.model.device.type == "cpu" else BATCH
        encoder = self.model.upto(self.block)  # of a measured model, which is in eval mode
        with torch.no_grad(), autocast("float32", self.model.device):
            for part in self.parts:
                mine = ((index >= first) & (index < first + len(part))).nonzero()[:, 0]
                batches = part.subset(index[mine] - first).batches(batch, device=self.model.device)
                for place, (x, _) in zip(mine.split(batch), batches, strict=False):
                    found[place.to(found.device)] = _laid_out(encoder(x)).float()
                first += len(part)
        return found


Stored = Tensor | Recomputed


def vectors(z: Stored) -> Tensor:
    """One vector per sample: the mean over places or tokens."""
    if isinstance(z, Recomputed):
        return z.vectors
    return z if z.ndim == 2 else z.flatten(1, -2).mean(1)


def rows(z: Stored) -> Tensor:
    """Places as rows (n, channels), from which coordinates are estimated."""
    return z.rows if isinstance(z, Recomputed) else z.reshape(-1, z.shape[-1])


def features(
    model: Classifier,
    parts: Split | Sequence[Split],
    blocks: Sequence[int],
    *,
    memory: int | None = None,
    disk: int | None = None,
) -> dict[int, Stored]:
    """Z_l of every example for each requested block, in the order of the split (or of several), in float32.

    The last block's features are pooled, since its critic begins with the pooling. Maps are kept height x width x
    channels, (N, H, W, C), where `room.places` finds room for them before the pass: in `memory` (bytes), in a temporary
    file without a name on the `disk`, or nowhere, and then they are `Recomputed`; the numbers are the same. The model is
    read in eval mode, without augmentation, and left as it was. The pass goes on to the logits and is remembered.
    """
    parts = [parts] if isinstance(parts, Split) else list(parts)
    for block in blocks:
        if not 1 <= block <= model.depth:
            raise InputError(f"block {block} does not exist; this network has blocks 1 to {model.depth}")
    n = sum(len(part) for part in parts)
    # The shape of one sample's features at each block, as they are stored.
    x, _ = next(iter(parts[0].subset(torch.arange(min(2, len(parts[0])))).batches(2, device=model.device)))
    with evaluated(model), torch.inference_mode():
        some = model.features(x, blocks)
        some |= {block: model.pool(z) for block, z in some.items() if block == model.depth}
    shapes = {block: tuple(_laid_out(z).shape[1:]) for block, z in some.items()}
    found = room.places({block: 4 * n * math.prod(shape) for block, shape in shapes.items()}, memory, disk)
    keepers: Keepers = {
        block: _Samples(block, n, shape) if found[block] == "nowhere" and len(shape) > 1
        else _Maps(torch.from_numpy(room.array((n, *shape), "float32", found[block], f"features of block {block}")))
        for block, shape in shapes.items()
    }  # fmt: skip

    for part in parts:
        _passed(model, part, "float32", (model.depth,), keepers)
    for block, keeper in keepers.items():
        kept = keeper.z if isinstance(keeper, _Maps) else keeper.vectors
        if not all(bool(torch.isfinite(part).all()) for part in kept.split(4096)):
            raise InputError(
                f"the features of block {block} hold NaN or infinite values; the model's weights are damaged"
            )
    return {
        block: keeper.z
        if isinstance(keeper, _Maps)
        else Recomputed(model, tuple(parts), block, (n, *shapes[block]), keeper.vectors, torch.cat(keeper.rows))
        for block, keeper in keepers.items()
    }


@dataclass(eq=False)
class _Maps:
    """Features that are kept whole."""

    z: Tensor
    done: int = 0

    def take(self, z: Tensor) -> None:
        self.z[self.done : self.done + len(z)] = z
        self.done += len(z)


class _Samples:
    """Stand-ins for features that are not kept: their means over places, and every k-th place."""

    def __init__(self, block: int, n: int, shape: tuple[int, ...]) -> None:
        size = {"vectors": 4 * n * shape[-1]}
        place = room.places(size)["vectors"]
        self.vectors = torch.from_numpy(room.array((n, shape[-1]), "float32", place, f"mean features of block {block}"))
        self.rows: list[Tensor] = []
        self.every = math.ceil(n * math.prod(shape[:-1]) / ENOUGH)
        self.done = self.places = 0

    def take(self, z: Tensor) -> None:
        flat = z.reshape(-1, z.shape[-1])
        self.rows.append(flat[-self.places % self.every :: self.every].cpu())
        self.vectors[self.done : self.done + len(z)] = z.contiguous().flatten(1, -2).mean(1)
        self.done, self.places = self.done + len(z), self.places + len(flat)


Keepers = dict[int, _Maps | _Samples]  # by block


def _laid_out(z: Tensor) -> Tensor:
    return z.permute(0, 2, 3, 1) if z.ndim == 4 else z
