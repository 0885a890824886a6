"""`residua tune`: find epochs and learning rates for a method."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from residua.cli.console import say, show, training_bar
from residua.cli.options import (
    DataOption,
    DeviceOption,
    ForgetOption,
    SeedOption,
    choose_device,
    load_for,
    open_task,
)
from residua.cli.unlearn import MethodScale, OriginalOption, chosen
from residua.errors import InputError
from residua.files import check_place
from residua.measure import Accuracy
from residua.report import Table
from residua.tuning import RATES, Trial, tune


def tuning(
    method: Annotated[str, typer.Argument(help="What the paper prints: COLA, SCRUB, EU-10, ...")],
    original: OriginalOption,
    reference: Annotated[Path, typer.Option(help="Retrain, whose UA and TA are the aim (.safetensors).")],
    data: DataOption,
    forget: ForgetOption,
    trials: Annotated[int, typer.Option(help="Choices to try, those of earlier runs included.")] = 20,
    epochs: Annotated[int, typer.Option(help="Most epochs.")] = 10,
    low: Annotated[float, typer.Option(help="Smallest learning rate.")] = RATES[0],
    high: Annotated[float, typer.Option(help="Largest learning rate.")] = RATES[1],
    journal: Annotated[
        Path | None, typer.Option(help="Keep finished trials in this file, and go on where it stopped.")
    ] = None,
    scale: MethodScale = "tiny",
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
) -> None:
    """Search epochs and learning rates by the gap to Retrain in UA and TA; never by IDI.

    All other settings are the scale's recipe.
    """
    if trials < 1 or epochs < 1 or not 0 < low <= high:
        raise InputError("tune needs at least one trial, one epoch, and learning rates with 0 < low <= high")
    if journal:
        check_place(journal)
    where = choose_device(device)
    task = open_task(data, forget)
    model, retrain = (load_for(task, path, where) for path in (original, reference))
    unlearner = chosen(method, scale, task, str(model.architecture.get("network")), {})
    aim = dict(Accuracy()(retrain, task).values)
    say(f"aim: Retrain's UA {aim['UA']:.3f}, TA {aim['TA']:.3f}")
    with training_bar(f"tuning {unlearner.label}"):
        found = tune(
            unlearner,
            model,
            task,
            aim,
            trials=trials,
            epochs=epochs,
            rates=(low, high),
            seed=seed,
            journal=journal,
            report=lambda trial: say(_line(trial)),
        )
    show(
        Table(
            title=f"{unlearner.label}: nearest to Retrain first",
            columns=("Gap", "UA %", "TA %", "Settings"),
            rows=tuple(
                (
                    f"{trial.gap:.3f}",
                    *(f"{100 * trial.values[name]:.1f}" if trial.values else "-" for name in ("UA", "TA")),
                    _settings(trial),
                )
                for trial in found[:10]
            ),
            note="Gap: |UA - Retrain's| + |TA - Retrain's|.",
        )
    )


def _settings(trial: Trial) -> str:
    return ", ".join(f"{k}={v:.3g}" if isinstance(v, float) else f"{k}={v}" for k, v in trial.fields.items())


def _line(trial: Trial) -> str:
    return f"trial {trial.number}: gap {trial.gap:.3f} with {_settings(trial)}"
