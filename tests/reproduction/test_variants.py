"""Studies beside the package's own: each differs from another in what its name says."""

from __future__ import annotations

import dataclasses
import shlex
from collections import Counter
from pathlib import Path

import pytest

import residua as rs
from reproduction.__main__ import main
from reproduction.cases import SCALES
from reproduction.commands import TUNED
from reproduction.studies import SMALL_MEMORISED, studies
from residua.errors import InputError
from residua.record import Record, describe
from residua.study import presets
from residua.study.presets import BUILT_IN
from residua.training.recipes import SMALL, UNLEARNING

RECORDS = Path(__file__).parents[2] / "records"
EVERY = BUILT_IN | studies


def as_cifar10(stripes, monkeypatch):
    monkeypatch.setattr(
        presets, "open_dataset", lambda words: dataclasses.replace(stripes, name="cifar10-jpeg")
    )


@pytest.mark.parametrize(("forget", "scenario"), [("class:2", "class"), ("samples:5", "random")])
def test_verbatim_has_the_papers_settings_unchanged_and_our_training(forget, scenario, stripes, monkeypatch):
    as_cifar10(stripes, monkeypatch)
    study = EVERY["small-verbatim"]("data:DIR", forget)
    assert study.scale == "small-verbatim", "so that its records are never taken for those of our recipes"
    made = {row.label: row.made.method for row in study.rows}
    for label, fields in UNLEARNING[scenario]["cifar10"]["resnet18"].items():
        assert {name: getattr(made[label], name) for name in fields} == fields
    assert made["FT*"].lr == pytest.approx(5 * made["FT"].lr)
    assert {row.training.pretraining for row in study.rows} == {SMALL}
    assert made["Retrain"].pretraining == SMALL
    (network,) = study.networks.values()
    assert network["width"] == 16


def test_tuned_has_the_best_of_every_search_and_the_fifth_that_was_searched_on(stripes, monkeypatch):
    opened: list[str] = []

    def open_dataset(words: str) -> rs.Dataset:
        opened.append(words)
        return dataclasses.replace(stripes, name="cifar10-jpeg")

    monkeypatch.setattr(presets, "open_dataset", open_dataset)
    study = EVERY["small-tuned"]("data:DIR", "class:2")
    EVERY["small-tuned"]("data:DIR?part=0.5", "class:2")
    assert opened == ["data:DIR?part=0.2", "data:DIR?part=0.5"]
    assert study.scale == "small-tuned"
    made = {row.label: row.made.method for row in study.rows if row.made.parents and row.label != "Original"}
    assert made.pop("FT*").lr == pytest.approx(5 * made["FT"].lr), "one of the paper's references"
    searches = [Record.read(path) for path in sorted((RECORDS / "cifar10-search").glob("*.json"))]
    assert made.keys() == {record.method.label for record in searches}
    for record in searches:
        # Fields that the method had not when it was searched have their defaults, which were its behaviour then.
        method = made[record.method.label]
        since = describe(type(method)())["fields"].items() - record.method.fields.items()
        assert describe(method)["fields"] == dict(since) | record.method.fields
    numbers = Counter(row.label for row in study.rows)
    assert {numbers[label] for label in made} == {2}, "two unlearning seeds"
    assert {numbers[label] for label in ("Original", "Retrain", "Retrain 2", "Retrain 3", "Random")} == {1}


def fields_of(method):
    return {field.name: getattr(method, field.name) for field in dataclasses.fields(method)}


def test_memorised_differs_from_tuned_and_verbatim_in_the_training_alone_and_wide_in_the_width(
    stripes, monkeypatch
):
    as_cifar10(stripes, monkeypatch)
    names = ("small-memorised", "small-memorised-verbatim", "small-wide", "small-tuned", "small-verbatim")
    studies = {name: EVERY[name]("data:DIR", "class:2") for name in names}
    methods = {
        name: {row.label: fields_of(row.made.method) for row in study.rows if "Retrain" not in row.label}
        for name, study in studies.items()
    }
    # One augmentation in every phase: without cropping where Original was trained without.
    for name, fields in methods.items():
        crops = {crop for of_method in fields.values() if (crop := of_method.pop("crop", None)) is not None}
        assert crops == {0 if "memorised" in name else 4}
    assert methods["small-memorised"] == methods["small-wide"] == methods["small-tuned"]
    assert methods["small-memorised-verbatim"] == methods["small-verbatim"]
    for name, study in studies.items():
        wanted = SMALL_MEMORISED if "memorised" in name else SMALL
        assert study.scale == name
        assert {row.training.pretraining for row in study.rows} == {wanted}
        assert all(row.made.method.pretraining == wanted for row in study.rows if row.label == "Retrain")
        assert {fields["width"] for fields in study.networks.values()} == {32 if name == "small-wide" else 16}


def test_a_width_is_not_given_to_a_network_that_has_none(stripes, monkeypatch):
    as_cifar10(stripes, monkeypatch)
    with pytest.raises(InputError, match="small-wide sets the width, which vit does not have"):
        EVERY["small-wide"]("data:DIR", "class:2", network="vit")


def test_tables_know_the_studies_that_make_their_records():
    """The reader of records names studies without importing them, which would load PyTorch."""
    small = {
        name for name, preset in EVERY.items() if preset.scale != "full" and not getattr(preset, "more", "")
    }
    assert small == set(SCALES) - {"full"}
    assert set(TUNED) == {name for name in small if getattr(EVERY[name], "recipes", "") == "tuned"}


def test_further_curves_are_of_the_same_models_under_names_of_their_own(stripes, monkeypatch):
    as_cifar10(stripes, monkeypatch)
    first, curves = (EVERY[name]("data:DIR", "class:2") for name in ("small", "small-curves"))
    assert not {row.name for row in first.rows} & {row.name for row in curves.rows}
    made = [row.made for row in first.rows if row.draw == 0]
    assert [each.method for each in made] == [row.made.method for row in curves.rows]
    assert [each.seed for each in made] == [row.made.seed for row in curves.rows]
    labels = [measure.label for measure in curves.measures]
    ratios = ["information-1-1", "information-1-5", "information-10-percent-5-blocks"]
    assert labels == [*ratios, "information-all"]
    assert [measure.label for measure in EVERY["tiny-curves"](forget="class:2").measures] == ratios


@pytest.mark.parametrize("name", ["small", "small-verbatim", "small-tuned"])
def test_the_papers_critics_are_fitted_to_the_same_models(name, stripes, monkeypatch):
    as_cifar10(stripes, monkeypatch)
    first, critics = (EVERY[each]("data:DIR", "class:2") for each in (name, f"{name}-critics"))
    assert first.scale == critics.scale
    assert not {row.name for row in first.rows} & {row.name for row in critics.rows}
    made = {row.label: (row.made.method, row.made.seed) for row in first.rows if row.draw == 0}
    assert {row.label: (row.made.method, row.made.seed) for row in critics.rows} == made
    (measure,) = critics.measures
    own = "information-paper" if name == "small-tuned" else "information-paper-10-percent"
    assert (measure.label, measure.protocol) == (own, "paper")


def test_settings_that_were_searched_for_classes_are_not_given_to_samples(stripes, monkeypatch):
    as_cifar10(stripes, monkeypatch)
    with pytest.raises(InputError, match="were searched for forgotten classes, not for"):
        studies["small-tuned"]("data:DIR", "samples:5")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("nobody --out x", "has no study 'nobody'; choose one of tiny-curves"),
        ("small-wide --out x", "needs data"),
    ],
)
def test_a_study_is_run_by_its_name(words, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["run", *shlex.split(words)]) == 3
    assert sentence in " ".join(capsys.readouterr().err.split())
    assert list(tmp_path.iterdir()) == []
