"""Methods' weights in two trees: the same seed, data and settings have to end in the same bits.

    git worktree add ../before REVISION && python benchmarks/equality.py ../before .

Each tree runs in a process of its own. Every method that the first tree has runs for one epoch from the weights of
that tree's Original (width 4, embedded images), three times: with its tree's own defaults; with the first tree's
settings; and with these on sets that batches divide without a rest. A difference in the first column alone is a default
that was changed, one in the first two alone a last batch that is no longer left out.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

KINDS = {"own defaults": 70, "same settings": 70, "whole batches": 64}  # images of each class
QUICK = {"batch": 32, "retain_batch": 32, "forget_batch": 16, "samples": 40, "noise_steps": 2}


def main(first: str, second: str = ".") -> int:
    with tempfile.TemporaryDirectory() as folder:
        before, now = (run(tree, Path(folder)) for tree in (first, second))
    width = max(map(len, before))
    print("method".ljust(width), *(kind.ljust(14) for kind in KINDS))
    for label, hashes in before.items():
        words = ["equal" if hashes[kind] == now.get(label, {}).get(kind) else "different" for kind in KINDS]
        print(label.ljust(width), *(word.ljust(14) for word in words))
    return 0 if all(hashes["whole batches"] == now[label]["whole batches"] for label, hashes in before.items()) else 1


def run(tree: str, folder: Path) -> dict[str, dict[str, str]]:
    """Hashes by method and kind of the package in this tree."""
    environment = os.environ | {"PYTHONPATH": str(Path(tree, "src").resolve()), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, __file__, "--weights", str(folder)]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


def weights(folder: Path) -> dict[str, dict[str, str]]:
    """Run every method in this process; the first tree leaves its Originals and settings in the folder."""
    import torch

    import residua as rs

    found: dict[str, dict[str, str]] = {}
    data, quick = rs.data.fashion_sample(), rs.Pretraining(epochs=1, batch=32, lr=0.05, crop=1)
    settings = folder / "settings.json"
    if not settings.exists():
        settings.write_text(json.dumps({label: plain(method) for label, method in rs.unlearn.methods().items()}))
    first = json.loads(settings.read_text())
    for kind, many in KINDS.items():
        some = [
            split.subset(torch.cat([(split.labels == c).nonzero()[:many, 0] for c in range(split.classes)]))
            for split in (data.train, data.test)
        ]
        task = rs.forget_classes(rs.Dataset("few", *some), [6])
        with rs.seeded(0):
            original = quick(rs.models.resnet18(width=4, channels=1), task.train)
        found.setdefault("pretraining", {})[kind] = digest(original)
        place = folder / f"{many}.pt"
        if not place.exists():
            torch.save(original.state_dict(), place)
        original.load_state_dict(torch.load(place))
        for label in first:
            method = rs.unlearn.methods()[label]
            names = {field.name for field in dataclasses.fields(method)}
            fields = {} if kind == "own defaults" else {n: v for n, v in first[label].items() if n in names}
            fields |= {name: value for name, value in QUICK.items() if name in names and kind != "own defaults"}
            fields |= {name: 1 for name in names if name.endswith("epochs")}
            fields |= {"pretraining": quick} if "pretraining" in names else {}
            with rs.seeded(1):
                found.setdefault(label, {})[kind] = digest(dataclasses.replace(method, **fields)(original, task))
    return found


def plain(method) -> dict:
    """The fields of a method that JSON can hold."""
    return {name: value for name, value in vars(method).items() if not dataclasses.is_dataclass(value)}


def digest(model) -> str:
    """SHA-256 of names and bytes of all tensors."""
    whole = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        whole.update(name.encode() + tensor.contiguous().numpy().tobytes())
    return whole.hexdigest()


if __name__ == "__main__":
    if "--weights" in sys.argv:
        print(json.dumps(weights(Path(sys.argv[-1]))))
    else:
        sys.exit(main(*sys.argv[1:]))
