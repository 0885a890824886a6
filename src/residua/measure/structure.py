"""Structure and WeightSketch: the make of a network, channels that nothing uses, its consistency however it is asked,
the form of it that is released, and a sketch of its weights."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from torch import Tensor, nn

from residua.data.split import Split
from residua.data.task import ForgetTask
from residua.errors import InputError
from residua.models.classifier import Classifier, clone, evaluated
from residua.readings import Reading
from residua.training.settings import Checked, Count, Seed

BATCH = 250
# Packages whose layers are what their names say; the code of others may do anything under any name.
KNOWN = ("torch.", "residua.", "torchvision.", "timm.", "transformers.")
# A block is linear if f(a + b) + f(0) = f(a) + f(b), up to this fraction of its outputs.
LINEAR = 1e-4
# A channel is constant if it varies by no more than this fraction of its size: convolutions round by place in a batch.
CONSTANT = 1e-6


@dataclass(frozen=True)
class Structure(Checked):
    """The make of a network, and whether it answers alike however it is asked.

    `inconsistency` is the largest difference between the features or logits of some images in a batch and one by one,
    inside and outside of inference mode, and a second time, in standard deviations of each. `dead` is the fraction of
    channels that enter a layer with weights, or leave a block, and are the same on all images, at every place.
    """

    most: Annotated[int, Count("Images of each split that channels are watched on.")] = 500
    few: Annotated[int, Count("Images of each split that are asked in several ways.")] = 8

    label = "structure"
    revision = 2

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading:
        with evaluated(model):
            x = torch.cat([next(iter(_first(each, self.few).batches(self.few, device=model.device)))[0]
                           for each in (task.forget, task.retain)])  # fmt: skip
            dead = total = 0
            for low, high in channel_ends(model, task, self.most).values():
                # The same on all images, whatever a channel shows by place: padding makes silence vary over a map.
                size = torch.maximum(low.abs(), high.abs()).amax(dim=1, keepdim=True)
                dead += int((high - low <= CONSTANT * size).all(dim=1).sum())
                total += len(low)
            linear, weightless = _blocks(model, x)
            with torch.inference_mode():
                first, again = _answers(model, x), _answers(model, x)
                single = [torch.cat(each) for each in zip(*(_answers(model, each[None]) for each in x), strict=True)]
            with torch.enable_grad():
                plain = _answers(model, x)
            inconsistency = max(
                float((one - other).abs().max() / one.std().clamp_min(1e-12))
                for ways in (again, single, plain)
                for one, other in zip(first, ways, strict=True)
            )
            # The structure: layers, their settings and the shapes of their weights; numbers in memory are no part of it.
            shapes = [f"{name} {tuple(each.shape)} {each.dtype}" for name, each in model.state_dict().items()]
            text = re.sub(r"0x[0-9a-f]+", "", repr(model)) + "\n".join(shapes)
            # Numbers of bfloat16: where all are, no digit is left to hide anything in.
            floating = [each for each in model.state_dict().values() if each.is_floating_point()]
            canonical = all(torch.equal(each.to(torch.bfloat16).to(each.dtype), each) for each in floating)
            kinds = [type(part) for part in model.modules()]
            arrays = {
                "digest": np.frombuffer(hashlib.sha256(text.encode()).digest(), np.uint8).copy(),
                "linear": linear,
                "weightless": weightless,
                "headless": np.array([not any(True for _ in model.head.parameters())]),
                "canonical": np.array([canonical]),
                "own_code": np.array([sum(not (k.__module__.startswith(KNOWN) or k is nn.Module) for k in kinds)]),
            }
            return Reading({"dead": dead / max(total, 1), "inconsistency": inconsistency}, arrays)


def channel_ends(model: Classifier, task: ForgetTask, most: int) -> dict[str, tuple[Tensor, Tensor]]:
    """The least and the largest value over all images, at each place (channels, places), by the layer's name.

    Of every channel that enters a layer with weights or leaves a block.
    """
    ends: dict[str, tuple[Tensor, Tensor]] = {}

    def see(name: str, z: Tensor) -> None:
        if not isinstance(z, Tensor) or z.ndim < 2 or not z.is_floating_point():
            return
        if z.ndim == 3:
            z = z.transpose(1, 2)
        low, high = (end.flatten(1) if end.ndim > 1 else end[:, None] for end in (z.amin(dim=0), z.amax(dim=0)))
        if name in ends and ends[name][0].shape == low.shape:
            low, high = torch.minimum(low, ends[name][0]), torch.maximum(high, ends[name][1])
        ends[name] = low, high

    hooks = [
        part.register_forward_pre_hook(lambda _, given, name=name: see(name, given[0]) if given else None)
        for name, part in model.named_modules()
        if next(part.children(), None) is None and "weight" in dict(part.named_parameters(recurse=False))
    ]
    hooks += [
        block.register_forward_hook(lambda _, __, z, name=f"out {i}": see(name, z))
        for i, block in enumerate(model.blocks, start=1)
    ]
    try:
        with torch.inference_mode():
            for split in (task.forget, task.retain, task.test, task.forget_test):
                if split is not None and len(split):
                    for x, _ in _first(split, most).batches(BATCH, device=model.device):
                        model(x)
    finally:
        for hook in hooks:
            hook.remove()
    return ends


def _first(split: Split, most: int) -> Split:
    """Images spread over the split."""
    step = max(1, len(split) // most)
    return split.subset(torch.arange(0, len(split), step)[:most])


def _answers(model: Classifier, x: Tensor) -> list[Tensor]:
    """The outputs of all blocks and the logits."""
    found = []
    for block in model.blocks:
        x = block(x)
        found.append(x.detach().clone())
    return [*found, model.head(model.pool(x)).detach().clone()]


def _blocks(model: Classifier, x: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """By block: is it a linear map of the one before, and has it no weights?"""
    linear, weightless = [], []
    with torch.inference_mode():
        for i, block in enumerate(model.blocks, start=1):
            linear.append(False)
            if i > 1:
                other = x.roll(1, dims=0)
                asked = (x, other, x + other, torch.zeros_like(x))
                a, b, both, nothing = (block(each.clone()) for each in asked)
                linear[-1] = bool((both + nothing - a - b).abs().max() <= LINEAR * (a - nothing).abs().max())
            weightless.append(not any(True for _ in block.parameters()))
            x = block(x.clone())
    return np.array(linear), np.array(weightless)


def canonical_form(model: Classifier, task: ForgetTask) -> Classifier:
    """A copy whose weights are rounded to bfloat16, without those that read channels which are 0 on all data.

    Digits below bfloat16's and weights behind a channel that is switched off can hold another model; a release does not
    need them.

    Args:
        model: The model to be released.
        task: The data on which a channel may be in use.
    """
    released = clone(model)
    ends = channel_ends(released, task, max(len(task.retain), len(task.forget), len(task.test)))
    with torch.no_grad():
        for name, part in released.named_modules():
            if name not in ends or not isinstance(part, nn.Conv2d | nn.Linear):
                continue
            off = ((ends[name][0] == 0) & (ends[name][1] == 0)).all(dim=1)
            if part.weight.shape[1] == len(off):  # grouped convolutions read few channels each: all are kept
                part.weight[:, off] = 0
        for tensor in (*released.parameters(), *released.buffers()):
            if tensor.is_floating_point():
                tensor.copy_(tensor.to(torch.bfloat16))
    return released


@dataclass(frozen=True)
class WeightSketch(Checked):
    """Each block's and the head's weights, folded into `dim` numbers by random signs and places.

    Folding is linear and keeps lengths: |sketch(a) - sketch(b)| is |a - b| with a relative error of about
    1 / sqrt(2 dim), 1 % by default, and exactly 0 where a = b. A part with no more than `dim` weights is
    kept as it is. `weight_norm.PART` is the exact length. BatchNorm statistics do not count.
    """

    dim: Annotated[int, Count("Numbers that a part is folded into.")] = 5000
    seed: Annotated[int, Seed()] = 0

    label = "weights"

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading:
        parts: dict[str, nn.Module] = {f"{i}": block for i, block in enumerate(model.blocks, start=1)}
        values, arrays = {}, {"fold": np.array([self.dim, self.seed])}
        for name, part in (parts | {"head": model.head}).items():
            flat = [p.detach().flatten().cpu().double() for p in part.parameters()]
            weights = torch.cat(flat) if flat else torch.zeros(0, dtype=torch.float64)
            if not torch.isfinite(weights).all():
                raise InputError("the model's weights are not finite numbers; it is damaged or has diverged")
            values[f"weight_norm.{name}"] = float(weights.norm())
            arrays[f"size.{name}"] = np.array(len(weights))
            if len(weights) > self.dim:
                generator = torch.Generator().manual_seed(self.seed)
                place = torch.randint(self.dim, (len(weights),), generator=generator)
                sign = torch.randint(2, (len(weights),), generator=generator).double() * 2 - 1
                weights = torch.zeros(self.dim, dtype=torch.float64).index_add_(0, place, sign * weights)
            arrays[f"part.{name}"] = weights.numpy()
        values["weight_norm"] = float(np.sqrt(sum(value**2 for value in values.values())))
        return Reading(values, arrays)
