"""Training images per second: residua's loop against the plain one that somebody would write.

Both train the same ResNet-18 on the same random 32 x 32 x 3 images with the same SGD, crop and flip,
for as many steps. The plain loop is a DataLoader over a Dataset that transforms one PIL image at a
time, in float32. Each program runs in a process of its own, so that neither's memory settings or
threads help the other; they take turns, and the ratio is the median over the rounds. Exits with 1
if residua is less than twice as fast.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageOps
from torch.utils.data import DataLoader, Dataset

import residua as rs
from residua.device import resolve_precision

WARM_UP, WANTED = 3, 2.0
SGD = {"lr": 0.1, "momentum": 0.9, "weight_decay": 5e-4}


def images(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (n, 3, 32, 32), dtype=np.uint8), rng.integers(0, 10, n)


def ours(steps: int, width: int, batch: int) -> float:
    """Seconds for these steps of `descend`, after the warm-up."""
    pixels, labels = images(batch * (WARM_UP + steps))
    train = rs.data.arrays(pixels, labels, pixels[:1], labels[:1], classes=10).train
    model = rs.models.resnet18(width=width)
    optimizer = torch.optim.SGD(model.parameters(), **SGD)
    batches = train.batches(batch, shuffle=True, augment=rs.Augmentation(4, flip=True), drop_last=True)
    times: list[float] = []
    with rs.watching(lambda _: times.append(time.perf_counter())):
        rs.descend(model, batches, optimizer=optimizer, epochs=1)
    return times[-1] - times[WARM_UP - 1]


class Pictures(Dataset):
    """One image at a time: crop, flip, tensor, normalise."""

    def __init__(self, pixels: np.ndarray, labels: np.ndarray) -> None:
        self.pixels, self.labels = pixels.transpose(0, 2, 3, 1), labels
        self.mean, self.std = torch.full((3, 1, 1), 0.5), torch.full((3, 1, 1), 0.29)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
        image = ImageOps.expand(Image.fromarray(np.ascontiguousarray(self.pixels[i])), border=4)
        left, top = random.randint(0, 8), random.randint(0, 8)
        image = image.crop((left, top, left + 32, top + 32))
        if random.random() < 0.5:
            image = ImageOps.mirror(image)
        x = torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous().float() / 255
        return (x - self.mean) / self.std, int(self.labels[i])


def plain(steps: int, width: int, batch: int) -> float:
    """Seconds for these steps of a plain loop, after the warm-up."""
    data = Pictures(*images(batch * (WARM_UP + steps)))
    model = rs.models.resnet18(width=width).train()
    optimizer = torch.optim.SGD(model.parameters(), **SGD)
    times = []
    for x, y in DataLoader(data, batch_size=batch, shuffle=True, drop_last=True):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        loss.item()  # as one does for the progress bar
        times.append(time.perf_counter())
    return times[-1] - times[WARM_UP - 1]


PROGRAMS = {"ours": ours, "plain": plain}


def in_a_process(program: str, options: argparse.Namespace) -> float:
    """Images per second of one of the two programs."""
    words = [f"--{name}={getattr(options, name)}" for name in ("steps", "width", "batch")]
    command = [sys.executable, __file__, *words, "--program", program]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return options.steps * options.batch / float(printed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=12, help="timed steps of each program in each round")
    parser.add_argument("--width", type=int, default=16, help="width of the ResNet-18")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--program", choices=PROGRAMS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.program:
        print(PROGRAMS[options.program](options.steps, options.width, options.batch))
        return 0
    rounds = []
    for i in range(options.rounds):
        order = sorted(PROGRAMS, reverse=bool(i % 2))  # each goes first in its turn
        rounds.append({program: in_a_process(program, options) for program in order})
        a, b = rounds[-1]["ours"], rounds[-1]["plain"]
        if not options.json:
            print(f"residua {a:.0f} images/s, plain loop {b:.0f}, ratio {a / b:.2f}", flush=True)
    ratio = statistics.median(speed["ours"] / speed["plain"] for speed in rounds)
    precision = str(resolve_precision("auto", torch.device("cpu"))).removeprefix("torch.")
    if options.json:
        print(json.dumps({"ratio": ratio, "wanted": WANTED, "precision": precision, "rounds": rounds}))
    else:
        print(f"residua trains {ratio:.2f} times as fast as the plain loop (median; {precision})")
    if ratio < WANTED:
        print(f"the ratio {ratio:.2f} is below {WANTED:g}", file=sys.stderr)
    return int(ratio < WANTED)


if __name__ == "__main__":
    sys.exit(main())
