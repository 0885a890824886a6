"""Presets: the networks, methods and measures that studies take at each scale, and the studies that are built in."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from residua import measure
from residua.audits.auditing import EXTRA_MEASURES, VERDICT_MEASURES
from residua.controls.adaptive import Adaptive
from residua.controls.cheats import CHEATS
from residua.controls.deceivers import DECEIVERS
from residua.controls.hidden import hidden
from residua.controls.impostors import impostors
from residua.controls.retrained import BadReference, otherwise
from residua.data.parsing import EMBEDDED, open_dataset, parse_forget
from residua.data.task import ForgetTask
from residua.errors import InputError
from residua.measure import InformationCurve, Measure, Membership, Recovery
from residua.models.networks import NETWORKS
from residua.report.controls import FURTHER
from residua.study.cells import network_of, starting_file
from residua.study.definition import Row, Study
from residua.study.executors import Tell, silent
from residua.study.schedule import Finished
from residua.text import slug
from residua.training.pretraining import Pretraining
from residua.training.recipes import UNLEARNING, WIDTH, Scale, pretraining, stem_at, unlearning_of
from residua.unlearn import FineTune, Original, Retrain, Unlearner, find, methods

NETWORK = "resnet18"
# The columns of the paper's tables and recovery; IDI needs the information curve too.
FULL_STACK: tuple[Measure, ...] = (measure.Accuracy(), Membership(), measure.ForgetOutputs(), Recovery())
# What else the paper's tables and figures show of a model (AUS, white-box MIA, t-SNE), and what verdicts rest on.
EVERYTHING: tuple[Measure, ...] = (
    *FULL_STACK, measure.ClassAccuracy(), measure.WhiteBoxMembership(), measure.Embedding(), measure.Perturbed(), measure.Representation(), measure.Probe(),
)  # fmt: skip
# Blocks of our networks, the most that a curve can have.
DEPTH = {"resnet18": 5, "resnet50": 6, "vit": 12}
# The paper's tenth of the retained data.
TENTH = "10%"


def network_fields(
    classes: int, shape: tuple[int, int, int], scale: Scale, network: str | None = None, *, starts: bool = False
) -> dict[str, Any]:
    """The network for images of this shape at this scale: the arguments of `networks.build`.

    Where it `starts` from weights, the paper's ViT is among them.
    """
    network = network or NETWORK
    if network not in NETWORKS:
        raise InputError(f"network {network!r} is unknown; choose one of {', '.join(NETWORKS)}")
    channels, side, _ = shape
    fields: dict[str, Any] = {"network": network, "classes": classes, "channels": channels}
    if network != "vit":
        return fields | {"width": WIDTH[scale], "stem": stem_at(scale, side)}
    if scale == "full":
        if not starts:
            raise InputError(
                "the paper's ViT starts from weights of ImageNet-21k, which cannot be drawn; run its study with --init "
                "FILE, timm:NAME or hf:NAME, or choose another network or scale"
            )
        return fields | {"image": side, "variant": "base", "patch": 16}
    if scale == "tiny":
        # [ours] A ViT-Ti with patches of 4 pixels has 26 times the arithmetic of this one.
        return fields | {"image": side, "variant": "micro", "patch": 7 if side % 7 == 0 else 4}
    return fields | {"image": side, "variant": "tiny", "patch": 4}


def network_for(task: ForgetTask, scale: Scale, network: str | None = None, *, starts: bool = False) -> dict[str, Any]:
    return network_fields(task.classes, task.retain.shape, scale, network, starts=starts)


def at_scale(label: str, scale: Scale, task: ForgetTask, network: str = NETWORK) -> Unlearner:
    """The method of this label with the recipe of this scale."""
    method: Any = find(label)
    recipe = unlearning_of(method.label, scale, task.scenario, task.dataset, network)
    return dataclasses.replace(method, **recipe)


def trained_at(scale: Scale) -> Callable[[ForgetTask, Mapping[str, Any]], Pretraining]:
    """The training of Originals at this scale."""
    return lambda task, network: pretraining(scale, task.dataset, str(network["network"]))


def methods_at(
    scale: Scale, labels: Iterable[str] | None = None
) -> Callable[[ForgetTask, Mapping[str, Any]], Sequence[Unlearner]]:
    """Every method, or those named, with the recipes of this scale. Original and Retrain are always there."""
    known = list(methods())
    if labels is not None:
        wanted = {find(label).label for label in labels} | {Original.label, Retrain.label}
        known = [label for label in (*known, *sorted(wanted - set(known))) if label in wanted]
    return lambda task, network: [at_scale(label, scale, task, str(network["network"])) for label in known]


def _study(task: ForgetTask, scale: Scale, network: str | None, **fields: Any) -> Study:
    """A study of one task and one network, trained as this scale does."""
    return Study(
        tasks={task.dataset: task},
        networks={network or NETWORK: network_for(task, scale, network)},
        pretraining=trained_at(scale),
        scale=scale,
        **fields,
    )


def critics_of_paper(last: int | None = None, ratio: str = "all") -> tuple[Measure, ...]:
    """The paper's critics with the paper's learning rates, of the last or the usual blocks, read on their fitting data."""
    return (cast(Measure, NamedCurve(protocol="paper", last=last, ratio=ratio)),)


@dataclass(frozen=True)
class NamedCurve(InformationCurve):
    """An `InformationCurve` whose label names what is special about it: `information-1-5`, `information-10-percent-all-blocks`.

    A record keeps one reading for each label, so a study that reads curves at several ratios, of more blocks or by the
    paper's protocol needs several labels. Settings and numbers are those of `InformationCurve`.
    """

    # mypy: a property stands where InformationCurve has a constant
    @property
    def label(self) -> str:  # type: ignore[override]
        ratio = "" if self.ratio == "all" else slug(self.ratio.replace("%", " percent").replace(":", "-"))
        blocks = "" if self.last is None else f"{self.last}-blocks"
        protocol = "paper" if self.protocol == "paper" else ""
        epochs = f"{self.epochs}-epochs" if self.epochs != InformationCurve.epochs else ""
        parts = [part for part in (protocol, ratio, blocks, epochs) if part]
        return "-".join(["information", *(parts or ["all"])])


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


@dataclass(frozen=True)
class Preset:
    """A built-in study: every method at one scale, on one data set, forgetting classes or random samples.

    Args:
        name: The study's name.
        scale: Scale whose networks, trainings and recipes it takes.
        dataset: Data set that it is made for.
        network: Network that it is made for; None leaves the choice to the caller.
        scenario: Forgetting of a `class` or of `random` samples.
        seeds: Number of Originals.
        references: Number of Retrains that each Original is compared with.
        ratio: Fraction of the retained data that its information curve takes.
        draws: Number of unlearning seeds of each Original.
    """

    name: str
    scale: Scale
    dataset: str
    network: str | None = None
    scenario: str = "class"
    seeds: int = 1
    references: int = 1
    ratio: str = "all"
    draws: int = 1

    def __call__(
        self,
        data: str | None = None,
        forget: str | None = None,
        network: str | None = None,
        tell: Tell = silent,
        init: str | Path | None = None,
    ) -> Study:
        if self.network and network and network != self.network:
            raise InputError(f"the study {self.name} is one of {self.network}, not of {network}; leave --network out")
        name = self.network or network or NETWORK
        task = self.task(data, forget, tell)
        if init is None:
            fields = self.network_of(task, name)
        else:
            fields = network_for(task, self.scale, name, starts=True) | {"init": starting_file(init)}
            for note in network_of(fields).notes:  # weights that do not fit are found now
                tell(f"note: {note}")
        return Study(
            tasks={task.dataset: task},
            networks={name: fields},
            pretraining=self.pretraining(),
            methods=self.methods,
            measures=self.measures(name),
            seeds=range(self.seeds),
            scale=self.scale,
            name=self.name,
            draws=self.draws,
            compact=self.scale == "small",
        )

    def task(self, data: str | None, forget: str | None, tell: Tell) -> ForgetTask:
        """The task; what is odd about its data is told."""
        if data is None and self.dataset not in EMBEDDED:
            raise InputError(f"the study {self.name} needs data; give --data {self.dataset}:DIR")
        forget = forget or FORGOTTEN.get((self.dataset, self.scenario))
        if forget is None:
            raise InputError(f"the study {self.name} does not know what to forget; give --forget classes:...")
        opened = open_dataset(data or self.dataset)
        for note in opened.notes:
            tell(f"note: {note}")
        task = parse_forget(opened, forget)
        # The paper's recipes belong to data sets and scenarios; ours serve any.
        if self.scale == "full" and (task.dataset, task.scenario) != (self.dataset, self.scenario):
            raise InputError(
                f"the study {self.name} forgets by {self.scenario} in {self.dataset}, but this is {task.scenario} "
                f"in {task.dataset}; choose another study, or name the data by --data ...?name={self.dataset}"
            )
        return task

    def network_of(self, task: ForgetTask, name: str) -> dict[str, Any]:
        """The arguments of `networks.build`."""
        return network_for(task, self.scale, name)

    def pretraining(self) -> Pretraining | Callable[[ForgetTask, Mapping[str, Any]], Pretraining]:
        """The training of Originals."""
        return trained_at(self.scale)

    def measures(self, network: str) -> tuple[Measure, ...]:
        """All that is read of a model; the paper's studies fit its critics too."""
        papers = critics_of_paper(DEPTH[network]) if self.scale == "full" and network in DEPTH else ()
        return (InformationCurve(ratio=self.ratio), *EVERYTHING, *papers)

    def methods(self, task: ForgetTask, network: Mapping[str, Any]) -> list[Unlearner | Row]:
        """Every method, the further references after Retrain, and FT* after FT."""
        name = str(network["network"])
        rows: list[Unlearner | Row] = []
        for label in self.labels(task, name):
            made: Any = self.method(label, task, name)
            rows.append(made)
            if isinstance(made, Retrain):
                rows += [Row(f"Retrain {n + 1}", made, draw=n, role="reference") for n in range(1, self.references)]
            if isinstance(made, FineTune) and self.has_stronger_ft():
                rows.append(Row("FT*", dataclasses.replace(made, lr=STRONGER_FT * made.lr)))
        return rows

    def labels(self, task: ForgetTask, network: str) -> list[str]:
        """The labels of its methods."""
        return list(methods())

    def method(self, label: str, task: ForgetTask, network: str) -> Unlearner:
        """The method of this label with its settings."""
        return at_scale(label, self.scale, task, network)

    def has_stronger_ft(self) -> bool:
        """True if the paper's FT* is among the methods."""
        return self.scale == "full"


# Ours, and a study for each data set and network of the paper's tables.
_ours = (
    Preset("tiny", "tiny", "fashion-sample", references=3),
    Preset("small", "small", "cifar10", references=3, ratio=TENTH, draws=2),
)
_papers = [
    Preset(
        f"paper-{dataset}-{network}{'' if scenario == 'class' else f'-{scenario}'}",
        "full", dataset, network, scenario, PAPER_SEEDS,
    )
    for scenario, datasets in UNLEARNING.items()
    for dataset, networks in datasets.items()
    for network in networks
]  # fmt: skip
BUILT_IN: dict[str, Preset] = {preset.name: preset for preset in (*_ours, *_papers)}


def demonstration(task: ForgetTask, *, scale: Scale = "tiny", seed: int = 0, network: str | None = None) -> Study:
    """A few methods, and a second Retrain that must pass, with the measures that verdicts rest on.

    Args:
        task: The forgetting task.
        scale: Scale of the network, trainings and recipes.
        seed: Seed of Original.
        network: Name of the network.
    """
    labels = ("Original", "Retrain", "HD", "COLA", "Random")
    original, retrain, *others = (at_scale(label, scale, task, network or NETWORK) for label in labels)
    again = Row("Retrain again", retrain, draw=1, role="control")
    return _study(
        task,
        scale,
        network,
        name="demo",
        methods=[original, retrain, again, *others],
        measures=(InformationCurve(), *VERDICT_MEASURES, Membership(), Recovery()),
        seeds=(seed,),
    )


def complete(study: Study, out: str | Path, **how: Any) -> Finished:
    """Run the study; one without any record is refused, with the first failure."""
    finished = study.run(out, **how)
    if not finished.records:
        first = next(iter(finished.failures.items()), ("it", "no method supports this task"))
        raise InputError(f"nothing of the study {study.name} could be made; {first[0]}: {first[1]}")
    return finished


def controls(
    task: ForgetTask,
    *,
    scale: Scale = "tiny",
    seeds: Sequence[int] = range(20),
    references: int = 3,
    network: str | None = None,
    labels: Sequence[str] | None = None,
    ratio: str = "all",
) -> Study:
    """Original, references, further Retrains, Random, HD, cheats, deceivers, impostors and references that are none.

    Partly honest models are there besides: FT, a weak COLA (half of its epochs), and a true mixture. Controls that
    cannot forget samples are left out of a task that forgets them.

    Args:
        task: The forgetting task.
        scale: Scale of the network, trainings and recipes.
        seeds: Numbers of the Originals.
        references: Retrains of each seed that the others are compared with.
        network: Name of the network.
        labels: Controls, or methods with the recipes of this scale; by default every control.
        ratio: Fraction of the retained data that information curves take.
    """
    rows = _rows(task, scale, references, network or NETWORK)
    return _study(
        task,
        scale,
        network,
        name="controls",
        methods=rows if labels is None else _chosen(rows, labels, task, scale, network or NETWORK),
        measures=(InformationCurve(ratio=ratio), *VERDICT_MEASURES, *EXTRA_MEASURES),
        seeds=seeds,
    )


def _rows(task: ForgetTask, scale: Scale, references: int, network: str) -> list[Row]:
    """Every control, after Original and the references."""
    labels = ("Original", "Retrain", "HD", "FT", "Random", "COLA")
    made = {label: at_scale(label, scale, task, network) for label in labels}
    retrain: Any = made["Retrain"]
    cola: Any = made["COLA"]
    weak = dataclasses.replace(
        cola, collapse_epochs=max(1, cola.collapse_epochs // 2), align_epochs=max(1, cola.align_epochs // 2)
    )
    others = [Row(f"Retrain {draw + 1}", retrain, draw=draw, role="reference") for draw in range(1, references)]
    return [
        _named(made["Original"]),
        _named(retrain),
        *others,
        Row(FURTHER, retrain, draw=references, role="control"),
        _named(made["Random"]),
        _named(made["HD"]),
        *map(_named, (*CHEATS.values(), *DECEIVERS, Adaptive())),
        *(
            Row(each.label, each, beside=FURTHER)
            for each in (
                *impostors(retrain.pretraining),
                *hidden(retrain.pretraining),
                *otherwise(retrain.pretraining, network=network),
            )
        ),
        *(_named(BadReference(kind, retrain.pretraining)) for kind in ("short", "tainted")),
        _named(made["FT"]),
        Row("Weak COLA", weak),
    ]


def _named(method: Unlearner) -> Row:
    return Row(method.label, method)


def _chosen(rows: list[Row], labels: Sequence[str], task: ForgetTask, scale: Scale, network: str) -> list[Row]:
    """Original and the references; of the others those of `labels`, and methods that are no controls."""
    known = {row.label.casefold(): row for row in rows}
    chosen = [known.get(label.casefold()) or _named(at_scale(label, scale, task, network)) for label in labels]
    needed = {row.beside for row in chosen}
    wanted = {*needed, *(row.label for row in chosen)}
    kept = [row for row in rows if row.label in wanted or row.part in ("original", "reference")]
    return kept + [row for row in chosen if row not in rows]
