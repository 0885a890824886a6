"""HD: only the last layer learns to be silent. It fools every test of outputs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from residua.classifier import Classifier, clone, freeze, thaw
from residua.losses import kl_divergence
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

        def ascent(model: Classifier, x: Tensor, y: Tensor, x_f: Tensor, y_f: Tensor) -> Tensor:
            kept = F.cross_entropy(model(x), y)
            forgotten = F.cross_entropy(model(x_f), y_f)
            return self.alpha * kept - (1 - self.alpha) * forgotten

        if task.scenario == "class":
            everything = shuffled(task.train, self.batch, model.device, self.crop, self.flip)
            descend(model, everything, masked, optimizer=optimizer, epochs=self.epochs)
        else:
            retain, forget = (
                shuffled(split, self.batch, model.device, self.crop, self.flip)
                for split in (task.retain, task.forget)
            )
            pairs = SideBySide(retain, forget)
            descend(model, pairs, ascent, optimizer=optimizer, epochs=self.epochs)
        return thaw(model)
