"""`residua unlearn`: make an unlearned model of an original one."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from residua.cli import inputs
from residua.cli import options as opt
from residua.cli.console import say, show, work
from residua.compare import guards
from residua.data.task import ForgetTask
from residua.device import clock, machine_load, resolve_precision
from residua.errors import InputError
from residua.measure import Accuracy
from residua.measure.measuring import measured
from residua.models.checkpoint import save
from residua.models.classifier import weights_digest
from residua.models.foreign.fitting import starting_weights
from residua.models.foreign.opening import started
from residua.record import describe
from residua.report.methods import trajectory_table, unlearning_table
from residua.study.cells import Trajectory
from residua.training import distributed
from residua.training.loop import seeded, watching
from residua.training.recipes import unlearning_of
from residua.training.settings import described, directions
from residua.unlearn import Unlearner, find, methods, traits

# `train` begins at 0. With that seed Random would be the very weights that Original began with.
MethodSeed = Annotated[int, opt.run("Same seed, same machine: same numbers. Use another one than Original's.")]
# A field that is a group of settings has no option.
GROUPED = ("pretraining",)
# Fields whose names are those of options for images have longer ones here.
QUALIFIED = {name: f"{name}_features" for name in opt.IMAGE_OPTIONS}


@dataclass(frozen=True)
class Nothing:
    """The settings of no method."""


def fitted(arguments: Sequence[str]) -> Callable[..., Any]:
    """The command with the options of the method that these arguments name; without one, only the shared options."""
    label = opt.named_method(arguments)
    if label is None:
        _refuse_settings(arguments, None)
        return inputs.with_fields(Nothing)(unlearn)
    method = find(label)
    _refuse_settings(arguments, method)
    kind = type(method)
    scale = (opt.given(arguments, "--scale") or ["tiny"])[-1]
    scenario = "class" if (opt.given(arguments, "--forget") or ["class"])[-1].startswith("class") else "random"
    panel = f"Settings of {method.label} (defaults of --scale {scale}, {scenario} forgetting)"
    defaults = _recipe(method.label, scale, scenario, arguments) | _fixed(method)
    return inputs.with_fields(kind, leave_out=GROUPED, qualified=QUALIFIED, defaults=defaults, panel=panel)(unlearn)


def _fixed(method: Unlearner) -> dict[str, Any]:
    """Fields that the label sets: k of EU-7."""
    own = {name: getattr(method, name) for name in described(type(method)) if name not in GROUPED}
    plain = type(method)()
    return {name: value for name, value in own.items() if value != getattr(plain, name)}


def _recipe(label: str, scale: str, scenario: str, arguments: Sequence[str]) -> dict[str, Any]:
    """The scale's values, as far as these arguments say which; the rest are the method's own."""
    data = (opt.given(arguments, "--data") or [""])[-1].partition(":")[0]
    try:
        return unlearning_of(label, scale, scenario, data, "resnet18")  # type: ignore[arg-type]
    except InputError:
        return {}


def _settings(method: Unlearner) -> list[str]:
    """The names of a method's settings as options have them, groups included."""
    return [QUALIFIED.get(name, name) for name in described(type(method))]


def _refuse_settings(arguments: Sequence[str], method: Unlearner | None) -> None:
    """Refuse an option that only other methods have."""
    own = _settings(method) if method else []
    every = {name for other in methods().values() for name in _settings(other)}
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


def unlearn(
    original: Annotated[Path, opt.models("Checkpoint of the model that is to forget.", metavar="FILE")],
    data: opt.Data,
    forget: opt.Forget,
    out: opt.CheckpointOut,
    method: opt.MethodName = None,
    method_option: opt.MethodOption = None,
    plugin: opt.Plugins = None,
    scale: inputs.ScaleOption = "tiny",
    seed: MethodSeed = 1000,
    device: opt.Device = "auto",
    record: opt.RecordOut = None,
    network: opt.Network = None,
    cuts: opt.Cuts = None,
    init: opt.Started = None,
    trust: opt.Trust = False,
    trajectory: Annotated[
        bool, opt.output("Measure UA, RA, TA after every epoch; kept in the record.", "--trajectory")
    ] = False,
    *,
    fields: dict[str, Any],
) -> None:
    """Make a model forget, and report how long it took (RTE) and its UA, RA and TA.

    Each method has settings of its own: residua unlearn COLA --help shows COLA's. They come from the scale's recipe,
    then from the method's defaults; its options override both.

    Example: residua unlearn COLA --original original.safetensors --data fashion-sample --forget class:6 --out
    unlearned.safetensors
    """
    label = opt.one_method(method, method_option, "unlearn")
    inputs.check_outputs(out, record)
    where = inputs.choose_device(device)
    find(label)  # an unknown name costs no loading
    task = inputs.open_task(data, forget, [original])
    model = inputs.load_for(task, original, where, network, cuts, trust)
    if init:
        started(model, starting_weights(init, out.parent), trust)
    unlearner = inputs.chosen_method(label, scale, task, str(model.architecture.get("network")), fields)
    followed = Trajectory(task)
    steps: list[int] = []
    with seeded(seed), work(unlearner.label, where), contextlib.ExitStack() as stack:
        leads = stack.enter_context(distributed.joined(where))
        stack.enter_context(watching(lambda tick: steps.append(tick.step)))
        if trajectory:
            stack.enter_context(watching(followed))
        start, cpu = clock(where), time.process_time()
        unlearned = unlearner(model, task)
        spent = {"RTE": clock(where) - start - followed.seconds, "RTE.load": machine_load()}
        cpu = time.process_time() - cpu
    if not leads:
        return
    # Weights are float32, and so is all that is done to them outside of a training.
    trained: Any = getattr(getattr(unlearner, "pretraining", None), "precision", "auto")
    used = resolve_precision(trained if steps else "float32", where)
    result = measured(
        unlearned,
        task,
        [Accuracy()],
        name=record.stem if record else "unlearned",
        method=describe(unlearner) | {"original": weights_digest(model)},
        setting={
            "scale": scale,
            "network": model.architecture,
            "device": where.type,
            "precision": str(used).removeprefix("torch."),
        },
        seeds={"training": seed},
        seconds=spent if trajectory or where.type != "cpu" else spent | {"RTE.cpu": cpu},
        command=opt.command_line(),
        arrays={"trajectory": followed.array()} if trajectory else {},
    )
    before, after = dict(Accuracy()(model, task).values), result.readings["accuracy"]
    result = result.model_copy(update={"readings": result.readings | {"original accuracy": before}})
    save(unlearned, out)
    if record:
        result.write(record.parent)
    show(unlearning_table(result))
    if trajectory:
        show(trajectory_table(result))
    _warn(unlearner, task, before, after)
    say(f"weights in {out}" + (f", record in {record}" if record else ""))


def _warn(unlearner: Unlearner, task: ForgetTask, before: dict[str, float], after: Mapping[str, float]) -> None:
    """One sentence about a run that did nothing or ruined the model."""
    if traits(unlearner).guarded:
        for warning in guards(
            after, before, scenario=task.scenario, samples=len(task.forget), settings=directions(unlearner)
        ):
            say(f"warning: {warning}")
