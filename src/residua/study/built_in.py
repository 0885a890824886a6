"""The built-in studies: every method at one scale, by name, and one study for each setting of the paper's tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from residua.data.task import ForgetTask
from residua.data.words import EMBEDDED, open_dataset, parse_forget, split_settings, with_settings
from residua.errors import InputError
from residua.measure import InformationCurve, Measure
from residua.study.definition import Row, Study
from residua.study.jobs import Tell, silent
from residua.study.presets import (
    DEPTH,
    EVERYTHING,
    NETWORK,
    TENTH,
    at_scale,
    critics_of_paper,
    curves_of,
    network_for,
    trained_at,
    verbatim,
)
from residua.training.pretraining import Pretraining
from residua.training.recipes import SMALL_MEMORISED, SMALL_TUNED, UNLEARNING, WIDER, Scale
from residua.unlearn import FineTune, Retrain, Unlearner, methods

# What a built-in study forgets unless it is told. [ours] The paper does not say which class, nor which five of ImageNet.
FORGOTTEN = {
    ("fashion-sample", "class"): "class:6",
    ("cifar10", "class"): "class:4",
    ("cifar100", "class"): "class:4",
    ("cifar10", "random"): "samples:500",
    ("cifar100", "random"): "samples:50",
}
# The paper takes an FT with five times the learning rate, FT*, as a reference.
STRONGER_FT = 5
# The paper averages over five trials.
PAPER_SEEDS = 5
# Models without settings to search.
ENDS = ("Original", "Retrain", "Random")
# The part of CIFAR-10 that settings were searched on (records/cifar10-search). [ours] One try of all methods on all of it
# costs an hour and a half of a core, and what is best for a fifth is too much for five times as many steps.
FIFTH = 0.2

More = Literal["", "curves", "critics"]
MORE: tuple[More, ...] = ("", "curves", "critics")


@dataclass(frozen=True)
class Preset:
    """A built-in study: every method at one scale, on one data set, forgetting classes or random samples.

    `references` is the number of Retrains that Original is compared with. `recipes` are those of the scale (ours), the
    paper's, unchanged (verbatim), or those that a search with equal tries found (tuned). `more` is a study of further
    curves of the same models, or of the paper's own critics: in the same folder it finds the models, and its records
    stand beside theirs. `ratio` is the share of retained data that its curve takes; `draws` is the number of unlearning
    seeds of each Original; `part` is that of the training data, unless the words of the data name one. `training` and
    `width` are those of the scale unless they are named.
    """

    name: str
    scale: Scale
    dataset: str
    network: str | None = None  # None leaves the choice to whoever runs it
    scenario: str = "class"
    seeds: int = 1
    references: int = 1
    recipes: Literal["ours", "verbatim", "tuned"] = "ours"
    more: More = ""
    ratio: str = "all"
    draws: int = 1
    part: float = 1
    training: Pretraining | None = None
    width: int | None = None

    def __call__(
        self,
        data: str | None = None,
        forget: str | None = None,
        network: str | None = None,
        tell: Tell = silent,
    ) -> Study:
        task = self._task(data, forget, network, tell)
        name = self.network or network or NETWORK
        measures: tuple[Measure, ...] = (InformationCurve(ratio=self.ratio), *EVERYTHING)
        measures += critics_of_paper(DEPTH[name]) if self.scale == "full" and name in DEPTH else ()
        if self.more:
            measures = (
                curves_of(name, self.ratio) if self.more == "curves" else critics_of_paper(ratio=self.ratio)
            )
        return Study(
            tasks={task.dataset: task},
            networks={name: self._network(task, name)},
            pretraining=self.training or trained_at(self.scale),
            methods=self._methods,
            measures=measures,
            seeds=range(self.seeds),
            scale=self.scale if self.recipes == "ours" else self.name.removesuffix(f"-{self.more}"),
            name=self.name,
            prefix=f"{self.more}-" if self.more else "",
            draws=self.draws,
            compact=self.scale == "small",
        )

    def _network(self, task: ForgetTask, name: str) -> dict[str, Any]:
        fields = network_for(task, self.scale, name)
        if self.width is None:
            return fields
        if "width" not in fields:
            raise InputError(
                f"the study {self.name} sets the width, which {name} does not have; choose a ResNet"
            )
        return fields | {"width": self.width}

    def _task(self, data: str | None, forget: str | None, network: str | None, tell: Tell) -> ForgetTask:
        if data is None and self.dataset not in EMBEDDED:
            raise InputError(f"the study {self.name} needs data; give --data {self.dataset}:DIR")
        if self.network and network and network != self.network:
            raise InputError(
                f"the study {self.name} is one of {self.network}, not of {network}; leave --network out"
            )
        forget = forget or FORGOTTEN.get((self.dataset, self.scenario))
        if forget is None:
            raise InputError(f"the study {self.name} does not know what to forget; give --forget classes:...")
        words = data or self.dataset
        if self.part != 1 and "part" not in split_settings(words)[1]:
            words = with_settings(words, part=self.part)
        opened = open_dataset(words)
        for note in opened.notes:
            tell(f"note: {note}")
        task = parse_forget(opened, forget)
        # The paper's recipes belong to data sets and scenarios; ours serve any.
        if self.scale == "full" and (task.dataset, task.scenario) != (self.dataset, self.scenario):
            raise InputError(
                f"the study {self.name} forgets by {self.scenario} in {self.dataset}, but this is {task.scenario} "
                f"in {task.dataset}; choose another study, or name the data by --data ...?name={self.dataset}"
            )
        if self.recipes == "tuned" and task.scenario != "class":
            raise InputError(
                f"the study {self.name} has settings that were searched for forgotten classes, not for samples; choose "
                "small, or forget classes"
            )
        return task

    def _methods(self, task: ForgetTask, network: Mapping[str, Any]) -> list[Unlearner | Row]:
        """Every method, after Retrain the further references, and the paper's FT* beside its recipes and the searched ones."""
        name = str(network["network"])
        rows: list[Unlearner | Row] = []
        for label in methods():
            if self.recipes == "tuned" and label not in (*ENDS, *SMALL_TUNED):
                continue  # nothing was searched for it
            made: Any = self._method(label, task, name)
            if isinstance(made, Retrain) and self.training is not None:
                made = dataclasses.replace(made, pretraining=self.training)
            rows.append(made)
            if isinstance(made, Retrain):
                rows += [Row(f"Retrain {n + 1}", made, draw=n) for n in range(1, self.references)]
            if isinstance(made, FineTune) and (self.scale == "full" or self.recipes != "ours"):
                rows.append(Row("FT*", dataclasses.replace(made, lr=STRONGER_FT * made.lr)))
        return rows

    def _method(self, label: str, task: ForgetTask, network: str) -> Unlearner:
        if self.recipes == "verbatim":
            return verbatim(label, self.scale, task, network, self.dataset)
        made: Any = at_scale(label, self.scale, task, network)
        return dataclasses.replace(made, **SMALL_TUNED.get(label, {})) if self.recipes == "tuned" else made


def _papers() -> Iterator[Preset]:
    """A study for each data set and network of the paper's tables."""
    for scenario, datasets in UNLEARNING.items():
        for dataset, networks in datasets.items():
            for network in networks:
                suffix = "" if scenario == "class" else f"-{scenario}"
                name = f"paper-{dataset}-{network}{suffix}"
                yield Preset(name, "full", dataset, network, scenario, PAPER_SEEDS)


BUILT_IN: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset("tiny", "tiny", "fashion-sample", references=3),
        Preset("tiny-curves", "tiny", "fashion-sample", references=3, more="curves"),
        Preset("small", "small", "cifar10", references=3, ratio=TENTH, draws=2),
        Preset("small-curves", "small", "cifar10", references=3, ratio=TENTH, more="curves"),
        Preset("small-critics", "small", "cifar10", references=3, ratio=TENTH, more="critics"),
        Preset("small-verbatim", "small", "cifar10", references=3, ratio=TENTH, recipes="verbatim"),
        Preset(
            "small-verbatim-critics",
            "small",
            "cifar10",
            references=3,
            ratio=TENTH,
            recipes="verbatim",
            more="critics",
        ),
        *(
            Preset(
                f"small-tuned{more and '-' + more}",
                "small",
                "cifar10",
                references=3,
                recipes="tuned",
                more=more,
                draws=1 if more else 2,
                part=FIFTH,
            )
            for more in MORE
        ),
        # What may keep the paper's order away: each differs from small-tuned in one thing, the second in two.
        Preset(
            "small-memorised",
            "small",
            "cifar10",
            references=2,
            recipes="tuned",
            part=FIFTH,
            training=SMALL_MEMORISED,
        ),
        Preset(
            "small-memorised-verbatim",
            "small",
            "cifar10",
            references=2,
            recipes="verbatim",
            part=FIFTH,
            training=SMALL_MEMORISED,
        ),
        Preset("small-wide", "small", "cifar10", references=2, recipes="tuned", part=FIFTH, width=WIDER),
        *_papers(),
    )
}
