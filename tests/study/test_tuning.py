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
    WORST,
    Start,
    Trial,
    acceptable,
    best_choices,
    idi_range,
    ranges,
    search_name,
    search_record,
    shortfall,
    tune,
    validation_task,
)
from residua.training.recipes import UNLEARNING
from residua.unlearn import FineTune, Original, Retrain, find, methods

pytestmark = pytest.mark.usefixtures("one_thread")

NETWORK = {"network": "resnet18", "classes": 4, "channels": 1, "width": 1, "stem": "cifar"}


def test_more_accuracy_than_retrains_is_no_fault_and_a_point_less_is_none_either():
    retrain = {"UA": 1.0, "RA": 1.0, "TA": 0.8}
    assert shortfall({"UA": 0.99, "RA": 0.0, "TA": 0.79}, retrain) == 0
    assert shortfall({"UA": 1.0, "TA": 0.95}, retrain) == 0
    assert shortfall({"UA": 0.9, "TA": 0.95}, retrain) == pytest.approx(0.09), "TA does not make it good"
    assert shortfall({"UA": 0.97, "TA": 0.75}, retrain) == pytest.approx(0.02 + 0.04)


def test_where_retrain_answers_itself_a_ua_above_its_is_a_fault():
    retrain = {"UA": 0.1, "TA": 0.8}
    assert shortfall({"UA": 0.105, "TA": 0.9}, retrain) == 0
    assert shortfall({"UA": 0.5, "TA": 0.8}, retrain) == pytest.approx(0.39)
    assert shortfall({"UA": 0.0, "TA": 0.8}, retrain) == pytest.approx(0.09)


@pytest.fixture
def task(stripes) -> rs.ForgetTask:
    part = dataclasses.replace(stripes, train=stripes.train.subset(range(160)), test=stripes.test.subset(range(80)))
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
    assert [trial.shortfall for trial in seven] == sorted(trial.shortfall for trial in seven)
    assert numbered(seven)[0].fields == {"epochs": 1, "lr": 1e-3}
    assert study.run(tmp_path).computed == 0


def test_a_choice_that_diverges_is_worth_least_and_remembered(task, start, tmp_path):
    wild = dataclasses.replace(FT, lr=1e30)
    (trial,) = tune(wild, task, start, out=tmp_path, trials=1, low=1e30, high=1e30)
    assert (trial.shortfall, trial.values) == (WORST, {})
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
        drawn_from = ranges(find(label, **fields))
        assert drawn_from
        for name in drawn_from.keys() & fields.keys():
            assert drawn_from[name].holds(fields[name]), (label, name, fields[name])


def test_epochs_and_learning_rates_are_searched_and_no_field_of_a_methods_own():
    for label, method in methods().items():
        if label in ("SSD", "ESC", "POUR-P", "DAMP", "Original", "Retrain", "Random"):
            continue  # nothing is trained, or not by the search
        drawn_from = ranges(method)
        assert all("epochs" in name or "lr" in name for name in drawn_from), label
        rates = [each for each in drawn_from.values() if not each.whole]
        assert all(each.low <= 1e-5 and each.high >= 1e-2 for each in rates), label
    with pytest.raises(rs.InputError, match="SSD has neither epochs nor a learning rate"):
        ranges(find("SSD"))


def test_learning_rates_have_one_digit_but_for_the_methods_own():
    class Drawn:
        def __init__(self, value):
            self.value = value

        def suggest_float(self, *given, **how):
            return self.value

    of = ranges(dataclasses.replace(FT, lr=1.5e-3))["lr"]
    assert of.drawn(Drawn(1.5e-3), "lr") == 1.5e-3
    assert of.drawn(Drawn(3.4e-4), "lr") == 3e-4
    assert of.drawn(Drawn(9.7e-3), "lr") == 1e-2
    assert ranges(FT, low=0.015, high=0.015)["lr"].drawn(Drawn(0.015), "lr") == 0.015


AIM = {"UA": 1.0, "TA": 0.9}


def trials(*of: tuple[float, float | None], epochs: int = 3) -> list[Trial]:
    """By TA and IDI."""
    values = [{"UA": 1.0, "TA": ta} for ta, _ in of]
    return [
        Trial(n, {"lr": 0.1 * (n + 1), "epochs": epochs}, shortfall(values[n], AIM), values[n], idi)
        for n, (_, idi) in enumerate(of)
    ]


def test_idi_is_a_range_over_all_acceptable_settings():
    tried = trials((0.95, 0.2), (0.891, 0.7), (0.889, 0.1), (0.5, -3.0))
    assert [trial.number for trial in acceptable(tried)] == [0, 1], "one point, and no more"
    record = search_record(FT, tried, Setting(scale="tiny"), AIM, 0, "residua tune FT")
    found = idi_range(record)
    assert (found.method, found.trials, found.acceptable, found.read) == ("FT", 4, 2, 2)
    assert (found.low, found.high) == (0.2, 0.7)
    assert record.method.fields["lr"] == pytest.approx(0.1), "the first that is acceptable, whatever its IDI"
    without = idi_range(search_record(FT, trials((0.9, None)), Setting(scale="tiny"), AIM, 0, ""))
    assert (without.acceptable, without.read, without.low) == (1, 0, None)
    diverged = [Trial(0, {"lr": 9.0}, WORST, {})]
    assert idi_range(search_record(FT, diverged, Setting(scale="tiny"), AIM, 0, "")).acceptable == 0


def test_a_phase_of_one_epoch_does_not_win_against_a_longer_one_that_is_acceptable_too():
    hasty, longer = trials((0.99, None), epochs=1)[0], trials((0.2, None), (0.9, None))[1]
    chosen = search_record(FT, [hasty, longer], Setting(scale="tiny"), AIM, 0, "").method.fields
    assert chosen["epochs"] == 3
    worse = trials((0.2, None), (0.8, None))[1]
    chosen = search_record(FT, [hasty, worse], Setting(scale="tiny"), AIM, 0, "").method.fields
    assert chosen["epochs"] == 1, "it is the only one"


def test_a_search_is_recorded_and_reads_idi_when_it_is_over(task, start, tmp_path):
    quick = rs.measure.InformationCurve(last=1, family="linear")
    tried = tune(
        FT, task, start, out=tmp_path, trials=2, epochs=1, measure=quick, scale="tiny", command="residua tune FT"
    )
    (path,) = (tmp_path / "records").glob("search-*.json")
    record = rs.Record.read(path)
    arrays = record.read_with("search").arrays
    assert arrays["TA"].tolist() == [trial.values["TA"] for trial in numbered(tried)]
    assert arrays["field lr"].tolist() == [trial.fields["lr"] for trial in numbered(tried)]
    assert (record.setting.scale, record.command) == ("tiny", "residua tune FT")
    assert record.setting.task.size("test") == len(validation_task(task).test)
    assert idi_range(record).acceptable == len(acceptable(tried))
    without = tune(FT, task, start, out=tmp_path / "other", trials=2, epochs=1)
    assert [(t.number, t.fields, t.values) for t in without] == [(t.number, t.fields, t.values) for t in tried], (
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
