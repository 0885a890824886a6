"""Probe and Recovery: the accuracy of linear classifiers that are fitted on frozen features."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits
from torch import Tensor

from residua.data.task import ForgetTask
from residua.errors import InputError
from residua.measure._outputs import pooled
from residua.measure.information.coordinates import canonical
from residua.models.classifier import Classifier
from residua.readings import Reading
from residua.training.loop import seeded
from residua.training.settings import Checked, Count, Seed, Share, Weight


def linear_answers(fit: Tensor, labels: Tensor, read: Tensor, *, ridge: float) -> Tensor:
    """The class that a linear classifier fitted on (fit, labels) gives to each row of `read`.

    It minimises mean_i -log softmax(W z_i + b)[y_i] + (ridge / 2) |W|^2 on standardised features: a
    convex problem, so that the answer depends on no learning rate, start or order.
    """
    if len(labels.unique()) == 1:
        return labels[:1].expand(len(read))
    mean, scale = fit.double().mean(0), fit.double().std(0).clamp_min(1e-12)
    # What varies in the last digits only is constant; to stretch it would make a feature of rounding.
    scale[scale <= 1e-6 * fit.abs().amax(0)] = torch.inf
    # Beyond ten deviations nothing is learned, and one outlier must not rule.
    fit, read = (((z.double() - mean) / scale).clamp(-10, 10) for z in (fit, read))
    classifier = LogisticRegression(C=1 / (ridge * len(labels)), max_iter=200)
    # Products this small gain nothing by threads, and where others work too, threads that wait for each other spin: five
    # probes took 27 s instead of 0.6.
    with warnings.catch_warnings(), threadpool_limits(1, "blas"):
        warnings.simplefilter("ignore", ConvergenceWarning)  # its accuracy on unseen data says how good it is
        classifier.fit(fit.numpy(), labels.numpy())
    return torch.from_numpy(classifier.predict(read.numpy()))


@dataclass(frozen=True)
class Probe(Checked):
    """Accuracy of a linear probe on the pooled features of every block, read on data it never saw.

    When classes are forgotten the probe is fitted on training data of all classes and `probe.l` is
    its accuracy on the *test* images of the forgotten ones. When samples are forgotten it is fitted on
    retained data and `probe.l` is its accuracy on the forget set. `probe.test.l` is its accuracy on the
    test set. At most `most` samples fit it, with the penalty (`ridge` / 2) |W|^2.
    """

    most: Annotated[int, Count("Most samples that fit the probe.")] = 3000
    ridge: Annotated[float, Weight("Penalty on the probe's weights.", above=0)] = 1e-3
    seed: Annotated[int, Seed()] = 0

    label = "probe"

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading:
        if self.most < task.classes:
            raise InputError(f"most is {self.most}, expected at least one sample for each class")
        splits = [task.retain, task.forget] if task.scenario == "class" else [task.retain]
        target = task.forget_test if task.scenario == "class" else task.forget
        labels = torch.cat([split.labels for split in splits])
        with seeded(self.seed):
            some = torch.randperm(len(labels))[: self.most]
        starts = [0, *itertools.accumulate(len(split) for split in splits)]
        own = [(some >= a) & (some < b) for a, b in itertools.pairwise(starts)]
        seen = [
            pooled(model, split, some=some[mine] - start)
            for split, mine, start in zip(splits, own, starts[:-1], strict=True)
        ]
        test, aimed = pooled(model, task.test), pooled(model, target)
        values, notes = {}, {}
        for block in range(1, model.depth + 1):
            z = torch.empty(len(some), seen[0][block].shape[1])
            for mine, features in zip(own, seen, strict=True):
                z[mine] = features[block]
            read = torch.cat([test[block], aimed[block]]) if len(target) else test[block]
            answers = linear_answers(z, labels[some], read, ridge=self.ridge)
            values[f"probe.test.{block}"] = _accuracy(answers[: len(task.test)], task.test.labels)
            if len(target):
                values[f"probe.{block}"] = _accuracy(answers[len(task.test) :], target.labels)
            else:
                notes[f"probe.{block}"] = "the test data hold no image of the forgotten classes"
        return Reading(values, notes=notes)


@dataclass(frozen=True)
class Recovery(Checked):
    """Accuracy on the forget *test* data of a new head, fitted to the frozen encoder with 2 % of D.

    The head is a linear one of our own, not the model's drawn again: a head that is built to keep silent
    about a class would do so again. It sees the encoder's output only, and is solved to its end with the
    penalty (`ridge` / 2) |W|^2, so that nothing depends on how long or how fast it is trained. The value is
    the mean over `repeats` draws of the 2 %, which come from `seed`: models with one encoder have one
    recovery. `recovery.test` is the accuracy on the other test data. `recovery.low` and `.high` are the 95 % interval over
    draws and test images. Features are given to the head in canonical coordinates (`information/coordinates.py`), so
    that it does not matter how the encoder writes them down.
    """

    share: Annotated[float, Share("Share of the training data that the new head sees.")] = 0.02
    repeats: Annotated[int, Count("Draws of that share.")] = 5
    ridge: Annotated[float, Weight("Penalty on the new head's weights.", above=0)] = 1e-3
    seed: Annotated[int, Seed()] = 0

    label = "recovery"
    revision = 2

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading:
        splits = (task.retain, task.forget, task.test, task.forget_test)
        retain, forget, *unseen = (pooled(model, split, [model.depth])[model.depth] for split in splits)
        z = torch.cat([retain, forget])
        y = torch.cat([task.retain.labels, task.forget.labels])
        read = torch.cat([part for part in unseen if len(part)])
        coordinates = canonical(torch.cat([z, read]))
        z, read = coordinates(z), coordinates(read)
        accuracies = []
        with seeded(self.seed):
            draws = [torch.randperm(len(y))[: max(2, round(self.share * len(y)))] for _ in range(self.repeats)]
        # Differs from the paper: the head is linear, solved to its end under a ridge penalty, and averaged over five draws
        # of the 2 %; the paper trains one and does not say how.
        for some in draws:
            answers = linear_answers(z[some], y[some], read, ridge=self.ridge)
            test, forget_test = answers[: len(task.test)], answers[len(task.test) :]
            accuracies.append([_accuracy(test, task.test.labels), _accuracy(forget_test, task.forget_test.labels)])
        mean = np.mean(accuracies, axis=0)
        values, notes = {"recovery.test": float(mean[0])}, {}
        if len(task.forget_test):
            # The chance of the draws, and of the test images with one success and one failure added.
            n, drawn = len(task.forget_test), np.array(accuracies)[:, 1]
            p = (float(drawn.mean()) * n + 1) / (n + 2)
            fit = 0.0 if len(drawn) < 2 else float(drawn.var(ddof=1)) / len(drawn)
            half = 1.96 * float(np.sqrt(fit + p * (1 - p) / n))
            values |= {
                "recovery": float(mean[1]),
                "recovery.low": max(float(mean[1]) - half, 0.0),
                "recovery.high": min(float(mean[1]) + half, 1.0),
            }
        elif task.scenario == "class":
            notes["recovery"] = "the test data hold no image of the forgotten classes"
        else:
            notes["recovery"] = "samples were forgotten and no class, so there are no forget test data"
        return Reading(values, {"draws": np.array(accuracies)} if len(task.forget_test) else {}, notes=notes)


def _accuracy(answers: Tensor, truth: Tensor) -> float:
    return float((answers == truth).double().mean()) if len(truth) else float("nan")
