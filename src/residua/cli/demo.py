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
from residua.compare import curve_fields
from residua.datasets import fashion_sample
from residua.files import check_place, write_atomically
from residua.measure import Accuracy, InformationCurve
from residua.networks import resnet18
from residua.recipes import TINY, WIDTH
from residua.record import Record, describe
from residua.report import information_table
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
    """Forget class 6 (shirt) of the embedded Fashion-MNIST sample: what models say, and what they know."""
    check_place(out / "table.md")
    data = fashion_sample()
    task = forget_classes(data, FORGOTTEN)
    say(f"{data.name}: {len(data.train)} images; forgetting the {len(task.forget)} of class {FORGOTTEN}.")
    with seeded(seed), training_bar("training Original"):
        start = time.perf_counter()
        model = TINY(resnet18(classes=data.classes, channels=1, width=WIDTH["tiny"]), data.train)
        trained = time.perf_counter() - start
    methods: dict[str, Unlearner] = {
        "Original": Original(),
        "Retrain": Retrain(TINY),
        "Retrain again": Retrain(TINY),
        "Random": Random(),
    }
    records = []
    for i, (label, method) in enumerate(methods.items()):
        with seeded(seed + 1 + i), training_bar(f"making {label}"):
            start = time.perf_counter()
            unlearned = method(model, task)
            seconds = trained if label == "Original" else time.perf_counter() - start
        with training_bar(f"critics of {label}"):
            record = _record(label, method, unlearned, task, seed, seconds)
        record.write(out / "records")
        save(unlearned, out / f"{record.name}.safetensors")
        records.append(record)
    table = information_table(records)
    write_atomically(out / "table.md", lambda part: part.write_text(table.markdown()))
    write_atomically(out / "table.csv", lambda part: part.write_text(table.csv()))
    show(table)
    say(f"Table, records and checkpoints are in {out}/.")


def _record(
    label: str, method: Unlearner, model: Classifier, task: ForgetTask, seed: int, seconds: float
) -> Record:
    kept = curve_fields(InformationCurve()(model, task))
    kept["readings"]["accuracy"] = dict(Accuracy()(model, task).values)
    return Record(
        name=label.lower().replace(" ", "-"),
        setting={"scale": "tiny", "network": model.architecture, "task": task.manifest()},
        method=describe(method) | {"label": label},
        seeds={"training": seed},
        seconds={"method": seconds},
        command=command_line(),
        **kept,
    )
