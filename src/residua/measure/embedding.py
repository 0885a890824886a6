"""Embedding: t-SNE coordinates of the encoder's features, with the forgotten samples marked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from sklearn.manifold import TSNE

from residua.data.task import ForgetTask
from residua.measure._outputs import pooled
from residua.models.classifier import Classifier
from residua.readings import Reading
from residua.training.loop import seeded
from residua.training.settings import Count, Seed, check_settings


@dataclass(frozen=True)
class Embedding:
    """t-SNE of the encoder's output for `most` samples of D, a fifth of them forgotten.

    Arrays: `coordinates` (n, 2), `labels`, `forgotten` (0 or 1), `index` into the training data. To be
    looked at: scattered forgotten points as in Retrain's picture, or a cluster as in Original's.
    `tsne.divergence` says how well two dimensions could hold the neighbourhoods (0 is perfect).
    """

    most: Annotated[int, Count("Samples in the picture, a fifth of them forgotten.", least=10)] = 500
    perplexity: Annotated[float, Count("Neighbours that t-SNE keeps together.")] = 30.0
    seed: Annotated[int, Seed()] = 0

    label = "tsne"

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading:
        with seeded(self.seed):
            forget = torch.randperm(len(task.forget))[: max(1, self.most // 5)].sort().values
            retain = torch.randperm(len(task.retain))[: self.most - len(forget)].sort().values
        z = torch.cat(
            [
                pooled(model, split, [model.depth], some)[model.depth]
                for split, some in ((task.forget, forget), (task.retain, retain))
            ]
        ).double()
        z = z - z.mean(0)
        spread = float(z.abs().max())
        if len(z) < 4 or spread < 1e-12:
            return Reading({}, notes={"tsne": "the encoder gives every sample the same features"})
        perplexity = min(self.perplexity, (len(z) - 1) / 3)
        tsne = TSNE(perplexity=perplexity, init="pca", random_state=self.seed % 2**32, max_iter=500)
        coordinates = tsne.fit_transform((z / spread).numpy().astype(np.float32))
        splits = ((task.forget, forget), (task.retain, retain))
        return Reading(
            {"tsne.divergence": float(tsne.kl_divergence_)},
            {
                "coordinates": coordinates.astype(np.float32),
                "labels": torch.cat([split.labels[some] for split, some in splits]).numpy(),
                "forgotten": np.repeat(np.array([1, 0], np.int8), [len(forget), len(retain)]),
                "index": torch.cat([split.index[some] for split, some in splits]).numpy(),
            },
        )
