"""HD: only the last layer learns to be silent. It fools most tests of outputs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor

from residua.data.task import ForgetTask
from residua.models.classifier import Classifier, clone, freeze, thaw
from residua.training.keeping import keeper
from residua.training.loop import descend
from residua.training.losses import descent_and_ascent, kl_divergence
from residua.training.settings import Batch, Crop, Epochs, Flip, Rate, Scheduled, Weight, check_settings
from residua.training.streams import SideBySide, shuffled


@dataclass(frozen=True)
class HeadDistillation:
    """The encoder stays as it is, bit for bit; so IDI is exactly 1.

    Whole classes: on all of D the head learns Original's answer with the forgotten classes masked,

        KL( softmax(Original(x) with -inf for each forgotten class) || softmax(head(z)) ).

    Random samples: the head descends on retain and ascends on forget,
    alpha CE(retain) - (1 - alpha) CE(forget).
    """

    epochs: Annotated[int, Epochs("Passes over the data.", stronger="more")] = 1
    lr: Annotated[float, Rate("Learning rate.", stronger="more")] = 1e-2
    batch: Batch = 128
    alpha: Annotated[
        float,
        Weight(
            "Weight of the retain loss when samples are forgotten; the forget loss has 1 - alpha.", most=1
        ),
    ] = 0.9
    schedule: Scheduled = "constant"
    crop: Crop = 4
    flip: Flip = True

    label = "HD"
    keeps_encoder = True
    quick = True

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        model = clone(original)
        for part in (model.blocks, model.pool):
            freeze(part)
        teacher = freeze(clone(original.head))
        optimizer = torch.optim.Adam(model.head.parameters(), lr=self.lr)

        def masked(model: Classifier, x: Tensor, _: Tensor) -> Tensor:
            z = model.encode(x)
            target = teacher(z).float()
            target[:, list(task.forgotten)] = -torch.inf
            return kl_divergence(model.head(z), F.softmax(target, dim=1))

        if task.scenario == "class":
            everything = shuffled(task.train, self.batch, model.device, self.crop, self.flip)
            descend(
                model,
                everything,
                masked,
                optimizer=optimizer,
                epochs=self.epochs,
                schedule=self.schedule,
                keep=keeper(),
            )
        else:
            retain, forget = (
                shuffled(split, self.batch, model.device, self.crop, self.flip)
                for split in (task.retain, task.forget)
            )
            ascent = partial(descent_and_ascent, alpha=self.alpha)
            descend(
                model,
                SideBySide(retain, forget),
                ascent,
                optimizer=optimizer,
                epochs=self.epochs,
                schedule=self.schedule,
                keep=keeper(),
            )
        return thaw(model)
