"""Many small models at once: one after another, side by side in processes, or stacked in one tensor.

All three train the same ResNet-18s on their own random 28 x 28 images with the same SGD, for as many
steps. `in turn` trains one after another on all threads; `processes` is what `residua ulira` does, one
process a core with one thread each; `stacked` runs all models in one call of torch.func.vmap, on all
threads. They take turns; the ratios to `in turn` are medians over the rounds. Start-up is not timed: it is
paid once for a whole run. Exits with 1 if processes are not the fastest way on a machine with several cores.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F
from torch.func import functional_call, stack_module_state, vmap

import residua as rs

WARM_UP = 2
SGD = {"lr": 0.1, "momentum": 0.9, "weight_decay": 5e-4}


def batch_of(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(n, 1, 28, 28), torch.randint(0, 10, (n,))


def in_turn(models: int, steps: int, width: int, batch: int) -> float:
    """Seconds of these steps for all models, one after another."""
    spent = 0.0
    x, y = batch_of(batch)
    for _ in range(models):
        model = rs.models.resnet18(channels=1, width=width).to(memory_format=torch.channels_last).train()
        optimizer = torch.optim.SGD(model.parameters(), **SGD)
        for step in range(WARM_UP + steps):
            start = time.perf_counter()
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            spent += time.perf_counter() - start if step >= WARM_UP else 0.0
    return spent


def stacked(models: int, steps: int, width: int, batch: int) -> float:
    """The same, all models in one call."""
    own = [rs.models.resnet18(channels=1, width=width).train() for _ in range(models)]
    weights, buffers = stack_module_state(own)
    shape = copy.deepcopy(own[0]).to("meta")
    optimizer = torch.optim.SGD(weights.values(), **SGD)
    x, y = (torch.stack(parts) for parts in zip(*(batch_of(batch) for _ in range(models)), strict=True))

    def loss(w: dict, b: dict, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(functional_call(shape, (w, b), (x,)), y)

    spent = 0.0
    for step in range(WARM_UP + steps):
        start = time.perf_counter()
        optimizer.zero_grad()
        vmap(loss)(weights, buffers, x, y).sum().backward()
        optimizer.step()
        spent += time.perf_counter() - start if step >= WARM_UP else 0.0
    return spent


def run(program: str, options: argparse.Namespace) -> float:
    """Images per second of all models together."""
    words = [f"--{name}={getattr(options, name)}" for name in ("steps", "width", "batch")]
    threads = options.cores
    if program == "processes":
        shares = [options.models // options.cores] * options.cores
        jobs = [(["--program", "in turn", f"--models={n}"], 1) for n in shares]
    else:
        jobs = [(["--program", program, f"--models={options.models}"], threads)]
    started = [
        subprocess.Popen(
            [sys.executable, __file__, *words, *more],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": str(n)},
        )
        for more, n in jobs
    ]
    slowest = max(float(process.communicate()[0]) for process in started)
    return options.models * options.steps * options.batch / slowest


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=4, help="a multiple of the cores")
    parser.add_argument("--steps", type=int, default=8, help="timed steps of each model in each round")
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--program", choices=("in turn", "stacked"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.program:
        work = in_turn if options.program == "in turn" else stacked
        print(work(options.models, options.steps, options.width, options.batch))
        return 0
    if options.models % options.cores:
        parser.error(f"--models {options.models} is not a multiple of {options.cores} cores")
    rounds = []
    for _ in range(options.rounds):
        rounds.append({program: run(program, options) for program in ("in turn", "processes", "stacked")})
        if not options.json:
            print(", ".join(f"{name} {speed:.0f} images/s" for name, speed in rounds[-1].items()), flush=True)
    ratios = {
        name: statistics.median(speed[name] / speed["in turn"] for speed in rounds) for name in ("processes", "stacked")
    }
    if options.json:
        print(json.dumps({"ratios": ratios, "cores": options.cores, "rounds": rounds}))
    else:
        print(", ".join(f"{name} are {ratio:.2f} times as fast as in turn" for name, ratio in ratios.items()))
    best = ratios["processes"] >= max(1.0, ratios["stacked"])
    if options.cores > 1 and not best:
        print("processes are not the fastest way here", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
