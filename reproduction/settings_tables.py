"""The paper's tables of hyperparameters, with those of our scales beside them. They are recipes, so nothing is measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from reproduction.labels import DATASETS, NETWORKS, PRETRAINING, SCENARIOS
from reproduction.tables import Part, Row

# The settings that the table of pretraining has.
SHOWN = ("epochs", "batch", "lr", "momentum", "weight_decay")


def settings_parts(label: str, scale: str | None = None) -> list[Part]:
    """Every data set and network of the table; the paper's value, and ours at this scale (small if none is named)."""
    scale = scale or "small"
    by_setting: dict[str, list[Row]] = {}
    for setting, method, theirs, ours in _pretraining(scale) if label == PRETRAINING else _methods(label, scale):
        for name, value in theirs.items():
            own = ours.get(name)
            row = Row(label, setting, method, name, float(value), None, own, None, 0, scale)
            by_setting.setdefault(setting, []).append(row)
    return [
        Part(
            setting,
            setting,
            tuple(rows),
            (
                f"ours are the recipes of the {scale} scale, which serve any data set; residua explain recipes has all fields",
            ),
            (),
            (),
        )
        for setting, rows in by_setting.items()
    ]


def _pretraining(scale: str) -> Iterator[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    from reproduction.studies import studies
    from residua.training.recipes import PAPER, pretraining

    trained = studies[scale].training if scale in studies else None
    for (data, network), theirs in PAPER.items():
        base = pretraining(scale.split("-")[0], data, network)  # type: ignore[arg-type]
        ours = asdict(trained or base)
        shown = {name: value for name, value in asdict(theirs).items() if name in SHOWN}
        yield _setting(data, network), "Original and Retrain", shown, ours


def _methods(label: str, scale: str) -> Iterator[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    from reproduction.studies import SMALL_TUNED, studies
    from residua.training.recipes import UNLEARNING, unlearning
    from residua.unlearn import find

    scenario = SCENARIOS[label]
    recipes_of = studies[scale].recipes if scale in studies else "ours"
    base = "full" if recipes_of == "verbatim" else scale.split("-")[0]
    tuned = recipes_of == "tuned"
    for data, networks in UNLEARNING[scenario].items():
        for network, recipes in networks.items():
            ours = unlearning(base, scenario, data, network)  # type: ignore[arg-type]
            for method, theirs in recipes.items():
                # `k` is part of the name, and the crop of ImageNet is ours
                shown = {name: value for name, value in theirs.items() if name not in ("k", "crop")}
                searched = SMALL_TUNED.get(method, {}) if tuned and scenario == "class" else {}
                whole = find(method, **ours.get(method, {}) | searched)
                yield _setting(data, network), method, shown, {name: getattr(whole, name) for name in shown}


def _setting(data: str, network: str) -> str:
    names = [next(name for name, ours in known.items() if ours == wanted)
             for known, wanted in ((DATASETS, data), (NETWORKS, network))]  # fmt: skip
    return " - ".join(names)
