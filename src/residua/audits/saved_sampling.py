"""Which samples of saved features are read: so many that the estimate takes minutes, the same for every model."""

from __future__ import annotations

import torch
from torch import Tensor

# Critics take about samples x features^2 steps. So many numbers of a block are read at most: 20,000 samples of 512
# features, which take one core about a minute (benchmarks/saved_features.py).
MOST = 20_000 * 512
FEWEST = 5_000
# Features of a sample: a covariance of more has more entries than 5,000 samples can tell.
WIDEST = 4096


def chosen_rows(labels: Tensor, widest: int) -> Tensor:
    """Which samples are read: all, or evenly spaced ones of each label where they are more than the estimator takes.

    The same for every model, because it depends on nothing but the labels and the width. A label keeps its share, but
    no less than 100 samples.
    """
    most = max(FEWEST, MOST // widest)
    if len(labels) <= most:
        return torch.arange(len(labels))
    kept = []
    for label in labels.unique():
        places = (labels == label).nonzero()[:, 0]
        count = min(len(places), max(100, round(most * len(places) / len(labels))))
        kept.append(places[torch.linspace(0, len(places) - 1, count).long()])
    return torch.cat(kept).sort().values
