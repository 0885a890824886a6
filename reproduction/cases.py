"""Cases: which data, network and forgetting each number of the paper is of, and which of our records stand for it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

from reproduction.labels import BLOCKS, DATASETS, LAST, NETWORKS, THIRTEEN, TRIALS, WIDTH
from reproduction.record_index import Group, RecordIndex, best_first
from residua.errors import InputError
from residua.readings import Curve

# From the one that says most of the paper to the one that says least. `small-tuned` has settings that were searched with
# the same number of tries for every method, on the fifth of CIFAR-10 that they were searched on; `small-verbatim` the
# paper's learning rates, epochs and batch sizes on our small networks, `small-converged` too, on an Original that was
# trained to the end, and `small-gauged` on one with smaller weights. `small-memorised` is `small-tuned` with an Original
# that knows its training images by heart.
Scales = Literal[
    "full", "small", "small-converged", "small-gauged", "small-tuned", "small-verbatim", "small-memorised", "tiny"
]
SCALES: tuple[str, ...] = get_args(Scales)
STAND_IN = {scale: "fashion-sample" if scale == "tiny" else "cifar10" for scale in SCALES[1:]}
RECIPES = {
    "full": "the paper's",
    "small-memorised": "those of small-tuned, which were searched for another Original",
    "small-tuned": "ours, searched with the same number of tries for every method",
    **dict.fromkeys(
        ("small-converged", "small-gauged", "small-verbatim"),
        "the paper's learning rates, epochs and batch sizes, unchanged",
    ),
}
# Versions whose estimator could be fooled by a rotation: their records say how settings were chosen, and nothing else.
OLD = "0.1."
# Training images of the paper's data sets.
IMAGES = {"cifar10": 50_000, "cifar100": 50_000}


@dataclass(frozen=True)
class Case:
    """A setting of the paper: data set and network as records name them, what is forgotten, and of how many classes."""

    dataset: str
    network: str
    scenario: str = "class"
    classes: int = 1

    @property
    def words(self) -> str:
        data = next((name for name, ours in DATASETS.items() if ours == self.dataset), self.dataset)
        network = next((name for name, ours in NETWORKS.items() if ours == self.network), self.network)
        if self.scenario == "random":
            return f"{data}, {network}, random samples forgotten"
        return f"{data}, {network}, {self.classes} class{'es' if self.classes > 1 else ''} forgotten"

    @property
    def last(self) -> int:
        return LAST.get(self.network, 2)

    @property
    def blocks(self) -> int:
        return BLOCKS.get(self.network, 5)

    def fits(self, group: Group, scale: str) -> bool:
        """True if records of this group are of this case at this scale: the network always, data or what stands in."""
        if (group.scale, group.network.get("network"), group.task.scenario) != (scale, self.network, self.scenario):
            return False
        if group.dataset not in (self.dataset, STAND_IN.get(scale)):
            return False
        several = len(group.task.forgotten_classes or []) > 1
        return self.scenario == "random" or several == (self.classes > 1)


def own_case(group: Group) -> Case:
    """Description of a group of records without the paper."""
    classes = len(group.task.forgotten_classes or []) or 1
    name = str(group.network.get("network") or group.network.get("adopted", "own network"))
    return Case(group.dataset, name, group.task.scenario or "class", classes)


def case_of(table: str, setting: str) -> Case:
    """The case of one setting of one table."""
    data = next(ours for name, ours in sorted(DATASETS.items(), reverse=True) if name in _with_data(table, setting))
    network = next((ours for name, ours in NETWORKS.items() if name in setting), _network(table, setting))
    if "random" in table:
        return Case(data, network, "random")
    count = re.search(r"(\d+)-class", setting)
    classes = int(count[1]) if count else 5 if "five classes" in setting or "5_class" in table else 1
    return Case(data, network, "class", classes)


def _with_data(table: str, setting: str) -> str:
    return setting if any(name in setting for name in DATASETS) else "CIFAR-100"  # the table of run times


def _network(table: str, setting: str) -> str:
    return "resnet50" if "ImageNet" in setting else "resnet18"


def chosen_group(index: RecordIndex, case: Case, scale: str | None = None) -> Group | None:
    """The records that stand for this case: of the scale that was asked for, or of the largest that has most of the methods."""
    if scale is not None and scale not in SCALES:
        raise InputError(f"scale {scale!r} is unknown; choose one of {', '.join(SCALES)}")
    fitting = [
        group
        for group in best_first(index.groups, SCALES if scale is None else (scale,))
        if case.fits(group, group.scale) and group.labelled("Original") and not group.version.startswith(OLD)
    ]
    fitting.sort(key=lambda group: (SCALES.index(group.scale), group.dataset != case.dataset))
    most = [group for group in fitting if sum(bool(group.labelled(label)) for label in THIRTEEN) > len(THIRTEEN) / 2]
    return next(iter(most or fitting), None)


def by_paper(curve: Curve) -> bool:
    """True if these are the paper's critics, which are read on the data that they were fitted on."""
    return bool(curve.about.get("measure", {}).get("protocol") == "paper")


def differences(case: Case, group: Group) -> list[str]:
    """Differences from the paper beside chance, in plain words."""
    task = group.task
    lines = []
    if group.dataset != case.dataset:
        lines.append(f"data: {task.dataset} stands in for {case.words.split(',')[0]}")
    elif task.dataset != case.dataset:
        lines.append(f"data: {task.dataset}, a JPEG copy of {case.words.split(',')[0]}")
    trained, theirs = task.size("retain") + task.size("forget"), IMAGES.get(group.dataset)
    if theirs is not None and trained != theirs:
        lines.append(f"training images: {trained:,} of {theirs:,}")
    if case.scenario == "class":
        forgotten = task.forgotten_classes or []
        number = "" if len(forgotten) == case.classes else f" ({len(forgotten)} classes, the paper {case.classes})"
        lines.append(f"forgotten: class {', '.join(map(str, forgotten))}{number}; the paper does not name its own")
    else:
        lines.append(f"forgotten: {task.size('forget')} samples")
    if group.width is not None and group.width != WIDTH:
        lines.append(f"network: {case.network} of width {group.width}, the paper's {WIDTH}")
    lines += _training(case, group)
    curves = [curve for model in group.models for curve in model.curves.values()]
    ours = [curve for curve in curves if not by_paper(curve)]
    if ours:
        read = len(ours[0].labels)
        lines.append(f"critics: read on unseen data ({read} samples), the paper's on the data they were fitted on")
    return lines


def _training(case: Case, group: Group) -> list[str]:
    """Epochs of Original, which Retrain's record names, recipes, and numbers of models."""
    lines = []
    retrain = next((m for m in group.labelled("Retrain") if "pretraining" in m.fields), None)
    if retrain is not None:
        theirs = {"vit": 3}.get(case.network, 90 if case.dataset == "imagenet" else 300)
        own = retrain.fields["pretraining"]["epochs"]
        lines += [f"pretraining: {own} epochs, the paper's {theirs}"] if own != theirs else []
    lines.append(f"recipes: {RECIPES.get(group.scale, 'ours, for short trainings')}")
    seeds = ", ".join(map(str, group.seeds))
    draws = 1 + max((model.draw for model in group.models), default=0)
    again = f", {draws} unlearnings each" if draws > 1 else ""
    references = len(group.references_of(group.labelled("Original")[0]))
    lines.append(
        f"models: {len(group.seeds)} Original{'s' if len(group.seeds) > 1 else ''} (seed {seeds}){again}, "
        f"{references} Retrain{'s' if references > 1 else ''} each; the paper has {TRIALS} trials"
    )
    return lines
