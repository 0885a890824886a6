"""`residua tune`: find settings for a method, or for every method alike."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Optional

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
from residua.data.task import ForgetTask
from residua.errors import InputError
from residua.files import check_place
from residua.measure import Accuracy, InformationCurve
from residua.record import Record
from residua.report import Table
from residua.study.presets import NETWORK, network_for
from residua.study.searches import Trial, best_choices, near_best, search_name
from residua.study.tuning import Given, Start, ranges, tune
from residua.study.validation import SHARE, validation_task
from residua.training.recipes import pretraining
from residua.training.settings import described
from residua.unlearn import Unlearner, find, methods, traits

EVERY = "every"


def tuning(
    data: DataOption,
    forget: ForgetOption,
    method: MethodArgument = None,
    method_option: MethodOption = None,
    plugin: PluginOption = None,
    original: Annotated[
        Optional[Path],  # noqa: UP045 (typer reads it at run time)
        typer.Option(
            help="Original (.safetensors), trained with the same --validation; without it Original and Retrain are trained."
        ),
    ] = None,
    reference: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="Retrain, whose UA and TA are the aim (.safetensors)."),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            help="Folder for what was tried; its Original and Retrain serve every method that is tuned there."
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
    validation: Annotated[
        float, typer.Option(help="Share of the training data that is left out, and on which TA is read.")
    ] = SHARE,
    part: Annotated[
        float,
        typer.Option(
            help="Part of the other training data that the search takes: faster, and a guess for all of them."
        ),
    ] = 1.0,
    best_of: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            metavar="PATH",
            help="Try the best --trials choices of an earlier search instead of new ones: its record, or the folder.",
        ),
    ] = None,
    index: Annotated[
        bool,
        typer.Option("--idi", help="After the search, read IDI of all choices within one point of the best."),
    ] = False,
    network: NetworkOption = None,
    cuts: CutsOption = None,
    trust: TrustOption = False,
    scale: ScaleOption = "tiny",
    seed: SeedOption = 0,
    jobs: JobsOption = 2,
    device: DeviceOption = "cpu",
) -> None:
    """Search epochs, learning rates and a method's own settings by the gap to Retrain in UA and TA; never by IDI.

    A method's fields say which of them may be varied, and over which range; all other settings are the scale's
    recipe. TA is read on a part of the training data that no model sees, never on the test data. METHOD `every` gives
    every method the same number of trials. Every trial is kept in --out: the same command resumes, and with more
    --trials it goes on. Records of the searches are in --out/records.
    """
    label = one_method(method, method_option, "tune")
    every = label.lower() == EVERY
    if not every:
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
        aim = Accuracy()(retrain, validation_task(task, validation, part=part)).values
        start = Given(model, dict(aim))
        name = str(model.architecture.get("network"))
    else:
        name = network or NETWORK
        start = Start(network_for(task, scale, name), pretraining(scale, task.dataset, name))
    unlearners = [chosen(each, scale, task, name, {}) for each in (_tunable(task) if every else [label])]
    choices = (
        {} if best_of is None else {u.label: _best_of(best_of, out, u, trials, seed) for u in unlearners}
    )
    for unlearner in unlearners:
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
                validation=validation,
                part=part,
                choices=choices.get(unlearner.label),
                measure=InformationCurve() if index else None,
                scale=scale,
                report=lambda trial: say(_line(trial)),
                jobs=jobs,
                device=str(where),
                command=command_line(),
                tell=say,
                progress=progress,
            )
        show(_table(unlearner.label, tried))
        if index:
            say(_range(unlearner.label, tried))


def _best_of(place: Path, out: Path, method: Unlearner, number: int, seed: int) -> list[dict[str, Any]]:
    """The best choices of an earlier search: of its record, or of that in a folder. The record must not be overwritten."""
    name = f"{search_name(method, seed)}.json"
    path = place / name if place.is_dir() else place
    if path.resolve() == (out / "records" / name).resolve():
        raise InputError(f"{path} would be overwritten by what is tried again; give another --out")
    return best_choices(Record.read(path), method, number)


def _tunable(task: ForgetTask) -> list[str]:
    """Every method that can do the task and has something to search; those made from scratch have not."""
    labels = []
    for label, method in methods().items():
        fields = described(type(method)).values()
        if task.scenario in traits(method).scenarios and any(each.setting.tune for each in fields):
            labels.append(label)
    return labels


def _range(label: str, tried: list[Trial]) -> str:
    near = near_best(tried)
    values = sorted(trial.idi for trial in near if trial.idi is not None)
    if not values:
        return f"{label}: IDI is undetermined for all {len(near)} choices within one point of the best gap"
    return f"{label}: IDI {values[0]:.2f} to {values[-1]:.2f} over {len(values)} choices within one point of the best gap"


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
        note="Gap: |UA - Retrain's| + |TA - Retrain's|; TA is read on training data that no model saw.",
    )


def _settings(trial: Trial) -> str:
    return ", ".join(f"{k}={v:.3g}" if isinstance(v, float) else f"{k}={v}" for k, v in trial.fields.items())


def _line(trial: Trial) -> str:
    return f"trial {trial.number}: gap {trial.gap:.3f} with {_settings(trial)}"
