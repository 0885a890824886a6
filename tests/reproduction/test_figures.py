"""The paper's figures are drawn from records alone, in three formats, and refuse to draw what is not there."""

from __future__ import annotations

import numpy as np
import pytest
from made_records import KEPT, make_record, records

from reproduction.drawings import save
from reproduction.figure_list import FIGURES, figure_spec
from reproduction.record_index import indexed
from reproduction.reproducing import listing, reproduce
from residua.errors import InputError
from residua.record import MeasureFacts, MethodFacts, Record, Setting


def with_picture(record: Record) -> Record:
    """A record with a t-SNE of 40 points, a fifth of them forgotten."""
    places = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
    arrays = {
        "tsne.coordinates": places,
        "tsne.forgotten": (np.arange(40) < 8).astype(np.int8),
        "tsne.labels": np.arange(40) % 10,
    }
    body = record.model_dump()
    body["measures"] = record.measures | {"tsne": MeasureFacts(label="tsne")}
    body["readings"] = record.readings | {"tsne": {"tsne.divergence": 0.5}}
    return Record(**body | {"arrays": record.arrays | arrays})


@pytest.fixture(scope="module")
def index():
    made = []
    for network in ("resnet18", "resnet50", "vit"):
        for scenario in ("class", "random"):
            for label in KEPT:
                made.append(with_picture(make_record(label, network=network, scenario=scenario)))
    for label in KEPT:
        several = make_record(label)
        task = several.setting.task.model_copy(update={"forgotten_classes": [4, 5], "sha256": "two"})
        body = several.model_dump() | {"setting": several.setting.model_copy(update={"task": task}).model_dump()}
        made.append(Record(**body | {"arrays": several.arrays}))
    return indexed(made)


@pytest.mark.parametrize("label", [spec.label for spec in FIGURES if spec.kind != "ratio"])
def test_every_figure_can_be_drawn(label, index, tmp_path):
    made = reproduce(label, index)
    path = save(made.spec, made.panels, tmp_path / "figure.svg")
    text = path.read_text(encoding="utf-8")
    assert text.count("<path") > 5
    shown = [method for method in made.spec.methods if method in text]
    assert shown or made.spec.kind in ("accuracy", "recovery")


def test_a_picture_without_idi_is_listed_with_its_scale():
    alone = [with_picture(make_record(label, kept=0.5)) for label in ("Original", "Retrain", "GA")]
    (entry,) = [each for each in listing(indexed(alone)) if each.label == "fig:representation_tsne"]
    assert entry.own == "1 of 1 settings (small)"


def test_the_same_records_give_the_same_drawing_in_every_format(index, tmp_path):
    made = reproduce("exp__recovery", index)
    for form, sign in (("pdf", b"%PDF"), ("svg", b"<?xml"), ("png", b"\x89PNG")):
        first, second = (save(made.spec, made.panels, tmp_path / f"{name}.{form}") for name in ("a", "b"))
        assert first.read_bytes().startswith(sign)
        assert first.read_bytes() == second.read_bytes()


def test_ids_are_those_of_the_table(index):
    curves = {
        (r.setting, r.method): r for r in reproduce("mutual_information_curves", index).rows if r.quantity == "IDI"
    }
    row = curves["CIFAR-10, ResNet-18, 1 class forgotten", "RL"]
    assert row.paper == 0.83
    assert row.ours == pytest.approx(0.83, abs=0.02)


def test_what_stands_in_for_the_papers_data_is_in_the_figure(index, tmp_path):
    made = reproduce("mi__resnet18_resnet50_cifar10_class", index)
    text = save(made.spec, made.panels, tmp_path / "figure.svg").read_text(encoding="utf-8")
    assert "cifar10-jpeg, small scale" in text


def attacked(label: str, auc: float, scale: str = "tiny") -> Record:
    """A record as `residua ulira` writes it: shadow models in place of a task."""
    return Record(
        name=f"{scale}-{label.lower()}",
        setting=Setting(scale=scale, network={"network": "resnet18", "width": 16}),
        method=MethodFacts(label=label),
        measures={"U-LiRA": MeasureFacts(label="U-LiRA")},
        seeds={},
        readings={"U-LiRA": {"U-LiRA": auc, "U-LiRA.bare": 0.5}},
    )


def test_u_lira_is_in_the_figure_with_its_own_scale(tmp_path):
    models = [make_record(label) for label in KEPT]
    elsewhere = [attacked("HD", 0.58), attacked("FT", 0.62), attacked("GA", 0.9, "full")]
    made = reproduce("fig:exp__hd_rte_ta_larger", indexed([*models, *elsewhere]))
    (panel,) = made.panels
    found = {label: panel.value(label, "U-LiRA") for label in ("HD", "FT", "RL", "GA")}
    assert (found["HD"].ours, found["HD"].scale) == (0.58, "tiny")
    assert found["RL"].ours is found["GA"].ours is None, "scales are not mixed"
    assert "(tiny scale)" in save(made.spec, made.panels, tmp_path / "f.svg").read_text(encoding="utf-8")
    (own,) = reproduce("fig:exp__hd_rte_ta_larger", indexed([*models, *elsewhere, attacked("FT", 0.7, "small")])).panels
    assert (own.value("FT", "U-LiRA").ours, own.value("HD", "U-LiRA").ours) == (0.7, None)


def test_metrics_are_drawn_from_the_scale_that_has_most_of_them():
    """Not from a larger one of which accuracies alone were measured."""
    whole, verbatim = ([make_record(label, scale=scale) for label in KEPT] for scale in ("small", "small-verbatim"))
    bare = [record.model_copy(update={"seconds": {}}) for record in whole]
    for larger, scale in ((bare, "small-verbatim"), (whole, "small")):
        (panel,) = reproduce("fig:exp__hd_rte_ta", indexed([*larger, *verbatim])).panels
        assert {row.scale for row in panel.part.rows if row.ours is not None} == {scale}


def test_a_figure_without_records_names_the_command(index, tmp_path):
    spec = figure_spec("exp__ratio")
    made = reproduce(spec.label, index)
    with pytest.raises(InputError, match="python -m reproduction run small-curves"):
        save(made.spec, made.panels, tmp_path / "figure.svg")
    assert list(tmp_path.iterdir()) == []


def test_ratios_are_lines(tmp_path):
    made = []
    for label in ("Original", "Retrain", "FT", "RL"):
        for ratio in ("all", "1:1", "1:5"):
            record = make_record(label, ratio=ratio)
            name = "information" if ratio == "all" else f"information-{ratio.replace(':', '-')}"
            body = record.model_dump()
            body["measures"] = {name: renamed(record, name)}
            body["readings"] = {name: record.readings["information"]}
            arrays = {key.replace("information", name): value for key, value in record.arrays.items()}
            made.append(Record(**body | {"arrays": arrays}))
    index = indexed(made)
    assert len(index.groups[0].models) == 4, "records of one model are one model"
    found = reproduce("exp__ratio", index)
    ratios = {row.quantity for row in found.rows if row.method == "FT" and row.ours is not None}
    assert ratios == {"IDI ratio=all", "IDI ratio=1:1", "IDI ratio=1:5"}
    save(found.spec, found.panels, tmp_path / "ratio.svg")


def renamed(record: Record, name: str) -> MeasureFacts:
    return record.measures["information"].model_copy(update={"label": name})
