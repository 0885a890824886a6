"""Audit what a model says, when its owner gives nothing else: saved outputs in, the black-box part out."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import residua as rs

CLASSES, FORGOTTEN = 5, 2


def answers(labels: np.ndarray, *, knows_forgotten: bool, seed: int) -> np.ndarray:
    """An owner's file: logits, here of a model that is right about nine times in ten."""
    random = np.random.default_rng(seed)
    logits = random.normal(0, 1, (len(labels), CLASSES)) + 4 * np.eye(CLASSES)[labels]
    if not knows_forgotten:
        logits[:, FORGOTTEN] -= 8
    return logits


def main(folder: Path) -> None:
    kept = np.array([c for c in range(CLASSES) if c != FORGOTTEN])
    labels = {"forget": np.full(200, FORGOTTEN), "test": np.repeat(kept, 100)}
    models = {"original": True, "unlearned": False, "reference": False}
    for seed, (role, knows) in enumerate(models.items()):
        arrays = {f"{split}_labels": of for split, of in labels.items()}
        arrays |= {
            f"{split}_logits": answers(of, knows_forgotten=knows, seed=10 * seed + i)
            for i, (split, of) in enumerate(labels.items())
        }
        np.savez(folder / f"{role}.npz", **arrays)
    audit = rs.audit(**{role: rs.read_outputs(folder / f"{role}.npz") for role in models})
    print(audit.verdict)
    print(audit.sentence)
    for part, why in audit.report.not_assessed.items():
        print(f"not assessed: {part} ({why})")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
