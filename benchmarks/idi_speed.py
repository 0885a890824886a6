"""The default information curve against the program that one would write from the paper.

    python benchmarks/idi_speed.py [--data parquet:DIR --forget class:4 --model original.safetensors]

Both read the last two blocks of a ResNet-18 of width 16 on 12,500 images of 32 x 32, with network critics
fitted on the same halves and read on the other half. The plain program fits each block on its own for ten
epochs, runs the frozen part of the network at every step, and compares every feature with every label of the
batch (K x K scores) in float32. Ours must read no less: at most 0.005 nats below the plain program at any block. Without
--data the images are the embedded ones, framed, shifted and tinted, and the model is trained on them for two epochs
first.
"""

from __future__ import annotations

import argparse
import json
import resource
import shlex
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import residua as rs
from residua.measure.information.curve import InformationCurve
from residua.measure.information.families import read_family
from residua.measure.information.network import Fitting, NetworkCritic
from residua.measure.information.samples import samples
from residua.models.classifier import clone, reinitialise
from residua.record import software

N, EPOCHS, BLOCKS = 12_500, 10, (4, 5)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", help="NAME:DIR of 32 x 32 colour images; default: made from the embedded ones"
    )
    parser.add_argument("--forget", default="class:4")
    parser.add_argument("--model", help="checkpoint of a ResNet-18 of width 16 for --data")
    parser.add_argument("--images", type=int, default=N)
    parser.add_argument("--part", choices=["ours", "plain"], help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.part:
        print(json.dumps(PARTS[options.part](*prepare(options))))
        return 0
    if not options.data:
        prepare(options)  # trains the model once, for both
    plain, ours, larger = (
        child(options, part, n) for part, n in (("plain", N), ("ours", N), ("ours", 4 * N))
    )
    peak = matrix_peak()
    result = {
        "command": shlex.join(["python", *sys.argv]),
        "software": software(),
        "ratio": plain["seconds"] / ours["seconds"],
        "plain": plain,
        "ours": ours,
        "difference": {b: ours["I"][b] - plain["I"][b] for b in ours["I"]},
        "critic_gflop": critic_work(ours["shown"]) / 1e9,
        "time_over_peak_time": ours["seconds"] / (critic_work(ours["shown"]) / peak),
        "growth_4N": {k: larger[k] / ours[k] for k in ("seconds", "megabytes")},
    }
    if options.json:
        print(json.dumps(result, indent=1))
    else:
        print(
            f"plain {plain['seconds']:.1f} s, ours {ours['seconds']:.1f} s: {result['ratio']:.1f} times faster (bar: 10)"
        )
        for b, d in result["difference"].items():
            print(
                f"block {b}: plain {plain['I'][b]:.4f}, ours {ours['I'][b]:.4f}, difference {d:+.4f} nats (bar: -0.005)"
            )
        print(
            f"the critics' {result['critic_gflop']:.0f} GFLOP would take {critic_work(ours['shown']) / peak:.1f} s at this "
            f"machine's matrix-product peak of {peak / 1e9:.0f} GFLOP/s: ours takes {result['time_over_peak_time']:.1f} times that"
        )
        growth = result["growth_4N"]
        print(
            f"from N to 4N: time x {growth['seconds']:.2f} (bar: 4), peak memory x {growth['megabytes']:.2f}"
        )
    enough = all(d >= -0.005 for d in result["difference"].values())
    return 0 if result["ratio"] >= 10 and enough and result["growth_4N"]["seconds"] <= 4 else 1


def child(options: argparse.Namespace, part: str, n: int) -> dict:
    """Each program in a process of its own: neither's memory or threads help the other."""
    words = [sys.executable, __file__, "--part", part, "--images", str(n), "--forget", options.forget]
    for name in ("data", "model"):
        words += [f"--{name}", getattr(options, name)] if getattr(options, name) else []
    return json.loads(
        subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()[-1]
    )


def ours(model: rs.Classifier, task: rs.ForgetTask, ratio: str) -> dict:
    start = time.perf_counter()
    curve = InformationCurve(ratio=ratio, blocks=BLOCKS)(model, task)
    critics: dict[tuple[float, ...], list[tuple[float, float]]] = {}  # by restart, block and critic
    for *critic, steps, nats, _ in curve.arrays["course"].tolist():
        critics.setdefault(tuple(critic), []).append((steps, nats))
    # Each is fitted a second time for as long as was best, on half the samples, in batches of half the size.
    steps = sum(rounds[-1][0] + max(rounds, key=lambda r: r[1])[0] / 2 for rounds in critics.values())
    shown = steps * Fitting.batch
    return report(curve.information, start) | {"shown": shown}


def plain(model: rs.Classifier, task: rs.ForgetTask, ratio: str) -> dict:
    """Half by half, block by block, step by step."""
    measure = InformationCurve(ratio=ratio)
    with rs.seeded(measure.seed):
        chosen = samples(task, ratio=ratio, folds=measure.folds)
    split = chosen.parts[0].joined(chosen.parts[1])
    y, fold = chosen.y[chosen.asked], chosen.fold[chosen.asked]
    start = time.perf_counter()
    information = {}
    for block in BLOCKS:
        with rs.seeded(measure.seed + block):
            scores = torch.empty(1, len(y), 2, dtype=torch.float64)
            for half in range(2):
                inside, outside = (fold % 2 != half).nonzero()[:, 0], (fold % 2 == half).nonzero()[:, 0]
                critic = fit_plain(model, block, split.subset(inside).relabel(y[inside]), measure)
                scores[:, outside] = read_plain(model, block, critic, split.subset(outside))
        read = read_family("network", {block: {"network": scores}}, y, fold, chosen.prior)
        information[block] = float(read[block].terms.mean())
    return report(information, start)


def fit_plain(model: rs.Classifier, block: int, split: rs.Split, measure: InformationCurve) -> NetworkCritic:
    rest, frozen = reinitialise(clone(model.after(block))), model.upto(block)
    critic = NetworkCritic(rest, model.head.in_features, 2, measure.dim)
    groups = [
        {"params": critic.f.parameters(), "lr": 1e-3},
        {"params": [critic.g], "lr": 1e-3},
    ]
    optimizer = torch.optim.Adam(groups)
    critic.train()
    for _ in range(EPOCHS):
        for x, y in split.batches(Fitting.batch, shuffle=True, drop_last=True):
            with torch.no_grad():
                z = frozen(x.contiguous())
            scores = critic.f(z) @ critic.g[y].T  # K x K: each feature against the label of each sample
            loss = nn.functional.cross_entropy(scores, torch.arange(len(y)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return critic.eval()


def read_plain(model: rs.Classifier, block: int, critic: NetworkCritic, split: rs.Split) -> Tensor:
    with torch.no_grad():
        return torch.cat([critic(model.upto(block)(x.contiguous())) for x, _ in split.batches(500)]).double()[
            None
        ]


PARTS = {"ours": ours, "plain": plain}


def report(information: dict[int, float], start: float) -> dict:
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "seconds": time.perf_counter() - start,
        "megabytes": megabytes,
        "I": {str(b): v for b, v in information.items()},
    }


def critic_work(shown: float) -> float:
    """Floating-point operations of showing so many samples to block 4's critic: layer4 at width 16, three passes a step."""
    macs = 16 * (64 * 128 * 9 + 3 * 128 * 128 * 9 + 64 * 128)
    return 2.0 * 3 * macs * shown


def matrix_peak() -> float:
    """Floating-point operations a second of a large float32 matrix product."""
    a = torch.randn(2048, 2048)
    times = []
    for _ in range(6):
        start = time.perf_counter()
        a @ a
        times.append(time.perf_counter() - start)
    return 2 * 2048**3 / min(times)


def prepare(options: argparse.Namespace) -> tuple[rs.Classifier, rs.ForgetTask, str]:
    from residua.data.parsing import parse_forget

    if options.data:
        task = parse_forget(rs.data.open_dataset(options.data), options.forget)
        model = rs.load(options.model)
    else:
        data = coloured(max(options.images, 4 * N))
        task = rs.forget_classes(data, 6)
        cache = Path(__file__).with_name("idi_speed.safetensors")
        if not cache.exists():
            few = data.train.subset(torch.arange(6000))
            with rs.seeded(0):
                quick = rs.Pretraining(epochs=2, batch=64, lr=0.1, warmup=0.2)
                rs.save(quick(rs.models.resnet18(width=16), few), cache)
        model = rs.load(cache)
    keep = torch.randperm(len(task.retain), generator=torch.Generator().manual_seed(0))[
        : options.images * 9 // 10
    ]
    small = torch.randperm(len(task.forget), generator=torch.Generator().manual_seed(1))[
        : options.images // 10
    ]
    # The plain program reads no test images; nor does ours here, but for a few.
    few = torch.arange(100)
    task = rs.ForgetTask(
        task.dataset,
        "class",
        task.forgotten,
        task.forget.subset(small),
        task.retain.subset(keep),
        task.test.subset(few[: len(task.test)]),
        task.forget_test.subset(few[: len(task.forget_test)]),
    )
    return model, task, "all"


def coloured(n: int) -> rs.Dataset:
    """The embedded images on a 32 x 32 canvas at a random place, in a random tint."""
    sample = rs.data.fashion_sample()
    random = np.random.default_rng(0)
    grey = sample.train.images.pixels[..., 0].numpy()
    chosen = random.integers(0, len(grey), n)
    images = np.zeros((n, 3, 32, 32), np.uint8)
    tint = random.uniform(0.4, 1.0, (n, 3, 1, 1))
    for i, (top, left) in enumerate(random.integers(0, 5, (n, 2))):
        images[i, :, top : top + 28, left : left + 28] = grey[chosen[i]]
    labels = sample.train.labels.numpy()[chosen]
    return rs.data.arrays((images * tint).astype(np.uint8), labels, images[:100], labels[:100], classes=10)


if __name__ == "__main__":
    sys.exit(main())
