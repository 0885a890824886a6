"""All metrics of one model: its own readings, and its comparisons with Original and the reference."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import cast

import numpy as np

from residua.compare.accuracies import ain, aus, average_gap, class_changes, relearn_time
from residua.compare.divergence import cka, divergences, weight_distance, zrf, zrf_paper
from residua.compare.information import IDI, idi
from residua.compare.three_samples import ThreeSample, aggregated_three_sample, three_sample
from residua.errors import InputError
from residua.readings import Z95, Curve, Reading
from residua.record import Record
from residua.text import whole_number

Readings = Mapping[str, Reading]


def metrics(
    model: Readings, *, original: Readings | None = None, reference: Readings | None = None, index: IDI | None = None
) -> Reading:
    """Every metric that follows from the readings of one model and of the two others.

    Metrics that need a missing model or a missing measure are left out. A part of a
    metric comes after a dot: a block, a class, a quality of the attacker.

    Args:
        model: Readings of the model, by the measure's label.
        original: Readings of the model before unlearning.
        reference: Readings of a model that was retrained without the forgotten data.
        index: The model's IDI, if it is known: its interval takes as long as everything else together.
    """
    values: dict[str, float] = {}
    notes: dict[str, str] = {}
    for reading in model.values():
        if isinstance(reading, Curve):
            # Its notes are warnings about values that are there, not reasons for values that are not.
            values |= {f"MI.{block}": nats for block, nats in reading.information.items()}
        else:
            idle = without_credit(reading)
            values |= {name: value for name, value in reading.values.items() if name not in idle}
            notes |= dict(reading.notes) | idle
    for compared in _compared(model, original or {}, reference or {}, index):
        values |= compared.values
        notes |= compared.notes
    return Reading(values, notes=notes)


def _compared(model: Readings, original: Readings, reference: Readings, index: IDI | None) -> list[Reading]:
    """The comparisons whose readings are there; where the models differ, the reason is a note under the metric's name."""
    found: list[Reading] = []
    if "random" in getattr(model.get("outputs"), "arrays", {}):
        outputs = model["outputs"].arrays
        pair = outputs["log_probabilities"], outputs["random"]
        found.append(Reading({"ZRF": zrf(*pair), "ZRF_paper": zrf_paper(*pair)}))
    tests: dict[str, Callable[..., ThreeSample | float]] = {
        "three_sample": three_sample,
        "three_sample_aggregated": aggregated_three_sample,
    }
    # A metric, the measure whose readings it compares, the other models that it needs, and the comparison.
    comparisons: list[tuple[str, str, tuple[Readings, ...], Callable[..., Reading]]] = [
        ("JSD", "outputs", (reference,), divergences),
        ("activation_distance", "outputs", (reference,), agreement),
        *((name, "outputs", (reference, original), partial(_on_probabilities, name, tests[name])) for name in tests),
        ("offline_LiRA", "log-odds", (reference,), lambda u, r: offline_attacks(u, [r])),
        ("KR", "probe", (), knowledge_retention),
        ("LPR", "probe", (original,), layer_probes),
        ("RUS", "representation", (original,), representation_score),
        ("class_change", "class-accuracy", (original,), class_changes),
        ("RT", "relearning", (original,), relearn_time),
        ("AIN", "relearning", (original, reference), lambda u, o, r: ain(u, original=o, reference=r)),
        ("CKA.original", "representation", (original,), partial(cka, name="CKA.original")),
        ("weight_distance.original", "weights", (original,), partial(weight_distance, name="weight_distance.original")),
        ("CKA.reference", "representation", (reference,), partial(cka, name="CKA.reference")),
        ("weight_distance.reference", "weights", (reference,), partial(weight_distance, name="weight_distance.reference")),
        ("IDI", "information", (original, reference), partial(_idi, index)),
    ]  # fmt: skip
    for name, label, others, how in comparisons:
        if all(label in readings for readings in (model, *others)):
            try:
                found.append(how(model[label], *(other[label] for other in others)))
            except InputError as error:
                found.append(Reading({}, notes={name: str(error)}))
    if "accuracy" in model and "accuracy" in original and "class-accuracy" in model:
        own, by_class = model["accuracy"].values, model["class-accuracy"]
        scenario = "random" if by_class.arrays["retained"].all() else "class"
        if scenario == "class" and "FTA" not in by_class.values:
            found.append(Reading({}, notes={"AUS": by_class.notes["FTA"]}))
        else:
            forgotten = by_class.values["FTA"] if scenario == "class" else 1 - own["UA"]
            before = original["accuracy"].values["TA"]
            score = aus(test=own["TA"], original_test=before, forgotten=forgotten, scenario=scenario)
            found.append(Reading({"AUS": score}))
    mine, theirs = _accuracies(model), _accuracies(reference)
    if {"UA", "RA", "TA", "E-MIA"} & mine.keys() & theirs.keys():
        found.append(Reading({"gap": average_gap(mine, theirs)}))
    return found


def _on_probabilities(name: str, test: Callable[..., ThreeSample | float], *read: Reading) -> Reading:
    """The p-value of a test on probabilities; of two, the one for the reference."""
    found = test(*(np.exp(np.asarray(each.arrays["log_probabilities"], np.float64)) for each in read))
    return Reading({name: found.p_reference if isinstance(found, ThreeSample) else found})


def _idi(index: IDI | None, *curves: Reading) -> Reading:
    if index is None:
        u, o, r = (cast(Curve, curve) for curve in curves)
        index = idi(u, original=o, reference=r)
    if index.value is None or index.interval is None:  # no scale to measure on; the nats themselves are known
        return Reading({"ID": index.id_unlearned}, notes={"IDI": index.reason})
    values = {"IDI": index.value, "IDI.low": index.interval[0], "IDI.high": index.interval[1]}
    return Reading(values | {"IDI.positive": index.positive or 0.0, "ID": index.id_unlearned})


def _accuracies(readings: Readings) -> dict[str, float]:
    return {
        name: value
        for label in ("accuracy", "mia")
        if label in readings
        for name, value in readings[label].values.items()
        if name not in without_credit(readings[label])
    }


# Held-out images of an attack whose reading does not say how many there were.
HELD = 300
Z = 1.644854  # one-sided, 5 %


def without_credit(reading: Reading) -> dict[str, str]:
    """The attacks of this reading that are no better than chance, with a note that says so.

    An attack is if its accuracy on n held-out examples, half of them members, is above 0.5 (one-sided, 5 %).
    """
    notes = {}
    for name, accuracy in reading.values.items():
        attack = name.removesuffix(".accuracy")
        if attack == name or attack not in reading.values or not attack.endswith("MIA"):
            continue
        n = int(reading.arrays.get(f"{attack}.held", np.array(HELD)))
        if accuracy - 0.5 <= Z * math.sqrt(0.25 / n):
            notes[attack] = (
                f"the attacker is right on {100 * accuracy:.0f} % of {n} held-out images, no better than chance, so its "
                f"{100 * reading.values[attack]:.1f} % say nothing"
            )
    return notes


# Metrics that other papers print, from readings that are taken anyway.


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


def _blocks(probe: Reading) -> list[int]:
    names = (name.removeprefix("probe.") for name in probe.values if name.startswith("probe."))
    return sorted(block for block in map(whole_number, names) if block is not None)


def offline_attacks(unlearned: Reading, references: Sequence[Reading]) -> Reading:
    """Offline LiRA and RMIA of forgotten against unseen images of the same classes, from readings of `measure.LogOdds`.

    LiRA's score is the log-odds minus the references' mean, with one variance for all images; RMIA's the probability of
    the true class over the references' mean. 0.5 is chance. Neither has a vote.
    """
    from scipy.special import expit

    scores: dict[str, list[np.ndarray]] = {"offline_LiRA": [], "offline_RMIA": []}
    for name in ("forget", "unseen"):
        own, theirs = unlearned.arrays[name], np.stack([each.arrays[name] for each in references])
        scores["offline_LiRA"].append(own - theirs.mean(axis=0))
        # log p = log-odds - log(1 + odds)
        # Differs from the paper: RMIA's offline mean is ((1 + a) p + 1 - a) / 2 with an a that is tuned on data; here it is p.
        scores["offline_RMIA"].append(-np.logaddexp(0, -own) - np.log(expit(theirs).mean(axis=0) + 1e-30))
    if any(not len(each) for each in scores["offline_LiRA"]):
        return Reading({}, notes=dict.fromkeys(scores, "there is no unseen image of the forgotten classes"))
    values: dict[str, float] = {}
    for name, (members, others) in scores.items():
        values[name] = auc(members, others)
        values[f"{name}.low"], values[f"{name}.high"] = auc_interval(values[name], len(members), len(others))
    return Reading(values)


def auc(ones: np.ndarray, others: np.ndarray) -> float:
    """The fraction of pairs in which the first is larger; ties count half."""
    order = np.sort(others)
    below = np.searchsorted(order, ones, "left") + np.searchsorted(order, ones, "right")
    return float(below.mean() / (2 * len(others)))


def auc_interval(auc: float, positives: int, negatives: int) -> tuple[float, float]:
    """95 % interval of an AUC (Hanley and McNeil), from the number of scores on either side."""
    q1, q2 = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    spread = auc * (1 - auc) + (positives - 1) * (q1 - auc**2) + (negatives - 1) * (q2 - auc**2)
    half = Z95 * math.sqrt(max(spread, 1e-12) / (positives * negatives))
    return max(auc - half, 0.0), min(auc + half, 1.0)


def readings_of(record: Record) -> dict[str, Reading]:
    """The readings that a record keeps, by their measure's label."""
    return {label: record.read_with(label) for label in record.readings}


def curve_in(readings: Mapping[str, Reading]) -> Curve | None:
    """The information curve among the readings of one model, whatever its measure is called."""
    return next((reading for reading in readings.values() if isinstance(reading, Curve)), None)


def curve_of(record: Record) -> Curve:
    """The information curve that a record keeps."""
    curve = curve_in(readings_of(record))
    if curve is None:
        raise InputError(f"record {record.name} holds no information curve; measure one first")
    return curve
