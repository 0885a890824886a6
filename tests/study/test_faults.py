"""Faults that a study survives: killed runs and workers, full and read-only disks, and company on the same store."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import json
import os
import random
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import residua as rs
from residua.errors import InputError
from residua.measure import Accuracy
from residua.study import Study
from residua.study.store import Claims
from residua.unlearn import Original

SCRIPT = """
import dataclasses, json, sys
sys.path.insert(0, "tests")
import torch
torch.set_num_threads(1)
import residua as rs
from conftest import make_stripes
from residua.measure import Accuracy, InformationCurve
from residua.study import Row, Study
from residua.unlearn import FineTune, HeadDistillation, Original, Random, Retrain

data = rs.data.arrays(*make_stripes(160, seed=0), *make_stripes(40, seed=1), name="stripes")
quick = rs.Pretraining(epochs=1, batch=32, lr=0.05, crop=0, flip=False, precision="float32")
study = Study(
    tasks={"stripes": rs.forget_classes(data, 2)},
    networks={"r": {"network": "resnet18", "classes": 4, "channels": 1, "width": 1, "stem": "cifar"}},
    pretraining=quick,
    methods=[Original(), Retrain(quick), Row("Again", Retrain(quick), draw=1), Random(),
             HeadDistillation(epochs=1, crop=0, flip=False, batch=32), FineTune(epochs=1, crop=0, batch=32)],
    measures=[Accuracy(), InformationCurve(last=1)],
)

if __name__ == "__main__":
    finished = study.run(sys.argv[1], jobs=int(sys.argv[2]), tell=lambda s: print(s, file=sys.stderr))
    rows = {r.name: [r.readings, r.method.weights] for r in finished.records}
    print(json.dumps({"rows": rows, "computed": finished.computed, "failures": finished.failures}))
"""
ROOT = Path(__file__).parents[2]
CELLS = 1 + 6 + 6 + 5  # HD has Original's curve


@pytest.fixture(scope="module")
def script(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("script") / "stripes_study.py"
    path.write_text(SCRIPT)
    return path


def start(script: Path, out: Path, jobs: int = 2, **more) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, str(script), str(out), str(jobs)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"}, **more,
    )  # fmt: skip


def finish(run: subprocess.Popen, seconds: float = 300) -> dict:
    out, err = run.communicate(timeout=seconds)
    assert run.returncode == 0, err
    return json.loads(out.splitlines()[-1]) | {"err": err}


@pytest.fixture(scope="module")
def undisturbed(script, tmp_path_factory) -> dict:
    return finish(start(script, tmp_path_factory.mktemp("undisturbed"), jobs=1))


def workers_of(run: subprocess.Popen) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent, *_ = stat.read_text().rpartition(")")[2].split()
            if int(parent) == run.pid and state != "Z":
                found.append(int(stat.parent.name))
    return found


def wait_for(condition, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def cells(out: Path) -> int:
    return len(list((out / "cells").glob("[!.]*.json")))


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")


@pytest.mark.slow
@needs_proc
def test_a_killed_run_goes_on_and_ends_with_the_numbers_of_an_undisturbed_one(script, undisturbed, tmp_path):
    out = tmp_path / "out"
    run = start(script, out)
    wait_for(lambda: cells(out) >= 3 or run.poll() is not None)
    os.killpg(run.pid, signal.SIGKILL)
    run.communicate()
    before = cells(out)
    last = finish(start(script, out))
    assert last["rows"] == undisturbed["rows"]
    assert last["failures"] == {}
    assert last["computed"] == CELLS - before


@pytest.mark.slow
@needs_proc
def test_a_killed_worker_costs_its_cell_and_not_the_run(script, undisturbed, tmp_path):
    run = start(script, tmp_path)
    wait_for(lambda: cells(tmp_path) >= 1 or run.poll() is not None)
    for worker in workers_of(run)[:1]:
        os.kill(worker, signal.SIGKILL)
    last = finish(run)
    assert last["rows"] == undisturbed["rows"]
    assert "SIGKILL" in last["err"]


@pytest.mark.slow
@needs_proc
def test_a_run_that_is_interrupted_stops_its_workers_within_seconds(script, tmp_path):
    run = start(script, tmp_path)
    wait_for(lambda: cells(tmp_path) >= 1 or run.poll() is not None)
    workers = workers_of(run)
    start_of_end = time.monotonic()
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=60)
    assert time.monotonic() - start_of_end < 20
    wait_for(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers), 10)
    assert not list((tmp_path / "claims").iterdir())


@pytest.mark.slow
@needs_proc
def test_a_request_to_stop_is_followed_within_seconds_and_the_command_says_how_to_resume(script, tmp_path):
    """SIGTERM, as a scheduler sends it, to the command as it is installed."""
    command = Path(sys.executable).with_name("residua")
    if not command.exists():
        pytest.skip("the command is not installed beside this Python")
    run = subprocess.Popen(
        [command, "study", "run", script, "--out", tmp_path / "out", "--jobs", "2"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    wait_for(lambda: cells(tmp_path / "out") >= 1 or run.poll() is not None)
    workers = workers_of(run)
    asked = time.monotonic()
    run.terminate()
    _, err = run.communicate(timeout=60)
    assert time.monotonic() - asked < 20
    assert run.returncode == 130, err
    assert "the same command resumes" in err
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)
    assert not list((tmp_path / "out/claims").iterdir())
    assert not [path for path in (tmp_path / "out").rglob(".*") if path.exists()]


@pytest.mark.slow
def test_a_second_run_of_a_finished_study_takes_less_than_ten_seconds(script, tmp_path):
    """Of processor time, the import of PyTorch included: the clock's depend on what else the machine does."""
    finish(start(script, tmp_path, jobs=1))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert finish(start(script, tmp_path, jobs=1))["computed"] == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 10


@pytest.mark.slow
def test_two_studies_on_one_store_share_the_work(script, undisturbed, tmp_path):
    both = [start(script, tmp_path, jobs=2) for _ in range(2)]
    ends = [finish(run) for run in both]
    assert all(end["rows"] == undisturbed["rows"] for end in ends)
    # A cell that both began in the same moment may be computed twice; most are not.
    assert CELLS <= sum(end["computed"] for end in ends) <= CELLS + 6


@pytest.mark.slow
def test_a_full_disk_ends_the_run_with_one_sentence_and_it_goes_on_later(script, undisturbed, tmp_path):
    """Files may have 4 KiB: cells fit, models do not."""

    def small_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    run = start(script, tmp_path, jobs=1, preexec_fn=small_files)
    _, err = run.communicate(timeout=300)
    assert run.returncode != 0
    assert "cannot be written" in err.splitlines()[-1]
    assert not [path for path in tmp_path.rglob(".*") if path.is_file()]
    assert finish(start(script, tmp_path, jobs=1))["rows"] == undisturbed["rows"]


def without_the_rights_of_root() -> None:
    """So that modes of files hold for root too: CAP_DAC_OVERRIDE is dropped for what is started."""
    drop_from_bounding_set, dac_override = 24, 1
    ctypes.CDLL(None).prctl(drop_from_bounding_set, dac_override, 0, 0, 0)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="capabilities")
def test_a_read_only_folder_ends_the_run_with_one_sentence_and_it_goes_on_later(script, undisturbed, tmp_path):
    out = tmp_path / "out"
    out.mkdir(mode=0o555)
    run = start(script, out, jobs=1, preexec_fn=without_the_rights_of_root)
    _, err = run.communicate(timeout=300)
    assert run.returncode != 0
    assert re.search(r"InputError: .*/out.* cannot be written", err.splitlines()[-1]), err
    assert not list(out.iterdir())
    out.chmod(0o755)
    assert finish(start(script, out, jobs=1))["rows"] == undisturbed["rows"]


@pytest.mark.slow
@needs_proc
def test_twenty_kills_of_the_group_and_twenty_of_workers_change_no_number(script, undisturbed, tmp_path):
    chance = random.Random(0)
    for number in range(20):
        run = start(script, tmp_path / "group")
        time.sleep(chance.uniform(1, 12))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.communicate()
        if number % 5 == 4:
            assert finish(start(script, tmp_path / "group"))["rows"] == undisturbed["rows"]
            for path in list((tmp_path / "group/cells").iterdir())[::2]:
                path.unlink()
    kills = 0
    while kills < 20:
        run = start(script, tmp_path / f"workers{kills}")
        while run.poll() is None:
            time.sleep(chance.uniform(1, 4))
            for worker in workers_of(run)[:1]:
                os.kill(worker, signal.SIGKILL)
                kills += 1
                break
            break
        assert finish(run)["rows"] == undisturbed["rows"]


@dataclasses.dataclass(frozen=True)
class Hanging:
    label = "Hanging"

    def __call__(self, original, task):
        time.sleep(600)


@pytest.fixture
def small(stripes, stripes_training) -> Study:
    quick = dataclasses.replace(stripes_training, epochs=0)
    return Study(
        tasks={"stripes": rs.forget_classes(stripes, 2)},
        networks={"r": {"network": "resnet18", "classes": 4, "channels": 1, "width": 1, "stem": "cifar"}},
        pretraining=quick,
        methods=[Original()],
        measures=[Accuracy()],
    )


@pytest.mark.slow
def test_a_hanging_worker_is_ended_and_reported_and_the_others_go_on(small, tmp_path):
    finished = dataclasses.replace(small, methods=[Hanging(), Original()]).run(tmp_path, jobs=2, limit=20)
    assert "took longer than 20 s and was ended, twice" in finished.failures["seed0-hanging"]
    assert [record.name for record in finished.records] == ["seed0-original"]


def test_a_store_that_cannot_be_written_is_one_sentence(small, tmp_path):
    (tmp_path / "cells").write_text("in the way")
    with pytest.raises(InputError, match=r"cells/.* cannot be (read|written)"):
        small.run(tmp_path)


def test_a_claim_of_a_dead_process_is_taken_and_one_of_a_living_is_not(tmp_path):
    with Claims(tmp_path) as ours, Claims(tmp_path) as others:
        assert ours.take("a" * 32)
        assert not others.take("a" * 32), "we are alive"
        ours.release("a" * 32)
        assert others.take("a" * 32)
        gone = tmp_path / "claims" / ("b" * 32)
        gone.write_text(f"{socket.gethostname()} 999999999")
        assert ours.take("b" * 32)
        far = tmp_path / "claims" / ("c" * 32)
        far.write_text("another-machine 1")
        assert not ours.take("c" * 32)
        os.utime(far, (0, 0))
        assert ours.take("c" * 32), "nobody has touched it for long"
    assert not list((tmp_path / "claims").iterdir())


def test_a_claim_is_kept_alive_while_it_is_held(tmp_path):
    with Claims(tmp_path, beat=0.05, expired=0.5) as ours, Claims(tmp_path, expired=0.5) as others:
        ours.take("a" * 32)
        (tmp_path / "claims" / ("a" * 32)).write_text("another-machine 1")
        time.sleep(1.0)
        assert not others.take("a" * 32)
