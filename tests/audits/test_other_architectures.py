"""An unlearned model of another architecture than Original is audited; what cannot be compared is left out by name."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import residua as rs
from residua.cli import main

pytestmark = pytest.mark.usefixtures("one_thread")


def chain(width: int, layers: int) -> rs.Classifier:
    parts: list[nn.Module] = []
    for i in range(layers):
        parts += [nn.Conv2d(width if i else 1, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
    net = nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 4))
    return rs.adopt(net, example=torch.randn(4, 1, 8, 8))


@pytest.mark.parametrize(("width", "layers"), [(6, 3), (4, 4), (4, 2)])
def test_a_layer_added_pruned_or_of_another_width_is_no_obstacle(task, width, layers, tmp_path):
    with rs.seeded(0):
        original, reference, unlearned = chain(4, 3), chain(4, 3), chain(width, layers)
    reference.head.bias.data[2] = -100  # it never saw the class
    audit = rs.audit(
        original=original, unlearned=unlearned, reference=reference, task=task,
        curve=rs.measure.InformationCurve(steps=5, rounds=1, family="linear"), measures=(rs.measure.WeightSketch(),),
    )  # fmt: skip
    notes = audit.report.notes["unlearned"]
    assert "not of one architecture" in notes["weight_distance.original"]
    assert "weight_distance.original" not in audit.metrics["unlearned"]
    assert audit.idi is not None
    audit.save(tmp_path)
    assert rs.verify(tmp_path) == []
    if layers != 3:
        assert any("only one of the two networks has this block" in note for note in notes.values())


def test_measure_and_idi_leave_out_what_cannot_be_compared(tmp_path, capsys):
    for name, width in (("o", 2), ("r", 2), ("u", 3)):
        with rs.seeded(ord(name)):
            rs.save(rs.models.resnet18(classes=10, channels=1, width=width), tmp_path / f"{name}.safetensors")
    o, r, u = (str(tmp_path / f"{name}.safetensors") for name in "oru")
    data = ["--data", "fashion-sample", "--forget", "samples:20"]
    metrics = ["--metrics", "weight_distance,CKA,UA", "--original", o, "--reference", r, "--json"]
    assert main(["measure", u, *data, *metrics]) == 0
    assert "not of one architecture" in capsys.readouterr().out
