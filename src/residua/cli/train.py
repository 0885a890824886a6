"""`residua train`: make an Original, or a Retrain."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from residua.cli.console import say, show, training_bar
from residua.cli.options import (
    CutsOption,
    DataOption,
    DeviceOption,
    ForgetOption,
    ScaleOption,
    SeedOption,
    TrustOption,
    check_outputs,
    choose_device,
    cut_names,
    open_task,
    with_fields,
)
from residua.cli.words import command_line, given
from residua.data.task import ForgetTask
from residua.device import resolve_precision
from residua.errors import InputError
from residua.facts import MeasureFacts, MethodFacts, Setting, TaskFacts
from residua.measure import Accuracy
from residua.models.checkpoint import save
from residua.models.classifier import Classifier
from residua.models.foreign.making import begin, file_digest, make
from residua.models.foreign.opening import with_stem
from residua.models.networks import NETWORKS, build
from residua.record import Record, describe
from residua.report import accuracy_table
from residua.study.validation import validation_task
from residua.training.loop import seeded
from residua.training.pretraining import Pretraining
from residua.training.recipes import TINY, WIDTH, pretraining, stem_at
from residua.unlearn import Original, Retrain


def fitted(arguments: Sequence[str]) -> Callable[..., Any]:
    """The command with the defaults of the scale that these arguments name."""
    scale = (given(arguments, "--scale") or ["tiny"])[-1]
    data = (given(arguments, "--data") or [""])[-1].partition(":")[0]
    network = (given(arguments, "--network") or ["resnet18"])[-1]
    try:
        settings = pretraining(scale, data, network)  # type: ignore[arg-type]
    except InputError:
        settings = Pretraining() if scale == "full" else TINY
    panel = f"Settings of the training (defaults of --scale {scale})"
    return with_fields(Pretraining, defaults=dataclasses.asdict(settings), panel=panel)(train)


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
    network: Annotated[
        str,
        typer.Option(
            metavar="NAME|MODULE:CALLABLE",
            help="resnet18, resnet50, vit, a network of an installed library (timm:convnext_atto,img_size=32), or "
            "module:callable.",
        ),
    ] = "resnet18",
    cuts: CutsOption = None,
    init: Annotated[
        Path | None,
        typer.Option(
            help="Start from these weights: ours, or under the names of timm, torchvision or Hugging Face; the head is new "
            "if it has other classes."
        ),
    ] = None,
    trust: TrustOption = False,
    width: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="Width of a ResNet; by scale: 16 (tiny, small) or 64 (full)."),
    ] = None,
    validation: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(
            help="Leave this share of the training data out, as tune does; it stands in for the test data."
        ),
    ] = None,
    variant: Annotated[str, typer.Option(help="Variant of a ViT: micro, tiny, small or base.")] = "tiny",
    patch: Annotated[int, typer.Option(help="Patch size of a ViT.")] = 4,
    scale: ScaleOption = "tiny",
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
    record: Annotated[
        Path | None, typer.Option(help="Write the record of the run to this .json file.")
    ] = None,
    *,
    fields: dict[str, Any],
) -> None:
    """Train Original on all of the data, or Retrain without what is to be forgotten.

    Settings come from the scale's recipe; options override them.
    """
    check_outputs(out, record)
    if network == "vit" and scale == "full" and init is None:
        raise InputError(
            "the paper's ViT is fine-tuned from weights of ImageNet-21k, which --scale full alone does not have; give them "
            "with --init FILE (and --variant, --patch and --size as they were made), or choose another scale"
        )
    where = choose_device(device)
    task = open_task(data, forget, [init])
    task = task if validation is None else validation_task(task, validation)
    settings = dataclasses.replace(pretraining(scale, task.dataset, with_stem(network)[0]), **fields)
    shape: dict[str, Any] = {"variant": variant, "patch": patch}
    if network != "vit":
        stem = with_stem(network)[1] or stem_at(scale, task.retain.shape[1])
        shape = {"width": WIDTH[scale] if width is None else width, "stem": stem}
    label = (Retrain if retrain else Original).label
    with seeded(seed), training_bar(label):
        begun = _begun(network, cuts, init, trust, task, shape).to(where)
        for note in begun.notes:
            say(f"note: {note}")
        start = time.perf_counter()
        model = settings(begun, task.retain if retrain else task.train)
        seconds = time.perf_counter() - start
    accuracies = Accuracy()(model, task).values
    result = Record(
        name=record.stem if record else label.lower(),
        setting=Setting(
            scale=scale,
            network=model.architecture,
            task=TaskFacts(**task.manifest()),
            device=where.type,
            precision=str(resolve_precision(settings.precision, where)).removeprefix("torch."),
        ),
        method=MethodFacts(
            **describe(settings) | {"label": label, "init": file_digest(init) if init else None}
        ),
        measures={"accuracy": MeasureFacts(**describe(Accuracy()))},
        seeds={"training": seed},
        readings={"accuracy": dict(accuracies)},
        seconds={"train": seconds},
        command=command_line(),
    )
    save(model, out)
    if record:
        result.write(record.parent)
    show(accuracy_table([result]))
    say(f"{label} trained in {seconds:.0f} s; weights in {out}" + (f", record in {record}" if record else ""))


def _begun(
    network: str,
    cuts: str | None,
    init: Path | None,
    trust: bool,
    task: ForgetTask,
    shape: dict[str, Any],
) -> Classifier:
    """The network before its training: drawn, or with the weights of --init."""
    channels, height, width = task.retain.shape
    network, _ = with_stem(network)
    if network not in NETWORKS:
        return make(
            network,
            classes=task.classes,
            channels=channels,
            image=(height, width),
            cuts=cut_names(cuts),
            start=init,
            trust=trust,
        )
    if cuts is not None:
        raise InputError(f"the blocks of {network} are known; leave out --cuts")
    own = {"image": height} if network == "vit" else {}
    model = build(network, classes=task.classes, channels=channels, **own, **shape)
    return model if init is None else begin(model, init, trust)
