"""Comparisons: pure functions on the numbers of several models."""

from __future__ import annotations

from residua.compare.accuracies import aus, average_gap, class_changes, gaps
from residua.compare.curves import curve_fields, curve_of
from residua.compare.distance import cka, linear_cka, weight_distance
from residua.compare.divergence import divergences, jsd, jsd_paper, zrf
from residua.compare.guards import guards
from residua.compare.idi import IDI, check_comparable, idi
from residua.compare.likelihood_ratio import Observations, likelihood_ratios, observations, ulira
from residua.compare.metrics import metrics
from residua.compare.readings import reading_fields, readings_of
from residua.compare.relearn import ain, relearn_time
from residua.compare.three_sample import ThreeSample, three_sample
from residua.compare.verdict import Loss, Rules, Verdict, accuracy_loss, verdict

__all__ = [
    "IDI",
    "Loss",
    "Observations",
    "Rules",
    "ThreeSample",
    "Verdict",
    "accuracy_loss",
    "ain",
    "aus",
    "average_gap",
    "check_comparable",
    "cka",
    "class_changes",
    "curve_fields",
    "curve_of",
    "divergences",
    "gaps",
    "guards",
    "idi",
    "jsd",
    "jsd_paper",
    "likelihood_ratios",
    "linear_cka",
    "metrics",
    "observations",
    "reading_fields",
    "readings_of",
    "relearn_time",
    "three_sample",
    "ulira",
    "verdict",
    "weight_distance",
    "zrf",
]
