"""`residua unlearn`: make an unlearned model of an original one."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from residua.cli.console import say, show, training_bar
from residua.cli.options import (
    DataOption,
    DeviceOption,
    ForgetOption,
    ScaleOption,
    check_outputs,
    choose_device,
    load_for,
    open_task,
    with_fields,
)
from residua.cli.words import (
    CutsOption,
    MethodArgument,
    MethodOption,
    NetworkOption,
    PluginOption,
    TrustOption,
    command_line,
    given,
    named_method,
    one_method,
)
from residua.compare import guards
from residua.data.task import ForgetTask
from residua.device import resolve_precision
from residua.errors import InputError
from residua.facts import MeasureFacts, MethodFacts, Setting, TaskFacts
from residua.measure import Accuracy
from residua.models.checkpoint import save
from residua.models.classifier import weights_digest
from residua.record import Record, describe
from residua.report import trajectory_table, unlearning_table
from residua.study.trajectory import Trajectory
from residua.training.loop import seeded, watching
from residua.training.recipes import Scale, unlearning_of
from residua.training.settings import described, directions
from residua.unlearn import Unlearner, find, methods, traits

OriginalOption = Annotated[Path, typer.Option(help="The model that was asked to forget (.safetensors).")]
# `train` begins at 0. With that seed Random would be the very weights that Original began with.
MethodSeed = Annotated[
    int,
    typer.Option(help="Same seed, same machine: same numbers. Use another one than Original's."),
]
# A field that is a group of settings has no option.
GROUPED = ("pretraining",)


@dataclass(frozen=True)
class Nothing:
    """The settings of no method."""


def fitted(arguments: Sequence[str]) -> Callable[..., Any]:
    """The command with the options of the method that these arguments name; without one, only the shared options."""
    label = named_method(arguments)
    if label is None:
        _refuse_settings(arguments, None)
        return with_fields(Nothing)(unlearn)
    method = find(label)
    _refuse_settings(arguments, method)
    kind = type(method)
    scale = (given(arguments, "--scale") or ["tiny"])[-1]
    scenario = "class" if (given(arguments, "--forget") or ["class"])[-1].startswith("class") else "random"
    panel = f"Settings of {method.label} (defaults of --scale {scale}, {scenario} forgetting)"
    defaults = _recipe(method.label, scale, scenario, arguments) | _fixed(method)
    return with_fields(kind, leave_out=GROUPED, defaults=defaults, panel=panel)(unlearn)


def _fixed(method: Unlearner) -> dict[str, Any]:
    """What the label says: k of EU-7."""
    own = {name: getattr(method, name) for name in described(type(method)) if name not in GROUPED}
    plain = type(method)()
    return {name: value for name, value in own.items() if value != getattr(plain, name)}


def _recipe(label: str, scale: str, scenario: str, arguments: Sequence[str]) -> dict[str, Any]:
    """The scale's values, as far as these arguments say which; the rest are the method's own."""
    data = (given(arguments, "--data") or [""])[-1].partition(":")[0]
    try:
        return unlearning_of(label, scale, scenario, data, "resnet18")  # type: ignore[arg-type]
    except InputError:
        return {}


def _refuse_settings(arguments: Sequence[str], method: Unlearner | None) -> None:
    """Refuse an option that only other methods have."""
    own = list(described(type(method))) if method else []
    every = {name for other in methods().values() for name in described(type(other))}
    for word in arguments:
        name = word.partition("=")[0].removeprefix("--").removeprefix("no-").replace("-", "_")
        if not word.startswith("--") or name not in every or name in own:
            continue
        if method is None:
            raise InputError(
                f"--{name.replace('_', '-')} is a setting of a method; name the method first, as in residua unlearn COLA"
            )
        if set(own) & set(GROUPED):
            raise InputError(
                f"{method.label} has no setting {name} here, because it is trained as Original was; "
                "make it with residua train --retrain, which has them all"
            )
        raise InputError(f"{method.label} has no setting {name}; its settings are {', '.join(own) or 'none'}")


def chosen(label: str, scale: Scale, task: ForgetTask, network: str, fields: dict[str, Any]) -> Unlearner:
    """The method with the scale's recipe and, on top, the fields that were given."""
    method = find(label)
    recipe = unlearning_of(method.label, scale, task.scenario, task.dataset, network)
    return find(label, **(recipe | fields))


def unlearn(
    original: OriginalOption,
    data: DataOption,
    forget: ForgetOption,
    out: Annotated[Path, typer.Option(help="Where the checkpoint goes (.safetensors).")],
    method: MethodArgument = None,
    method_option: MethodOption = None,
    plugin: PluginOption = None,
    scale: ScaleOption = "tiny",
    seed: MethodSeed = 1000,
    device: DeviceOption = "auto",
    record: Annotated[
        Path | None, typer.Option(help="Write the record of the run to this .json file.")
    ] = None,
    network: NetworkOption = None,
    cuts: CutsOption = None,
    trust: TrustOption = False,
    trajectory: Annotated[
        bool, typer.Option("--trajectory", help="Measure UA, RA, TA after every epoch; kept in the record.")
    ] = False,
    *,
    fields: dict[str, Any],
) -> None:
    """Make a model forget, and report how long it took (RTE) and its UA, RA and TA.

    Each method has settings of its own: residua unlearn COLA --help shows COLA's. They come from the scale's recipe,
    then from the method's defaults; its options override both.
    """
    label = one_method(method, method_option, "unlearn")
    check_outputs(out, record)
    where = choose_device(device)
    find(label)  # an unknown name costs no loading
    task = open_task(data, forget, [original])
    model = load_for(task, original, where, network, cuts, trust)
    unlearner = chosen(label, scale, task, str(model.architecture.get("network")), fields)
    followed = Trajectory(task)
    steps: list[int] = []
    with seeded(seed), training_bar(unlearner.label), contextlib.ExitStack() as stack:
        stack.enter_context(watching(lambda tick: steps.append(tick.step)))
        if trajectory:
            stack.enter_context(followed.following())
        start = time.perf_counter()
        unlearned = unlearner(model, task)
        seconds = time.perf_counter() - start - followed.seconds
    # Weights are float32, and so is all that is done to them outside of a training.
    trained: Any = getattr(getattr(unlearner, "pretraining", None), "precision", "auto")
    before, after = (dict(Accuracy()(m, task).values) for m in (model, unlearned))
    result = Record(
        name=record.stem if record else "unlearned",
        setting=Setting(
            scale=scale,
            network=model.architecture,
            task=TaskFacts(**task.manifest()),
            device=where.type,
            precision=str(resolve_precision(trained if steps else "float32", where)).removeprefix("torch."),
        ),
        method=MethodFacts(**describe(unlearner), original=weights_digest(model)),
        measures={"accuracy": MeasureFacts(**describe(Accuracy()))},
        seeds={"training": seed},
        readings={"accuracy": after, "original accuracy": before},
        seconds={"RTE": seconds},
        command=command_line(),
        arrays={"trajectory": followed.array()} if trajectory else {},
    )
    save(unlearned, out)
    if record:
        result.write(record.parent)
    show(unlearning_table(result))
    if trajectory:
        show(trajectory_table(result))
    if traits(unlearner).guarded:
        for warning in guards(
            after, before, scenario=task.scenario, samples=len(task.forget), settings=directions(unlearner)
        ):
            say(f"warning: {warning}")
    say(f"weights in {out}" + (f", record in {record}" if record else ""))
