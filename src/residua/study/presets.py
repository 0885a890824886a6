"""Presets: the networks, methods and measures that studies take at each scale, and the built-in studies."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from residua.data.task import ForgetTask
from residua.data.words import EMBEDDED, open_dataset, parse_forget
from residua.errors import InputError
from residua.measure import Accuracy, ForgetOutputs, InformationCurve, Measure, Membership, Recovery
from residua.models.networks import NETWORKS, stem_for
from residua.study.definition import Study
from residua.training.pretraining import Pretraining
from residua.training.recipes import UNLEARNING, WIDTH, Scale, pretraining, unlearning_of
from residua.unlearn import Unlearner, find, methods

NETWORK = "resnet18"
# The columns of the paper's tables and recovery; IDI needs the information curve too.
FULL_STACK: tuple[Measure, ...] = (Accuracy(), Membership(), ForgetOutputs(), Recovery())


def network_fields(
    classes: int, shape: tuple[int, int, int], scale: Scale, network: str | None = None
) -> dict[str, Any]:
    """Which network images of this shape get at this scale: the arguments of `networks.build`."""
    network = network or NETWORK
    if network not in NETWORKS:
        raise InputError(f"network {network!r} is unknown; choose one of {', '.join(NETWORKS)}")
    channels, side, _ = shape
    fields: dict[str, Any] = {"network": network, "classes": classes, "channels": channels}
    if network != "vit":
        return fields | {"width": WIDTH[scale], "stem": stem_for(side)}
    if scale == "full":
        raise InputError(
            "the paper's ViT starts from weights of ImageNet-21k, which a study cannot draw; make the models with "
            "residua train --init FILE, or choose another network or scale"
        )
    return fields | {"image": side, "variant": "tiny", "patch": 4}


def network_for(task: ForgetTask, scale: Scale, network: str | None = None) -> dict[str, Any]:
    return network_fields(task.classes, task.retain.shape, scale, network)


def at_scale(label: str, scale: Scale, task: ForgetTask, network: str = NETWORK) -> Unlearner:
    """The method of this label with the recipe of this scale."""
    method: Any = find(label)
    recipe = unlearning_of(method.label, scale, task.scenario, task.dataset, network)
    return dataclasses.replace(method, **recipe)


def trained_at(scale: Scale) -> Callable[[ForgetTask, Mapping[str, Any]], Pretraining]:
    """How Originals are trained at this scale."""
    return lambda task, network: pretraining(scale, task.dataset, str(network["network"]))


def methods_at(
    scale: Scale, labels: Iterable[str] | None = None
) -> Callable[[ForgetTask, Mapping[str, Any]], Sequence[Unlearner]]:
    """Every method, or those named, with the recipes of this scale. Original and Retrain are always there."""
    known = list(methods())
    if labels is not None:
        wanted = {find(label).label for label in labels} | {"Original", "Retrain"}
        known = [label for label in (*known, *sorted(wanted - set(known))) if label in wanted]
    return lambda task, network: [at_scale(label, scale, task, str(network["network"])) for label in known]


def every_method(
    task: ForgetTask,
    *,
    scale: Scale = "tiny",
    labels: Iterable[str] | None = None,
    seeds: Sequence[int] = (0,),
    measures: Sequence[Measure] | None = None,
    network: str | None = None,
    name: str = "catalogue",
) -> Study:
    """Every method on one task: the paper's metrics and the information curve."""
    return Study(
        tasks={task.dataset: task},
        networks={network or NETWORK: network_for(task, scale, network)},
        pretraining=trained_at(scale),
        methods=methods_at(scale, labels),
        measures=(InformationCurve(), *FULL_STACK) if measures is None else measures,
        seeds=seeds,
        scale=scale,
        name=name,
    )


# What a built-in study forgets unless it is told. [ours] The paper does not say which class, nor which five of ImageNet.
FORGOTTEN = {
    ("fashion-sample", "class"): "class:6",
    ("cifar10", "class"): "class:4",
    ("cifar100", "class"): "class:4",
    ("cifar10", "random"): "samples:500",
    ("cifar100", "random"): "samples:50",
}
# The paper averages over five trials.
PAPER_SEEDS = 5


@dataclass(frozen=True)
class Preset:
    """A built-in study: every method at one scale, on one data set, forgetting classes or random samples."""

    name: str
    scale: Scale
    dataset: str
    network: str | None = None  # None leaves the choice to whoever runs it
    scenario: str = "class"
    seeds: int = 1

    def __call__(
        self, data: str | None = None, forget: str | None = None, network: str | None = None
    ) -> Study:
        if data is None and self.dataset not in EMBEDDED:
            raise InputError(f"the study {self.name} needs data; give --data {self.dataset}:DIR")
        if self.network and network and network != self.network:
            raise InputError(
                f"the study {self.name} is one of {self.network}, not of {network}; leave --network out"
            )
        forget = forget or FORGOTTEN.get((self.dataset, self.scenario))
        if forget is None:
            raise InputError(
                f"the study {self.name} has to be told what to forget; give --forget classes:..."
            )
        task = parse_forget(open_dataset(data or self.dataset), forget)
        # The paper's recipes belong to data sets and scenarios; ours serve any.
        if self.scale == "full" and (task.dataset, task.scenario) != (self.dataset, self.scenario):
            raise InputError(
                f"the study {self.name} forgets by {self.scenario} in {self.dataset}, but this is {task.scenario} "
                f"in {task.dataset}; choose another study, or name the data by --data ...?name={self.dataset}"
            )
        return every_method(
            task,
            scale=self.scale,
            seeds=range(self.seeds),
            network=self.network or network,
            name=self.name,
        )


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
        Preset("tiny", "tiny", "fashion-sample"),
        Preset("small", "small", "cifar10"),
        *_papers(),
    )
}
