"""Compact records: the values and arrays that tables and figures need, in a tenth of the space.

A study of many models on large data would leave megabytes for each. A compact record keeps every value; of the arrays it keeps

- terms of a curve: of the first family (the stack) each sample's, to 1/32 nats and with the mean unchanged; of the other
  families the mean of each block alone, so that IDI by family can be told, but not its interval; of test images the means;
- of outputs on the forget set those of at most `OUTPUTS` samples, evenly chosen, to three digits; those of the random network, which are the
  same in every record, only in what is computed from them: ZRF becomes a value;
- of attacks at most `POINTS` of the curve of false and true positives, not the score of every sample;
- nothing of the pooled features of samples, which verdicts compare, nor where the samples stand in the data.

The store of the study has it all.
"""

from __future__ import annotations

import re

import numpy as np

from residua.compare import zrf
from residua.record import Record

STEPS = 32  # of a nat; beside terms that differ by tenths of one, this adds nothing to an interval
OUTPUTS = 500
BITS = 10
POINTS = 64
DROPPED = re.compile(r"representation\..*|.*MIA\.forget|information[^.]*\.(index|test_labels)")
SAID, RANDOM = "outputs.log_probabilities", "outputs.random"
CURVE = re.compile(r".*MIA\.[ft]pr")
TERMS = re.compile(r"information[^.]*\.(test_)?terms")


def compact(record: Record) -> Record:
    """The same record with fewer arrays; its values, settings, seeds and command stay."""
    record = without_random_outputs(record)
    arrays = {
        name: _smaller(name, array) for name, array in record.arrays.items() if not DROPPED.fullmatch(name)
    }
    return record.model_copy(update={"arrays": arrays})


def without_random_outputs(record: Record) -> Record:
    """The same record with ZRF among its values instead of the random network's outputs."""
    if RANDOM not in record.arrays:
        return record
    said = record.readings["outputs"] | {"ZRF": zrf(record.arrays[SAID], record.arrays[RANDOM])}
    arrays = {name: array for name, array in record.arrays.items() if name != RANDOM}
    return record.model_copy(update={"readings": record.readings | {"outputs": said}, "arrays": arrays})


def _smaller(name: str, array: np.ndarray) -> np.ndarray:
    if match := TERMS.fullmatch(name):
        return _terms(array, samples=not match[1])
    if name == SAID:
        return rounded(array[:: max(1, -(-len(array) // OUTPUTS))])
    if CURVE.fullmatch(name):
        return array[np.unique(np.linspace(0, len(array) - 1, POINTS).round().astype(int))]
    return array


def rounded(log_probabilities: np.ndarray) -> np.ndarray:
    """Nearly the same, to `BITS` bits after the first: as many bytes, but most of them 0, which a file packs away.

    The largest of each row is what is left of 1, so that the row still belongs to probabilities.
    """
    exact = np.ascontiguousarray(log_probabilities, dtype=np.float32)
    dropped = 23 - BITS
    bits = (exact.view(np.uint32) + np.uint32(1 << (dropped - 1))) >> np.uint32(dropped) << np.uint32(dropped)
    kept = np.where(np.isfinite(exact), bits.view(np.float32), exact)
    rows, largest = np.arange(len(exact)), exact.argmax(axis=1)
    kept[rows, largest] = -np.inf
    kept[rows, largest] = np.log1p(-np.exp(kept.astype(np.float64)).sum(axis=1))
    return kept


def _terms(terms: np.ndarray, samples: bool) -> np.ndarray:
    """Terms (families, restarts, blocks, samples): the first family's in steps, of the others the mean in every place."""
    exact = terms.astype(np.float64)
    means = exact.mean(axis=-1, keepdims=True)
    kept = np.broadcast_to(means, exact.shape).astype(np.float32)
    if samples and terms.ndim == 4:
        steps = np.round(exact[0] * STEPS) / STEPS
        kept[0] = steps + (means[0] - steps.mean(axis=-1, keepdims=True))
    return kept
