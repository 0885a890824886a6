"""Validation: a part of the training data that stands in for the test data while settings are chosen."""

from __future__ import annotations

from dataclasses import replace

import torch

from residua.data.parting import parted
from residua.data.task import ForgetTask
from residua.errors import InputError
from residua.study import seeding

SHARE = 0.1


def validation_task(task: ForgetTask, share: float = SHARE, seed: int = 0, part: float = 1) -> ForgetTask:
    """The same request on less data: `share` of each class's training examples is left out and becomes the test data.

    Neither Original nor Retrain of this task sees them, and the real test data are not part of it. Of forgotten
    classes they are `forget_test`. Random samples to be forgotten stay as they are. Only `part` of each class's
    other training examples is used, so that a search costs less; validation data are as many as without.
    """
    if not 0 < share < 1:
        raise InputError(f"the validation share is {share:g}, expected above 0 and below 1")
    if not 0 < part <= 1:
        raise InputError(f"the part of the training data is {part:g}, expected above 0 and up to 1")
    number = seeding.derived("validation", seed)
    retain, test = parted(task.retain, share, number)
    if task.scenario == "class":
        forget, forget_test = parted(task.forget, share, number)
    else:
        forget, forget_test = task.forget, task.retain.subset(torch.arange(0))
    if part < 1:
        retain, forget = (parted(split, part, seeding.derived("part", seed))[1] for split in (retain, forget))
    return replace(task, retain=retain, test=test, forget=forget, forget_test=forget_test)
