"""Records whose numbers are known, made without any training."""

from __future__ import annotations

import numpy as np
import pytest

from residua.record import MeasureFacts, MethodFacts, Record, Setting, SplitFacts, TaskFacts

N = 400
BLOCKS = (1, 2, 3, 4, 5)
# What each method keeps of what Original knows beyond Retrain.
KEPT = {
    "Original": 1.0, "Retrain": 0.0, "Random": -1.2, "HD": 1.0, "FT": 0.67, "RL": 0.83, "GA": 0.33, "Bad-T": 1.01,
    "EU-5": 0.53, "CF-5": 0.68, "EU-10": -0.35, "CF-10": -0.06, "SCRUB": -0.05, "SALUN": 0.94, "l1-sparse": 0.29,
    "COLA": 0.01,
}  # fmt: skip


def curve_arrays(kept: float, blocks=BLOCKS, seed: int = 0) -> dict[str, np.ndarray]:
    """Terms (families, restarts, blocks, samples): Retrain's 0.1, Original's 0.2, the others between; little noise."""
    noise = np.random.default_rng(7).normal(0, 0.02, N)
    level = 0.1 + 0.1 * kept + (0.001 * seed if kept not in (0.0, 1.0) else 0.0)
    rows = np.stack([level + noise for _ in blocks])
    families = np.stack([rows, rows * 0.5])[:, None].astype(np.float64)
    return {
        "information.terms": families,
        "information.blocks": np.array(blocks),
        "information.labels": (np.arange(N) % 2).astype(np.int32),
    }


def make_record(label: str, seed: int = 0, *, scale: str = "small", dataset: str = "cifar10-jpeg", draw: int = 0,
                network: str = "resnet18", scenario: str = "class", ratio: str = "all", blocks=BLOCKS, extra=None,
                kept: float | None = None, ta: float = 0.87) -> Record:  # fmt: skip
    kept = KEPT.get(label.removesuffix(" 2"), 0.5) if kept is None else kept
    arrays = curve_arrays(kept, blocks, seed)
    terms = arrays["information.terms"]
    values = {"H": 0.6}
    for row, block in enumerate(blocks):
        level = float(terms[0, 0, row].mean())
        values |= {f"I{block}": level, f"I{block}_low": level, f"I{block}_high": level, f"accuracy{block}": 0.9}
    splits = {name: SplitFacts(n=n) for name, n in (("forget", 200), ("retain", 200), ("test", 100))}
    about = {"measure": {"ratio": ratio, "protocol": "held-out"}, "data": "d", "families": ["stack", "linear"]}
    prefix = "" if ratio == "all" else f"ratio-{ratio.replace(':', '-').replace('%', '')}-"
    return Record(
        name=f"{prefix}{'draw' if draw else 'seed'}{seed}-{label.lower().replace(' ', '-').replace('+', 'plus')}",
        setting=Setting(
            scale=scale,
            network={"network": network, "width": 16, "classes": 10},
            task=TaskFacts(
                splits=splits,
                dataset=dataset,
                scenario=scenario,
                forgotten_classes=[4] if scenario == "class" else [],
                sha256=f"{dataset}{scenario}",
            ),
        ),
        method=MethodFacts(
            label=label, fields={"pretraining": {"epochs": 22}} if label.startswith("Retrain") else {}
        ),
        measures={
            "information": MeasureFacts(label="information", about=about, reading="curve"),
            "accuracy": MeasureFacts(label="accuracy"),
            "recovery": MeasureFacts(label="recovery"),
        },
        seeds={"training": seed} | ({"draw": draw} if draw else {}),
        readings={
            "information": values,
            "accuracy": {"UA": 0.05 if label == "Original" else 1.0, "RA": 0.9, "TA": ta},
            "recovery": {"recovery": 0.5 + 0.3 * kept},
        } | (extra or {}),
        seconds={"RTE": 120.0, "information.block5": 30.0},
        software={"residua": "0.2.0"},
        command="residua study run small --data cifar10:DIR --seeds 2 --out runs/",
        arrays=arrays,
    )  # fmt: skip


@pytest.fixture(scope="session")
def records(tmp_path_factory):
    """A folder of records of two seeds of every method, under names that say nothing."""
    folder = tmp_path_factory.mktemp("records")
    number = 0
    for seed in (0, 1):
        for label in (*KEPT, "Retrain 2"):
            record = make_record(label, seed)
            Record(**{**record.model_dump(), "name": f"r{number}", "arrays": record.arrays}).write(
                folder / f"deep{seed}"
            )
            number += 1
    (folder / "other.json").write_text('{"verdict": "SHALLOW"}')
    return folder
