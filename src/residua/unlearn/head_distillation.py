"""HD: only the last layer learns to be silent. It fools every test of outputs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from residua.classifier import Classifier, clone, freeze, thaw
from residua.losses import descent_and_ascent, kl_divergence
from residua.streams import SideBySide, shuffled
from residua.task import ForgetTask
from residua.training import check_settings, descend


@dataclass(frozen=True)
class HeadDistillation:
    """The encoder stays as it is, bit for bit; so IDI is exactly 1.

    Whole classes: on all of D the head learns Original's answer with the forgotten classes masked,

        KL( softmax(Original(x) with -inf for each forgotten class) || softmax(head(z)) ).

    Random samples: the head descends on retain and ascends on forget,
    alpha CE(retain) - (1 - alpha) CE(forget).
    """

    epochs: int = 1
    lr: float = 1e-2
    batch: int = 128
    alpha: float = 0.9
    crop: int = 4
    flip: bool = True

    label = "HD"

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
            said = teacher(z).float()
            said[:, list(task.forgotten)] = -torch.inf
            return kl_divergence(model.head(z), F.softmax(said, dim=1))

        if task.scenario == "class":
            everything = shuffled(task.train, self.batch, model.device, self.crop, self.flip)
            descend(model, everything, masked, optimizer=optimizer, epochs=self.epochs)
        else:
            retain, forget = (
                shuffled(split, self.batch, model.device, self.crop, self.flip)
                for split in (task.retain, task.forget)
            )
            ascent = partial(descent_and_ascent, alpha=self.alpha)
            descend(model, SideBySide(retain, forget), ascent, optimizer=optimizer, epochs=self.epochs)
        return thaw(model)
