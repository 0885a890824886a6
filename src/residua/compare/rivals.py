"""Metrics that other papers print, from readings that are taken anyway."""

from __future__ import annotations

import numpy as np

from residua.compare.divergence import cka
from residua.errors import InputError
from residua.readings import Reading
from residua.text import whole_number

# Bins of KLoM's histograms, the least probability of a bin, and the fewest models on either side.
BINS, LEAST, FEWEST = 20, 1e-5, 20
CLIP = 100.0


def knowledge_retention(probe: Reading) -> Reading:
    """KR: accuracy on forgotten data of a linear probe of the last block's features, from `measure.Probe`.

    ESC's head is trained by ten epochs of SGD; ours is solved to its end, so that no learning rate decides.
    """
    # Differs from the reference: the probe is solved to its end on at most 3,000 samples; ESC trains one for ten epochs.
    last = max(_blocks(probe), default=0)
    if not last:
        return Reading({}, notes={"KR": probe.notes.get("probe.1", "no block of the network was probed")})
    return Reading({"KR": probe.values[f"probe.{last}"]})


def layer_probes(model: Reading, original: Reading) -> Reading:
    """LPR.l: the probe's accuracy of block l as a fraction of Original's; LPR is the mean over blocks."""
    values, notes = {}, {}
    for block in _blocks(model):
        before = original.values.get(f"probe.{block}", 0.0)
        if before > 0:
            values[f"LPR.{block}"] = model.values[f"probe.{block}"] / before
        else:
            notes[f"LPR.{block}"] = "the probe regains nothing from Original's block"
    if values:
        values["LPR"] = float(np.mean(list(values.values())))
    return Reading(values, notes=notes or ({} if values else {"LPR": "no block of the network was probed"}))


def representation_score(model: Reading, original: Reading) -> Reading:
    """RUS: harmonic mean of 1 - CKA on forget samples and CKA on retain samples, both with Original, last block."""
    # Differs from the paper: after POUR's abstract, which names forgetting and retention fidelity but not their formula.
    found = cka(model, original).values
    last = max((int(name.rpartition(".")[2]) for name in found), default=0)
    forget, retain = (found.get(f"CKA.{side}.{last}") for side in ("forget", "retain"))
    if forget is None or retain is None:
        return Reading({}, notes={"RUS": "the features of one model do not vary over the samples"})
    gone = 1 - forget
    return Reading({"RUS": 2 * gone * retain / (gone + retain) if gone + retain > 0 else 0.0})


def agreement(model: Reading, reference: Reading) -> Reading:
    """Activation distance, mean |p - q|, and completeness, the fraction of equal answers, on the forget set."""
    p, q = (np.asarray(each.arrays["log_probabilities"], np.float64) for each in (model, reference))
    if p.shape != q.shape:
        raise InputError(f"outputs of {p.shape} and {q.shape} cannot be compared; give the same samples")
    return Reading(
        {
            "activation_distance": float(np.linalg.norm(np.exp(p) - np.exp(q), axis=1).mean()),
            "completeness": float((p.argmax(axis=1) == q.argmax(axis=1)).mean()),
        }
    )


def klom(unlearned: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """KL divergence of margins (Georgiev et al. 2024) of each sample, in nats.

    Of every sample, histograms of its log-odds under many unlearned and many retrained models, on common bins.

    Args:
        unlearned: Log-odds (models, samples) of models that were trained and unlearned.
        reference: Those of retrained models, for the same samples.
    """
    u, r = (np.clip(np.asarray(each, np.float64), -CLIP, CLIP) for each in (unlearned, reference))
    if u.ndim != 2 or r.ndim != 2 or u.shape[1] != r.shape[1]:
        raise InputError(f"log-odds of {u.shape} and {r.shape} cannot be compared; give (models, samples)")
    if min(len(u), len(r)) < FEWEST:
        raise InputError(
            f"KLoM compares distributions over models, and {min(len(u), len(r))} are too few; give {FEWEST} or more"
        )
    found = []
    for mine, theirs in zip(u.T, r.T, strict=True):
        low, high = min(mine.min(), theirs.min()), max(mine.max(), theirs.max())
        edges = np.linspace(low, high if high > low else low + 1, BINS + 1)
        p, q = (np.histogram(each, edges)[0] / len(each) for each in (mine, theirs))
        some = p > 0
        found.append(float((p[some] * np.log(p[some] / np.maximum(q[some], LEAST))).sum()))
    return np.array(found)


def _blocks(probe: Reading) -> list[int]:
    names = (name.removeprefix("probe.") for name in probe.values if name.startswith("probe."))
    return sorted(block for block in map(whole_number, names) if block is not None)
