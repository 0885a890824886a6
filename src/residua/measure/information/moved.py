"""Moved: the last block and the answers on images that were shifted or cropped, and mirrored, by the auditor's seed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from residua.data.split import Images
from residua.data.task import ForgetTask
from residua.measure._outputs import logits
from residua.measure.information.curve import InformationCurve
from residua.models.classifier import Classifier
from residua.readings import Reading
from residua.training.settings import Checked, Count, Seed, Setting


@dataclass(frozen=True)
class _Terms(InformationCurve):
    """The terms alone: what the critics read of exchanged labels is said of the images as they are."""

    reads_chance = False


@dataclass(frozen=True)
class Moved(Checked):
    """Linear critics of the last block, and UA, on moved images of all splits.

    Every image is shifted by up to `shift` pixels, never by none, or cropped and enlarged again, one half of them each;
    and mirrored or not. A model that was prepared for whatever is near the images of an audit does not know these; critics
    are fitted on them, so honest models lose little. The terms in `arrays` are those of a `Curve`.
    """

    shift: Annotated[int, Count("Largest shift in pixels.")] = 1
    seed: Annotated[int, Seed("Seed of the shifts, crops and mirrorings.")] = 0
    crop: Annotated[float, Setting("Fraction of each side that a crop leaves out; 0: no crops.", least=0, below=1)] = (
        0.125
    )

    label = "moved"
    revision = 2
    added: ClassVar = {"crop": 0.0}  # what records that were made before there were crops would say

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading:
        changed = self.moved(task)
        curve = _Terms(last=1, family="linear")(model, changed)
        wrong = (logits(model, changed.forget).argmax(dim=1) != changed.forget.labels).double().mean()
        arrays = {name: curve.arrays[name] for name in ("terms", "blocks")}
        return Reading({"UA_moved": float(wrong)}, arrays, curve.about)

    def moved(self, task: ForgetTask) -> ForgetTask:
        """The task with every image moved."""
        kept = {id(split.images): split.images for split in task.splits.values()}
        images = {own: _MovedImages(each, self) for own, each in kept.items()}
        moved: Any = {name: replace(split, images=images[id(split.images)]) for name, split in task.splits.items()}
        return replace(task, **moved)


class _MovedImages:
    """Images as they are stored, moved as they are read."""

    def __init__(self, images: Images, how: Moved) -> None:
        self.images, self.shift, self.shape = images, how.shift, images.shape
        n, sides = len(images), torch.tensor(images.shape[1:])
        generator = torch.Generator().manual_seed(how.seed)
        reach = range(2 * how.shift + 1)
        places = [(y, x) for y in reach for x in reach if (y, x) != (how.shift, how.shift)]
        self.place = torch.tensor(places)[torch.randint(len(places), (n,), generator=generator)]
        self.mirrored = torch.rand(n, generator=generator) < 0.5
        # Height and width of the window that an image shows of itself, framed.
        self.window = sides.expand(n, 2)
        if how.crop:
            out = torch.minimum((how.crop * sides).round().long().clamp_min(1), sides - 1)
            cropped = torch.rand(n, 1, generator=generator) < 0.5
            corner = how.shift + (torch.rand(n, 2, generator=generator) * (out + 1)).long()
            self.place = torch.where(cropped, corner, self.place)
            self.window = torch.where(cropped, sides - out, sides)

    def __len__(self) -> int:
        return len(self.images)

    @cached_property
    def digests(self) -> list[bytes]:
        moves = torch.cat([self.place, self.window, self.mirrored[:, None].long()], dim=1).numpy()
        return [
            hashlib.blake2b(own + move.tobytes(), digest_size=16).digest()
            for own, move in zip(self.images.digests, moves, strict=True)
        ]

    def stream(self, batches: Iterable[Tensor], device: torch.device) -> Iterator[Tensor]:
        indices = list(batches)
        _, height, width = self.shape
        for index, images in zip(indices, self.images.stream(indices, device), strict=True):
            # One gather from images framed by their own border.
            framed = F.pad(images.float(), (self.shift,) * 4, mode="replicate").to(images.dtype)
            mirrored = self.mirrored[index][:, None]
            rows, cols = (
                self.place[index, axis, None]
                + (2 * torch.arange(side) + 1) * self.window[index, axis, None] // (2 * side)
                for axis, side in enumerate((height, width))
            )
            cols = torch.where(mirrored, cols.flip(1), cols)
            sample = torch.arange(len(index))[:, None, None]
            cut = framed.permute(0, 2, 3, 1)[sample, rows[:, :, None].to(device), cols[:, None, :].to(device)]
            yield cut.permute(0, 3, 1, 2)
