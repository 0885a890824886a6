"""ulira: a likelihood ratio attack on unlearning methods, by shadow models that all methods share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from typing import Any, Literal

import numpy as np
import torch

from residua import compare
from residua.compare import Observations
from residua.data.task import Dataset
from residua.errors import InputError
from residua.facts import MethodFacts, Setting, ShadowFacts
from residua.record import Record, describe
from residua.study.budget import Cost, Plan
from residua.study.cells import Cell, Context
from residua.study.computing import How, conduct
from residua.study.running import Run
from residua.study.shadow_cells import ShadowScoring, ShadowTraining
from residua.study.shadows import Shadows, sides
from residua.study.sharing import Shared
from residua.study.store import Store
from residua.texts import duration, slug
from residua.training.pretraining import Pretraining
from residua.unlearn import Original, Unlearner

Variance = Literal["example", "shared"]


def ulira(
    methods: Iterable[Unlearner],
    data: Dataset,
    *,
    network: dict[str, Any],
    pretraining: Pretraining,
    out: str | Path,
    models: int = 16,
    forget_sets: int = 4,
    size: int = 40,
    of_class: int | None = None,
    variance: Variance = "shared",
    scale: str = "custom",
    seed: int = 0,
    budget: float | None = None,
    **how: Any,
) -> list[Record]:
    """A record of each method and of Original: can what was unlearned be distinguished from what was never seen?

    `network` are the arguments of `networks.build`. Shadow models and scores are kept in `out`, and found there
    again. The cost is reported before anything starts; more than `budget` seconds are refused. `how` are the fields of
    `computing.How`: jobs, device, tell, ...
    """
    sides(models)
    out, options = Path(out), How(**how)
    shadows = Shadows(
        data=data,
        network=network,
        pretraining=pretraining,
        of_class=of_class,
        size=size,
        seed=seed,
        device=options.device,
    )
    unlearners = list({method.label: method for method in (Original(), *methods)}.values())
    trainings = [ShadowTraining(model) for model in range(models)]
    scorings = {
        unlearner: [
            [ShadowScoring(unlearner, n, trained) for n in range(forget_sets)] for trained in trainings
        ]
        for unlearner in unlearners
    }
    cells: list[Cell] = [*trainings, *(cell for rows in scorings.values() for row in rows for cell in row)]
    context, facts = Context({}, options.device, shadows), {"shadows": shadows}
    plan = _plan(
        shadows, trainings, scorings, Run(cells, Store(out), Shared(context, out), facts), options.jobs
    )
    options.tell(_preview(plan))
    if budget is not None and plan.seconds(models, forget_sets) > budget:
        raise InputError(_too_much(plan, budget))
    run = conduct(cells, out, context=context, facts=facts, how=options)
    weights = _weights(run, trainings)
    setting = _setting(plan, scale, weights)
    records = [_record(u, scorings[u], run, setting, variance, seed) for u in unlearners]
    for record in records:
        record.write(out)
    return records


def _plan(
    shadows: Shadows,
    trainings: Sequence[ShadowTraining],
    scorings: Mapping[Unlearner, Sequence[Sequence[ShadowScoring]]],
    run: Run,
    jobs: int,
) -> Plan:
    """What is not in the store yet, and so has to be made."""
    run.look()
    missing = {
        unlearner: np.array([[cell not in run.results for cell in row] for row in rows])
        for unlearner, rows in scorings.items()
    }
    return Plan(shadows, np.array([cell not in run.results for cell in trainings]), missing, jobs)


def _weights(run: Run, trainings: Sequence[ShadowTraining]) -> list[str]:
    """The hashes of the shadow models, which must all be there and differ."""
    for cell, why in run.failures.items():
        raise InputError(why if cell.name in why else f"{cell.name}: {why}")
    weights = [str(run.results[cell].values["weights"]) for cell in trainings]
    if len(set(weights)) < len(weights):
        raise InputError(
            "two shadow models have the same weights, so a target would be its own shadow; change --seed"
        )
    return weights


def _preview(plan: Plan) -> str:
    lines = [
        f"To make: {plan.to_train.sum()} of {plan.models} shadow models, {duration(plan.training.seconds)} each."
    ]
    lines += [
        f"{unlearner.label}: {missing.sum()} of {missing.size} unlearned models, "
        f"{_cost(plan.unlearning[unlearner])} each."
        for unlearner, missing in plan.to_score.items()
        if missing.any() and not isinstance(unlearner, Original)
    ]
    total = f"{'about' if plan.whole else 'at least'} {duration(plan.seconds(plan.models, plan.sets))}"
    return " ".join([*lines, f"Together {total} with {plan.jobs} at a time."])


def _too_much(plan: Plan, allowed: float) -> str:
    wanted = (
        f"{plan.models} models with {plan.sets} forget sets take about "
        f"{duration(plan.seconds(plan.models, plan.sets))}, more than --budget {duration(allowed)}"
    )
    fitting = plan.largest(allowed)
    if fitting is None:
        return (
            f"{wanted}, and even 4 models with 1 forget set take {duration(plan.seconds(4, 1))}; "
            "raise the budget or choose a smaller scale"
        )
    return f"{wanted}; the largest numbers that fit are --models {fitting[0]} --forget-sets {fitting[1]}"


def _record(
    unlearner: Unlearner,
    scorings: Sequence[Sequence[ShadowScoring]],
    run: Run,
    setting: Setting,
    variance: Variance,
    seed: int,
) -> Record:
    """The attack on one method, from the scores of all models and forget sets."""
    rows: dict[str, list[np.ndarray]] = {"model": [], "example": [], "trained": [], "score": []}
    times = []
    for model, cells in enumerate(scorings):
        for cell in cells:
            arrays = run.store.arrays(run.results[cell])
            times.append(run.results[cell].values["RTE"])
            rows["model"].append(np.full(len(arrays["score"]), model))
            for name in ("example", "trained", "score"):
                rows[name].append(arrays[name])
    observed = Observations(**{name: np.concatenate(parts) for name, parts in rows.items()})
    record = Record(
        name=slug(unlearner.label),
        setting=setting,
        method=MethodFacts(**describe(unlearner)),
        seeds={"shadows": seed},
        readings={},
        seconds={"RTE": mean(times)},
        command=run.command,
        arrays=observed.arrays(),
    )
    reading = compare.ulira(observed, sides(len(scorings)), variance)
    return record.and_read(_Attack(variance), reading, 0.0)


def _setting(plan: Plan, scale: str, weights: Sequence[str]) -> Setting:
    shadows = plan.shadows
    return Setting(
        scale=scale,
        dataset=shadows.data.name,
        train=shadows.data.train.digest(),
        network=shadows.network,
        pretraining=asdict(shadows.pretraining),
        shadows=ShadowFacts(
            models=plan.models,
            forget_sets=plan.sets,
            size=shadows.size,
            of_class=shadows.of_class,
            weights=list(weights),
        ),
        device=torch.device(shadows.device).type,
    )


@dataclass(frozen=True)
class _Attack:
    """The settings of the attack, as a record keeps those of a measure."""

    variance: Variance

    label = "U-LiRA"


def _cost(cost: Cost) -> str:
    return ("" if cost.whole else "at least ") + duration(cost.seconds)
