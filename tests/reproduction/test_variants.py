"""Studies beside the package's own: each differs from another in what its name says."""

from __future__ import annotations

import dataclasses
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import residua as rs
from reproduction.__main__ import main
from reproduction.cases import SCALES
from reproduction.commands import TUNED
from reproduction.studies import SMALL_CONVERGED, SMALL_MEMORISED, studies
from residua.errors import InputError
from residua.record import Record, describe
from residua.study import presets
from residua.study.presets import BUILT_IN
from residua.training.recipes import SMALL, UNLEARNING

RECORDS = Path(__file__).parents[2] / "records"
EVERY = BUILT_IN | studies


def as_cifar10(stripes, monkeypatch):
    monkeypatch.setattr(presets, "open_dataset", lambda words: dataclasses.replace(stripes, name="cifar10-jpeg"))


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


def test_other_trainings_leave_the_methods_as_they_were_but_for_one_augmentation_in_every_phase(stripes, monkeypatch):
    as_cifar10(stripes, monkeypatch)
    pairs = {"small-memorised": "small-tuned", "small-converged": "small-verbatim"}
    trainings = {"small-memorised": SMALL_MEMORISED, "small-converged": SMALL_CONVERGED}
    studies = {name: EVERY[name]("data:DIR", "class:2") for name in (*pairs, *pairs.values())}
    methods = {
        name: {row.label: fields_of(row.made.method) for row in study.rows if "Retrain" not in row.label}
        for name, study in studies.items()
    }
    for name, fields in methods.items():
        crops = {crop for of_method in fields.values() if (crop := of_method.pop("crop", None)) is not None}
        assert crops == {0 if "memorised" in name else 4}
    assert all(methods[name] == methods[other] for name, other in pairs.items())
    for name, study in studies.items():
        wanted = trainings.get(name, SMALL)
        assert study.scale == name
        assert {row.training.pretraining for row in study.rows} == {wanted}
        assert all(row.made.method.pretraining == wanted for row in study.rows if row.label == "Retrain")


def test_a_gauged_study_is_the_converged_one_from_smaller_weights(stripes, monkeypatch):
    as_cifar10(stripes, monkeypatch)
    first, gauged = (EVERY[f"small-{name}"]("data:DIR", "class:2") for name in ("converged", "gauged-0.1"))
    assert gauged.scale == "small-gauged"
    plain = {row.label: row.made.method for row in first.rows}
    made = {row.label: row.made.method for row in gauged.rows}
    assert made.keys() == plain.keys()
    kept = {label for label, method in made.items() if not hasattr(method, "factor")}
    assert kept == {"Original", "Retrain", "Retrain 2", "Random", "HD"}
    assert all(made[label] == plain[label] for label in kept)
    assert all((made[label].factor, made[label].method) == (0.1, plain[label]) for label in made.keys() - kept)


def test_the_gauge_has_the_papers_settings_and_the_dose_our_own_times_a_factor():
    gauge, dose = (EVERY[name](forget="class:2") for name in ("gauge", "dose"))
    made = {row.label: row.made.method for row in gauge.rows}
    fields = UNLEARNING["class"]["cifar10"]["resnet18"]["SCRUB"]
    for factor in (1, 0.5, 0.25, 0.1, 0.05):
        method = made[f"SCRUB x {factor:g}"]
        assert method.factor == factor
        assert {name: getattr(method.method, name) for name in fields} == fields
        assert method.method.crop == 0, "as Original was trained"
    doses = {row.label: row.made.method for row in dose.rows}
    assert doses["COLA x 2"].collapse_lr == 2 * doses["COLA x 1"].collapse_lr
    assert doses["COLA x 2"].align_lr == doses["COLA x 1"].align_lr
    assert doses["FT x 0.25"].lr == pytest.approx(doses["FT x 1"].lr / 4)
    assert {row.label.partition(" x ")[0] for row in dose.rows} >= {"Original", "Retrain", "Retrain 2"}


def test_classes_of_a_gauged_study_are_found_by_workers(tmp_path):
    """They leave the working directory out of their path, and a checkout is one."""
    code = (
        "import pickle, subprocess; from reproduction.studies import studies; "
        "from residua.device import child_command; "
        "study = studies['gauge'](forget='class:2'); "
        "message = pickle.dumps([row.made.method for row in study.rows]); "
        "read = child_command('import pickle; print(len(pickle.load(sys.stdin.buffer)))'); "
        "print(subprocess.run(read, input=message, capture_output=True, check=True).stdout.decode())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=RECORDS.parent, capture_output=True, text=True)
    assert done.stdout.strip() == "99", done.stderr


def test_tables_know_the_studies_that_make_their_records():
    """The reader of records names studies without importing them, which would load PyTorch."""
    small = {
        name
        for name, preset in EVERY.items()
        if preset.scale != "full" and not getattr(preset, "more", "") and not getattr(preset, "arm", "")
    }
    assert small == set(SCALES) - {"full", "small-gauged"}
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


def test_idi_is_read_against_the_epochs_of_the_papers_critics(stripes, monkeypatch):
    as_cifar10(stripes, monkeypatch)
    measures = EVERY["small-converged-epochs"]("data:DIR", "class:2").measures
    assert {m.label: m.epochs for m in measures} == {
        "information-paper-10-percent-1-epochs": 1,
        "information-paper-10-percent-3-epochs": 3,
        "information-paper-10-percent": 10,
        "information-paper-10-percent-30-epochs": 30,
    }


def test_settings_that_were_searched_for_classes_are_not_given_to_samples(stripes, monkeypatch):
    as_cifar10(stripes, monkeypatch)
    with pytest.raises(InputError, match="were searched for forgotten classes, not for"):
        studies["small-tuned"]("data:DIR", "samples:5")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [("nobody --out x", "has no study 'nobody'; choose one of tiny-curves"), ("small-memorised --out x", "needs data")],
)
def test_a_study_is_run_by_its_name(words, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["run", *shlex.split(words)]) == 3
    assert sentence in " ".join(capsys.readouterr().err.split())
    assert list(tmp_path.iterdir()) == []
