"""How many shadow models U-LiRA uses: the paper's numbers, and small ones for two cores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from residua.training.recipes.pretrainings import Scale


@dataclass(frozen=True)
class ShadowNumbers:
    """`models` shadow models, each of which unlearns `forget_sets` sets of about `size` examples of `of_class`."""

    models: int
    forget_sets: int
    size: int
    of_class: int
    variance: Literal["example", "shared"]


# `full` is the paper's, appendix on metrics: 128 models, 40 forget sets of 200, class 4 of CIFAR-10. The others
# are ours: eight shadow models give an example four scores a side, too few for a variance of its own.
SHADOWS: dict[Scale, ShadowNumbers] = {
    "tiny": ShadowNumbers(models=16, forget_sets=4, size=40, of_class=6, variance="shared"),
    "small": ShadowNumbers(models=16, forget_sets=10, size=200, of_class=4, variance="shared"),
    "full": ShadowNumbers(models=128, forget_sets=40, size=200, of_class=4, variance="example"),
}
