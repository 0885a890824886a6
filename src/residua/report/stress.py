"""What comes back: accuracy on the forgotten after somebody tried to bring it back, beside references treated alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import mean

from residua.report.audit_parts import references_in

# The treatments in words, in this order; `recovery` and `probe` are measured in every audit of weights.
TREATMENTS = {
    "recovery": "a new head was trained on a little data",
    "stress.retain": "fine-tuning on retained data only",
    "stress.shots1": "one example per class shown",
    "stress.shots5": "5 examples per class shown",
    "stress.shots20": "20 examples per class shown",
    "stress.int8": "weights rounded to 8 bits",
    "stress.int4": "weights rounded to 4 bits",
    "stress.prune30": "30 % of the weights removed",
    "stress.prune60": "60 % of the weights removed",
    "stress.noise": "noise on the images",
}


@dataclass(frozen=True)
class Treatment:
    """Shares of the forgotten that are answered correctly after one treatment."""

    name: str
    words: str
    unlearned: float
    original: float
    references: tuple[float, ...]

    @property
    def gap(self) -> float | None:
        return self.unlearned - mean(self.references) if self.references else None


def treatments(metrics: Mapping[str, Mapping[str, float]]) -> list[Treatment]:
    """Every treatment that was measured of all models."""
    zeros = references_in(metrics)
    own = metrics.get("unlearned", {})
    probes = [name for name in own if name.startswith("probe.") and name[6:].isdigit()]
    last = max(probes, key=lambda name: int(name[6:]), default="probe")
    names = ["recovery", last, *list(TREATMENTS)[1:]]
    names += [name for name in own if name.startswith("stress.") and name not in TREATMENTS]
    return [
        Treatment(
            name,
            "a linear reader of the last block" if name == last else TREATMENTS.get(name, name),
            own[name],
            metrics["original"][name],
            tuple(metrics[role][name] for role in zeros),
        )
        for name in names
        if all(name in metrics.get(role, {}) for role in ("unlearned", "original", *zeros))
    ]
