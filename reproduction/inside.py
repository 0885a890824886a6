"""Which methods reach the blocks, and which metrics notice: two studies and the table of the second.

`residua study run reproduction/inside.py:inside --out DIR` makes every method beside five references; `inside-small` does so
on a fifth of CIFAR-10 (`--data cifar10:DIR`). `residua study run reproduction/inside.py:tribunal --out DIR` makes a pool of
models that keep the knowledge and of models that never had it, and `python -m reproduction.inside DIR` says for each
metric how well it separates them.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from residua.cli.console import show
from residua.cli.inputs import records_in
from residua.compare.likelihood_ratio import auc_interval
from residua.controls.cheats import CHEATS
from residua.controls.deceivers import DECEIVERS
from residua.controls.impostors import impostors
from residua.data.parsing import split_settings, with_settings
from residua.data.task import ForgetTask
from residua.errors import InputError
from residua.measure import LogOdds, Measure, Relearning, Stress
from residua.report.methods import summary
from residua.report.table import Table, with_interval
from residua.study.definition import Row, Study
from residua.study.executors import Tell, silent
from residua.study.presets import TENTH, Preset
from residua.training.pretraining import Pretraining
from residua.training.recipes import SMALL
from residua.unlearn import Unlearner, traits

HONEST = "Honest: "
ANCHORS = ("Original", "Retrain")
# Trainings of models that never saw the data, beside the one that Original and the references had.
VARIED: dict[str, dict[str, Any]] = {
    "as Original": {}, "half the epochs": {"epochs": 6}, "twice the epochs": {"epochs": 24}, "cropped": {"crop": 2},
    "not flipped": {"flip": False}, "larger batches": {"batch": 128}, "lower rate": {"lr": 0.05},
    "more decay": {"weight_decay": 2e-3},
}  # fmt: skip
WIDTHS = (16, 24)
# An Original of a fifth of CIFAR-10 that is trained to the end.
CONVERGED = dataclasses.replace(SMALL, epochs=30, crop=0)


@dataclass(frozen=True)
class Inside(Preset):
    """Every method, with the measures of verdicts, of stress and of rivals.

    Args:
        part: Fraction of the training data, unless the data is given with one.
        training: Training of Original and Retrain, if it is not that of the scale.
    """

    part: float = 1
    training: Pretraining | None = None

    def task(self, data: str | None, forget: str | None, tell: Tell) -> ForgetTask:
        if data is not None and self.part != 1 and "part" not in split_settings(data)[1]:
            data = with_settings(data, part=self.part)
        return super().task(data, forget, tell)

    def pretraining(self) -> Any:
        return self.training or super().pretraining()

    def method(self, label: str, task: ForgetTask, network: str) -> Unlearner:
        made: Any = super().method(label, task, network)
        return (
            dataclasses.replace(made, pretraining=self.training)
            if self.training and label == "Retrain"
            else made
        )

    def measures(self, network: str) -> tuple[Measure, ...]:
        return (*super().measures(network), Stress(), LogOdds(), Relearning())


@dataclass(frozen=True)
class Tribunal(Inside):
    """Models whose truth is known: those of `VARIED` never saw the data; methods that keep the encoder, cheats, deceivers
    and impostors have all of it. In networks of two widths, for each of two seeds."""

    def __call__(
        self,
        data: str | None = None,
        forget: str | None = None,
        network: str | None = None,
        tell: Tell = silent,
        init: str | Path | None = None,
    ) -> Study:
        study = super().__call__(data, forget, network, tell, init)
        (name, fields), = study.networks.items()  # fmt: skip
        networks = {f"{name} of width {width}": {**fields, "width": width} for width in WIDTHS}
        return dataclasses.replace(study, networks=networks)

    def methods(self, task: ForgetTask, network: Mapping[str, Any]) -> list[Unlearner | Row]:
        made: dict[str, Any] = {
            label: self.method(label, task, str(network["network"])) for label in self.labels(task, self.name)
        }
        retrain = made["Retrain"]
        honest = {
            label: dataclasses.replace(
                retrain, pretraining=dataclasses.replace(retrain.pretraining, **changed)
            )
            for label, changed in VARIED.items()
        }
        further = Row("Further Retrain", retrain, draw=len(VARIED) + 1, role="control")
        # Methods that keep the encoder, by their own trait: it is known what their models know.
        keep = [
            each for each in made.values() if traits(each).keeps_encoder and traits(each).role == "method"
        ]
        return [
            made["Original"],
            retrain,
            further,
            *(Row(f"{HONEST}{label}", each, draw=1, role="control") for label, each in honest.items()),
            *keep,
            *(Row(each.label, each) for each in (*CHEATS.values(), *DECEIVERS)),
            *(
                Row(each.label, each, beside=further.label)
                for each in impostors(retrain.pretraining)
                if each.label in ("Faint copy", "Defeat device")
            ),
        ]


studies: dict[str, Preset] = {
    each.name: each
    for each in (
        Inside("inside", "tiny", "fashion-sample", seeds=3, references=5),
        Inside("inside-small", "small", "cifar10", references=5, ratio=TENTH, part=0.2, training=CONVERGED),
        Tribunal("tribunal", "tiny", "fashion-sample", seeds=2),
    )
}


def verdict_on_metrics(rows: Sequence[Mapping[str, Any]]) -> Table:
    """For each metric its AUC as a detector of kept knowledge, with a 95 % interval, and the models that fool it.

    A model's score is the fraction of Original's distance from Retrain that it has in the metric, (v - r) / (o - r), with
    the Original and the Retrain of its own network and seed. A kind of model fools a metric if its mean score is below
    the 95th percentile of the honest models' scores.

    Args:
        rows: Rows of `summary` of the tribunal's records.
    """
    anchors = {(row["method"], row.get("setting"), row["seed"]): row for row in rows}
    names = sorted(
        {name for row in rows for name in row if "." not in name}
        - {"method", "seed", "setting", "RTE", "draw"}
    )
    found = []
    for name in names:
        scores: dict[str, list[float]] = {}
        for row in rows:
            o, r = (anchors.get((label, row.get("setting"), row["seed"]), {}).get(name) for label in ANCHORS)
            if o is None or r is None or o == r or row.get(name) is None or row["method"] in ANCHORS:
                continue
            scores.setdefault(row["method"], []).append((row[name] - r) / (o - r))
        honest = [s for label, each in scores.items() if _is_honest(label) for s in each]
        knows = {label: each for label, each in scores.items() if not _is_honest(label)}
        if honest and knows:
            found.append((name, honest, knows))
    if not found:
        raise InputError("there is no model of either kind among the records; run the study tribunal first")
    lines = sorted((_line(*each) for each in found), key=lambda line: -line[0])
    return Table(
        title="Metrics as detectors of kept knowledge",
        columns=("Metric", "AUC", "knows", "honest", "fooled by"),
        rows=tuple(tuple(cells) for _, *cells in lines),
        note="AUC 1: every model that knows scores above every honest one. 95 % intervals by Hanley and McNeil.",
    )


def _line(name: str, honest: list[float], knows: dict[str, list[float]]) -> tuple[Any, ...]:
    every = np.array([s for each in knows.values() for s in each])
    pairs = every[:, None] - np.array(honest)
    auc = float(((pairs > 0) + (pairs == 0) / 2).mean())
    limit = float(np.quantile(honest, 0.95))
    fooled = ", ".join(label for label, each in knows.items() if fmean(each) <= limit)
    ends = auc_interval(auc, len(every), len(honest))
    return auc, name, with_interval(auc, ends), str(len(every)), str(len(honest)), fooled


def _is_honest(label: str) -> bool:
    return label.startswith(HONEST) or label == "Further Retrain"


if __name__ == "__main__":
    show(verdict_on_metrics(summary(records_in(Path(sys.argv[1])))))
