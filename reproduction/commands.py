"""Commands: what makes the records that a table or figure lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reproduction.cases import Case

# What the built-in studies forget where it is not the one class that they forget by themselves.
FORGET = {
    ("tiny", "random", 1): "samples:50",
    ("small", "random", 1): "samples:500",
    ("tiny", "class", 2): "classes:2,6",
    ("small", "class", 2): "classes:4,5",
}
# Built-in studies with settings that were searched for a class.
TUNED = ("small-tuned", "small-memorised")
# Built-in studies of further curves of another study's models.
CURVES = ("tiny-curves", "small-curves", "small-tuned-curves")


def command_for(case: Case, scale: str | None = None, *, curves: bool = False) -> str:
    """A command line of `residua study run` that makes records of this case at this scale (tiny if none is named)."""
    scale = scale or "tiny"
    several = min(case.classes, 2)
    if scale == "full":
        return _full(case, several)
    base = "tiny" if scale == "tiny" else "small"
    if scale in TUNED and case.scenario == "random":
        scale = "small"  # nothing was searched for random samples
    study = f"{scale}-curves" if curves and f"{scale}-curves" in CURVES else scale
    forget = FORGET.get((base, case.scenario, several), "")
    own = study not in ("tiny", "small")
    words = ["python -m reproduction run" if own else "residua study run", study]
    words += ["--data cifar10:DIR"] if base == "small" else []
    words += [f"--forget {forget}"] if forget else []
    words += [f"--network {case.network}"] if case.network != "resnet18" else []
    words += ["--seeds 3"] if base == "tiny" else []
    return " ".join([*words, "--out runs/"])


def _full(case: Case, several: int) -> str:
    suffix = "-random" if case.scenario == "random" else ""
    if case.network == "vit":
        # The paper's ViT begins with weights of ImageNet-21k, which a study cannot draw.
        return (
            f"residua train --init FILE --network vit --scale full --data {case.dataset}:DIR --forget class:4 "
            "--out original.safetensors"
        )
    forget = " --forget classes:" + ",".join(map(str, range(case.classes))) if several > 1 else ""
    return (
        f"residua study run paper-{case.dataset}-{case.network}{suffix} --data {case.dataset}:DIR{forget} --out runs/"
    )
