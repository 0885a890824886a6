"""Schedules: the learning rate in the course of a training."""

from __future__ import annotations

import math
from typing import Literal, get_args

from residua.errors import InputError

Schedule = Literal["constant", "cosine", "restarts", "steps"]

# After so many epochs `steps` divides the rate by ten: as in the public code of SCRUB.
STEPS = (3, 5, 9)


def rate(
    schedule: Schedule, done: float, warmup: float = 0.0, *, epochs: float = 1.0, floor: float = 0.0
) -> float:
    """The factor on the learning rate when `done` of `epochs` epochs are over.

    It rises linearly during `warmup`, a share of the training. Then

        constant    it stays at 1;
        cosine      it falls to `floor` as c(t) = floor + (1 - floor) (1 + cos(pi t)) / 2, step by step;
        restarts    it falls so over 1, then 2, 4, 8, ... epochs and begins at 1 each time, epoch by epoch: the first
                    three epochs have c(0), c(0), c(1/2);
        steps       it is a tenth after the third epoch, a hundredth after the fifth, a thousandth after the ninth.
    """
    progress, whole = done / epochs, int(done)
    if schedule not in get_args(Schedule):
        names = get_args(Schedule)
        raise InputError(f"schedule {schedule!r} is unknown; choose {', '.join(names[:-1])} or {names[-1]}")
    if progress < warmup:
        return progress / warmup
    if schedule == "constant":
        return 1.0
    if schedule == "steps":
        return float(0.1 ** sum(whole >= step for step in STEPS))
    if schedule == "restarts":
        length = 1 << ((whole + 1).bit_length() - 1)
        fallen = (whole + 1 - length) / length
    else:
        fallen = (progress - warmup) / (1 - warmup)
    return floor + (1 - floor) * (1 + math.cos(math.pi * fallen)) / 2
