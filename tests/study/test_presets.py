"""Built-in studies: every one of the paper's can be defined, and the network is the caller's choice."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path

import pytest

import residua as rs
from residua.errors import InputError
from residua.study import presets
from residua.study.definition import Study
from residua.study.presets import BUILT_IN, DEPTH, NamedCurve, controls, demonstration, network_fields
from residua.training.recipes import PAPER, UNLEARNING
from residua.unlearn import Random

RECORDS = Path(__file__).parents[2] / "records"


def test_the_paper_has_a_study_for_each_data_set_and_network_of_its_tables(stripes, monkeypatch):
    named = {(p.scenario, p.dataset, p.network): p for p in BUILT_IN.values() if p.scale == "full"}
    assert named.keys() == {(s, d, n) for s, sets in UNLEARNING.items() for d, nets in sets.items() for n in nets}
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
        ("paper-imagenet-resnet50", {"data": "x"}, "does not know what to forget; give --forget"),
        ("paper-cifar10-resnet18", {"data": "x", "network": "vit"}, "is one of resnet18, not of vit"),
        ("paper-cifar10-resnet18", {"data": "x", "forget": "samples:5"}, "forgets by class in cifar10, but this"),
        ("tiny", {"network": "lenet"}, "network 'lenet' is unknown; choose one of resnet18"),
    ],
)
def test_a_study_that_cannot_be_is_one_sentence(name, given, sentence, stripes, monkeypatch):
    monkeypatch.setattr(presets, "open_dataset", lambda words: dataclasses.replace(stripes, name="cifar10"))
    with pytest.raises(InputError, match=sentence):
        BUILT_IN[name](**({"forget": "class:2"} | given if name == "tiny" else given))


def test_what_is_odd_about_the_data_is_mentioned(stripes, monkeypatch):
    odd = dataclasses.replace(stripes, notes=("the labels run from 1 to 4",))
    monkeypatch.setattr(presets, "open_dataset", lambda words: odd)
    sentences: list[str] = []
    BUILT_IN["tiny"](forget="class:2", tell=sentences.append)
    assert sentences == ["note: the labels run from 1 to 4"]


@pytest.mark.parametrize("network", ["resnet18", "resnet50", "vit"])
def test_every_network_of_ours_can_be_studied(network, stripes):
    task = rs.forget_classes(stripes, 2)
    fields = network_fields(task.classes, task.retain.shape, "tiny", network)
    model = rs.models.build(**fields)
    x, _ = next(iter(task.retain.batches(4, device=model.device)))
    assert model(x).shape == (4, task.classes)
    for study in (demonstration(task, network=network), controls(task, network=network, seeds=[0])):
        assert {row.made.network["network"] for row in study.rows} == {network}


def test_the_tiny_vit_is_one_that_two_cores_can_train():
    embedded = network_fields(10, (1, 28, 28), "tiny", "vit")
    assert (embedded["variant"], embedded["patch"]) == ("micro", 7)
    assert network_fields(10, (3, 32, 32), "tiny", "vit")["patch"] == 4
    assert network_fields(10, (3, 32, 32), "small", "vit")["variant"] == "tiny"
    assert sum(p.numel() for p in rs.models.build(**embedded).parameters()) < 1e6


def as_cifar10(stripes, monkeypatch):
    monkeypatch.setattr(presets, "open_dataset", lambda words: dataclasses.replace(stripes, name="cifar10-jpeg"))


def test_small_studies_have_three_references_with_seeds_of_their_own(stripes, monkeypatch):
    as_cifar10(stripes, monkeypatch)
    rows = [row for row in BUILT_IN["small"]("data:DIR", "class:2").rows if row.label.startswith("Retrain")]
    assert [row.label for row in rows] == ["Retrain", "Retrain 2", "Retrain 3"]
    assert len({row.made.seed for row in rows}) == 3


def test_a_small_study_unlearns_with_two_seeds_and_trains_each_reference_once(stripes, monkeypatch):
    as_cifar10(stripes, monkeypatch)
    rows = BUILT_IN["small"]("data:DIR", "class:2").rows
    numbers = Counter(row.label for row in rows)
    once = {"Original", "Retrain", "Retrain 2", "Retrain 3", "Random"}
    assert {label for label, n in numbers.items() if n == 1} == once
    assert {n for label, n in numbers.items() if label not in once} == {2}
    assert len({row.made.seed for row in rows if row.label == "FT"}) == 2


@pytest.mark.parametrize("network", ["resnet18", "resnet50", "vit"])
def test_every_block_of_a_network_can_be_asked_for(network, stripes):
    task = rs.forget_classes(stripes, 2)
    model = rs.models.build(**network_fields(task.classes, task.retain.shape, "tiny", network))
    assert DEPTH[network] == model.depth


def test_the_papers_studies_have_its_critics(stripes, monkeypatch):
    data = dataclasses.replace(stripes, name="cifar10")
    monkeypatch.setattr(presets, "open_dataset", lambda words: data)
    study = BUILT_IN["paper-cifar10-resnet18"]("data:DIR", "class:2")
    (critics,) = [m for m in study.measures if m.label == "information-paper-5-blocks"]
    assert (critics.protocol, critics.lr, critics.label_lr) == ("paper", None, None), "the paper's own rates"


def test_a_study_keeps_how_long_each_block_took(stripes, tmp_path):
    task = rs.forget_classes(stripes, 2)
    network = {"network": "resnet18", "classes": 4, "channels": 1, "width": 1, "stem": "cifar"}
    study = Study(
        tasks={"stripes": task},
        networks={"r": network},
        pretraining=rs.Pretraining(epochs=1, batch=64, lr=0.1, crop=0),
        methods=[Random()],
        measures=[NamedCurve(last=1, family="linear")],
    )
    (record,) = study.run(tmp_path).records
    assert record.seconds["information-1-blocks.block5"] > 0


def test_controls_find_the_curves_of_a_small_study(stripes, monkeypatch):
    """The same models and the same measure, so that verdicts on a study's models cost little."""
    as_cifar10(stripes, monkeypatch)
    study = BUILT_IN["small"]("data:DIR", "class:2")
    (task,) = study.tasks.values()
    audited = controls(task, scale="small", seeds=[0], labels=["COLA"], ratio="10%")

    def curves(of) -> dict:
        return {
            (row.label, row.made.seed): next(c.measure for c in row.measurements if c.name.endswith("information"))
            for row in of.rows
        }

    there, asked = curves(study), curves(audited)
    assert {label for label, _ in asked} == {"Original", "Retrain", "Retrain 2", "Retrain 3", "COLA"}
    assert all(there[key] == measure for key, measure in asked.items())
