from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import residua as rs
from residua import compare
from residua.compare import readings_of
from residua.compare.information import idi_value
from residua.measure import ForgetOutputs, InformationCurve, Membership, Representation
from residua.study.definition import Row, Study
from residua.study.folder import STEPS, rounded
from residua.unlearn import HeadDistillation, Original, Retrain

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def records(stripes, stripes_training, tmp_path_factory):
    """The records of one study, whole and compact, from the same cells."""
    out = tmp_path_factory.mktemp("study")
    study = Study(
        tasks={"stripes": rs.forget_classes(stripes, 2)},
        networks={"resnet18": {"network": "resnet18", "width": 4, "channels": 1, "classes": 4}},
        pretraining=stripes_training,
        methods=[Original(), Retrain(stripes_training), Row("HD", HeadDistillation(epochs=1, crop=0))],
        measures=[InformationCurve(last=1), ForgetOutputs(), Membership(), Representation()],
    )
    return {
        compact: {
            record.name.removeprefix("seed0-"): record
            for record in dataclasses.replace(study, compact=compact).run(out).records
        }
        for compact in (False, True)
    }


def idis(records, family=None):
    curves = {name: readings_of(record)["information"] for name, record in records.items()}
    return [
        idi_value(curves[name], original=curves["original"], reference=curves["retrain"], family=family)
        for name in ("original", "hd", "retrain")
    ]


def test_a_compact_record_says_what_the_whole_one_says(records):
    for name, whole in records[False].items():
        small = records[True][name]
        zrf = compare.metrics(readings_of(whole)).values["ZRF"]
        assert small.readings == whole.readings | {"outputs": whole.readings["outputs"] | {"ZRF": zrf}}
        assert compare.metrics(readings_of(small)).values["ZRF"] == zrf
        assert (small.seeds, small.command, small.method) == (whole.seeds, whole.command, whole.method)
        rest = compare.metrics(
            readings_of(small),
            original=readings_of(records[True]["original"]),
            reference=readings_of(records[True]["retrain"]),
        )
        assert {"JSD", "IDI"} <= rest.values.keys()
        assert "keeps no pooled features" in rest.notes["CKA.reference"]
    for family in (None, "linear", "network", "nonlinear"):
        assert idis(records[True], family) == pytest.approx(idis(records[False], family), abs=1e-3)
    assert idis(records[True])[1] == 1.0


def test_what_is_left_out_is_what_no_table_reads(records):
    whole, small = records[False]["hd"].arrays, records[True]["hd"].arrays
    gone = whole.keys() - small.keys()
    assert gone
    assert all(
        name.startswith("representation.")
        or name.endswith(("MIA.forget", "information.index", "information.test_labels", "outputs.random"))
        for name in gone
    )
    terms = small["information.terms"][0].astype(float)
    assert np.abs(terms - whole["information.terms"][0].astype(float)).max() <= 1 / STEPS
    assert len(np.unique(np.round((terms[0, 0] - terms[0, 0, 0]) * STEPS, 2) % 1)) <= 2, "few values, small files"


def test_outputs_of_many_samples_are_thinned_evenly():
    from residua.study.folder import OUTPUTS, _smaller

    share = np.linspace(0.01, 0.4, 3 * OUTPUTS + 1)
    many = np.log(np.stack([share, 1 - share], axis=1)).astype(np.float32)
    kept = _smaller("outputs.log_probabilities", many)
    assert len(kept) <= OUTPUTS
    assert np.exp(kept[:, 0]) == pytest.approx(share[::4], rel=0.01)
    assert len(_smaller("outputs.log_probabilities", many[:OUTPUTS])) == OUTPUTS


def test_curves_of_attacks_keep_their_ends_and_their_pairs():
    from residua.study.folder import POINTS, _smaller

    fpr = np.linspace(0, 1, 1001)
    kept, beside = _smaller("mia.C-MIA.fpr", fpr), _smaller("mia.C-MIA.tpr", fpr**0.5)
    assert (len(kept), kept[0], kept[-1]) == (POINTS, 0, 1)
    assert np.array_equal(beside, kept**0.5)
    assert len(_smaller("white-box-mia.G-MIA.fpr", fpr[:10])) == 10


def test_outputs_are_kept_to_three_digits_and_stay_probabilities():
    logits = np.random.default_rng(0).normal(0, 4, (200, 10))
    exact = (logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))).astype(np.float32)
    exact[0] = [0, *[-np.inf] * 9]
    exact[1] = np.log(0.1)
    kept = rounded(exact)
    assert kept.dtype == np.float32
    assert np.exp(kept.astype(float)).sum(axis=1) == pytest.approx(1, abs=1e-6)
    assert np.abs(np.exp(kept) - np.exp(exact)).max() < 1e-3
    others = exact < exact.max(axis=1, keepdims=True)
    finite = others & np.isfinite(exact)
    assert np.abs(kept[finite] / exact[finite] - 1).max() < 2**-10
    assert np.array_equal(kept[0], exact[0])
    assert np.array_equal(rounded(kept)[others], kept[others])
