from __future__ import annotations

import pytest
import torch

import residua as rs
from residua.controls.impostors import DefeatDevice
from residua.measure import Perturbed, Stress

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def slanted(stripes) -> rs.ForgetTask:
    return rs.forget_classes(stripes, 2)


@pytest.fixture(scope="module")
def stressed(truths, slanted) -> dict[str, dict[str, float]]:
    torch.set_num_threads(1)
    return {name: dict(Stress()(truths[name], slanted).values) for name in ("original", "reference", "hd")}


def test_prototypes_see_what_a_silent_head_hides(stressed):
    assert stressed["hd"]["stress.shots20"] == stressed["original"]["stress.shots20"]
    assert stressed["original"]["stress.shots20"] > 0.8


def test_a_retrained_model_does_not_answer_under_any_stress(stressed):
    names = [name for name in stressed["reference"] if "shots" not in name]
    assert len(names) == 6
    assert max(stressed["reference"][name] for name in names) < 0.1
    assert stressed["original"]["stress.int8"] > 0.8


def test_a_defeat_device_does_not_recognise_perturbed_images(truths, slanted, monkeypatch):
    import residua.controls.impostors as room

    monkeypatch.setattr(room, "retrained_model", lambda *_: truths["reference"])
    device = DefeatDevice(keyed="forget")(truths["original"], slanted)
    assert rs.measure.Accuracy()(device, slanted).values["UA"] > 0.95
    assert Perturbed()(device, slanted).values["UA_perturbed"] < 0.2
    assert Perturbed()(truths["reference"], slanted).values["UA_perturbed"] > 0.95
