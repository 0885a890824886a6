"""InformationCurve: information that each of the last blocks holds about the forgotten data."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
import torch

from residua.data.split import rounded
from residua.data.task import ForgetTask
from residua.errors import InputError
from residua.measure._memo import Memo, identity
from residua.measure._outputs import Stored, features
from residua.measure.information.estimate import plain_interval
from residua.measure.information.families import FAMILIES, PARTS, Family, read_family
from residua.measure.information.fitting import fit_blocks
from residua.measure.information.network import Data, Fitting
from residua.measure.information.paper_protocol import LABEL_LR, batch_terms, paper_lr, paper_scores
from residua.measure.information.samples import FIT_ONLY, READ_ONLY, FitOn, Samples, entropy, samples
from residua.measure.information.summary import build_curve
from residua.models.classifier import Classifier
from residua.progress import tell
from residua.readings import Curve
from residua.training.loop import seeded
from residua.training.settings import Checked, Choice, Count, Epochs, Rate, Seed, Setting

Protocol = Literal["held-out", "paper"]
# The paper sums the last two blocks of ResNet-18 and the last three of ResNet-50 and ViT.
LAST = {"resnet50": 3, "vit": 3}
OTHER_LAST = 2
# The paper does not say in which batches.
PAPER_BATCH = 256


@dataclass(frozen=True)
class InformationCurve(Checked):
    """I(Z_l; Y) for the last blocks of a network, by several families of critics.

    Y is 1 on the forget set and 0 on the retain set; in random forgetting Y is the class, on the
    forget set alone. Critics see a block's features in coordinates of their own (`coordinates.py`), so that
    it does not matter how the block writes them down. They are fitted on some folds and read on the others;
    `family` says which critics (`families.py`), and the default is all of them, stacked. Critics are drawn from
    `seed`, not from the caller's generator: equal encoders have equal curves.

    A network critic is fitted in rounds, the first of `steps` steps and each later one as long as all before it, until
    a round gains next to nothing on unseen data or there were `rounds` of them; where the last round still gained, a
    note says so.
    `protocol="paper"` is the critic as the paper describes it, read on its fitting data.

    `random` and the number of the last block is what the same critics read there of labels that were exchanged at random:
    what is above 0 is not the model's knowledge but the evaluation's.
    """

    # Differs from the paper: the estimator, the largest departure of all (`protocol="paper"` is the paper's). Critics are read on
    # folds that they were not fitted on, the paper's on their fitting data; families of critics are stacked, the paper
    # has network critics alone; features are put into coordinates of their own; scores of later blocks are handed down to
    # earlier ones, so that no curve rises and Original's blocks read nearly alike, and IDI by the number of blocks agrees
    # with the paper's in part by construction; in random forgetting critics are fitted on retained samples too.
    # Differs from the paper: the intermediate accuracy is that of these critics on unseen samples; the paper's is the training
    # accuracy of a network fitted by cross-entropy.

    last: Annotated[int | None, Count("How many of the last blocks; by default 2, and 3 of ResNet-50 and ViT.")] = None
    blocks: Annotated[tuple[int, ...] | None, Setting("These blocks, counted from 1.")] = None
    family: Annotated[Family, Choice("Which critics: all stacked, or one family of them.")] = "stack"
    ratio: Annotated[str, Setting("Retain samples to keep: all, 1:5 (forget : retain) or 10%.")] = "all"
    fit_on: Annotated[FitOn, Choice("In random forgetting: whether critics are fitted on retained samples too.")] = (
        "retain"
    )
    protocol: Annotated[Protocol, Choice("Read critics on unseen data, or as the paper does.")] = "held-out"
    folds: Annotated[int, Count("Number of cross-fitting folds; even.", least=2)] = 4
    restarts: Annotated[int, Count("Number of times that each critic is fitted.")] = 1
    steps: Annotated[int, Count("Steps of a network critic's first round.")] = 50
    rounds: Annotated[int, Count("Most rounds of a network critic.")] = 8
    batch: Annotated[int | None, Count("Samples in a step of a network critic; by default 64.", least=2)] = None
    lr: Annotated[
        float | None, Rate("Learning rate of a network critic; by default 2e-3, or the paper's.", tune=None)
    ] = None
    label_lr: Annotated[
        float | None, Rate("Learning rate of its vector for each label; by default 2e-3, or the paper's.", tune=None)
    ] = None
    epochs: Annotated[int, Epochs("Passes of the paper's critic.", least=1, tune=None)] = 10
    dim: Annotated[int, Count("Output width of a network critic's projection.")] = 128
    seed: Annotated[int, Seed("Seed of the critics and folds.")] = 0

    label = "information"
    revision = 4
    reads_encoder_only = True
    reads_chance = True  # also of labels exchanged at random

    def __call__(self, model: Classifier, task: ForgetTask) -> Curve:
        blocks = self._blocks(model)
        with seeded(self.seed):
            asked = samples(task, ratio=self.ratio, fit_on=self.fit_on, folds=self.folds)
        first = asked.parts[0]
        about = {
            "measure": asdict(self) | {"last": None, "blocks": None},
            "data": asked.digest(),
            "images": {"shape": list(first.shape), "mean": rounded(first.mean), "std": rounded(first.std)},
            "network": model.architecture,
        }
        # A model that was trained is stored otherwise in memory than one that was loaded: equal weights, equal curves.
        encoder = identity(model.after(0), layout=False)
        exactly = repr([(part.mean, part.std, part.size) for part in asked.parts])
        key = None if encoder is None else (encoder, repr(blocks), repr(about), exactly, task.dataset)
        curve = _curves.get(key)
        if curve is None:
            measure = self._paper if self.protocol == "paper" else self._measure
            curve = measure(model, task, asked, blocks, about)
            _curves.put(key, curve, sum(array.nbytes for array in curve.arrays.values()))
        return curve

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.folds % 2:
            raise InputError(f"folds is {self.folds}, expected an even number: network critics take every second")

    def _blocks(self, model: Classifier) -> list[int]:
        last = self.last or LAST.get(str(model.architecture.get("network")), OTHER_LAST)
        blocks = list(self.blocks or range(model.depth - min(last, model.depth) + 1, model.depth + 1))
        if self.last and self.last > model.depth:
            raise InputError(f"last is {self.last}, but this network has {model.depth} blocks; ask for at most that")
        for block in blocks:
            if not 1 <= block <= model.depth:
                raise InputError(f"block {block} does not exist; this network has blocks 1 to {model.depth}")
        return sorted(set(blocks))

    @property
    def families(self) -> tuple[Family, ...]:
        """The families that are read: all of them for the stack, else the chosen one."""
        return FAMILIES if self.family == "stack" else (self.family,)

    def _measure(
        self, model: Classifier, task: ForgetTask, asked: Samples, blocks: list[int], about: dict[str, Any]
    ) -> Curve:
        # Part by part, since others ask for the outputs on each part; that pass is then made.
        stored = features(model, asked.parts, blocks)
        how = Fitting(
            lr=self.lr or Fitting.lr,
            label_lr=self.label_lr or Fitting.label_lr,
            batch=self.batch or Fitting.batch,
            dim=self.dim,
            steps=self.steps,
            rounds=self.rounds,
        )
        runs = [
            fit_blocks(model, stored, asked, PARTS[self.family], how, self.seed + 1000 * restart)
            for restart in range(self.restarts)
        ]
        curve = build_curve(runs, asked, blocks, self.families, about)
        if not self.reads_chance:
            return curve
        chance = self._of_random_labels(model, stored, asked, blocks[-1], how)
        return replace(curve, values={**curve.values, f"random{blocks[-1]}": chance})

    def _of_random_labels(
        self, model: Classifier, stored: Mapping[int, Stored], asked: Samples, block: int, how: Fitting
    ) -> float:
        """Nats that the same critics read of the last block, on the same folds, where labels are exchanged at random.

        Folds, frequencies and kinds of samples stay; whatever this is above 0, the evaluation injects.
        """
        with seeded(self.seed):
            y = asked.y.clone()
            for kind in (asked.fold >= 0, asked.fold == FIT_ONLY, asked.fold == READ_ONLY):
                where = kind.nonzero()[:, 0]
                y[where] = y[where[torch.randperm(len(where))]]
        exchanged = replace(asked, y=y)
        parts = PARTS[self.family]
        only = {block: stored[block]}
        run = fit_blocks(model, only, exchanged, parts, how, self.seed, what="chance", shortfall=False)
        reading = asked.fold != FIT_ONLY
        fold = asked.fold[reading]
        read = read_family(self.families[0], run.scores, y[reading], fold, asked.prior)[block]
        return float(read.terms[fold >= 0].mean())

    def _paper(
        self, model: Classifier, task: ForgetTask, asked: Samples, blocks: list[int], about: dict[str, Any]
    ) -> Curve:
        """Differs from the default in everything: raw coordinates, one family, read on the fitting data."""
        own = [part for part, first in zip(asked.parts, _starts(asked), strict=True) if asked.fold[first] >= 0]
        stored = features(model, own, blocks)
        y, prior = asked.y[asked.asked], asked.prior
        batch = self.batch or PAPER_BATCH
        lr = self.lr or paper_lr(task.dataset, str(model.architecture.get("network")))
        terms = np.empty((1, self.restarts, len(blocks), len(y)), dtype=np.float16)
        values, seconds = {"H": entropy(prior)}, {}
        for row, block in enumerate(blocks):
            start, right = time.perf_counter(), []
            tell(f"information, the paper's critic of block {block}")
            for restart in range(self.restarts):
                with seeded(self.seed + 1000 * restart + block):
                    data = Data(stored[block], y, None, model.device)
                    scores = paper_scores(
                        model, block, data, prior, lr=lr, label_lr=self.label_lr or LABEL_LR,
                        batch=batch, epochs=self.epochs, dim=self.dim,
                    )  # fmt: skip
                    terms[0, restart, row] = batch_terms(scores, y, batch).numpy()
                right.append(float(((scores + prior.log()).argmax(1) == y).double().mean()))
            value, low, high = plain_interval(terms[0, :, row].astype(np.float64))
            values |= {f"I{block}": value, f"I{block}_low": low, f"I{block}_high": high}
            values[f"accuracy{block}"] = float(np.mean(right))
            seconds[f"block{block}"] = time.perf_counter() - start
        arrays = {
            "terms": terms,
            "blocks": np.array(blocks),
            "labels": y.numpy().astype(np.int32),
            "index": torch.cat([part.index for part in own]).numpy(),
        }
        about = about | {"families": ["network"]}
        return Curve(values, arrays, about, seconds=seconds)


def _starts(asked: Samples) -> list[int]:
    """Position of each part's first sample among all samples."""
    sizes = [len(part) for part in asked.parts]
    return [sum(sizes[:i]) for i in range(len(sizes))]


# Curves by what they depend on: a model whose encoder was measured before (HD's is Original's) costs nothing.
_curves: Memo[Curve] = Memo(entries=64, size=1 << 30)
