"""Presets: the networks, methods and measures that studies take at each scale."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from residua.data.task import ForgetTask
from residua.errors import InputError
from residua.measure import (
    Accuracy,
    ClassAccuracy,
    Embedding,
    ForgetOutputs,
    InformationCurve,
    Measure,
    Membership,
    Perturbed,
    Probe,
    Recovery,
    Representation,
    WhiteBoxMembership,
)
from residua.models.networks import NETWORKS
from residua.study.definition import Study
from residua.study.named_curves import NamedCurve
from residua.training.pretraining import Pretraining
from residua.training.recipes import (
    WIDTH,
    Scale,
    pretraining,
    stem_at,
    unlearning_of,
)
from residua.unlearn import Retrain, Unlearner, find, methods

NETWORK = "resnet18"
# The columns of the paper's tables and recovery; IDI needs the information curve too.
FULL_STACK: tuple[Measure, ...] = (Accuracy(), Membership(), ForgetOutputs(), Recovery())
# What else the paper's tables and figures show of a model (AUS, white-box MIA, t-SNE), and what verdicts rest on.
EVERYTHING: tuple[Measure, ...] = (
    *FULL_STACK,
    ClassAccuracy(),
    WhiteBoxMembership(),
    Embedding(),
    Perturbed(),
    Representation(),
    Probe(),
)
# Blocks of our networks, the most that a curve can have.
DEPTH = {"resnet18": 5, "resnet50": 6, "vit": 12}
# Forget : retain, and the paper's tenth of the retained data.
TENTH = "10%"
RATIOS = ("1:1", "1:5", TENTH)


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
        return fields | {"width": WIDTH[scale], "stem": stem_at(scale, side)}
    if scale == "full":
        raise InputError(
            "the paper's ViT starts from weights of ImageNet-21k, which a study cannot draw; make the models with "
            "residua train --init FILE, or choose another network or scale"
        )
    if scale == "tiny":
        # [ours] A ViT-Ti with patches of 4 pixels has 26 times the arithmetic of this one.
        return fields | {"image": side, "variant": "micro", "patch": 7 if side % 7 == 0 else 4}
    return fields | {"image": side, "variant": "tiny", "patch": 4}


def network_for(task: ForgetTask, scale: Scale, network: str | None = None) -> dict[str, Any]:
    return network_fields(task.classes, task.retain.shape, scale, network)


def at_scale(label: str, scale: Scale, task: ForgetTask, network: str = NETWORK) -> Unlearner:
    """The method of this label with the recipe of this scale."""
    method: Any = find(label)
    recipe = unlearning_of(method.label, scale, task.scenario, task.dataset, network)
    return dataclasses.replace(method, **recipe)


def verbatim(label: str, scale: Scale, task: ForgetTask, network: str, dataset: str) -> Unlearner:
    """The method with the paper's learning rates, epochs and batch sizes for `dataset`, unchanged.

    Original and Retrain are trained as at this scale. What the paper's tables do not name (HD, Random, ...) keeps its
    defaults.
    """
    method: Any = find(label)
    if isinstance(method, Retrain):
        return at_scale(label, scale, task, network)
    return dataclasses.replace(method, **unlearning_of(method.label, "full", task.scenario, dataset, network))


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


def curves_of(network: str, main: str = "all") -> tuple[Measure, ...]:
    """Further curves of a model: at the ratios of the paper's figure, and of every block on a tenth of the retained data.

    `main` is the ratio of the study whose models they are; where it is not `all`, that is among them.
    """
    most, ratios = DEPTH[network], RATIOS if main == "all" else (*RATIOS, "all")
    curves = [NamedCurve(ratio=ratio, last=most if ratio == TENTH else None) for ratio in ratios]
    return tuple(cast(Measure, curve) for curve in curves)  # their label is a property


def critics_of_paper(last: int | None = None, ratio: str = "all") -> tuple[Measure, ...]:
    """The paper's critics with the paper's learning rates, of the last or the usual blocks, read on their fitting data."""
    return (cast(Measure, NamedCurve(protocol="paper", last=last, ratio=ratio)),)
