"""ForgetOutputs, Representation and Embedding: outputs and features of a fixed sample, kept to be compared (JSD, ZRF, CKA,
three-sample test) or drawn (t-SNE)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.manifold import TSNE
from torch import Tensor

from residua.data.task import ForgetTask
from residua.errors import InputError
from residua.measure._outputs import log_probabilities, pooled
from residua.models.classifier import Classifier, clone, reinitialise
from residua.readings import Reading
from residua.training.loop import seeded
from residua.training.settings import Checked, Count, Seed


@dataclass(frozen=True)
class ForgetOutputs(Checked):
    """Log-probabilities on the forget set: the model's, and those of its network with random weights.

    `entropy` is the mean of H(p(x)) in nats, `confidence` the mean probability of the true class.
    The random network (drawn from `seed`) is the incompetent teacher that ZRF compares with.
    """

    seed: Annotated[int, Seed("Seed of the random network that ZRF compares with.")] = 0

    label = "outputs"
    revision = 2

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading:
        log_p = log_probabilities(model, task.forget)
        values = {
            "entropy": float(-(log_p.exp() * log_p).sum(dim=1).mean()),
            "confidence": float(log_p.gather(1, task.forget.labels[:, None]).exp().mean()),
        }
        # float32: networks compute in it, and records of many models are kept.
        arrays, notes = {"log_probabilities": log_p.float().numpy()}, {}
        try:
            with seeded(self.seed):
                random = reinitialise(clone(model))
            arrays["random"] = log_probabilities(random, task.forget).float().numpy()
        except InputError as error:
            notes["ZRF"] = f"no random network: {error}"
        return Reading(values, arrays, notes=notes)


@dataclass(frozen=True)
class Representation(Checked):
    """Pooled features of every block on the same `most` forget and `most` retain samples, centred.

    `compare.cka` needs nothing else. `dimension.l` is the effective dimension of the forget samples in
    block l, (sum of variances)^2 / sum of squared variances over principal directions: 1 on a
    line, 0 at a point.

    Features of separately trained networks have no coordinates in common. `profile.l` describes each
    forget sample by what any two networks share: the cosines with the same `anchors` retain samples,
    after the mean of the retain samples is taken off. Turning or stretching the features changes nothing.
    """

    most: Annotated[int, Count("Forget samples, and retain samples.", least=2)] = 300
    anchors: Annotated[int, Count("Retain samples that the forget samples are described by.")] = 64
    seed: Annotated[int, Seed()] = 0

    label = "representation"

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading:
        values, arrays = {}, {}
        raw: dict[str, dict[int, Tensor]] = {}
        for side, split in (("forget", task.forget), ("retain", task.retain)):
            with seeded(self.seed):
                some = torch.randperm(len(split))[: self.most].sort().values
            raw[side] = {block: z.double() for block, z in pooled(model, split, some=some).items()}
            for block, z in raw[side].items():
                centred = z - z.mean(0)
                arrays[f"{side}.{block}"] = centred.float().numpy()
                if side == "forget":
                    gram = centred @ centred.T if len(z) < z.shape[1] else centred.T @ centred
                    trace, size = float(gram.trace()), max(float(z.abs().max()), 1e-30)
                    # What is left of a constant after its mean is taken off in float32.
                    constant = trace <= 1e-10 * len(z) * size**2
                    values[f"dimension.{block}"] = 0.0 if constant else trace**2 / float(gram.square().sum())
            arrays[f"{side}.index"] = split.index[some].numpy()
        for block, retained in raw["retain"].items():
            step = max(1, len(retained) // self.anchors)
            both = (raw["forget"][block], retained[::step][: self.anchors])
            # Rows of length 1; what does not differ from the mean stays 0.
            ours, anchors = (F.normalize(z - retained.mean(0), dim=1) for z in both)
            cosines = ours @ anchors.T
            arrays[f"profile.{block}"] = cosines.float().numpy()
        return Reading(values, arrays)


@dataclass(frozen=True)
class Embedding(Checked):
    """t-SNE of the encoder's output for `most` samples of D, a fifth of them forgotten.

    Arrays: `coordinates` (n, 2), `labels`, `forgotten` (0 or 1), `index` into the training data. To be
    looked at: scattered forgotten points as in Retrain's picture, or a cluster as in Original's.
    `tsne.divergence` says how well two dimensions could hold the neighbourhoods (0 is perfect).
    """

    most: Annotated[int, Count("Samples in the picture, a fifth of them forgotten.", least=10)] = 500
    perplexity: Annotated[float, Count("Neighbours that t-SNE keeps together.")] = 30.0
    seed: Annotated[int, Seed()] = 0

    label = "tsne"

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
