"""Forward passes of a frozen model: logits, pooled features and whole feature maps of a split."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from residua.data.split import Split
from residua.device import Precision, autocast, memory_budget
from residua.errors import InputError
from residua.measure._memo import Memo, identity
from residua.models.classifier import Classifier

# Samples of one forward pass. On a processor those whose maps stay in its caches: a ResNet-18 of width 16 passes a third
# more images of 32 x 32 a second in batches of 64 than of 500.
BATCH, ON_CPU = 500, 64
FEATURES = 512 << 20  # bytes of pooled features that a pass keeps unasked


@dataclass(frozen=True, eq=False)
class Pass:
    """One forward pass: logits (N, classes) and pooled features (N, d) by block, on the CPU."""

    logits: Tensor
    features: dict[int, Tensor]

    @property
    def size(self) -> int:
        return sum(t.numel() * t.element_size() for t in (self.logits, *self.features.values()))


See = Callable[[int, Tensor], None]

_passes: Memo[Pass] = Memo(entries=24, size=min(2 << 30, memory_budget() // 2))


def logits(model: Classifier, split: Split, *, precision: Precision = "float32") -> Tensor:
    """The model's logits (N, classes) in the order of the split, on the CPU, in eval mode.

    float32 by default, so that a reading does not depend on what the machine is good at. The pass is
    remembered by the content of model and split, so that every measure asks and only the first pays.
    """
    return _passed(model, split, precision, ()).logits.clone()


def log_probabilities(model: Classifier, split: Split) -> Tensor:
    """log softmax of the logits, in float64: finite for logits of any size."""
    return F.log_softmax(logits(model, split).double(), dim=1)


def pooled(model: Classifier, split: Split, blocks: Sequence[int] | None = None) -> dict[int, Tensor]:
    """One vector per sample for each block (all by default): the mean over places or tokens.

    The last block's is what the head is given. From the same forward pass as the logits.
    """
    wanted = list(range(1, model.depth + 1)) if blocks is None else list(blocks)
    features = _passed(model, split, "float32", wanted).features
    for block in wanted:
        if not torch.isfinite(features[block]).all():
            raise InputError(
                f"the features of block {block} hold NaN or infinite values; the model's weights are damaged"
            )
    return {block: features[block].clone() for block in wanted}


def observe(model: Classifier, split: Split, see: See) -> None:
    """A forward pass that shows each block's whole output to `see`, batch by batch, the last block's pooled.

    It is remembered like any other, so a measure that needs whole maps pays for those that ask later.
    """
    made = _run(model, split, "float32", (), see)
    _passes.put(_key(model, split, "float32"), made, made.size)


def _passed(model: Classifier, split: Split, precision: Precision, blocks: Sequence[int]) -> Pass:
    key = _key(model, split, precision)
    kept = _passes.get(key)
    if kept is None or any(block not in kept.features for block in blocks):
        kept = _run(model, split, precision, blocks)
        _passes.put(key, kept, kept.size)
    if not torch.isfinite(kept.logits).all():
        raise InputError(
            "the model's outputs are not finite numbers; its weights are damaged or have diverged"
        )
    return kept


def _key(model: Classifier, split: Split, precision: Precision) -> Hashable | None:
    function = identity(model)
    if function is None:
        return None
    data = (split.digest(), split.mean, split.std, split.size)
    return function, data, precision, str(model.device), _batch(model)


def _batch(model: Classifier) -> int:
    return ON_CPU if model.device.type == "cpu" else BATCH


def _run(
    model: Classifier, split: Split, precision: Precision, blocks: Sequence[int], see: See | None = None
) -> Pass:
    """All blocks' features are kept if they are small, else only `blocks`."""
    was_training = model.training
    outputs: list[Tensor] = []
    thought: dict[int, list[Tensor]] = {}
    model.eval()
    try:
        with torch.inference_mode(), autocast(precision, model.device):
            for x, _ in split.batches(_batch(model), device=model.device):
                features: dict[int, Tensor] = {}
                for i, block in enumerate(model.blocks, start=1):
                    x = model.pool(block(x)) if i == model.depth else block(x)
                    features[i] = x.flatten(1).clone() if i == model.depth else _vector(x)
                    if see:
                        see(i, x)
                outputs.append(model.head(x).float().cpu())
                numbers = sum(z.shape[1] for z in features.values())
                kept = features if 4 * len(split) * numbers <= FEATURES else {i: features[i] for i in blocks}
                for i, z in kept.items():
                    thought.setdefault(i, []).append(z.float().cpu())
    finally:
        model.train(was_training)
    if not outputs:
        nothing = {i: torch.zeros(0, 1) for i in range(1, model.depth + 1)}
        return Pass(torch.zeros(0, split.classes), nothing)
    return Pass(torch.cat(outputs), {i: torch.cat(parts) for i, parts in thought.items()})


def _vector(z: Tensor) -> Tensor:
    """Maps (N, C, H, W) to their mean over places, tokens (N, T, D) to their mean over tokens.

    Always a copy: the next block may work in place.
    """
    if z.ndim == 3:
        return z.mean(dim=1)
    return z.flatten(2).mean(dim=2) if z.ndim > 3 else z.flatten(1).clone()


def features(
    model: Classifier, parts: Split | Sequence[Split], blocks: Sequence[int], *, budget: int | None = None
) -> dict[int, Tensor]:
    """Z_l of every example for each requested block, in the order of the split (or of several), in float32.

    The last block's features are pooled, since its critic begins with the pooling. Maps are kept
    height x width x channels, (N, H, W, C). Beyond `budget` bytes (a quarter of the memory) they
    are in a temporary file without a name; the numbers are the same. The model is read in eval mode,
    without augmentation, and left as it was. The pass goes on to the logits and is remembered (`_outputs.py`).
    """
    parts = [parts] if isinstance(parts, Split) else list(parts)
    for block in blocks:
        if not 1 <= block <= model.depth:
            raise InputError(f"block {block} does not exist; this network has blocks 1 to {model.depth}")
    batch: dict[int, Tensor] = {}
    stores: dict[int, Tensor] = {}
    done = 0

    def see(block: int, z: Tensor) -> None:
        nonlocal done
        if block in blocks:
            batch[block] = _laid_out(z).float().cpu().clone()  # the next block may work in place
        if block == model.depth:
            if not stores:
                shapes = {i: kept.shape[1:] for i, kept in batch.items()}
                stores.update(_allocate(shapes, sum(len(part) for part in parts), budget))
            for i, kept in batch.items():
                stores[i][done : done + len(kept)] = kept
            done += len(z)

    for part in parts:
        observe(model, part, see)
    for block, z in stores.items():
        if not all(bool(torch.isfinite(part).all()) for part in z.split(4096)):
            raise InputError(
                f"the features of block {block} hold NaN or infinite values; the model's weights are damaged"
            )
    return stores


def _laid_out(z: Tensor) -> Tensor:
    return z.permute(0, 2, 3, 1) if z.ndim == 4 else z


def as_input(z: Tensor) -> Tensor:
    """Stored features as the next block takes them."""
    return z.permute(0, 3, 1, 2) if z.ndim == 4 else z


def _allocate(shapes: dict[int, torch.Size], n: int, budget: int | None) -> dict[int, Tensor]:
    total = 4 * n * sum(math.prod(shape) for shape in shapes.values())
    if total <= (memory_budget() if budget is None else budget):
        return {block: torch.empty(n, *shape) for block, shape in shapes.items()}
    stores = {}
    for block, shape in shapes.items():
        with tempfile.TemporaryFile() as file:
            stores[block] = torch.from_numpy(np.memmap(file, np.float32, mode="w+", shape=(n, *shape)))
    return stores
