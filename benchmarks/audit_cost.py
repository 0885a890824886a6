"""Cost of an audit against the three information curves that its IDI is made of.

    python benchmarks/audit_cost.py [--data parquet:DIR --original O.safetensors --reference R.safetensors]

12,500 training and 2,500 test images of 32 x 32, drawn alike from every class; ResNet-18s of width 16; class 4
is forgotten. The unlearned model is Original with a little noise on its weights: what it knows does not change
what it costs. Each of the two programs runs in a process of its own on one thread, and processor time is
compared, so that a busy machine does not decide. Beside that, a model whose head alone forgot is audited whole, and with
--precision, which has to cost at most a fifth. Without --data the images are the embedded ones, framed,
shifted and tinted, and the models are trained on some of them first.
"""

from __future__ import annotations

import argparse
import functools
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from idi_speed import coloured

import residua as rs

N, BAR, EARLY, FORGET = 12_500, 1.5, 0.2, 4


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="NAME:DIR of 32 x 32 colour images; default: made from the embedded ones")
    parser.add_argument("--original", help="checkpoint for --data")
    parser.add_argument("--reference", help="checkpoint for --data")
    parser.add_argument("--size", type=int, default=N, help="training images; there are a fifth as many test images")
    parser.add_argument("--width", type=int, default=16, help="of the models that are trained without --data")
    parser.add_argument("--part", choices=list(PARTS), help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(words)
    if options.part:
        print(json.dumps(measured(options, options.part)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        if not options.data:
            train(options, Path(folder))
        curves, audit, whole, early = (child(options, part) for part in PARTS)
    result = {"ratio": audit["seconds"] / curves["seconds"], "curves": curves, "audit": audit}
    result |= {"early_ratio": early["seconds"] / whole["seconds"], "whole": whole, "early": early}
    if options.json:
        print(json.dumps(result, indent=1))
    else:
        print(
            f"three curves {curves['seconds']:.1f} s, the audit {audit['seconds']:.1f} s of processor time: "
            f"{result['ratio']:.2f} times (bar: {BAR})"
        )
        shares = sorted(audit["parts"].items(), key=lambda part: -part[1])
        print("of it, by the clock: " + ", ".join(f"{name} {seconds:.1f} s" for name, seconds in shares))
        print(
            f"a head that forgot: whole {whole['seconds']:.1f} s, with --precision {early['seconds']:.1f} s: "
            f"{result['early_ratio']:.2f} times (bar: {EARLY})"
        )
    return 0 if result["ratio"] <= BAR and result["early_ratio"] <= EARLY else 1


def measured(options: argparse.Namespace, part: str) -> dict:
    torch.set_num_threads(1)
    task, models = prepare(options)
    start = time.process_time()
    parts = PARTS[part](task, models)
    return {"seconds": time.process_time() - start, "parts": parts}


def curves(task: rs.ForgetTask, models: dict[str, rs.Classifier]) -> dict[str, float]:
    for model in models.values():
        rs.measure.InformationCurve()(model, task)
    return {}


def audit(task: rs.ForgetTask, models: dict[str, rs.Classifier]) -> dict[str, float]:
    """Seconds of each measure, all models together."""
    start = time.perf_counter()
    found = rs.audit(**models, task=task)
    total = time.perf_counter() - start
    labels = found.records["unlearned"].seconds
    parts = {label: sum(record.seconds[label] for record in found.records.values()) for label in labels}
    return parts | {"report and hashes": total - sum(parts.values())}


def head_alone(
    task: rs.ForgetTask, models: dict[str, rs.Classifier], precision: float | None = None
) -> dict[str, float]:
    """An audit of Original with a head that never answers with the class."""
    unlearned = rs.clone(models["original"])
    with torch.no_grad():
        unlearned.head.bias[FORGET] = -1e3
    found = rs.audit(**models | {"unlearned": unlearned}, task=task, precision=precision)
    return {found.verdict: float(found.records["unlearned"].setting.task.size("retain"))}


PARTS = {"curves": curves, "audit": audit, "whole": head_alone, "early": functools.partial(head_alone, precision=0.05)}


def child(options: argparse.Namespace, part: str) -> dict:
    words = [sys.executable, __file__, "--part", part, "--size", str(options.size)]
    for name in ("data", "original", "reference"):
        words += [f"--{name}", getattr(options, name)] if getattr(options, name) else []
    return json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])


def dataset(options: argparse.Namespace) -> rs.Dataset:
    test = options.size // 5
    if options.data:
        whole = rs.data.open_dataset(options.data)
        return rs.Dataset(whole.name, alike(whole.train, options.size), alike(whole.test, test))
    made = coloured(options.size + test).train
    order = torch.arange(len(made))
    return rs.Dataset("coloured", made.subset(order[: options.size]), made.subset(order[options.size :]))


def alike(split: rs.Split, n: int) -> rs.Split:
    """n images, equally many of each class."""
    random = torch.Generator().manual_seed(0)
    order = torch.randperm(len(split), generator=random)
    labels = split.labels[order]
    some = torch.cat([order[labels == c][: n // split.classes] for c in range(split.classes)])
    return split.subset(some.sort().values)


def train(options: argparse.Namespace, folder: Path) -> None:
    """Original and reference, as far as two epochs on a part of the data bring them."""
    data = dataset(options)
    few = rs.forget_classes(
        rs.Dataset(data.name, data.train.subset(torch.arange(min(options.size, 3000))), data.test), FORGET
    )
    quick = rs.Pretraining(epochs=2, batch=64, lr=0.1, warmup=0.2)
    with rs.seeded(0):
        original = quick(rs.models.resnet18(width=options.width), few.train)
        reference = rs.unlearn.Retrain(quick)(original, few)
    for name, model in (("original", original), ("reference", reference)):
        setattr(options, name, str(folder / f"{name}.safetensors"))
        rs.save(model, folder / f"{name}.safetensors")


def prepare(options: argparse.Namespace) -> tuple[rs.ForgetTask, dict[str, rs.Classifier]]:
    task = rs.forget_classes(dataset(options), FORGET)
    original, reference = rs.load(options.original), rs.load(options.reference)
    unlearned = rs.clone(original)
    with rs.seeded(0), torch.no_grad():
        for p in unlearned.parameters():
            p.mul_(1 + 0.01 * torch.randn_like(p))
    return task, {"original": original, "unlearned": unlearned, "reference": reference}


if __name__ == "__main__":
    sys.exit(main())
