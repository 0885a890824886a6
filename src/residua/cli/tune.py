"""`residua tune`: find epochs and learning rates for a method."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from residua.cli.console import say, show
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
from residua.cli.progress import following
from residua.cli.unlearn import chosen
from residua.cli.words import (
    CutsOption,
    JobsOption,
    MethodArgument,
    MethodOption,
    NetworkOption,
    PluginOption,
    TrustOption,
    command_line,
    one_method,
)
from residua.errors import InputError
from residua.files import check_place
from residua.measure import Accuracy
from residua.report import Table
from residua.study.presets import NETWORK, network_for
from residua.study.tuning import Given, Start, Trial, ranges, tune
from residua.training.recipes import pretraining
from residua.unlearn import find


def tuning(
    data: DataOption,
    forget: ForgetOption,
    method: MethodArgument = None,
    method_option: MethodOption = None,
    plugin: PluginOption = None,
    original: Annotated[
        Optional[Path],  # noqa: UP045 (typer reads it at run time)
        typer.Option(help="Original (.safetensors); without it Original and Retrain are trained."),
    ] = None,
    reference: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="Retrain, whose UA and TA are the aim (.safetensors)."),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            help="Folder for what was tried; in that of a study, its Original and Retrain are found."
        ),
    ] = Path("tuning"),
    trials: Annotated[int, typer.Option(min=1, help="Choices to try, those of earlier runs included.")] = 20,
    epochs: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, help="Most epochs.", show_default="each field's own, usually 10"),
    ] = None,
    low: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(help="Smallest learning rate.", show_default="each field's own, usually 1e-6"),
    ] = None,
    high: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(help="Largest learning rate.", show_default="each field's own, usually 0.1"),
    ] = None,
    network: NetworkOption = None,
    cuts: CutsOption = None,
    trust: TrustOption = False,
    scale: ScaleOption = "tiny",
    seed: SeedOption = 0,
    jobs: JobsOption = 2,
    device: DeviceOption = "cpu",
) -> None:
    """Search epochs and learning rates by the gap to Retrain in UA and TA; never by IDI.

    A method's fields say which of them may be varied, and over which range. All other settings are the scale's
    recipe. Every trial is kept in --out: the same command resumes, and with more --trials it goes on.
    """
    label = one_method(method, method_option, "tune")
    ranges(find(label), epochs, low, high)  # an unknown name, or an empty range, costs no loading
    if (original is None) != (reference is None):
        raise InputError(
            "--original and --reference belong together; give both, or neither to have them trained"
        )
    check_place(out / "study.json")
    where = choose_device(device)
    task = open_task(data, forget, [original, reference])
    start: Given | Start
    if original is not None and reference is not None:
        model, retrain = (load_for(task, path, where, network, cuts, trust) for path in (original, reference))
        start = Given(model, dict(Accuracy()(retrain, task).values))
        name = str(model.architecture.get("network"))
    else:
        name = network or NETWORK
        start = Start(network_for(task, scale, name), pretraining(scale, task.dataset, name))
    unlearner = chosen(label, scale, task, name, {})
    with following() as progress:
        tried = tune(
            unlearner,
            task,
            start,
            out=out,
            trials=trials,
            epochs=epochs,
            low=low,
            high=high,
            seed=seed,
            report=lambda trial: say(_line(trial)),
            jobs=jobs,
            device=str(where),
            command=command_line(),
            tell=say,
            progress=progress,
        )
    show(_table(unlearner.label, tried))


def _table(label: str, tried: list[Trial]) -> Table:
    return Table(
        title=f"{label}: nearest to Retrain first",
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


def _settings(trial: Trial) -> str:
    return ", ".join(f"{k}={v:.3g}" if isinstance(v, float) else f"{k}={v}" for k, v in trial.fields.items())


def _line(trial: Trial) -> str:
    return f"trial {trial.number}: gap {trial.gap:.3f} with {_settings(trial)}"
