"""Writes the table of operating characteristics into docs/verdict.md, from the committed reports on further Retrains."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
from scipy.special import stdtrit

from residua.compare.references import PRIOR_DEGREES, PRIOR_SPREAD

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/verdict.md"
BEGIN, END = "<!-- made by docs/make_characteristics.py -->", "<!-- end -->"
DATA = {
    "embedded, class 6": "controls/seed*-further-retrain.json",
    "embedded, random samples": "controls-random/seed*-further-retrain.json",
    "CIFAR-10, class 4": "cifar10-controls/seed*-further-retrain.json",
}
DRAWS = 20_000
RESIDUES = (0.5, 1.0, 2.0)


def scatter(pattern: str) -> tuple[float, float, int]:
    """Standard deviation of retrained models' IDI, its sampling error, and the number of audits that show it."""
    variances, errors = [], []
    for path in sorted((ROOT / "records").glob(pattern)):
        inside = json.loads(path.read_text("utf-8"))["inside"]
        k, known = inside["references"], inside["chance"]
        # Left out, a reference is k / (k - 1) times as far from the mean; the audited Retrain is one more model.
        values = [each * (k - 1) / k for each in known["left_out"]] + [inside["idi"]["value"]]
        variances.append(np.var(values, ddof=1))
        errors.append(inside["idi"]["samples"] / math.sqrt(1 + 1 / k))
    return math.sqrt(np.mean(variances)), float(np.mean(errors)), len(variances)


def characteristics(spread: float, sampling: float, k: int, tolerance: float) -> list[float]:
    """Coverage, the rate at which a Retrain and residues pass, and the median resolution; normal retrainings."""
    random = np.random.default_rng(0)
    x, own = random.normal(0, spread, (DRAWS, k)), random.normal(0, spread, DRAWS)
    degrees = k - 1 + PRIOR_DEGREES
    prior = PRIOR_SPREAD**2 + sampling**2
    error = np.sqrt(((k - 1) * x.var(axis=1, ddof=1) + PRIOR_DEGREES * prior) / degrees * (1 + 1 / k))
    half, value = stdtrit(degrees, 0.975) * error, own - x.mean(axis=1)
    passes = [float(np.mean(np.abs(value + share * tolerance) + half < tolerance)) for share in (0, *RESIDUES)]
    resolution = float(np.median(tolerance - half + stdtrit(degrees, 0.95) * error))
    return [float(np.mean(np.abs(value) < half)), *passes, resolution]


def table() -> str:
    residues = " | ".join(f"residue of {share:g} x tolerance" for share in RESIDUES)
    lines = [
        f"| data | references | tolerance | interval holds 0 | further Retrain | {residues} | smallest detectable IDI |",
        "|" + " --- |" * (6 + len(RESIDUES)),
    ]
    notes = []
    for name, pattern in DATA.items():
        spread, sampling, n = scatter(pattern)
        notes.append(f"{name} {spread:.3f} (sampling {sampling:.3f}; {n} audit{'s' if n > 1 else ''})")
        for k, tolerance in ((3, 0.25), (5, 0.25), (5, 0.2), (10, 0.2)):
            *shares, resolution = characteristics(spread, sampling, k, tolerance)
            cells = " | ".join(f"{100 * share:.1f} %" for share in shares)
            lines.append(f"| {name} | {k} | {tolerance:g} | {cells} | {resolution:.2f} |")
    lines += ["", f"Standard deviation of a retrained model's IDI: {'; '.join(notes)}."]
    return "\n".join(lines)


def page() -> str:
    before, rest = PAGE.read_text("utf-8").split(BEGIN)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
