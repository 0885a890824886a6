"""`residua train`: make an Original, or a Retrain."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from residua.checkpoint import save
from residua.cli.console import say, show, training_bar
from residua.cli.options import (
    DataOption,
    DeviceOption,
    ForgetOption,
    SeedOption,
    check_outputs,
    choose_device,
    command_line,
    open_task,
    with_fields,
)
from residua.device import resolve_precision
from residua.measure import Accuracy
from residua.networks import build, stem_for
from residua.recipes import WIDTH, Scale, pretraining
from residua.record import Record, describe
from residua.report import accuracy_table
from residua.training import Pretraining, seeded


@with_fields(Pretraining)
def train(
    data: DataOption,
    forget: ForgetOption,
    out: Annotated[Path, typer.Option(help="Where the checkpoint goes (.safetensors).")],
    retrain: Annotated[
        bool,
        typer.Option(
            "--retrain", help="Train on the retain set only, which makes Retrain instead of Original."
        ),
    ] = False,
    network: Annotated[str, typer.Option(help="resnet18, resnet50 or vit.")] = "resnet18",
    width: Annotated[Optional[int], typer.Option(help="Width of a ResNet; by scale: 8, 16, 64.")] = None,  # noqa: UP045
    variant: Annotated[str, typer.Option(help="Variant of a ViT: tiny, small or base.")] = "tiny",
    patch: Annotated[int, typer.Option(help="Patch size of a ViT.")] = 4,
    scale: Annotated[
        Scale, typer.Option(help="Whose pretraining settings: ours (tiny, small) or the paper's (full).")
    ] = "tiny",
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
    record: Annotated[
        Path | None, typer.Option(help="Write the record of the run to this .json file.")
    ] = None,
    *,
    fields: dict[str, Any],
) -> None:
    """Train Original on all of the data, or Retrain without what is to be forgotten.

    Settings come from the scale's recipe; each can be changed by its own option.
    """
    check_outputs(out, record)
    where = choose_device(device)
    task = open_task(data, forget)
    settings = dataclasses.replace(pretraining(scale, task.dataset, network), **fields)
    channels, size, _ = task.retain.shape
    shape: dict[str, Any] = {"classes": task.classes, "channels": channels}
    if network == "vit":
        shape |= {"variant": variant, "image": size, "patch": patch}
    else:
        shape |= {"width": WIDTH[scale] if width is None else width, "stem": stem_for(size)}
    label = "Retrain" if retrain else "Original"
    with seeded(seed), training_bar(label):
        start = time.perf_counter()
        model = settings(build(network, **shape).to(where), task.retain if retrain else task.train)
        seconds = time.perf_counter() - start
    found = Accuracy()(model, task)
    result = Record(
        name=record.stem if record else label.lower(),
        setting={
            "scale": scale,
            "network": model.architecture,
            "task": task.manifest(),
            "device": where.type,
            "precision": str(resolve_precision(settings.precision, where)).removeprefix("torch."),
        },
        method={"label": label, "pretraining": describe(settings)},
        measures={"accuracy": describe(Accuracy())},
        seeds={"training": seed},
        readings={"accuracy": dict(found.values)},
        seconds={"train": seconds},
        command=command_line(),
    )
    save(model, out)
    if record:
        result.write(record.parent)
    show(accuracy_table([result]))
    say(f"{label} trained in {seconds:.0f} s; weights in {out}" + (f", record in {record}" if record else ""))
