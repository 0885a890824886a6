"""`residua train`: train Original, or Retrain."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from residua.cli import options as opt
from residua.cli.console import say, show, work
from residua.cli.inputs import ScaleOption, check_outputs, choose_device, cut_names, open_task, with_fields
from residua.data.task import ForgetTask
from residua.device import clock, resolve_precision
from residua.errors import InputError
from residua.measure import Accuracy
from residua.measure.measuring import measured
from residua.models.checkpoint import Checkpoint, save
from residua.models.classifier import Classifier
from residua.models.foreign.fitting import starting_weights
from residua.models.foreign.opening import begin, make, with_stem
from residua.models.networks import NETWORKS, build
from residua.record import describe
from residua.report.methods import accuracy_table
from residua.study.tuning import validation_task
from residua.training import distributed
from residua.training.loop import accumulating, seeded
from residua.training.pretraining import Pretraining
from residua.training.recipes import TINY, WIDTH, pretraining, stem_at
from residua.unlearn import Original, Retrain


def fitted(arguments: Sequence[str]) -> Callable[..., Any]:
    """The command with the defaults of the scale that these arguments name."""
    scale = (opt.given(arguments, "--scale") or ["tiny"])[-1]
    data = (opt.given(arguments, "--data") or [""])[-1].partition(":")[0]
    network = (opt.given(arguments, "--network") or ["resnet18"])[-1]
    try:
        settings = pretraining(scale, data, network)  # type: ignore[arg-type]
    except InputError:
        settings = Pretraining() if scale == "full" else TINY
    panel = f"Settings of the training (defaults of --scale {scale})"
    return with_fields(Pretraining, defaults=dataclasses.asdict(settings), panel=panel)(train)


def train(
    data: opt.Data,
    forget: opt.Forget,
    out: opt.CheckpointOut,
    retrain: Annotated[
        bool, opt.data("Train on the retain set only, which makes Retrain instead of Original.", "--retrain")
    ] = False,
    network: Annotated[
        str,
        opt.models(
            "Architecture: resnet18, resnet50, vit, a network of an installed library "
            "(timm:convnext_atto,drop_rate=0.1), or module:callable.",
            metavar="NAME|MODULE:CALLABLE",
        ),
    ] = "resnet18",
    cuts: opt.Cuts = None,
    init: opt.Init = None,
    trust: opt.Trust = False,
    width: Annotated[
        int | None, opt.models("Width of a ResNet.", show_default="by scale: 16 (tiny, small) or 64 (full)")
    ] = None,
    validation: Annotated[
        float | None, opt.data("Fraction of the training data to hold out, as tune does; it replaces the test data.")
    ] = None,
    variant: Annotated[str, opt.models("Variant of a ViT: micro, tiny, small or base.")] = "tiny",
    patch: Annotated[int, opt.models("Patch size of a ViT.")] = 4,
    scale: ScaleOption = "tiny",
    accumulate: Annotated[
        int,
        opt.run(
            "Pieces in which each batch is passed through the network, for less memory; BatchNorm sees one at a time.",
            min=1,
        ),
    ] = 1,
    seed: opt.Seed = 0,
    device: opt.Device = "auto",
    record: opt.RecordOut = None,
    *,
    fields: dict[str, Any],
) -> None:
    """Train Original on all of the data, or Retrain without what is to be forgotten.

    Settings come from the scale's recipe; options override them.

    Example: residua train --data fashion-sample --forget class:6 --out original.safetensors
    """
    check_outputs(out, record)
    if network == "vit" and scale == "full" and init is None:
        raise InputError(
            "the paper's ViT is fine-tuned from weights of ImageNet-21k, which --scale full alone does not "
            "have; give them with --init FILE (and --variant, --patch and --size as they were made), or "
            "choose another scale"
        )
    where = choose_device(device)
    weights = Checkpoint(starting_weights(init, out.parent)) if init else None
    task = open_task(data, forget, [weights])
    task = task if validation is None else validation_task(task, validation)
    settings = dataclasses.replace(pretraining(scale, task.dataset, with_stem(network)[0]), **fields)
    shape: dict[str, Any] = {"variant": variant, "patch": patch}
    if network != "vit":
        stem = with_stem(network)[1] or stem_at(scale, task.retain.shape[1])
        shape = {"width": WIDTH[scale] if width is None else width, "stem": stem}
    label = (Retrain if retrain else Original).label
    with seeded(seed), work(label, where), accumulating(accumulate), distributed.joined(where) as leads:
        begun = _begun(network, cuts, weights, trust, task, shape).to(where)
        for note in begun.notes:
            say(f"note: {note}")
        start = clock(where)
        model = settings(begun, task.retain if retrain else task.train)
        seconds = clock(where) - start
    if not leads:
        return
    result = measured(
        model,
        task,
        [Accuracy()],
        name=record.stem if record else label.lower(),
        method=describe(settings) | {"label": label, "init": weights.sha256 if weights else None},
        setting={
            "scale": scale,
            "device": where.type,
            "precision": str(resolve_precision(settings.precision, where)).removeprefix("torch."),
        },
        seeds={"training": seed},
        seconds={"train": seconds},
        command=opt.command_line(),
    )
    save(model, out)
    if record:
        result.write(record.parent)
    show(accuracy_table([result]))
    say(f"{label} trained in {seconds:.0f} s; weights in {out}" + (f", record in {record}" if record else ""))


def _begun(
    network: str, cuts: str | None, init: Checkpoint | None, trust: bool, task: ForgetTask, shape: dict[str, Any]
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
