"""The default information curve against the program that one would write from the paper.

    python benchmarks/idi_speed.py [--data parquet:DIR --forget class:4 --model original.safetensors --retrained
        retrain.safetensors --width 16]

Both read the last two blocks of a ResNet-18 of width 16 on 12,500 images of 32 x 32, or of width 64 on 2,000, on one
thread, with network critics fitted on the same halves and read on the other half. The plain program fits each block on its own for ten
epochs, runs the frozen part of the network at every step, and compares every feature with every label of the
batch (K x K scores) in float32. Ours must read no less: at most 0.005 nats below the plain program at any block. Four times
the images may take four times the time and memory, for Original and for a retrained model, whose network critics go on
longer. Processor time is compared, so that a busy machine does not decide. Without --data the images are the embedded ones,
framed, shifted and tinted, and the models are trained on some of them for two epochs first.
"""

from __future__ import annotations

import argparse
import json
import os
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
from residua.measure import _outputs
from residua.measure.information.curve import InformationCurve
from residua.measure.information.families import read_family
from residua.measure.information.network import Fitting, NetworkCritic
from residua.measure.information.samples import samples
from residua.models.classifier import clone, reinitialise
from residua.parallel import PROCESSES
from residua.record import software

IMAGES, EPOCHS, BLOCKS = {16: 12_500, 64: 2_000}, 10, (4, 5)
FASTER, LESS, GROWTH = 20, -0.005, 4.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="NAME:DIR of 32 x 32 colour images; default: made from the embedded ones")
    parser.add_argument("--forget", default="class:4")
    parser.add_argument("--model", help="checkpoint of a ResNet-18 for --data")
    parser.add_argument("--retrained", help="checkpoint that never saw the class, for --data")
    parser.add_argument("--width", type=int, choices=list(IMAGES), default=16)
    parser.add_argument("--images", type=int, help="default: 12,500 at width 16 and 2,000 at width 64")
    parser.add_argument("--part", choices=["ours", "plain"], help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.images = options.images or IMAGES[options.width]
    if options.part:
        torch.set_num_threads(1)
        print(json.dumps(PARTS[options.part](*prepare(options))))
        return 0
    if not options.data:
        train(options)
    plain, ours = (child(options, options.model, part, options.images) for part in ("plain", "ours"))
    growth = {"original": grown(ours, child(options, options.model, "ours", 4 * options.images))}
    if options.retrained:
        few, many = (child(options, options.retrained, "ours", n * options.images) for n in (1, 4))
        growth["retrained"] = grown(few, many)
    result = {
        "command": shlex.join(["python", *sys.argv]),
        "software": software(),
        "ratio": plain["seconds"] / ours["seconds"],
        "plain": plain,
        "ours": ours,
        "difference": {b: ours["I"][b] - plain["I"][b] for b in ours["I"]},
        "forward_seconds": ours["forward"],
        "growth_4N": growth,
    }
    if options.json:
        print(json.dumps(result, indent=1))
    else:
        show(result)
    enough = all(d >= LESS for d in result["difference"].values())
    linear = all(value <= GROWTH for each in growth.values() for value in each.values())
    return 0 if result["ratio"] >= FASTER and enough and linear else 1


def show(result: dict) -> None:
    plain, ours = result["plain"], result["ours"]
    print(
        f"plain {plain['seconds']:.1f} s, ours {ours['seconds']:.1f} s: {result['ratio']:.1f} times faster (bar: {FASTER}); the "
        f"forward pass alone {ours['forward']:.1f} s"
    )
    for b, d in result["difference"].items():
        print(f"block {b}: plain {plain['I'][b]:.4f}, ours {ours['I'][b]:.4f}, difference {d:+.4f} nats (bar: {LESS})")
    for name, growth in result["growth_4N"].items():
        print(
            f"{name}, from N to 4N: time x {growth['seconds']:.2f}, peak memory x {growth['megabytes']:.2f} (bar: {GROWTH})"
        )


def grown(few: dict, many: dict) -> dict[str, float]:
    return {k: many[k] / few[k] for k in ("seconds", "megabytes")}


def child(options: argparse.Namespace, model: str, part: str, n: int) -> dict:
    """Each program in a process of its own: neither's memory helps the other."""
    words = [sys.executable, __file__, "--part", part, "--images", str(n), "--forget", options.forget]
    words += ["--model", model, "--width", str(options.width)]
    words += ["--data", options.data] if options.data else []
    alone = os.environ | {PROCESSES: "1"}
    return json.loads(
        subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, env=alone).stdout.splitlines()[-1]
    )


def ours(model: rs.Classifier, task: rs.ForgetTask, ratio: str) -> dict:
    start = time.process_time()
    curve = InformationCurve(ratio=ratio, blocks=BLOCKS)(model, task)
    found = report(curve.information, start)
    start = time.process_time()
    _outputs.features(model, [task.retain, task.forget], BLOCKS)
    return found | {"forward": time.process_time() - start}


def plain(model: rs.Classifier, task: rs.ForgetTask, ratio: str) -> dict:
    """Half by half, block by block, step by step."""
    measure = InformationCurve(ratio=ratio)
    with rs.seeded(measure.seed):
        chosen = samples(task, ratio=ratio, folds=measure.folds)
    split = chosen.parts[0].joined(chosen.parts[1])
    y, fold = chosen.y[chosen.asked], chosen.fold[chosen.asked]
    start = time.process_time()
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
    groups = [{"params": critic.f.parameters(), "lr": 1e-3}, {"params": [critic.g], "lr": 1e-3}]
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
        return torch.cat([critic(model.upto(block)(x.contiguous())) for x, _ in split.batches(500)]).double()[None]


PARTS = {"ours": ours, "plain": plain}


def report(information: dict[int, float], start: float) -> dict:
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "seconds": time.process_time() - start,
        "megabytes": megabytes,
        "I": {str(b): v for b, v in information.items()},
    }


def prepare(options: argparse.Namespace) -> tuple[rs.Classifier, rs.ForgetTask, str]:
    from residua.data.parsing import parse_forget

    if options.data:
        task = parse_forget(rs.data.open_dataset(options.data), options.forget)
    else:
        task = rs.forget_classes(coloured(max(options.images, 4 * IMAGES[options.width])), 6)
    model = rs.load(options.model)
    keep = torch.randperm(len(task.retain), generator=torch.Generator().manual_seed(0))[: options.images * 9 // 10]
    small = torch.randperm(len(task.forget), generator=torch.Generator().manual_seed(1))[: options.images // 10]
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


def train(options: argparse.Namespace) -> None:
    """Original and a retrained model, kept beside this file."""
    few = coloured(4 * IMAGES[options.width])
    few = rs.Dataset(few.name, few.train.subset(torch.arange(96_000 // options.width)), few.test)
    quick = rs.Pretraining(epochs=2, batch=64, lr=0.1, warmup=0.2)
    for seed, role in enumerate(("model", "retrained")):
        path = Path(__file__).with_name(f"idi_speed-{role}-{options.width}.safetensors")
        setattr(options, role, str(path))
        if not path.exists():
            with rs.seeded(seed):
                split = few.train if role == "model" else rs.forget_classes(few, 6).retain
                rs.save(quick(rs.models.resnet18(width=options.width), split), path)


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
