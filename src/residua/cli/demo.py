"""`residua demo`: the main job on the embedded data."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from residua.checkpoint import save
from residua.classifier import Classifier
from residua.cli.console import say, show, training_bar
from residua.cli.options import SeedOption, command_line
from residua.datasets import fashion_sample
from residua.files import write_atomically
from residua.measure import Accuracy
from residua.networks import resnet18
from residua.recipes import TINY, WIDTH
from residua.record import Record, describe
from residua.report import accuracy_table
from residua.task import ForgetTask, forget_classes
from residua.training import seeded
from residua.unlearn import Original, Random, Retrain, Unlearner

FORGOTTEN = 6


def demo(
    out: Annotated[Path, typer.Option(help="The folder for checkpoints, records and the table.")] = Path(
        "demo"
    ),
    seed: SeedOption = 0,
) -> None:
    """Forget class 6 (shirt) of the embedded Fashion-MNIST sample: Original, Retrain, Random."""
    data = fashion_sample()
    task = forget_classes(data, FORGOTTEN)
    say(f"{data.name}: {len(data.train)} images; forgetting the {len(task.forget)} of class {FORGOTTEN}.")
    with seeded(seed), training_bar("training Original"):
        start = time.perf_counter()
        model = TINY(resnet18(classes=data.classes, channels=1, width=WIDTH["tiny"]), data.train)
        seconds = {"Original": time.perf_counter() - start}
    methods: tuple[Unlearner, ...] = (Original(), Retrain(TINY), Random())
    records = []
    for i, method in enumerate(methods):
        with seeded(seed + 1 + i), training_bar(f"training {method.label}"):
            start = time.perf_counter()
            unlearned = method(model, task)
            seconds.setdefault(method.label, time.perf_counter() - start)
        records.append(_record(method, unlearned, task, seed, seconds[method.label]))
        records[-1].write(out / "records")
        save(unlearned, out / f"{method.label.lower()}.safetensors")
    table = accuracy_table(records)
    write_atomically(out / "table.md", lambda part: part.write_text(table.markdown()))
    write_atomically(out / "table.csv", lambda part: part.write_text(table.csv()))
    show(table)
    say(f"Table, records and checkpoints are in {out}/.")


def _record(method: Unlearner, model: Classifier, task: ForgetTask, seed: int, seconds: float) -> Record:
    measure = Accuracy()
    return Record(
        name=method.label.lower(),
        setting={"scale": "tiny", "network": model.architecture, "task": task.manifest()},
        method=describe(method),
        measures={measure.label: describe(measure)},
        seeds={"training": seed},
        readings={measure.label: dict(measure(model, task).values)},
        seconds={"method": seconds},
        command=command_line(),
    )
