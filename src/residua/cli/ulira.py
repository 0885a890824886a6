"""`residua ulira`: a likelihood ratio attack on unlearning methods, by shadow models that all methods share."""

from __future__ import annotations

import functools
import itertools
import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from typing import Annotated, Any, Literal, Optional

import numpy as np
import torch
import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from residua import compare
from residua.budget import Cost, Plan
from residua.cli.cells import NETWORK, file_name, network_fields
from residua.cli.console import err, say, show
from residua.cli.options import DataOption, DeviceOption, SeedOption, choose_device, command_line
from residua.cli.processes import side_by_side
from residua.compare import Observations, reading_fields
from residua.datasets import open_dataset
from residua.errors import InputError
from residua.files import check_place, write_atomically
from residua.recipes import SHADOWS, Scale, pretraining, unlearning
from residua.record import Record, describe
from residua.report import ulira_table
from residua.shadow import Shadows, sides
from residua.task import Dataset
from residua.training import Pretraining
from residua.unlearn import Unlearner, find

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True)
class Spec:
    """Shadow models in words that another process understands."""

    data: str
    network: tuple[tuple[str, Any], ...]
    pretraining: Pretraining
    folder: Path
    of_class: int | None
    size: int
    seed: int
    device: str

    def shadows(self) -> Shadows:
        return _shadows(self)


@functools.lru_cache(maxsize=1)
def _shadows(spec: Spec) -> Shadows:
    return Shadows(
        data=open_dataset(spec.data),
        network=dict(spec.network),
        pretraining=spec.pretraining,
        folder=spec.folder,
        of_class=spec.of_class,
        size=spec.size,
        seed=spec.seed,
        device=spec.device,
    )


def ulira(
    method: Annotated[
        list[str], typer.Option(help="What the paper prints: SCRUB, COLA, ...; may be repeated.")
    ],
    data: DataOption = "fashion-sample",
    scale: Annotated[
        Scale, typer.Option(help="Whose settings: ours (tiny, small) or the paper's (full).")
    ] = "tiny",
    models: Annotated[
        Optional[int],  # noqa: UP045 (typer reads it at run time)
        typer.Option(help="Shadow models, a multiple of 4; by scale: 16, 16, 128."),
    ] = None,
    forget_sets: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, help="Forget sets that each model unlearns in turn; by scale: 4, 10, 40."),
    ] = None,
    size: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="Examples that a model forgets at a time, on average; by scale: 40, 200, 200."),
    ] = None,
    of_class: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Forget examples of this class, or of all; by scale: 6, 4, 4."),
    ] = None,
    variance: Annotated[
        Optional[Literal["example", "shared"]],  # noqa: UP045
        typer.Option(help="Each example's own, or one for all; by scale: shared, shared, example."),
    ] = None,
    budget: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="TIME", help="Start nothing that would take longer: 90s, 10m, 2h, 3d."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder for shadow models, scores and the table.")] = Path(
        "ulira"
    ),
    jobs: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            min=1,
            help="Models made side by side, one thread each; all cores, or 1 on a GPU and at full scale.",
        ),
    ] = None,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
) -> None:
    """Can what a method has unlearned be told from what was never seen? Original is attacked beside it.

    What it will cost is said before anything starts. Shadow models and scores that are in --out already are
    not made again, so a run that was stopped goes on, and further methods share the models.
    """
    allowed = None if budget is None else parse_time(budget)
    labels = list(dict.fromkeys(["Original", *(find(label).label for label in method)]))
    chosen = SHADOWS[scale]
    models = chosen.models if models is None else models
    sets = chosen.forget_sets if forget_sets is None else forget_sets
    sides(models)
    check_place(out / "table.md")
    where = choose_device(device)
    opened = open_dataset(data)
    spec = Spec(
        data=data,
        network=tuple(network_fields(opened.classes, opened.shape, scale).items()),
        pretraining=pretraining(scale, opened.name, NETWORK),
        folder=out / "shadows",
        of_class=chosen.of_class if of_class is None else _class(opened, of_class),
        size=chosen.size if size is None else size,
        seed=seed,
        device=str(where),
    )
    shadows = spec.shadows()
    recipes = unlearning(scale, "random", opened.name, NETWORK)
    unlearners = [find(label, **recipes.get(label, {})) for label in labels]
    if jobs is None:
        jobs = 1 if where.type != "cpu" or scale == "full" else os.cpu_count() or 1

    plan = Plan(shadows, unlearners, models, sets, jobs)
    say(_preview(plan))
    if allowed is not None and plan.seconds(models, sets) > allowed:
        raise InputError(_too_much(plan, allowed))
    _make(spec, plan, jobs)
    records = []
    for unlearner in unlearners:
        record = _result(plan, unlearner, variance or chosen.variance, scale, spec)
        record.write(out)
        records.append(record)
    table = ulira_table(records)
    write_atomically(out / "table.md", lambda part: part.write_text(table.markdown(), encoding="utf-8"))
    show(table)
    say(f"Shadow models, scores, records and the table are in {out}/.")


def _preview(plan: Plan) -> str:
    lines = [
        f"To make: {plan.to_train.sum()} of {plan.models} shadow models, {_time(plan.training.seconds)} each."
    ]
    lines += [
        f"{unlearner.label}: {missing.sum()} of {missing.size} unlearned models, "
        f"{_cost(plan.unlearning[unlearner])} each."
        for unlearner, missing in plan.to_score.items()
        if missing.any() and unlearner.label != "Original"
    ]
    total = f"{'about' if plan.whole else 'at least'} {_time(plan.seconds(plan.models, plan.sets))}"
    return " ".join([*lines, f"Together {total} with {plan.jobs} at a time."])


def _too_much(plan: Plan, allowed: float) -> str:
    asked = (
        f"{plan.models} models with {plan.sets} forget sets take about "
        f"{_time(plan.seconds(plan.models, plan.sets))}, more than --budget {_time(allowed)}"
    )
    fitting = plan.largest(allowed)
    if fitting is None:
        return (
            f"{asked}, and even 4 models with 1 forget set take {_time(plan.seconds(4, 1))}; "
            "raise the budget or choose a smaller scale"
        )
    return f"{asked}; the largest numbers that fit are --models {fitting[0]} --forget-sets {fitting[1]}"


def _make(spec: Spec, plan: Plan, jobs: int) -> None:
    """All shadow models, then all scores; whatever is finished is on disk."""
    trainings = [(spec, model) for model in np.flatnonzero(plan.to_train).tolist()]
    scorings = [
        (spec, unlearner, model, number)
        for unlearner, missing in plan.to_score.items()
        for model, number in np.argwhere(missing).tolist()
    ]
    with side_by_side(jobs) as pool:
        for what, work, cells in (
            ("shadow models", _train, trainings),
            ("unlearned models", _score, scorings),
        ):
            if cells:
                _follow(what, pool, work, cells)


def _train(spec: Spec, model: int) -> None:
    spec.shadows().train(model)


def _score(spec: Spec, unlearner: Unlearner, model: int, number: int) -> None:
    try:
        shadows = spec.shadows()
        if shadows.find_scores(unlearner, model, number) is None:
            shadows.score(unlearner, model, number)
    except InputError as error:
        raise InputError(
            f"{unlearner.label} on shadow model {model} and forget set {number}: {error}"
        ) from error


def _follow(what: str, pool: Executor, work: Callable[..., None], cells: Sequence[tuple]) -> None:
    """Do all of them, with a bar, or with a line for every tenth part where no terminal is."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    done = itertools.count(1)
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        bar = progress.add_task(what, total=len(cells))

        def count(_: Future) -> None:
            n = next(done)
            progress.update(bar, completed=n)
            if not err.is_terminal and 10 * n // len(cells) > 10 * (n - 1) // len(cells):
                say(f"{what}: {n} of {len(cells)}")

        futures = []
        for cell in cells:
            future = pool.submit(work, *cell)
            if future.done():  # in this process: an error ends it here
                future.result()
            future.add_done_callback(count)
            futures.append(future)
        for future in as_completed(futures):
            future.result()


def _result(
    plan: Plan, unlearner: Unlearner, variance: Literal["example", "shared"], scale: Scale, spec: Spec
) -> Record:
    rows: dict[str, list[np.ndarray]] = {"model": [], "example": [], "trained": [], "score": []}
    digests: dict[int, str] = {}
    times = []
    for model in range(plan.models):
        for number in range(plan.sets):
            found = plan.shadows.find_scores(unlearner, model, number)
            if found is None:
                raise InputError(
                    f"scores of model {model} are missing or damaged in {spec.folder.parent}; run it again"
                )
            digests[model] = found.method["original"]
            times.append(found.seconds["RTE"])
            rows["model"].append(np.full(len(found.arrays["score"]), model))
            for name in ("example", "trained", "score"):
                rows[name].append(found.arrays[name])
    if len(set(digests.values())) < plan.models:
        raise InputError(
            "two shadow models have the same weights, so a target would be its own shadow; change --seed"
        )
    observed = Observations(**{name: np.concatenate(parts) for name, parts in rows.items()})
    reading = compare.ulira(observed, sides(plan.models), variance)
    kept = reading_fields({"U-LiRA": reading}, {"U-LiRA": {"variance": variance}})
    return Record(
        name=file_name(unlearner.label),
        setting={
            "scale": scale,
            "dataset": plan.shadows.data.name,
            "train": plan.shadows.data.train.digest(),
            "network": dict(spec.network),
            "pretraining": asdict(spec.pretraining),
            "shadows": {
                "models": plan.models,
                "forget_sets": plan.sets,
                "size": spec.size,
                "of_class": spec.of_class,
                "weights": [digests[model] for model in range(plan.models)],
            },
            "device": torch.device(spec.device).type,
        },
        method=describe(unlearner),
        seeds={"shadows": spec.seed},
        seconds={"RTE": mean(times)},
        command=command_line(),
        readings=kept["readings"],
        measures=kept["measures"],
        arrays=kept["arrays"] | observed.arrays(),
    )


def parse_time(words: str) -> float:
    """Seconds of `90s`, `10m`, `1.5h` or `3d`."""
    found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)\s*([smhd])", words.strip(), re.ASCII)
    if found is None or float(found[1]) == 0:
        raise InputError(f"--budget {words!r} is not understood; write 90s, 10m, 2h or 3d")
    return float(found[1]) * UNITS[found[2]]


def _time(seconds: float) -> str:
    unit = next((unit for unit in "dhm" if seconds >= 2 * UNITS[unit]), "s")
    number = seconds / UNITS[unit]
    return f"{number:.1f} {unit}" if number < 10 else f"{number:.0f} {unit}"


def _cost(found: Cost) -> str:
    return ("" if found.whole else "at least ") + _time(found.seconds)


def _class(data: Dataset, word: str) -> int | None:
    if word == "all":
        return None
    if word in data.class_names:
        return data.class_names.index(word)
    if not re.fullmatch(r"\d{1,9}", word, re.ASCII):
        raise InputError(f"--of-class {word!r} is not understood; give a class of {data.name}, or all")
    return int(word)
