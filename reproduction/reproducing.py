"""Reproducing: one label of the paper, its numbers and ours; and what there is to reproduce."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from reproduction.cases import SCALES
from reproduction.figure_list import FIGURES, FigureSpec, figure_spec
from reproduction.figure_numbers import Panel, figure_panels
from reproduction.labels import SETTINGS
from reproduction.numbers import numbers_of, table_labels
from reproduction.record_index import RecordIndex
from reproduction.settings_tables import settings_parts
from reproduction.tables import Part, Question, Row, table_parts
from residua.errors import InputError

# What each table shows, in our words.
ABOUT = {
    "tab:main_baseline": "every method, one class of CIFAR-10 and five of ImageNet",
    "tab:main_supcon_random": "every method, random samples of CIFAR-10",
    "tab:main_white": "IDI beside white-box membership attacks",
    "tab:single_class_cifar10": "every method and network, one class of CIFAR-10",
    "tab:single_class_cifar100": "every method and network, one class of CIFAR-100",
    "tab:multi_class_unlearning": "every method, several classes",
    "tab:5_class_unlearning_imagenet": "every method, five classes of ImageNet",
    "tab:random_sample_unlearning": "every method, random samples",
    "tab:diverse_idi_model": "IDI by the number of last blocks, ResNet-18",
    "tab:diverse_idi_model2": "IDI by the number of last blocks, ResNet-50",
    "tab:diverse_base_model": "IDI by the reference, and the order of methods",
    "tab:mi_runtime_cifar100": "minutes of the estimate of each block",
    "tab:resnet18_cifar10_std": "spread per block, ResNet-18",
    "tab:resnet50_cifar10_std": "spread per block, ResNet-50",
    "tab:ratio_std": "spread of IDI by ratio",
    "tab:pretraining_detail": "how Original and Retrain are trained",
    "tab:hyperparam_class": "hyperparameters, class-wise forgetting",
    "tab:hyperparam_sample": "hyperparameters, random samples",
}
NEEDS = {
    "tab:main_white": "white-box-mia, information",
    "tab:mi_runtime_cifar100": "seconds of each block, at 10 % and all of the retained data",
    "tab:diverse_base_model": "information; rows COLA, EU-10 and FT* as references",
    "tab:diverse_idi_model": "information of every block",
    "tab:diverse_idi_model2": "information of every block",
    "tab:resnet18_cifar10_std": "information of every block, at least two seeds",
    "tab:resnet50_cifar10_std": "information of every block, at least two seeds",
    "tab:ratio_std": "information at several ratios, at least two seeds",
}


@dataclass(frozen=True)
class Reproduction:
    """A table or a figure: parts with their rows, and for a figure its panels."""

    label: str
    parts: tuple[Part, ...]
    spec: FigureSpec | None = None
    panels: tuple[Panel, ...] = field(default=(), repr=False)

    @property
    def rows(self) -> list[Row]:
        return [row for part in self.parts for row in part.rows]

    def as_json(self) -> dict[str, Any]:
        """The rows; beside them, for each setting, what differs, what is missing and what makes it."""
        return {
            "rows": [row.as_json() for row in self.rows],
            "settings": [
                {
                    "setting": part.setting,
                    "scale": part.scale,
                    "differs": list(part.differs),
                    "missing": list(part.missing),
                    "commands": list(part.commands),
                }
                for part in self.parts
            ],
        }


def reproduce(
    label: str, index: RecordIndex, scale: str | None = None, question: Question | None = None
) -> Reproduction:
    """One label, with or without `tab:` or `fig:`, from records alone."""
    if scale is not None and scale not in SCALES:
        raise InputError(f"scale {scale!r} is unknown; choose one of {', '.join(SCALES)}")
    whole = full_label(label)
    if whole in SETTINGS:
        return Reproduction(whole, tuple(settings_parts(whole, scale)))
    if whole.startswith("tab:"):
        return Reproduction(whole, tuple(table_parts(whole, index, scale, question)))
    spec = figure_spec(whole)
    panels = tuple(figure_panels(spec, index, scale, question))
    return Reproduction(whole, tuple(panel.part for panel in panels), spec, panels)


def all_labels() -> list[str]:
    """Tables of results, tables of settings, figures."""
    return [*table_labels(), *SETTINGS, *(spec.label for spec in FIGURES)]


def full_label(label: str) -> str:
    known = all_labels()
    for whole in (label, f"tab:{label}", f"fig:{label}"):
        if whole in known:
            return whole
    raise InputError(f"the paper has no table or figure {label!r}; python -m reproduction --list names all")


@dataclass(frozen=True)
class Entry:
    """One line of `--list`: what a label shows, what it needs, and the settings that have records, of the paper's own data
    and of data that stand in for it."""

    label: str
    about: str
    needs: str
    own: str
    stand_in: str


def listing(index: RecordIndex, scale: str | None = None) -> list[Entry]:
    entries = []
    for label in all_labels():
        about = ABOUT.get(label) or figure_spec(label).about
        if label in SETTINGS:
            entries.append(Entry(label, about, "nothing: recipes", "yes", ""))
            continue
        needs = NEEDS.get(label) or _needs(label)
        made = reproduce(label, index, scale)
        found = [(panel.about["scale"], panel.part.own) for panel in made.panels if panel.enough]
        if made.spec is None:
            found = [(part.scale or "", part.own) for part in made.parts if part.there]
        entries.append(Entry(label, about, needs, *(_count(found, len(made.parts), own) for own in (True, False))))
    return entries


def _count(found: list[tuple[str, bool]], settings: int, own: bool) -> str:
    scales = [scale for scale, of in found if of == own]
    return f"{len(scales)} of {settings} settings ({', '.join(dict.fromkeys(scales))})" if scales else "no"


def _needs(label: str) -> str:
    if label.startswith("fig:"):
        return figure_spec(label).needs
    quantities = {number.quantity for number in numbers_of(label)}
    of = {"UA": "accuracy", "MIA": "mia", "JSD": "outputs", "IDI": "information"}
    return ", ".join(of[name] for name in of if name in quantities)
