"""`residua unlearn`: make an unlearned model of an original one."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from residua.checkpoint import save
from residua.classifier import weights_digest
from residua.cli.console import say, show, training_bar
from residua.cli.options import (
    DataOption,
    DeviceOption,
    ForgetOption,
    check_outputs,
    choose_device,
    command_line,
    load_for,
    open_task,
    with_fields,
)
from residua.compare import guards
from residua.device import Precision, resolve_precision
from residua.errors import InputError
from residua.measure import Accuracy
from residua.recipes import Scale, unlearning_of
from residua.record import Record, describe
from residua.report import trajectory_table, unlearning_table
from residua.task import ForgetTask
from residua.training import seeded, watching
from residua.trajectory import Trajectory
from residua.unlearn import METHODS, Retrain, Unlearner, find

OriginalOption = Annotated[Path, typer.Option(help="The model that was asked to forget (.safetensors).")]
# `train` begins at 0. With that seed Random would be the very weights that Original began with.
MethodSeed = Annotated[
    int,
    typer.Option(help="Same seed, same machine: same numbers. Another one than Original was trained with."),
]
MethodScale = Annotated[
    Scale, typer.Option(help="Whose settings: ours (tiny, small) or the paper's (full). Options go first.")
]

# Whatever UA and TA these have, nothing has gone wrong.
NOT_GUARDED = ("Original", "Retrain", "Random")


def chosen(label: str, scale: Scale, task: ForgetTask, network: str, fields: dict[str, Any]) -> Unlearner:
    """The method with the scale's recipe and, on top, the fields that were given."""
    label = find(label).label
    if label == "Retrain" and fields:
        raise InputError(
            f"Retrain has no setting {next(iter(fields))} here, for it is trained as Original was; "
            "make it with residua train --retrain, which has them all"
        )
    recipe = unlearning_of(label, scale, task.scenario, task.dataset, network)
    return find(label, **(recipe | fields))


@with_fields(*(type(method) for method in METHODS), leave_out=("pretraining",))
def unlearn(
    method: Annotated[
        str, typer.Option(help="What the paper prints: COLA, SCRUB, EU-10, ...; see residua list methods.")
    ],
    original: OriginalOption,
    data: DataOption,
    forget: ForgetOption,
    out: Annotated[Path, typer.Option(help="Where the checkpoint goes (.safetensors).")],
    scale: MethodScale = "tiny",
    seed: MethodSeed = 1000,
    device: DeviceOption = "auto",
    record: Annotated[
        Path | None, typer.Option(help="Write the record of the run to this .json file.")
    ] = None,
    trajectory: Annotated[
        bool, typer.Option("--trajectory", help="Measure UA, RA, TA after every epoch; kept in the record.")
    ] = False,
    *,
    fields: dict[str, Any],
) -> None:
    """Make a model forget, and say how long it took (RTE) and what UA, RA and TA became.

    Settings come from the scale's recipe, then from the method's defaults; each can be changed by
    its own option.
    """
    check_outputs(out, record)
    where = choose_device(device)
    find(method)  # an unknown name costs no loading
    task = open_task(data, forget)
    model = load_for(task, original, where)
    unlearner = chosen(method, scale, task, str(model.architecture.get("network")), fields)
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
    trained: Precision = unlearner.pretraining.precision if isinstance(unlearner, Retrain) else "auto"
    precision: Precision = trained if steps else "float32"
    before, after = (dict(Accuracy()(m, task).values) for m in (model, unlearned))
    result = Record(
        name=record.stem if record else "unlearned",
        setting={
            "scale": scale,
            "network": model.architecture,
            "task": task.manifest(),
            "device": where.type,
            "precision": str(resolve_precision(precision, where)).removeprefix("torch."),
        },
        method=describe(unlearner) | {"original": weights_digest(model)},
        measures={"accuracy": describe(Accuracy())},
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
    if unlearner.label not in NOT_GUARDED:
        for warning in guards(
            after, before, scenario=task.scenario, samples=len(task.forget), settings=describe(unlearner)
        ):
            say(f"warning: {warning}")
    say(f"weights in {out}" + (f", record in {record}" if record else ""))
