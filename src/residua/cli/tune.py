"""`residua tune`: find settings for a method, or for every method alike."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from residua.cli import options as opt
from residua.cli.console import say, show, study_progress
from residua.cli.inputs import ScaleOption, choose_device, chosen_method, load_for, open_task
from residua.data.task import ForgetTask
from residua.errors import InputError
from residua.files import check_place
from residua.measure import Accuracy, InformationCurve
from residua.record import Record
from residua.report.table import Table
from residua.study import tuning
from residua.study.presets import NETWORK, network_for
from residua.training.recipes import pretraining
from residua.training.settings import described
from residua.unlearn import Unlearner, find, methods, traits

EVERY = "every"
search = opt.panel("Search")


def tune(
    data: opt.Data,
    forget: opt.Forget,
    method: opt.MethodName = None,
    method_option: opt.MethodOption = None,
    plugin: opt.Plugins = None,
    original: Annotated[
        Path | None,
        opt.models(
            "Checkpoint of Original, trained with the same --validation; without it Original and Retrain are trained.",
            metavar="FILE",
        ),
    ] = None,
    reference: Annotated[
        Path | None, opt.models("Checkpoint of Retrain, whose UA and TA are the aim.", metavar="FILE")
    ] = None,
    out: Annotated[
        Path,
        opt.output(
            "Folder for what was tried; its Original and Retrain serve every method that is tuned there.", metavar="DIR"
        ),
    ] = Path("tuning"),
    trials: Annotated[int, search("Choices to try, those of earlier runs included.", min=1)] = 20,
    epochs: Annotated[
        int | None, search("Maximum number of epochs.", min=1, show_default="each field's own, usually 10")
    ] = None,
    low: Annotated[float | None, search("Smallest learning rate.", show_default="1e-5, as the paper's")] = None,
    high: Annotated[float | None, search("Largest learning rate.", show_default="0.01, as the paper's")] = None,
    validation: Annotated[
        float, search("Fraction of the training data that is held out, and on which TA is read.")
    ] = tuning.SHARE,
    part: Annotated[
        float, search("Fraction of the other training data that the search uses: faster, and an approximation.")
    ] = 1.0,
    best_of: Annotated[
        Path | None,
        search(
            "Try the best --trials choices of an earlier search instead of new ones: its record, or the folder.",
            metavar="PATH",
        ),
    ] = None,
    index: Annotated[bool, search("After the search, read the IDI of all acceptable choices.", "--idi")] = False,
    network: opt.Network = None,
    cuts: opt.Cuts = None,
    trust: opt.Trust = False,
    scale: ScaleOption = "tiny",
    seed: opt.Seed = 0,
    jobs: opt.Jobs = 2,
    device: opt.Device = "auto",
) -> None:
    """Search epochs and learning rates whose UA and TA are at most a point below Retrain's; never by IDI.

    All other settings are the scale's recipe. Every choice that is acceptable by this rule counts, and --idi reads the
    range of IDI over all of them. TA is read on a part of the training data that no model sees, never on the test data. METHOD `every` gives
    every method the same number of trials. Every trial is kept in --out: the same command resumes, and with more
    --trials it goes on. Records of the searches are in --out/records.

    Example: residua tune COLA --data fashion-sample --forget class:6 --trials 20 --out tuning/
    """
    label = opt.one_method(method, method_option, "tune")
    every = label.lower() == EVERY
    if not every:
        tuning.ranges(find(label), epochs, low, high)  # an unknown name, or an empty range, costs no loading
    if (original is None) != (reference is None):
        raise InputError("--original and --reference belong together; give both, or neither to have them trained")
    check_place(out / "study.json")
    where = choose_device(device)
    task = open_task(data, forget, [original, reference])
    start: tuning.Given | tuning.Start
    if original is not None and reference is not None:
        model, retrain = (load_for(task, path, where, network, cuts, trust) for path in (original, reference))
        aim = Accuracy()(retrain, tuning.validation_task(task, validation, part=part)).values
        start = tuning.Given(model, dict(aim))
        name = str(model.architecture.get("network"))
    else:
        name = network or NETWORK
        start = tuning.Start(network_for(task, scale, name), pretraining(scale, task.dataset, name))
    labels = _tunable(task) if every else [label]
    unlearners = [chosen_method(each, scale, task, name, {}) for each in labels]
    choices = {u.label: _best_of(best_of, out, u, trials, seed) for u in unlearners if best_of}
    for unlearner in unlearners:
        with study_progress(where) as reporting:
            tried = tuning.tune(
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
                **reporting,
            )
        show(_table(unlearner.label, tried))
        if index:
            say(_range(unlearner.label, tried))


def _best_of(place: Path, out: Path, method: Unlearner, number: int, seed: int) -> list[dict[str, Any]]:
    """The best choices of an earlier search: of its record, or of that in a folder. The record must not be overwritten."""
    name = f"{tuning.search_name(method, seed)}.json"
    path = place / name if place.is_dir() else place
    if path.resolve() == (out / "records" / name).resolve():
        raise InputError(f"{path} would be overwritten by what is tried again; give another --out")
    return tuning.best_choices(Record.read(path), method, number)


def _tunable(task: ForgetTask) -> list[str]:
    """Every method that can do the task and has something to search; those made from scratch have not."""
    labels = []
    for label, method in methods().items():
        fields = described(type(method)).values()
        if task.scenario in traits(method).scenarios and any(each.setting.tune for each in fields):
            labels.append(label)
    return labels


def _range(label: str, tried: list[tuning.Trial]) -> str:
    fit = tuning.acceptable(tried)
    values = sorted(trial.idi for trial in fit if trial.idi is not None)
    if not fit:
        return f"{label}: no choice is acceptable, so there is no IDI; try more, or other --epochs, --low and --high"
    if not values:
        return f"{label}: IDI is undetermined for all {len(fit)} acceptable choices"
    return f"{label}: IDI {values[0]:.2f} to {values[-1]:.2f} over {len(values)} acceptable choices"


def _table(label: str, tried: list[tuning.Trial]) -> Table:
    return Table(
        title=f"{label}: {len(tuning.acceptable(tried))} of {len(tried)} choices are acceptable",
        columns=("Shortfall", "UA %", "TA %", "Settings"),
        rows=tuple(
            (
                f"{trial.shortfall:.3f}",
                *(f"{100 * trial.values[name]:.1f}" if trial.values else "-" for name in ("UA", "TA")),
                _settings(trial),
            )
            for trial in tried[:10]
        ),
        note="Shortfall: what UA and TA lack of one point below Retrain's; 0 is acceptable. TA is read on training data "
        "that no model saw.",
    )


def _settings(trial: tuning.Trial) -> str:
    return ", ".join(f"{k}={v:.3g}" if isinstance(v, float) else f"{k}={v}" for k, v in trial.fields.items())


def _line(trial: tuning.Trial) -> str:
    return f"trial {trial.number}: shortfall {trial.shortfall:.3f} with {_settings(trial)}"
