"""Comparisons: pure functions on the numbers of several models."""

from __future__ import annotations

from residua.compare.accuracies import ain, aus, average_gap, class_changes, guards, relearn_time
from residua.compare.agreement import Caveat, Likeness, Witness, likeness, odd_references, structure_caveats, witness
from residua.compare.divergence import cka, divergences, jsd, jsd_paper, linear_cka, weight_distance, zrf, zrf_paper
from residua.compare.information import IDI, Excess, check_comparable, excess, idi, order
from residua.compare.likelihood_ratio import Observations, klom, likelihood_ratios, observations, ulira
from residua.compare.metric_values import curve_in, curve_of, metrics, offline_attacks, readings_of
from residua.compare.references import Chance, Inside, Part, chance, inside, mean_curve
from residua.compare.three_samples import ThreeSample, aggregated_three_sample, three_sample
from residua.compare.verdicts import Findings, Loss, Rules, Verdict, accuracy_loss, verdict

__all__ = [
    "Caveat",
    "Chance",
    "Excess",
    "Findings",
    "IDI",
    "Inside",
    "Likeness",
    "Loss",
    "Observations",
    "Part",
    "Rules",
    "ThreeSample",
    "Verdict",
    "Witness",
    "accuracy_loss",
    "aggregated_three_sample",
    "ain",
    "aus",
    "average_gap",
    "chance",
    "check_comparable",
    "cka",
    "class_changes",
    "curve_in",
    "curve_of",
    "divergences",
    "excess",
    "guards",
    "idi",
    "inside",
    "jsd",
    "jsd_paper",
    "klom",
    "likelihood_ratios",
    "likeness",
    "linear_cka",
    "mean_curve",
    "metrics",
    "odd_references",
    "offline_attacks",
    "observations",
    "order",
    "readings_of",
    "relearn_time",
    "structure_caveats",
    "three_sample",
    "ulira",
    "verdict",
    "weight_distance",
    "witness",
    "zrf",
    "zrf_paper",
]
