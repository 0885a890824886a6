"""Tuning: what a choice is worth, and that trials are cells like any other."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import residua as rs
from residua.measure import Accuracy
from residua.record import Record, Setting
from residua.study import Study
from residua.study.tuning import (
    POINT,
    WORST,
    Start,
    Trial,
    best_choices,
    gap,
    idi_range,
    near_best,
    ranges,
    search_name,
    search_record,
    tune,
    validation_task,
)
from residua.training.recipes import UNLEARNING, unlearning
from residua.unlearn import FineTune, Original, Retrain, find

pytestmark = pytest.mark.usefixtures("one_thread")

NETWORK = {"network": "resnet18", "classes": 4, "channels": 1, "width": 1, "stem": "cifar"}


def test_the_gap_is_that_of_ua_and_ta_on_either_side_and_of_nothing_else():
    retrain = {"UA": 0.9, "RA": 1.0, "TA": 0.8}
    assert gap(retrain, retrain) == 0
    assert gap({"UA": 1.0, "RA": 0.0, "TA": 0.6}, retrain) == pytest.approx(0.1 + 0.2)
    assert gap({"UA": 0.7, "TA": 0.85}, retrain) == pytest.approx(0.2 + 0.05)
    # What is lost in one is not made good by the other.
    assert gap({"UA": 0.8, "TA": 0.9}, retrain) == pytest.approx(0.2)


@pytest.fixture
def task(stripes) -> rs.ForgetTask:
    part = dataclasses.replace(
        stripes, train=stripes.train.subset(range(160)), test=stripes.test.subset(range(80))
    )
    return rs.forget_classes(part, 2)


@pytest.fixture
def start(stripes_training) -> Start:
    return Start(NETWORK, dataclasses.replace(stripes_training, epochs=1))


FT = FineTune(epochs=1, lr=1e-3, batch=32, crop=0, flip=False)


def numbered(trials) -> list:
    return sorted(trials, key=lambda trial: trial.number)


def test_a_search_goes_on_in_the_folder_of_a_study(task, start, tmp_path):
    study = Study(
        tasks={"stripes": validation_task(task)},
        networks={"r": NETWORK},
        pretraining=start.pretraining,
        methods=[Original(), Retrain(start.pretraining)],
        measures=[Accuracy()],
    )
    study.run(tmp_path)
    cells = tmp_path / "cells"
    there = len(list(cells.iterdir()))
    six = tune(FT, task, start, out=tmp_path, trials=6, epochs=1)
    assert len(list(cells.iterdir())) == there + 6, "Original, Retrain and its accuracy are the study's"
    seven = tune(FT, task, start, out=tmp_path, trials=7, epochs=1)
    assert numbered(seven)[:6] == numbered(six), "a search that goes on begins with what it has tried"
    assert len(list(cells.iterdir())) == there + 7
    assert [trial.gap for trial in seven] == sorted(trial.gap for trial in seven)
    assert numbered(seven)[0].fields == {"epochs": 1, "lr": 1e-3}
    assert study.run(tmp_path).computed == 0


def test_a_choice_that_diverges_is_worth_least_and_remembered(task, start, tmp_path):
    wild = dataclasses.replace(FT, lr=1e30)
    (trial,) = tune(wild, task, start, out=tmp_path, trials=1, low=1e30, high=1e30)
    assert (trial.gap, trial.values) == (WORST, {})
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()}
    assert tune(wild, task, start, out=tmp_path, trials=1, low=1e30, high=1e30) == [trial]
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()} == before


@pytest.mark.parametrize("kind", ["class", "random"])
def test_validation_data_are_training_data_that_no_model_sees(stripes, kind):
    task = rs.forget_classes(stripes, 2) if kind == "class" else rs.forget_samples(stripes, 3)
    inner = validation_task(task, 0.2)
    left_out = set(inner.test.index.tolist()) | set(inner.forget_test.index.tolist())
    seen = set(inner.train.index.tolist())
    assert inner.scenario == task.scenario
    assert not left_out & seen
    assert left_out | seen == set(task.train.index.tolist()), "nothing of the test data, nothing lost"
    assert inner.test.images is task.train.images
    assert len(inner.test) == pytest.approx(0.2 * len(task.retain), rel=0.1)
    assert (2 in inner.test.labels.tolist()) == (kind == "random")
    assert set(inner.forget_test.labels.tolist()) == ({2} if kind == "class" else set())
    again = validation_task(task, 0.2)
    assert again.manifest()["sha256"] == inner.manifest()["sha256"]


@pytest.mark.parametrize("kind", ["class", "random"])
def test_a_part_of_the_training_data_leaves_the_validation_data_as_they_are(stripes, kind):
    task = rs.forget_classes(stripes, 2) if kind == "class" else rs.forget_samples(stripes, 8)
    whole, half = validation_task(task, 0.2), validation_task(task, 0.2, part=0.5)
    assert half.test.index.tolist() == whole.test.index.tolist()
    assert half.forget_test.index.tolist() == whole.forget_test.index.tolist()
    for name in ("retain", "forget"):
        some, all_of_them = (getattr(each, name) for each in (half, whole))
        assert set(some.index.tolist()) < set(all_of_them.index.tolist())
        for label in set(all_of_them.labels.tolist()):
            of_label = int((all_of_them.labels == label).sum())
            assert int((some.labels == label).sum()) == pytest.approx(of_label / 2, abs=0.5)


@pytest.mark.parametrize("part", [0, 1.5, -1, 0.0001])
def test_a_part_that_leaves_nothing_is_refused(task, part):
    with pytest.raises(rs.InputError, match="part"):
        validation_task(task, part=part)


@pytest.mark.parametrize("share", [0, 1, -1, 0.001])
def test_a_share_that_leaves_nothing_is_refused(task, share):
    with pytest.raises(rs.InputError, match="validation"):
        validation_task(task, share)


def test_the_best_of_a_search_on_less_data_are_tried_again_on_all_of_it(task, start, tmp_path):
    first = tune(FT, task, start, out=tmp_path / "part", trials=3, epochs=1, part=0.5)
    record = Record.read(tmp_path / "part/records" / f"{search_name(FT, 0)}.json")
    chosen = best_choices(record, FT, 2)
    assert chosen == [trial.fields for trial in first[:2]]
    finals = tune(FT, task, start, out=tmp_path / "all", choices=chosen)
    assert sorted(map(str, chosen)) == sorted(str(trial.fields) for trial in finals)
    again = Record.read(tmp_path / "all/records" / f"{search_name(FT, 0)}.json")
    assert again.setting.task.size("retain") > record.setting.task.size("retain")
    assert again.method.fields["lr"] == finals[0].fields["lr"]
    with pytest.raises(rs.InputError, match="is not a search of COLA"):
        best_choices(record, find("COLA"), 2)


def test_choices_that_diverged_are_not_tried_again():
    tried = [Trial(0, {"lr": 1.0}, WORST, {}), Trial(1, {"lr": 0.1}, 0.3, {"UA": 0.7, "TA": 0.8})]
    record = search_record(FT, tried, Setting(scale="tiny"), {"UA": 1.0, "TA": 0.8}, 0, "")
    assert best_choices(record, FT, 2) == [{"lr": 0.1}]


@pytest.mark.parametrize("fields", [{"lr": -1.0}, {"nonsense": 1.0}, {"batch": 3}, {}])
def test_a_record_made_on_purpose_brings_no_other_settings(fields):
    whole = search_record(FT, [Trial(0, {"lr": 0.1}, 0.3, {"UA": 0.7, "TA": 0.8})], Setting(scale="tiny"),
                          {"UA": 1.0, "TA": 0.8}, 0, "")  # fmt: skip
    arrays = {name: array for name, array in whole.arrays.items() if "field" not in name}
    arrays |= {f"search.field {name}": np.array([value]) for name, value in fields.items()}
    with pytest.raises(rs.InputError, match="search again"):
        best_choices(whole.model_copy(update={"arrays": arrays}), FT, 1)


def test_the_test_data_cannot_change_a_search(task, start, tmp_path):
    upside_down = dataclasses.replace(task, test=task.test.relabel(task.test.labels.flip(0)))
    there, here = (tune(FT, each, start, out=tmp_path / name, trials=2, epochs=1)
                   for name, each in (("a", task), ("b", upside_down)))  # fmt: skip
    assert there == here


RECIPES = [
    (scenario, data, network)
    for scenario, sets in UNLEARNING.items()
    for data, nets in sets.items()
    for network in nets
]


@pytest.mark.parametrize(("scenario", "data", "network"), RECIPES)
def test_ranges_hold_every_value_of_the_paper(scenario, data, network):
    for label, fields in UNLEARNING[scenario][data][network].items():
        drawn_from = ranges(find(label))
        assert drawn_from
        for name in drawn_from.keys() & fields.keys():
            assert drawn_from[name].holds(fields[name]), (label, name, fields[name])


@pytest.mark.parametrize("scale", ["tiny", "small"])
@pytest.mark.parametrize("scenario", ["class", "random"])
def test_ranges_hold_every_recipe_of_ours(scale, scenario):
    for label, fields in unlearning(scale, scenario, "any", "any").items():
        if label != "Retrain":
            for name, each in ranges(find(label)).items():
                assert each.holds(getattr(find(label, **fields), name)), (label, name)


def test_rates_that_the_last_layers_need_can_be_drawn():
    for label in ("EU-5", "EU-10", "CF-5", "CF-10", "l1-sparse"):
        assert ranges(find(label))["lr"].holds(0.2)


@pytest.mark.parametrize(
    ("label", "own"),
    [("GA", "alpha"), ("Bad-T", "temperature"), ("l1-sparse", "alpha"), ("SALUN", "share"), ("SCRUB", "alpha"),
     ("COLA", "temperature"), ("COLA+", "temperature"), ("SSD", "alpha")],
)  # fmt: skip
def test_settings_of_a_methods_own_are_searched_too(label, own):
    assert own in ranges(find(label))


def trials(*of: tuple[float, float | None]) -> list[Trial]:
    return [
        Trial(n, {"lr": 0.1 * (n + 1)}, gap, {"UA": 1.0, "TA": 0.9}, idi) for n, (gap, idi) in enumerate(of)
    ]


def test_idi_is_a_range_over_settings_that_ua_and_ta_do_not_tell_apart(task):
    tried = trials((0.030, 0.2), (0.039, 0.7), (0.0401, 0.1), (0.5, -3.0))
    assert [trial.number for trial in near_best(tried)] == [0, 1], "one point, and no more"
    assert POINT == 0.01
    setting = Setting(scale="tiny")
    record = search_record(FT, tried, setting, {"UA": 1.0, "TA": 0.9}, 0, "residua tune FT")
    found = idi_range(record)
    assert (found.method, found.trials, found.near) == ("FT", 4, 2)
    assert (found.low, found.high, found.chosen) == (0.2, 0.7, 0.2)
    assert record.method.fields["lr"] == pytest.approx(0.1), "the best by the gap, whatever its IDI"
    without = search_record(FT, trials((0.1, None)), setting, {"UA": 1.0, "TA": 0.9}, 0, "")
    assert idi_range(without).low is None
    diverged = [Trial(0, {"lr": 9.0}, WORST, {})]
    assert idi_range(search_record(FT, diverged, setting, {"UA": 1.0, "TA": 0.9}, 0, "")).near == 0


def test_a_search_is_recorded_and_reads_idi_when_it_is_over(task, start, tmp_path):
    quick = rs.measure.InformationCurve(last=1, family="linear")
    tried = tune(
        FT,
        task,
        start,
        out=tmp_path,
        trials=2,
        epochs=1,
        measure=quick,
        scale="tiny",
        command="residua tune FT",
    )
    (path,) = (tmp_path / "records").glob("search-*.json")
    record = rs.Record.read(path)
    arrays = record.read_with("search").arrays
    assert arrays["gap"].tolist() == [trial.gap for trial in numbered(tried)]
    assert arrays["field lr"].tolist() == [trial.fields["lr"] for trial in numbered(tried)]
    assert (record.setting.scale, record.command) == ("tiny", "residua tune FT")
    assert record.setting.task.size("test") == len(validation_task(task).test)
    near = near_best(tried)
    assert idi_range(record).near == len(near)
    without = tune(FT, task, start, out=tmp_path / "other", trials=2, epochs=1)
    assert [(t.number, t.fields, t.gap) for t in without] == [(t.number, t.fields, t.gap) for t in tried], (
        "IDI decides nothing"
    )
    kept, none = (len(list((tmp_path / name / "models").iterdir())) for name in ("", "other"))
    assert kept == none + 2
    later = tune(FT, task, start, out=tmp_path / "other", trials=2, epochs=1, measure=quick)
    assert later == tried, "models that were not kept are made again"


@pytest.mark.slow
def test_trials_are_the_same_in_two_processes(task, start, tmp_path):
    here = tune(FT, task, start, out=tmp_path / "one", trials=6, epochs=1)
    there = tune(FT, task, start, out=tmp_path / "two", trials=6, epochs=1, jobs=2)
    assert here == there


def test_a_trial_whose_cell_fails_is_said_and_not_remembered(task, start, tmp_path):
    said: list[str] = []
    found = tune(_Failing(), task, start, out=tmp_path, trials=1, tell=said.append)
    assert found == []
    assert any("trial0 failed: ZeroDivisionError" in sentence for sentence in said)


@dataclasses.dataclass(frozen=True)
class _Failing(FineTune):
    def __call__(self, original, task):
        raise ZeroDivisionError("no luck")
