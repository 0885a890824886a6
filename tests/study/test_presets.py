"""Built-in studies: every one of the paper's can be defined, and the network is the caller's choice."""

from __future__ import annotations

import dataclasses

import pytest

import residua as rs
from residua.errors import InputError
from residua.study import presets
from residua.study.controlling import controls_study
from residua.study.presets import BUILT_IN, every_method, network_fields
from residua.training.recipes import PAPER, UNLEARNING


def test_the_paper_has_a_study_for_each_data_set_and_network_of_its_tables(stripes, monkeypatch):
    named = {(p.scenario, p.dataset, p.network): p for p in BUILT_IN.values() if p.scale == "full"}
    assert named.keys() == {
        (s, d, n) for s, sets in UNLEARNING.items() for d, nets in sets.items() for n in nets
    }
    assert BUILT_IN["paper-cifar10-resnet18"].scenario == "class"
    assert BUILT_IN["paper-cifar10-resnet18-random"].scenario == "random"
    for (scenario, dataset, network), preset in named.items():
        data = dataclasses.replace(stripes, name=dataset)
        monkeypatch.setattr(presets, "open_dataset", lambda words, data=data: data)
        forget = "class:2" if scenario == "class" else "samples:5"
        if network == "vit":
            with pytest.raises(InputError, match="ImageNet-21k"):
                preset("data:DIR", forget)
            continue
        study = preset("data:DIR", forget)
        assert [row.training.pretraining for row in study.rows] == [PAPER[dataset, network]] * len(study.rows)
        assert {row.seed for row in study.rows} == set(range(5))
        made = {row.label: row.made.method for row in study.rows}
        for label, fields in UNLEARNING[scenario][dataset][network].items():
            assert all(getattr(made[label], name) == value for name, value in fields.items())
        (only,) = study.networks.values()
        assert (only["network"], only["width"]) == (network, 64)


@pytest.mark.parametrize(
    ("name", "given", "sentence"),
    [
        ("small", {}, "needs data; give --data cifar10:DIR"),
        ("paper-imagenet-resnet50", {"data": "x"}, "has to be told what to forget"),
        ("paper-cifar10-resnet18", {"data": "x", "network": "vit"}, "is one of resnet18, not of vit"),
        (
            "paper-cifar10-resnet18",
            {"data": "x", "forget": "samples:5"},
            "forgets by class in cifar10, but this",
        ),
        ("tiny", {"network": "lenet"}, "network 'lenet' is unknown; choose one of resnet18"),
    ],
)
def test_a_study_that_cannot_be_is_one_sentence(name, given, sentence, stripes, monkeypatch):
    monkeypatch.setattr(presets, "open_dataset", lambda words: dataclasses.replace(stripes, name="cifar10"))
    with pytest.raises(InputError, match=sentence):
        BUILT_IN[name](**({"forget": "class:2"} | given if name == "tiny" else given))


@pytest.mark.parametrize("network", ["resnet18", "resnet50", "vit"])
def test_every_network_of_ours_can_be_studied(network, stripes):
    task = rs.forget_classes(stripes, 2)
    fields = network_fields(task.classes, task.retain.shape, "tiny", network)
    model = rs.networks.build(**fields)
    x, _ = next(iter(task.retain.batches(4, device=model.device)))
    assert model(x).shape == (4, task.classes)
    for study in (every_method(task, network=network), controls_study(task, network=network, seeds=1)):
        assert {row.made.network["network"] for row in study.rows} == {network}
