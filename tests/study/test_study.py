"""Studies: what is computed once, what a change computes again, and that numbers depend on nothing else."""

from __future__ import annotations

import dataclasses
import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import residua as rs
from residua.controls.cheats import LogitMasking
from residua.controls.impostors import Mixture
from residua.errors import InputError
from residua.measure import Accuracy, InformationCurve, WeightSketch
from residua.report.pages import study_page
from residua.study import Row, Study, folder
from residua.study.cells import scratch_seed, train_seed, unlearn_seed
from residua.study.store import Store
from residua.unlearn import FineTune, HeadDistillation, Original, Random, Retrain

pytestmark = pytest.mark.usefixtures("one_thread")

# Shares an object beside the store and claims a cell, until it is killed.
ABANDONS = """
import sys, time
from pathlib import Path
from residua.study.store import Claims
from residua.files import temporary_folder
out = Path(sys.argv[1])
with temporary_folder(out) as folder, Claims(out) as claims:
    claims.take("a" * 32)
    print(folder, flush=True)
    time.sleep(600)
"""
NETWORK = {"network": "resnet18", "classes": 4, "channels": 1, "width": 1, "stem": "cifar"}


@pytest.fixture
def study(stripes, stripes_training) -> Study:
    quick = dataclasses.replace(stripes_training, epochs=1)
    part = dataclasses.replace(stripes, train=stripes.train.subset(range(160)), test=stripes.test.subset(range(80)))
    hd = HeadDistillation(epochs=1, crop=0, flip=False, batch=32)
    return Study(
        tasks={"stripes": rs.forget_classes(part, 2)},
        networks={"resnet18": NETWORK},
        pretraining=quick,
        methods=[Original(), Retrain(quick), Row("Again", Retrain(quick), draw=1), hd, Random(), LogitMasking()],
        measures=[Accuracy(), InformationCurve(last=1)],
    )


def test_a_row_is_given_the_model_of_an_earlier_one(study, tmp_path):
    retrain = study.methods[1]
    mixture = Row("Mixture", Mixture(pretraining=retrain.pretraining), beside="Retrain")
    both = dataclasses.replace(study, methods=[Original(), retrain, mixture], measures=[Accuracy()])
    first = both.run(tmp_path / "out")
    assert first.failures == {}
    assert first.computed == 1 + 3 + 3
    other = Retrain(dataclasses.replace(retrain.pretraining, lr=0.04))
    changed = dataclasses.replace(both, methods=[Original(), other, mixture])
    # Another Retrain, another mixture: the key holds what stands beside it.
    assert changed.run(tmp_path / "out").computed == 2 + 2
    with pytest.raises(InputError, match="needs the model of Retrain, which is not an earlier row"):
        _ = dataclasses.replace(both, methods=[Original(), mixture]).rows


def written(out) -> dict:
    """Every file but the status, and when it was written."""
    return {p: p.stat().st_mtime_ns for p in out.rglob("*") if p.is_file() and p.name != "status.json"}


def readings(finished) -> dict[str, dict]:
    return {record.name: record.readings for record in finished.records}


def test_a_study_ends_in_a_record_of_each_row_and_a_second_run_computes_nothing(study, tmp_path):
    first = study.run(tmp_path / "out")
    assert first.failures == {}
    assert [record.name for record in first.records] == [
        "seed0-original", "seed0-retrain", "seed0-again", "seed0-hd", "seed0-random", "seed0-masking",
    ]  # fmt: skip
    # One training, six rows, six accuracies; HD, Masking and Original share an encoder and so a curve.
    assert first.computed == 1 + 6 + 6 + 4
    for record in first.records:
        assert rs.Record.read(tmp_path / "out/records" / f"{record.name}.json") == record
    before = written(tmp_path / "out")
    second = study.run(tmp_path / "out")
    assert second.computed == 0
    assert [record.sha256 for record in second.records] == [record.sha256 for record in first.records]
    assert written(tmp_path / "out") == before


def test_equal_encoders_have_equal_curves_and_other_outputs(study, tmp_path):
    records = {record.method.label: record for record in study.run(tmp_path).records}
    for label in ("HD", "Masking"):
        np.testing.assert_array_equal(
            records[label].arrays["information.terms"], records["Original"].arrays["information.terms"]
        )
    assert records["Masking"].readings["accuracy"] != records["Original"].readings["accuracy"]
    assert records["Again"].method.weights != records["Retrain"].method.weights


def test_a_new_metric_computes_that_metric_and_a_changed_field_that_method(study, tmp_path):
    study.run(tmp_path)
    more = dataclasses.replace(study, measures=[*study.measures, WeightSketch()])
    assert more.run(tmp_path).computed == len(study.rows)
    hd = HeadDistillation(epochs=2, crop=0, flip=False, batch=32)
    methods = [hd if row.label == "HD" else row for row in study.methods]
    sentences: list[str] = []
    changed = dataclasses.replace(study, methods=methods).run(tmp_path, tell=sentences.append)
    assert changed.computed == 1 + 1, "HD and its accuracy; its encoder is Original's, so it has its curve"
    assert any("methods.HD.fields.epochs was 1 in the last run and is 2 now" in each for each in sentences)
    assert dataclasses.replace(study, seeds=(0, 1)).run(tmp_path).computed == 1 + 6 + 6 + 4


def test_trajectories_are_read_on_the_way_and_change_no_model(study, tmp_path):
    plain = dataclasses.replace(study, measures=[Accuracy()], methods=[Original(), FineTune(epochs=2, batch=32)])
    followed = dataclasses.replace(plain, trajectories=True)
    before, after = (each.run(tmp_path / "out").records for each in (plain, followed))
    assert [record.method.weights for record in before] == [record.method.weights for record in after]
    assert [record.arrays.get("trajectory") is not None for record in after] == [False, True]
    way = after[1].arrays["trajectory"]
    assert way.shape == (2, 3)
    assert way[-1].tolist() == [after[1].readings["accuracy"][name] for name in ("UA", "RA", "TA")]
    assert "The way there" in study_page(after)


def test_one_original_serves_every_task_of_its_data(study, stripes, tmp_path):
    (task,) = study.tasks.values()
    other = rs.forget_classes(dataclasses.replace(stripes, train=task.train, test=stripes.test.subset(range(80))), 1)
    two = dataclasses.replace(study, tasks={"two": task, "one": other}, methods=[Original()], measures=[Accuracy()])
    finished = two.run(tmp_path)
    assert [record.name for record in finished.records] == ["two-seed0-original", "one-seed0-original"]
    assert len({record.method.weights for record in finished.records}) == 1
    assert finished.computed == 1 + 2 + 2


def test_numbers_do_not_depend_on_the_number_of_processes(study, tmp_path):
    quick = [Accuracy(), InformationCurve(last=1, family="linear")]
    few = dataclasses.replace(study, methods=study.methods[:4], measures=quick)
    here, there = few.run(tmp_path / "one"), few.run(tmp_path / "two", jobs=2)
    assert readings(here) == readings(there)
    assert [r.method.weights for r in here.records] == [r.method.weights for r in there.records]


def test_a_store_works_at_any_path(study, tmp_path):
    study.run(tmp_path / "here")
    shutil.copytree(tmp_path / "here", tmp_path / "deep" / "there")
    assert study.run(tmp_path / "deep" / "there").computed == 0


def test_damage_is_found_said_and_made_again(study, tmp_path):
    first = study.run(tmp_path)
    store = Store(tmp_path)
    by_kind: dict[str, list] = {}
    for result in store.results():
        by_kind.setdefault(result.kind, []).append(result)
    truncated = tmp_path / "cells" / f"{by_kind['measure'][0].key}.json"
    truncated.write_bytes(truncated.read_bytes()[:100])
    arrays = next(result for result in by_kind["measure"] if result.arrays)
    path = tmp_path / "arrays" / f"{arrays.arrays}.npz"
    path.write_bytes(flipped(path.read_bytes()))
    model = tmp_path / "models" / f"{by_kind['train'][0].model}.safetensors"
    model.write_bytes(flipped(model.read_bytes()))
    before = written(tmp_path)
    sentences = store.check()
    assert len(sentences) == 4, sentences  # the arrays take their cell with them
    assert all("damaged" in sentence and sentence.count("\n") == 0 for sentence in sentences)
    assert written(tmp_path) == before, "checking changes nothing"
    assert len(Store(tmp_path, repairs=True).check()) == 4
    second = study.run(tmp_path)
    assert second.failures == {}
    assert readings(second) == readings(first)
    assert store.check() == []
    assert len(list((tmp_path / "damaged").iterdir())) == 4


def test_a_lost_model_is_made_again_for_whoever_needs_it(study, tmp_path):
    first = study.run(tmp_path)
    shutil.rmtree(tmp_path / "models")
    assert study.run(tmp_path).computed == 0, "nobody needs the models"
    more = dataclasses.replace(study, measures=[*study.measures, WeightSketch()])
    sentences: list[str] = []
    second = more.run(tmp_path, tell=sentences.append)
    assert second.failures == {}
    assert any("is made again, because its model is missing" in each for each in sentences)
    assert {n: r["accuracy"] for n, r in readings(second).items()} == {
        n: r["accuracy"] for n, r in readings(first).items()
    }


@dataclasses.dataclass(frozen=True)
class Failing:
    label = "Failing"

    def __call__(self, original, task):
        raise ZeroDivisionError("no luck")


@dataclasses.dataclass(frozen=True)
class Refusing:
    label = "refusing"

    def __call__(self, model, task):
        raise InputError("too few samples; give more")


def test_what_fails_is_reported_and_the_others_go_on(study, tmp_path):
    one = dataclasses.replace(study, methods=[Failing(), Original()], measures=[Refusing(), Accuracy()])
    finished = one.run(tmp_path)
    assert [record.name for record in finished.records] == ["seed0-original"]
    assert finished.failures["seed0-failing"] == "ZeroDivisionError: no luck"
    assert finished.failures["seed0-failing/accuracy"] == "it needs seed0-failing, which failed"
    assert finished.records[0].refused == {"refusing": "too few samples; give more"}
    assert finished.records[0].readings["accuracy"]


def test_a_method_that_cannot_do_the_scenario_is_left_out(study, stripes):
    random = dataclasses.replace(study, tasks={"r": rs.forget_samples(stripes, 5)})
    assert "Masking" in {row.label for row in study.rows}
    assert "Masking" not in {row.label for row in random.rows}


def test_no_two_random_things_share_a_seed():
    for s in (0, 1, 999_999):
        seeds = [train_seed(s), *(of(s, d) for of in (scratch_seed, unlearn_seed) for d in range(5))]
        assert len(set(seeds)) == len(seeds)
    with pytest.raises(InputError, match="0 to 999999"):
        train_seed(1_000_000)


@pytest.mark.parametrize("part", ["tasks", "networks", "measures", "seeds"])
def test_an_empty_study_is_refused(study, part):
    with pytest.raises(InputError, match=f"has no {part}"):
        dataclasses.replace(study, **{part: type(getattr(study, part))()})


def test_two_rows_of_one_name_are_refused(study):
    with pytest.raises(InputError, match="two rows named seed0-ft"):
        dataclasses.replace(study, methods=[FineTune(epochs=1), FineTune(epochs=2)])


def flipped(content: bytes) -> bytes:
    """One bit in the middle is another."""
    middle = len(content) * 3 // 4
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def test_what_a_killed_process_was_writing_is_not_taken_for_a_cell(study, tmp_path):
    dataclasses.replace(study, methods=[Original()]).run(tmp_path)
    store = Store(tmp_path)
    finished = list(store.results())
    (tmp_path / "cells" / f".{finished[0].key}.json.abc.json").write_text("{")
    assert [result.key for result in store.results()] == [result.key for result in finished]
    assert store.check() == []


def test_time_left_is_that_of_all_workers_and_ends_at_nothing(study, tmp_path):
    steps = []
    dataclasses.replace(study, seeds=[0, 1]).run(tmp_path, progress=steps.append)
    assert steps[-1].left == steps[-1].unknown == 0
    # With the first model measured every sort of cell is known; none is thought to take longer than the longest has.
    known = [step for step in steps if step.left and not step.unknown]
    assert known
    longest = max(step.seconds for step in steps)
    assert all(0 < step.left <= (step.total - step.done) * longest for step in known)


def test_a_run_that_was_killed_is_not_called_running_and_leaves_no_data_behind(study, tmp_path):
    one = dataclasses.replace(study, methods=[Original()])
    one.run(tmp_path)
    with subprocess.Popen([sys.executable, "-c", ABANDONS, str(tmp_path)], stdout=subprocess.PIPE, text=True) as gone:
        left = Path(gone.stdout.readline().strip())
        assert folder.status(tmp_path)["processes"] == [f"{socket.gethostname()} {gone.pid}"]
        gone.kill()
    assert left.exists()
    assert folder.status(tmp_path)["processes"] == []
    one.run(tmp_path)
    assert not left.exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_pruning_waits_for_a_run_that_knows_what_it_needs(study, tmp_path):
    one = dataclasses.replace(study, methods=[Original()])
    one.run(tmp_path)
    state = json.loads((tmp_path / "status.json").read_text())
    del state["sha256"]
    (tmp_path / "status.json").write_text(json.dumps(state | {"finished": False}))
    before = written(tmp_path)
    with pytest.raises(InputError, match="is not finished"):
        folder.prune(tmp_path)
    assert written(tmp_path) == before
    one.run(tmp_path)
    assert folder.prune(tmp_path) == (0, 0)


def test_the_definition_is_kept_beside_the_results(study, tmp_path):
    dataclasses.replace(study, methods=[Original()]).run(tmp_path)
    kept = json.loads((tmp_path / "study.json").read_text())
    assert kept["seeds"] == [0]
    assert kept["methods"] == {"Original": {"label": "Original", "kind": "Original", "fields": {}}}
