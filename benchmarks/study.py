"""Cost of a study beside its cells: python benchmarks/study.py [--cells 10000] [--speed [--models 8]] [--json]

Without --speed: a study of stub cells, its plan, its status and a second run. With it: real cells with one and two
workers, and Ray where it is installed. The exit code is 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import logging
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import residua as rs
from residua.study.cells import Context, Output
from residua.study.executors import How
from residua.study.folder import status
from residua.study.schedule import Run, computing
from residua.study.store import Store

PLAN, STATUS, CELL, TWO, RAY = 5.0, 5.0, 0.020, 1.5, 1.15


@dataclass(frozen=True, eq=False)
class Stub:
    """A cell that does nothing."""

    kind: ClassVar[str] = "stub"

    name: str
    parents: tuple[Any, ...] = ()
    cost: float = 0.0

    def inputs(self, context: Context, parents: Sequence[Any]) -> dict[str, Any]:
        return {"name": self.name, "parents": [parent.key for parent in parents]}

    def run(self, context: Context, store: Store, parents: Sequence[Any]) -> Output:
        return Output({"name": self.name})


def overhead(count: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        firsts = [Stub(f"first{i}") for i in range(count // 2)]
        cells = [*firsts, *(Stub(f"second{i}", (first,)) for i, first in enumerate(firsts))]
        start = time.perf_counter()
        with computing(out, Context({}), How()) as compute:
            compute(cells)
        run = time.perf_counter() - start
        start = time.perf_counter()
        again = Run(cells, Store(out), Context({}))
        again.look()
        plan = time.perf_counter() - start
        assert len(again.results) == len(cells)
        start = time.perf_counter()
        status(out)
        return {"cell": run / len(cells), "plan": plan, "status": time.perf_counter() - start}


def speed(models: int) -> dict[str, float]:
    task = rs.forget_classes(rs.data.fashion_sample(), [6])
    training = rs.Pretraining(epochs=1, batch=64, lr=0.1, crop=1)
    study = rs.study.Study(
        tasks={"shirt": task},
        networks={"r": {"network": "resnet18", "classes": 10, "channels": 1, "width": 8, "stem": "cifar"}},
        pretraining=training,
        methods=[rs.study.Row(f"Retrain {n}", rs.unlearn.Retrain(training), draw=n) for n in range(models)],
        measures=[rs.measure.Accuracy()],
    )
    found = {}
    engines: dict[str, dict[str, Any]] = {"one": {"jobs": 1}, "two": {"jobs": 2}}
    if importlib.util.find_spec("ray"):
        engines["ray"] = {"jobs": 2, "engine": "ray"}
    for name, how in engines.items():
        if name == "ray":
            import ray

            # Its start-up is not counted, and its workers are no nicer than ours.
            os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 (Ray's own spelling)
            ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            study.run(folder, **how)
            found[name] = time.perf_counter() - start
    if "ray" in found:
        ray.shutdown()
    return found


def main(words: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--cells", type=int, default=10_000)
    options.add_argument("--speed", action="store_true")
    options.add_argument("--models", type=int, default=8, help="trained by each engine, with --speed")
    options.add_argument("--json", action="store_true")
    chosen = options.parse_args(words)
    found = speed(chosen.models) if chosen.speed else overhead(chosen.cells)
    if chosen.speed:
        bars = {"two workers against one": (found["one"] / found["two"], ">=", TWO)}
        if "ray" in found:
            bars["Ray against two workers"] = (found["ray"] / found["two"], "<=", RAY)
    else:
        bars = {
            "seconds per cell": (found["cell"], "<=", CELL),
            "plan, seconds": (found["plan"], "<=", PLAN),
            "status, seconds": (found["status"], "<=", STATUS),
        }
    held = {name: value >= bar if side == ">=" else value <= bar for name, (value, side, bar) in bars.items()}
    if chosen.json:
        print(json.dumps(found | {"held": held}))
    else:
        for name, (value, side, bar) in bars.items():
            print(f"{name}: {value:.3g} (bar: {side} {bar:g}){'' if held[name] else ' MISSED'}")
    return 0 if all(held.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
