"""`residua tune`: find epochs and learning rates for a method."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from residua.cli.console import say, show, training_bar
from residua.cli.options import (
    DataOption,
    DeviceOption,
    ForgetOption,
    ScaleOption,
    SeedOption,
    choose_device,
    load_for,
    open_task,
)
from residua.cli.unlearn import OriginalOption, chosen
from residua.cli.words import (
    CutsOption,
    MethodArgument,
    MethodOption,
    NetworkOption,
    PluginOption,
    TrustOption,
    one_method,
)
from residua.errors import InputError
from residua.files import check_place
from residua.measure import Accuracy
from residua.report import Table
from residua.study.tuning import Trial, ranges, tune
from residua.unlearn import find


def tuning(
    original: OriginalOption,
    reference: Annotated[Path, typer.Option(help="Retrain, whose UA and TA are the aim (.safetensors).")],
    data: DataOption,
    forget: ForgetOption,
    method: MethodArgument = None,
    method_option: MethodOption = None,
    plugin: PluginOption = None,
    trials: Annotated[int, typer.Option(help="Choices to try, those of earlier runs included.")] = 20,
    epochs: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, help="Most epochs.", show_default="each field's own, 10 in our methods"),
    ] = None,
    low: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(help="Smallest learning rate.", show_default="each field's own, usually 1e-5"),
    ] = None,
    high: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(help="Largest learning rate.", show_default="each field's own, usually 1e-2"),
    ] = None,
    journal: Annotated[
        Path | None, typer.Option(help="Keep finished trials in this file, and resume where it stopped.")
    ] = None,
    network: NetworkOption = None,
    cuts: CutsOption = None,
    trust: TrustOption = False,
    scale: ScaleOption = "tiny",
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
) -> None:
    """Search epochs and learning rates by the gap to Retrain in UA and TA; never by IDI.

    A method's fields say which of them may be varied, and over which range. All other settings are the scale's
    recipe.
    """
    label = one_method(method, method_option, "tune")
    ranges(find(label), epochs, low, high)  # an unknown name, or an empty range, costs no loading
    if trials < 1:
        raise InputError(f"--trials is {trials}, but tune needs at least one trial; write 1 or more")
    if journal:
        check_place(journal)
    where = choose_device(device)
    task = open_task(data, forget, [original, reference])
    model, retrain = (load_for(task, path, where, network, cuts, trust) for path in (original, reference))
    unlearner = chosen(label, scale, task, str(model.architecture.get("network")), {})
    aim = dict(Accuracy()(retrain, task).values)
    say(f"aim: Retrain's UA {aim['UA']:.3f}, TA {aim['TA']:.3f}")
    with training_bar(f"tuning {unlearner.label}"):
        tried = tune(
            unlearner,
            model,
            task,
            aim,
            trials=trials,
            epochs=epochs,
            low=low,
            high=high,
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
                for trial in tried[:10]
            ),
            note="Gap: |UA - Retrain's| + |TA - Retrain's|.",
        )
    )


def _settings(trial: Trial) -> str:
    return ", ".join(f"{k}={v:.3g}" if isinstance(v, float) else f"{k}={v}" for k, v in trial.fields.items())


def _line(trial: Trial) -> str:
    return f"trial {trial.number}: gap {trial.gap:.3f} with {_settings(trial)}"
