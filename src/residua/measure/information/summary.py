"""From unseen scores to a curve: terms of every sample, values with intervals, and notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from residua.measure.information.estimate import interval
from residua.measure.information.families import Family, read_family
from residua.measure.information.fitting import Fits
from residua.measure.information.samples import FIT_ONLY, READ_ONLY, Samples, entropy
from residua.readings import Curve

# A reading warns if more than this is missing from it: nats, or a share of it. Calibration has the same bars.
SHORT, SHORT_SHARE = 0.02, 0.1
# Of more than two labels; with 60 of each of 100, intervals of the calibration held the truth a little too seldom.
FEW_OF_A_LABEL = 100
# Network critics are fitted twice, on halves of the data, and the interval does not hold what another fit would read. That
# is little beside the rest; where they alone read more than this share of it, the calibration's intervals were too short.
NETWORK_SHARE = 0.5


def build_curve(
    runs: Sequence[Fits], asked: Samples, blocks: Sequence[int], families: Sequence[Family], about: Mapping[str, Any]
) -> Curve:
    """The curve of one or several fits. Terms are kept in float16, which moves no mean by 1e-4; values follow from them."""
    reading = asked.fold != FIT_ONLY
    y, fold, prior = asked.y[reading], asked.fold[reading], asked.prior
    own, test = fold >= 0, fold == READ_ONLY
    read = [{family: read_family(family, run.scores, y, fold, prior) for family in families} for run in runs]
    fewer = [read_family(families[0], run.fewer, y, fold, prior) for run in runs]

    def terms(which: Tensor) -> np.ndarray:
        rows = [[[run[f][b].terms[which].numpy() for b in blocks] for run in read] for f in families]
        return np.asarray(rows).astype(np.float16)

    arrays = {
        "terms": terms(own),
        "blocks": np.array(blocks),
        "labels": y[own].numpy().astype(np.int32),
        "index": torch.cat([part.index for part in asked.parts])[asked.fold >= 0].numpy(),
        "course": _course(runs),
    }
    if bool(test.any()):
        arrays |= {"test_terms": terms(test), "test_labels": y[test].numpy().astype(np.int32)}
    values = {"H": entropy(prior)}
    for row, block in enumerate(blocks):
        for column, family in enumerate(families):
            values[f"I{block}" if not column else f"I{block}_{family}"] = min(
                max(float(arrays["terms"][column, :, row].mean(dtype=np.float64)), 0.0), values["H"]
            )  # rounding to float16 may carry a mean a hair beyond its bounds
        less = np.mean([run[block].terms[own].numpy() for run in fewer], axis=0)
        low, high, shortfall = interval(arrays["terms"][0, :, row].astype(np.float64), less, values["H"])
        values |= {f"I{block}_low": low, f"I{block}_high": high, f"shortfall{block}": shortfall}
        answers = [(run[families[0]][block].scores[own] + prior.log()).argmax(1) for run in read]
        values[f"accuracy{block}"] = float((torch.stack(answers) == y[own]).double().mean())
        if "test_terms" in arrays:
            values[f"I{block}_test"] = float(arrays["test_terms"][0, :, row].mean(dtype=np.float64))
    seconds = {f"block{b}": sum(run.seconds.get(b, 0.0) for run in runs) for b in blocks}
    about = dict(about) | {"families": list(families)}
    return Curve(values, arrays, about, notes=_warnings(runs, asked, blocks, values), seconds=seconds)


def _course(runs: Sequence[Fits]) -> np.ndarray:
    """Rows of restart, block, critic, steps, nats on unseen data, nats on fitting batches."""
    rows = [
        (restart, block, critic, steps, nats, fitted)
        for restart, run in enumerate(runs)
        for block, critics in run.course.items()
        for critic, course in enumerate(critics)
        for steps, nats, fitted in zip(course.steps, course.nats, course.fitted, strict=True)
    ]
    return np.array(rows, dtype=np.float32).reshape(-1, 6)


def _warnings(
    runs: Sequence[Fits], asked: Samples, blocks: Sequence[int], values: Mapping[str, float]
) -> dict[str, str]:
    """Network critics that were still gaining, few samples of a label, few samples, and readings by network critics alone."""
    found = {
        f"plateau{block}": f"the network critic of block {block} was still gaining after {course.steps[-1]} steps; "
        "allow more rounds"
        for run in runs
        for block, critics in run.course.items()
        for course in critics
        if not course.ended
    }
    counts = torch.bincount(asked.y[asked.fold != READ_ONLY], minlength=len(asked.prior))
    least = int(counts[counts > 0].min())
    if len(counts) > 2 and least < FEW_OF_A_LABEL:
        found["labels"] = (
            f"there are {len(counts)} labels and only {least} samples of the rarest to fit critics on: more is known "
            "than they read, and the interval may miss it; give more data, or fit on retained samples too"
        )
    for block in blocks:
        read, shortfall = values[f"I{block}"], values[f"shortfall{block}"]
        if shortfall > max(SHORT, SHORT_SHARE * read):
            found[f"samples{block}"] = (
                f"the critics of block {block} have too few samples: twice as many gained {shortfall:.3f} nats, so about as "
                "much is missing from what is read; give more data"
            )
        others = [values[key] for key in (f"I{block}_linear", f"I{block}_nonlinear") if key in values]
        alone = read - max(others, default=read)
        if alone > max(SHORT, NETWORK_SHARE * read):
            found[f"network{block}"] = (
                f"{alone:.3f} of the {read:.3f} nats of block {block} are read by network critics alone, whose intervals may "
                "be too short; read it again with other seeds"
            )
    return found
