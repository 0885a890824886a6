"""Presets: the networks, methods and measures that studies take at each scale, and the built-in studies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from residua.data.task import ForgetTask
from residua.data.words import open_dataset, parse_forget
from residua.errors import InputError
from residua.measure import Accuracy, ForgetOutputs, InformationCurve, Measure, Membership, Recovery
from residua.models.networks import stem_for
from residua.study.definition import Study
from residua.training.pretraining import Pretraining
from residua.training.recipes import WIDTH, Scale, pretraining, unlearning_of
from residua.unlearn import Unlearner, find, methods

NETWORK = "resnet18"
# The columns of the paper's tables and recovery; IDI needs the information curve too.
FULL_STACK: tuple[Measure, ...] = (Accuracy(), Membership(), ForgetOutputs(), Recovery())


def network_fields(classes: int, shape: tuple[int, int, int], scale: Scale) -> dict[str, Any]:
    """Which network images of this shape get at this scale: the arguments of `networks.build`."""
    channels, side, _ = shape
    fields = {"classes": classes, "channels": channels, "width": WIDTH[scale], "stem": stem_for(side)}
    return {"network": NETWORK} | fields


def network_for(task: ForgetTask, scale: Scale) -> dict[str, Any]:
    return network_fields(task.classes, task.retain.shape, scale)


def at_scale(label: str, scale: Scale, task: ForgetTask, network: str = NETWORK) -> Unlearner:
    """The method of this label with the recipe of this scale."""
    label = find(label).label
    return find(label, **unlearning_of(label, scale, task.scenario, task.dataset, network))


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
    name: str = "catalogue",
) -> Study:
    """Every method on one task: the paper's metrics and the information curve."""
    return Study(
        tasks={task.dataset: task},
        networks={NETWORK: network_for(task, scale)},
        pretraining=trained_at(scale),
        methods=methods_at(scale, labels),
        measures=(InformationCurve(), *FULL_STACK) if measures is None else measures,
        seeds=seeds,
        scale=scale,
        name=name,
    )


def tiny(data: str | None = None, forget: str | None = None) -> Study:
    """The embedded data, class 6 forgotten, every method."""
    task = parse_forget(open_dataset(data or "fashion-sample"), forget or "class:6")
    return every_method(task, scale="tiny", name="tiny")


def small(data: str | None = None, forget: str | None = None) -> Study:
    """CIFAR-10, class 4 forgotten, every method at width 16: hours on two cores."""
    if data is None:
        raise InputError("the study small needs data; give --data cifar10:DIR")
    return every_method(parse_forget(open_dataset(data), forget or "class:4"), scale="small", name="small")


BUILT_IN: dict[str, Callable[..., Study]] = {"tiny": tiny, "small": small}
