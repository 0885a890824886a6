"""The cost of an audit with three references on the embedded data, and of each further model of an `Auditor`.

    python benchmarks/auditor.py

Class 6 is forgotten; ResNet-18s with the weights of short trainings: what a model knows hardly changes what it costs.
Processor time of this process and its forks is counted, so that a busy machine does not decide. Bars: the first audit
takes 120 s on two cores at most, a further model a quarter of that audit.
"""

from __future__ import annotations

import argparse
import json
import os
import sys

import torch

import residua as rs
from residua.training.recipes import TINY

BAR, CORES, FURTHER = 120.0, 2, 0.25


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=2, help="of each training; the audits are not timed with them")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(words)
    torch.set_num_threads(1)
    first, further = seconds(options.epochs)
    if options.json:
        print(json.dumps({"first": first, "further": further}))
    else:
        print(
            f"an audit with three references {first:.1f} s of processor time (bar: {BAR * CORES:.0f}), a further model "
            f"{further:.1f} s: {further / first:.2f} times (bar: {FURTHER})"
        )
    return 0 if first <= BAR * CORES and further <= FURTHER * first else 1


def seconds(epochs: int) -> tuple[float, float]:
    """Processor time of an audit with three references, and of the next model with the same auditor."""
    task = rs.forget_classes(rs.data.fashion_sample(), [6])
    training = rs.Pretraining(epochs=epochs, batch=TINY.batch, lr=TINY.lr, warmup=TINY.warmup)
    made = []
    for seed in range(6):
        with rs.seeded(seed):
            network = rs.models.resnet18(classes=10, channels=1, width=16, stem="imagenet")
            made.append(training(network, task.retain if made else task.train))
    original, *references, one, other = made
    auditor = rs.Auditor(original=original, reference=references, task=task)
    start = processor()
    auditor.audit(one)
    between = processor()
    auditor.audit(other)
    return between - start, processor() - between


def processor() -> float:
    """Seconds of this process and of those that it started and that ended."""
    return sum(os.times()[:4])


if __name__ == "__main__":
    sys.exit(main())
