"""InformationCurve: how much each of the last blocks still knows of what was to be forgotten."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from residua.classifier import Classifier, clone, reinitialise
from residua.critic import NetworkCritic, Standardised, linear_scores
from residua.curve import Curve
from residua.errors import InputError
from residua.features import as_input, features
from residua.information import (
    Z95,
    check_labels,
    entropy,
    frequencies,
    in_order,
    log_ratio,
    stacked,
    stratified_folds,
)
from residua.memo import Memo, identity
from residua.split import Split
from residua.task import ForgetTask
from residua.training import descend, seeded

Protocol = Literal["held-out", "paper"]


@dataclass(frozen=True)
class InformationCurve:
    """I(Z_l; Y) for the last blocks of a network, one critic a block.

    Y is 1 on the forget set and 0 on the retain set; in random forgetting Y is the class, on the
    forget set alone. The critic of block l is the rest of the network, drawn anew, with a projection
    and one vector a label. The last block's critic is pooling and projection: a linear one, so it is
    solved as the convex problem it is.

    `held-out` fits critics on all folds but one and reads the one left out, for each fold in turn.
    `paper` reads the fitting data in batches, as the paper seems to; a flexible critic then
    memorises. Critics are drawn from `seed`, not from the caller's generator: equal encoders have
    equal curves. `epochs` are the most passes that a critic makes; many samples need fewer (`passes`).
    """

    last: int = 2
    blocks: tuple[int, ...] | None = None
    ratio: str = "all"
    protocol: Protocol = "held-out"
    folds: int = 2
    restarts: int = 1
    epochs: int = 3
    batch: int = 128
    lr: float = 1e-3
    label_lr: float = 1e-3
    dim: int = 128
    seed: int = 0

    label = "information"

    def __call__(self, model: Classifier, task: ForgetTask) -> Curve:
        self._check()
        blocks = self._blocks(model)
        with seeded(self.seed):
            parts = _parts(task, self.ratio)
        split, labels = _labelled(parts)
        y = check_labels(labels, len(split))
        about = {
            "measure": asdict(self) | {"last": None, "blocks": None},
            "data": _data_digest(split, y),
            "network": model.architecture,
        }
        # A model that was trained lies otherwise in memory than one that was loaded; equal weights, equal curves.
        encoder = identity(model.after(0), layout=False)
        key = None if encoder is None else (encoder, repr(blocks), repr(about))
        found = _curves.get(key)
        if found is None:
            found = self._measure(model, parts, y, blocks, about)
            _curves.put(key, found, sum(array.nbytes for array in found.arrays.values()))
        return found

    def _check(self) -> None:
        if self.protocol not in ("held-out", "paper"):
            raise InputError(f"protocol {self.protocol!r} is unknown; choose held-out or paper")
        least = {"folds": 2, "restarts": 1, "epochs": 1, "batch": 2, "dim": 1, "last": 1}
        for name, fewest in least.items():
            if getattr(self, name) < fewest:
                raise InputError(f"{name} is {getattr(self, name)}, expected at least {fewest}")

    def _blocks(self, model: Classifier) -> list[int]:
        blocks = (
            list(self.blocks) if self.blocks else list(range(model.depth - self.last + 1, model.depth + 1))
        )
        for block in blocks:
            if not 1 <= block <= model.depth:
                raise InputError(f"block {block} does not exist; this network has blocks 1 to {model.depth}")
        return sorted(set(blocks))

    def _measure(
        self, model: Classifier, parts: list[Split], y: Tensor, blocks: list[int], about: dict[str, Any]
    ) -> Curve:
        prior = frequencies(y)
        # Part by part, since others ask for the outputs on each part; that pass is then made.
        stored = features(model, parts, blocks)
        values = {"H": entropy(prior)}
        terms = np.empty((self.restarts, len(blocks), len(y)), dtype=np.float32)
        for row, block in enumerate(blocks):
            fit = self._linear if block == model.depth else self._network(model, block)
            gaps, accuracies = [], []
            for restart in range(self.restarts):
                if restart and block == model.depth:
                    # Convex: every start ends at the same critic. Only the folds could differ.
                    terms[restart, row] = terms[0, row]
                    continue
                with seeded(self.seed + 1000 * restart + block):
                    of_block, gap, accuracy = self._read(fit, stored[block], y, prior)
                terms[restart, row] = of_block.numpy()
                gaps.append(gap)
                accuracies.append(accuracy)
            values |= _summary(block, terms[:, row], float(np.mean(gaps)), float(np.mean(accuracies)))
        arrays = {
            "terms": terms,
            "blocks": np.array(blocks),
            "labels": y.numpy().astype(np.int32),
            "index": torch.cat([part.index for part in parts]).numpy(),
        }
        return Curve(values, arrays, about)

    def _read(self, fit: Fit, z: Tensor, y: Tensor, prior: Tensor) -> tuple[Tensor, float, float]:
        """Terms, gap to the fitting data, and accuracy."""
        if self.protocol == "paper":
            everything = torch.arange(len(y))
            scores = fit(z, y, prior, everything, everything)[0][-1]
            terms = _batch_terms(scores, y, self.batch)
            right = (scores + prior.log()).argmax(1) == y
            return terms, 0.0, float(right.double().mean())
        parts = stratified_folds(y, self.folds)
        unseen, fitted = [], []
        for part in range(self.folds):
            scores, known = fit(z, y, prior, (parts != part).nonzero()[:, 0], (parts == part).nonzero()[:, 0])
            unseen.append(scores)
            fitted.append(known)
        terms, accuracy, _ = stacked(in_order(unseen, parts), y, parts, prior)
        return terms, float(np.mean(fitted)) - float(terms.mean()), accuracy

    def _linear(
        self, z: Tensor, y: Tensor, prior: Tensor, inside: Tensor, outside: Tensor
    ) -> tuple[Tensor, float]:
        standard = Standardised(z[inside])
        both = torch.cat([standard(z[outside]), standard(z[inside])])
        scores = linear_scores(both[len(outside) :], y[inside], both, prior)
        known = log_ratio(scores[-1, len(outside) :], y[inside], prior).mean()
        return scores[:, : len(outside)], float(known)

    def _network(self, model: Classifier, block: int) -> Fit:
        def fit(z: Tensor, y: Tensor, prior: Tensor, inside: Tensor, outside: Tensor) -> tuple[Tensor, float]:
            critic = self._critic(model, block, as_input(z[:2]), len(prior))
            log_prior = prior.float().log().to(model.device)
            groups = [
                {"params": list(critic.f.parameters()), "lr": self.lr},
                {"params": [critic.g], "lr": self.label_lr},
            ]

            def loss(critic: nn.Module, z: Tensor, y: Tensor) -> Tensor:
                return F.cross_entropy(critic(z).float() + log_prior, y)

            history = descend(
                critic,
                Stratified(z, y, inside, self.batch, model.device),
                loss,
                optimizer=torch.optim.Adam(groups),
                epochs=passes(self.epochs, len(inside)),
                schedule="cosine",
                precision="float32",
            )
            with torch.inference_mode():
                scores = torch.cat(
                    [critic(as_input(z[part]).to(model.device)).cpu() for part in outside.split(500)]
                )
            return scores.double()[None].clone(), entropy(prior) - history[-1]

        return fit

    def _critic(self, model: Classifier, block: int, example: Tensor, labels: int) -> NetworkCritic:
        rest = reinitialise(clone(model.after(block)))
        with torch.inference_mode():
            width = rest(example.to(model.device)).shape[1]
        return NetworkCritic(rest, width, labels, self.dim).to(model.device)


def passes(most: int, n: int) -> int:
    """How often a critic sees its n samples: `most` times, or fewer once it has been shown ENOUGH.

    With the samples grows what one pass teaches; the passes after that only memorise. So the time
    grows more slowly than the data.
    """
    return min(most, max(1, round(ENOUGH / n)))


ENOUGH = 50_000

Fit = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], tuple[Tensor, float]]

# Curves by what they depend on: a model whose encoder was measured before (HD's is Original's) costs nothing.
_curves: Memo[Curve] = Memo(entries=64, size=1 << 30)


class Stratified:
    """Batches of stored features in a fresh order, each with nearly the data's share of every label."""

    def __init__(self, z: Tensor, y: Tensor, index: Tensor, batch: int, device: torch.device) -> None:
        self.z, self.y, self.index, self.batch, self.device = z, y, index, batch, device

    def __len__(self) -> int:
        return max(1, len(self.index) // self.batch)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        labels = self.y[self.index]
        place = torch.empty(len(labels), dtype=torch.float64)
        for label in labels.unique():
            where = (labels == label).nonzero()[:, 0]
            # Spread evenly over [0, 1), each a random rank and the whole shifted at random.
            rank = torch.randperm(len(where)).double() + torch.rand(1, dtype=torch.float64)
            place[where] = rank / len(where)
        order = self.index[place.argsort()]
        for chosen in order.split(self.batch)[: len(self)]:
            yield as_input(self.z[chosen]).to(self.device), self.y[chosen].to(self.device)


def asked(task: ForgetTask, ratio: str) -> tuple[Split, Tensor]:
    """The samples that Y is asked of, and Y. `ratio` keeps some of the retain set: `all`, `1:5`
    (forget : retain) or `10%` of it; all of the forget set stays."""
    return _labelled(_parts(task, ratio))


def _parts(task: ForgetTask, ratio: str) -> list[Split]:
    """The forget set alone where Y is the class, else the retained and the forgotten."""
    if task.scenario == "random":
        return [task.forget]
    keep = _kept(ratio, len(task.forget), len(task.retain))
    chosen = torch.randperm(len(task.retain))[:keep].sort().values if keep < len(task.retain) else None
    return [task.retain if chosen is None else task.retain.subset(chosen), task.forget]


def _labelled(parts: list[Split]) -> tuple[Split, Tensor]:
    if len(parts) == 1:
        return parts[0], parts[0].labels
    retain, forget = parts
    split = retain.joined(forget)
    return split, (torch.arange(len(split)) >= len(retain)).long()


def _kept(ratio: str, forget: int, retain: int) -> int:
    try:
        if ratio == "all":
            return retain
        if ratio.endswith("%"):
            keep = math.ceil(retain * float(ratio[:-1]) / 100)
        else:
            left, right = ratio.split(":")
            keep = round(forget * float(right) / float(left))
    except (ValueError, ZeroDivisionError):
        keep = 0
    if not 0 < keep <= retain:
        raise InputError(
            f"ratio {ratio!r} cannot be kept with {forget} forget and {retain} retain samples; "
            "write all, 1:5 (forget : retain) or 10%"
        )
    return keep


def _batch_terms(scores: Tensor, y: Tensor, batch: int) -> Tensor:
    """InfoNCE with the labels of each batch: s_k[y_k] - log sum_c (n_c / K) exp s_k[c]."""
    terms = torch.empty(len(y), dtype=torch.float64)
    for part in torch.randperm(len(y)).split(batch):
        shares = torch.bincount(y[part], minlength=scores.shape[1]).double() / len(part)
        own = scores[part].gather(1, y[part, None])[:, 0]
        terms[part] = own - torch.logsumexp(scores[part] + shares.log(), dim=1)
    return terms


def _summary(block: int, terms: np.ndarray, gap: float, accuracy: float) -> dict[str, float]:
    means = terms.mean(axis=1, dtype=np.float64)
    noise = terms.mean(axis=0, dtype=np.float64).std(ddof=1) ** 2 / terms.shape[1]
    between = means.var(ddof=1) / len(means) if len(means) > 1 else 0.0
    error = Z95 * math.sqrt(noise + between)
    value = float(means.mean())
    return {
        f"I{block}": value,
        f"I{block}_low": value - error,
        f"I{block}_high": value + error,
        f"gap{block}": gap,
        f"accuracy{block}": accuracy,
    }


def _data_digest(split: Split, y: Tensor) -> str:
    return hashlib.sha256(split.digest().encode() + y.numpy().tobytes()).hexdigest()
