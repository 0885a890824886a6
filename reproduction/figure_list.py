"""The paper's figures of results: what each shows, of which settings and methods, and what it needs of records.

Its drawings of ideas (the areas of IDI, the critic, HD, COLA's collapse) show no numbers, and are not here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from reproduction.cases import Case
from reproduction.labels import METHODS, SIX
from residua.errors import InputError

Kind = Literal["metrics", "tsne", "recovery", "curves", "accuracy", "ratio"]


@dataclass(frozen=True)
class FigureSpec:
    """`methods` beside Original and Retrain; `quantities` of figures of metrics; `table` has the paper's numbers, if any."""

    label: str
    kind: Kind
    about: str
    cases: tuple[Case, ...]
    methods: tuple[str, ...] = METHODS
    quantities: tuple[str, ...] = ()
    table: str | None = None

    @property
    def needs(self) -> str:
        return NEEDS[self.kind]


NEEDS: dict[str, str] = {
    "metrics": "accuracy, mia, outputs, class-accuracy; U-LiRA's records where the figure has it",
    "tsne": "tsne",
    "recovery": "recovery, information",
    "curves": "information of several blocks",
    "accuracy": "information of several blocks",
    "ratio": "information at several ratios",
}
CIFAR10 = Case("cifar10", "resnet18")
CIFAR10_50 = Case("cifar10", "resnet50")
CIFAR10_VIT = Case("cifar10", "vit")
CIFAR100 = Case("cifar100", "resnet18")
BLACK_BOX = ("RTE_min", "TA", "MIA", "JSD")
MORE = (*BLACK_BOX, "ZRF", "AUS")
SHOWN = ("FT", "RL", "GA", "l1-sparse", "SCRUB", "SALUN")
ALL_CASES = tuple(Case(d, n) for n in ("resnet18", "resnet50", "vit") for d in ("cifar10", "cifar100"))

FIGURES = (
    FigureSpec("fig:exp__hd_rte_ta", "metrics", "HD against the black-box metrics, one class", (CIFAR10,), SIX,
               BLACK_BOX, "tab:single_class_cifar10"),
    FigureSpec("fig:exp__hd_rte_ta_larger", "metrics", "HD against more black-box metrics, one class", (CIFAR10,), SIX,
               (*MORE, "U-LiRA"), "tab:single_class_cifar10"),
    FigureSpec("fig:exp__hd_rte_taM5_larger", "metrics", "HD against the black-box metrics, five classes",
               (Case("cifar100", "resnet18", "class", 5),), SIX, MORE, "tab:multi_class_unlearning"),
    FigureSpec("fig:exp__hd_rte_taM20_larger", "metrics", "HD against the black-box metrics, twenty classes",
               (Case("cifar100", "resnet18", "class", 20),), SIX, MORE, "tab:multi_class_unlearning"),
    FigureSpec("fig:exp__hd_rte_taS_larger", "metrics", "HD against the black-box metrics, random samples",
               (Case("cifar10", "resnet18", "random"),), SIX, (*BLACK_BOX, "AUS"), "tab:random_sample_unlearning"),
    FigureSpec("fig:representation_tsne", "tsne", "t-SNE of encoders: Original, Retrain, GA, RL, SALUN", (CIFAR10,),
               ("GA", "RL", "SALUN")),
    FigureSpec("fig:analysis_t-sne", "tsne", "t-SNE of encoders of ResNet-50", (CIFAR10_50,),
               ("CF-5", "FT", "l1-sparse", "COLA")),
    FigureSpec("fig:exp__recovery", "recovery", "recovered accuracy against IDI", (CIFAR10,), ("HD", *METHODS)),
    FigureSpec("fig:mi__resnet18_resnet50_cifar10_class", "curves", "information per block and IDI, one class",
               (CIFAR10, CIFAR10_50), SHOWN),
    FigureSpec("fig:mutual_information_curves", "curves", "information per block for every data set and network",
               ALL_CASES),
    FigureSpec("fig:representation_mi_for_mutliclasses", "curves", "information per block, several classes",
               (Case("cifar10", "resnet18", "class", 2), Case("cifar100", "resnet18", "class", 5),
                Case("cifar100", "resnet18", "class", 20))),
    FigureSpec("fig:intermediate_accuracy", "accuracy", "accuracy of telling forget from retain, per block", (CIFAR10,), ()),
    FigureSpec("fig:exp__ratio", "ratio", "IDI against the ratio of forget to retain", (CIFAR100,),
               ("FT", "RL", "GA", "CF-10", "SALUN", "SCRUB")),
    FigureSpec("fig:resnet18_cifar10_alltsne", "tsne", "t-SNE of encoders, every method, ResNet-18", (CIFAR10,)),
    FigureSpec("fig:resnet50_cifar10_alltsne", "tsne", "t-SNE of encoders, every method, ResNet-50", (CIFAR10_50,)),
    FigureSpec("fig:vit_cifar10_alltsne", "tsne", "t-SNE of encoders, every method, ViT", (CIFAR10_VIT,)),
    FigureSpec("fig:sample_unlearn_tsne", "tsne", "t-SNE of forgotten samples, random forgetting: Bad-T, l1-sparse",
               (Case("cifar10", "resnet18", "random"),), ("Bad-T", "l1-sparse")),
)  # fmt: skip


def figure_spec(label: str) -> FigureSpec:
    """By its label, with or without `fig:`."""
    wanted = label if label.startswith("fig:") else f"fig:{label}"
    found = [each for each in FIGURES if each.label == wanted]
    if not found:
        raise InputError(f"the paper has no figure {label!r}; see python -m reproduction --list")
    return found[0]
