"""Known methods beside an audit: the paper's IDIs, for orientation. Other data and another network, so never evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from residua.report.plain import task_of

if TYPE_CHECKING:
    from residua.report.audit_data import AuditReport


@dataclass(frozen=True)
class Known:
    """IDI of methods as the paper prints it, of what, and of a network with random weights if it has that."""

    setting: str
    methods: dict[str, float]
    random: float | None = None

    @property
    def sentence(self) -> str:
        values = ", ".join(
            f"{name} {value:.2f}" for name, value in sorted(self.methods.items(), key=_by_value)
        )
        drawn = f"; a network with random weights {self.random:.2f}" if self.random is not None else ""
        return f"In the paper, {self.setting}: {values}{drawn}. Other data and another network: for orientation only."


def _by_value(item: tuple[str, float]) -> float:
    return item[1]


# Tables single_class_cifar10, main_baseline (HD) and main_white (Random); a test compares them with paper/tables.csv.
CLASS = Known(
    "one class of CIFAR-10, ResNet-18",
    {
        "COLA": 0.010, "SCRUB": -0.056, "CF-10": -0.060, "EU-10": -0.349, "l1-sparse": 0.293, "GA": 0.334, "EU-5": 0.528,
        "FT": 0.671, "CF-5": 0.675, "RL": 0.830, "SALUN": 0.936, "HD": 1.0, "Bad-T": 1.014,
    },
    random=-1.281,
)  # fmt: skip
# Table random_sample_unlearning.
SAMPLES = Known(
    "random samples of CIFAR-10, ResNet-18",
    {
        "COLA+": 0.024, "FT": -0.069, "RL": 0.084, "GA": 0.924, "Bad-T": 0.939, "EU-10": -0.110, "CF-10": 0.219,
        "SCRUB": 0.322, "SALUN": 0.861, "l1-sparse": -0.157,
    },
)  # fmt: skip


def known_methods(report: AuditReport) -> Known | None:
    """Those of the same kind of forgetting; none where 0 is not a reference, or what was forgotten is not known."""
    if report.idi is None or report.idi.value is None or report.idi.zero != "reference":
        return None
    return {"class": CLASS, "random": SAMPLES}.get(task_of(report).scenario or "")
