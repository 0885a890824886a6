"""Cells: who waits for whom, and what is made once for all."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Future
from multiprocessing import active_children
from pathlib import Path

import numpy as np
import pytest

from residua import outputs
from residua.cli import cells, controls, demo, processes
from residua.cli.cells import Cell, Job, Setting, queue, records_of, run_cells
from residua.errors import InputError
from residua.files import write_atomically
from residua.measure import Accuracy, InformationCurve, information_curve

pytestmark = pytest.mark.usefixtures("one_thread")


class OtherProcesses(processes.Here):
    """Nothing that one job has computed is remembered by the next."""

    def __init__(self) -> None:
        self.jobs: list[str] = []

    def submit(self, fn, /, *args, **kwargs) -> Future:
        outputs._passes.clear()
        information_curve._curves.clear()
        self.jobs.append(fn.__name__)
        return super().submit(fn, *args, **kwargs)


@pytest.fixture
def small(stripes, stripes_training, monkeypatch, tmp_path) -> Setting:
    quick = dataclasses.replace(stripes_training, epochs=1)
    monkeypatch.setattr(cells, "_task", lambda data, forget: cells.parse_forget(stripes, forget))
    monkeypatch.setattr(cells, "pretraining", lambda *_: quick)
    monkeypatch.setattr(
        cells,
        "unlearning",
        lambda *_: {"FT": {"epochs": 1, "crop": 0}, "HD": {"crop": 0}, "Retrain": {"pretraining": quick}},
    )
    monkeypatch.setattr(cells, "WIDTH", {"tiny": 2})
    measures = (Accuracy(), InformationCurve(last=1))
    return Setting("stripes", "class:2", "tiny", tmp_path / "w", measures, "test")


def cells_of(seed: int, *labels: str) -> list[Cell]:
    return [Cell(f"{label.lower()}{seed}", label, label, seed, 9) for label in labels]


def labels(jobs: list[Job]) -> list[tuple[int, tuple[str, ...]]]:
    return [(job.seed, tuple(cell.row for cell in job.cells)) for job in jobs]


def test_what_trains_comes_first_and_equal_encoders_are_measured_in_a_row():
    rows = [Cell(row, label, row, 0, 1) for label, row in demo.ROWS]
    in_turn = sorted(rows, key=lambda cell: demo.LONGEST_FIRST.index(cell.label))
    assert labels(queue(in_turn)) == [
        (0, ()),
        (0, ("COLA",)),
        (0, ("Retrain",)),
        (0, ("Retrain again",)),
        (0, ("FT",)),
        (0, ("Original", "HD")),
        (0, ("Random",)),
    ]
    both = [*controls._cells(1), *controls._cells(0)]
    assert labels(queue(both))[:6] == [
        (0, ()),
        (0, ("Retrain",)),
        (0, ("Second Retrain",)),
        (0, ("Original", "HD", "Masking", "Router", "Smoothing")),
        (0, ("Random",)),
        (1, ()),
    ]
    assert labels(queue(cells_of(0, "Random", "Retrain"))) == [(0, ("Retrain",)), (0, ("Random",))]


def test_equal_encoders_are_fitted_once_although_no_process_knows_of_another(small, monkeypatch, tmp_path):
    fitted, read = [], []
    measure, accuracy, guards = InformationCurve._measure, Accuracy.__call__, cells.guards
    monkeypatch.setattr(InformationCurve, "_measure", lambda *words: fitted.append(1) or measure(*words))

    def counted(self, model, task):
        found = accuracy(self, model, task)
        read.append(found.values)
        return found

    compared = []
    monkeypatch.setattr(Accuracy, "__call__", counted)
    monkeypatch.setattr(
        cells,
        "guards",
        lambda after, before, **asked: compared.append(before) or guards(after, before, **asked),
    )
    pool = OtherProcesses()
    monkeypatch.setattr(cells, "side_by_side", lambda jobs: pool)
    rows = cells_of(0, "Original", "HD", "FT", "Masking", "Random", "Smoothing")
    found = {record.method["label"]: record for record in run_cells(small, rows, 2)}
    assert found.keys() == {cell.label for cell in rows}
    assert pool.jobs == ["_original", *["_run_in_a_row"] * 3]
    assert len(fitted) == 3, "Original's encoder, FT's and Random's"
    for label in ("HD", "Masking", "Smoothing"):
        assert np.array_equal(
            found[label].arrays["information.terms"], found["Original"].arrays["information.terms"]
        )
        assert (
            found[label].readings["accuracy"] != found["Original"].readings["accuracy"]
            or label == "Smoothing"
        )
    original = found["Original"].readings["accuracy"]
    assert compared == [original, original], "FT and HD are compared with it"
    assert read.count(original) <= 3, "when it was trained, as a row, and Smoothing's, which are the same"


def test_an_original_that_is_there_is_not_trained_and_what_cannot_be_done_is_left_out(
    small, monkeypatch, capsys
):
    random = dataclasses.replace(small, forget="samples:5", measures=(Accuracy(),))
    first = list(run_cells(random, cells_of(0, "Original", "Masking", "HD", "UNSIR"), 1))
    said = capsys.readouterr().err
    assert [record.method["label"] for record in first] == ["Original", "HD"]
    assert "seed 0: Original trained in" in said
    assert (
        "seed 0: Masking is left out: Masking hides whole classes; give a task that forgets classes" in said
    )
    assert "seed 0: UNSIR is left out: UNSIR cannot forget random samples" in said
    monkeypatch.setattr(cells, "build", None)
    again = list(run_cells(random, cells_of(0, "HD"), 1))
    assert again[0].readings == first[1].readings
    assert "trained" not in capsys.readouterr().err
    with pytest.raises(TypeError):  # another seed's Original is not there
        list(run_cells(random, cells_of(1, "HD"), 1))


def test_a_record_of_other_settings_is_refused_by_name_and_a_damaged_one_made_again(
    small, monkeypatch, tmp_path, capsys
):
    only = dataclasses.replace(small, measures=(Accuracy(),))
    out, rows = tmp_path / "out", cells_of(0, "Original", "HD")
    first = records_of(only, rows, out, 1)

    def refused(setting: Setting, *words: str) -> None:
        with pytest.raises(InputError) as error:
            records_of(setting, rows, out, 1)
        assert all(word in str(error.value) for word in ("original0.json", "delete the record", *words))

    refused(
        dataclasses.replace(only, forget="class:1"), "setting.task.forgotten_classes [2]", "now it is [1]"
    )
    refused(dataclasses.replace(only, forget="samples:5"), 'setting.task.scenario "class"', '"random"')
    refused(small, "measures.information none")
    monkeypatch.setattr(cells, "WIDTH", {"tiny": 4})
    refused(only, "setting.network.width 2")
    monkeypatch.setattr(cells, "WIDTH", {"tiny": 2})
    with monkeypatch.context() as other:
        other.setattr(cells, "unlearning", lambda *_: {"HD": {"crop": 0, "lr": 0.5}})
        with pytest.raises(InputError, match=r"hd0.json was made with method.lr .*, and now it is 0.5"):
            records_of(only, rows, out, 1)
    (out / "hd0.json").write_text((out / "hd0.json").read_text().replace('"UA"', '"UB"'))
    again = records_of(only, rows, out, 1)
    assert [record.readings for record in again] == [record.readings for record in first]
    assert "hd0.json is damaged" in capsys.readouterr().err


def test_an_original_of_another_training_is_not_taken_for_this_one(small, stripes, monkeypatch):
    only = dataclasses.replace(small, measures=(Accuracy(),))
    assert len(list(run_cells(only, cells_of(0, "HD"), 1))) == 1
    other_task = dataclasses.replace(only, forget="samples:5")
    assert len(list(run_cells(other_task, cells_of(0, "HD"), 1))) == 1, (
        "the same data, other examples forgotten"
    )
    quick = cells.pretraining()
    with monkeypatch.context() as other:
        other.setattr(cells, "pretraining", lambda *_: dataclasses.replace(quick, lr=0.5))
        with pytest.raises(InputError, match=r"seed0-original.training.json was made with method.lr"):
            list(run_cells(only, cells_of(0, "HD"), 1))
    fewer = dataclasses.replace(stripes, train=stripes.train.subset(range(0, len(stripes.train), 2)))
    with monkeypatch.context() as other:
        other.setattr(cells, "_task", lambda data, forget: cells.parse_forget(fewer, forget))
        with pytest.raises(InputError, match=r"seed0-original.training.json was made with setting.train"):
            list(run_cells(only, cells_of(0, "HD"), 1))
    only.original(0).with_suffix(".training.json").unlink()
    monkeypatch.setattr(cells, "WIDTH", {"tiny": 4})
    with pytest.raises(InputError, match="has width 2, expected 4"):
        list(run_cells(only, cells_of(0, "HD"), 1))


def test_a_measure_that_cannot_read_the_task_ends_the_run(small):
    """Every row would be left out for it."""
    few = dataclasses.replace(small, forget="samples:2", measures=(InformationCurve(last=1),))
    with pytest.raises(InputError, match="expected at least 20"):
        list(run_cells(few, cells_of(0, "HD", "Random"), 1))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")
def test_a_run_that_is_told_to_stop_stops_its_workers_too(tmp_path):
    """Workers that outlive their run would take the machine for hours."""
    words = [sys.executable, "-m", "residua", "catalogue", "--jobs", "2", "--out", str(tmp_path / "c")]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True) as run:
        try:
            deadline = time.monotonic() + 120
            while len(_session(run.pid)) < 4 and run.poll() is None:  # itself, the tracker, two workers
                assert time.monotonic() < deadline, "no worker was started"
                time.sleep(0.2)
            run.terminate()
            assert run.wait(60) == 130
            assert "interrupted" in run.stderr.read()
            while _session(run.pid):
                assert time.monotonic() < deadline, "a worker was left behind"
                time.sleep(0.2)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)


def _session(leader: int) -> list[str]:
    """Processes of this session that are not over, from /proc."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, session, *_ = stat.read_text().rpartition(")")[2].split()
            if int(session) == leader and state != "Z":
                found.append(stat.parent.name)
    return found


def test_a_real_process_gives_the_same_numbers_on_one_thread(folder):
    """One job is waiting, so one of the two processes is started."""
    setting = Setting(f"mnist:{folder}", "class:6", "tiny", folder / "w", (Accuracy(),), "test")
    (there,), (here,) = (list(run_cells(setting, cells_of(0, "Random"), jobs)) for jobs in (2, 1))
    assert there.readings == here.readings
    assert there.software["threads"] == "1"


def _dawdle(place: Path) -> None:
    def write(part: Path) -> None:
        part.write_text("half")
        time.sleep(600)

    write_atomically(place, write)


def test_workers_that_are_stopped_leave_no_half_written_file_and_begin_nothing_else(tmp_path):
    deadline = time.monotonic() + 200

    def interrupted() -> None:
        with processes.side_by_side(2) as pool:
            for number in range(6):
                pool.submit(_dawdle, tmp_path / f"{number}.txt")
            while len(list(tmp_path.iterdir())) < 2:
                assert time.monotonic() < deadline, "no worker was started"
                time.sleep(0.1)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    while active_children():
        assert time.monotonic() < deadline, "a worker was left behind"
        time.sleep(0.1)
    assert list(tmp_path.iterdir()) == []
