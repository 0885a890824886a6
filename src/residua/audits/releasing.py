"""The canonical form of a model: the weights that inputs use, in as many digits as a release needs."""

from __future__ import annotations

import torch
from torch import nn

from residua.data.task import ForgetTask
from residua.measure.structure import channel_ends, rounded_weights
from residua.models.classifier import Classifier, clone


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
            off = (ends[name][0] == 0) & (ends[name][1] == 0)
            if part.weight.shape[1] == len(off):  # grouped convolutions read few channels each: all are kept
                part.weight[:, off] = 0
        for tensor in (*released.parameters(), *released.buffers()):
            tensor.copy_(rounded_weights(tensor))
    return released
