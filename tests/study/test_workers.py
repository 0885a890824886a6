"""Workers: what a killed, hanging or broken process costs, and what is left of it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import torch
from stub_jobs import (
    dawdle,
    diverge,
    double,
    kill_always,
    kill_once,
    no_memory,
    odd,
    path_and_modules,
    seen_gpu,
    sleep,
    threads,
)

from residua.device import child_command
from residua.errors import Diverged, InputError
from residua.study import executors
from residua.study.executors import LOST, Executor, How, InProcess, Job, Outcome, WorkerLost, Workers, executor

PATIENCE = 120  # seconds; a loaded machine needs some for starting a process


def all_of(jobs: Iterable[Job], by: Executor) -> Iterator[Outcome]:
    """The outcomes of independent jobs, in the order in which they are finished."""
    waiting, running = iter(jobs), 0
    while True:
        while by.free and (job := next(waiting, None)) is not None:
            by.give(job)
            running += 1
        if not running:
            return
        for outcome in by.wait():
            running -= 1
            yield outcome


def until(condition, what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def alive(process: int) -> bool:
    """True if it is there and not over."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_this_process_does_jobs_with_one_thread_and_keeps_errors():
    jobs = [Job("a", double, (2,)), Job("b", diverge, ("",)), Job("c", threads, (0,))]
    before = torch.get_num_threads()
    first, second, third = all_of(jobs, InProcess())
    assert first.value == 4
    assert isinstance(second.error, Diverged)
    assert third.value == (os.getpid(), 1)
    assert torch.get_num_threads() == before


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="signals and /proc")
def test_a_killed_worker_costs_one_sentence_and_a_second_time_the_job(tmp_path):
    """Also: errors come back as they were, and a process that lost its memory is not used again."""
    said: list[str] = []
    jobs = [
        Job("once", kill_once, (str(tmp_path / "killed"),)),
        Job("always", kill_always, ("",)),
        Job("memory", no_memory, ("",)),
        Job("diverges", diverge, ("",)),
        Job("odd", odd, ("",)),
        *(Job(f"double {n}", double, (n,)) for n in range(6)),
        Job("threads", threads, (0,)),
    ]
    with Workers(2, tell=said.append) as pool:
        found = {outcome.job.name: outcome for outcome in all_of(jobs, pool)}
        process, count = found["threads"].value
        assert process in pool.processes
        assert count == 1
    assert found.keys() == {job.name for job in jobs}
    assert found["once"].value == "alive"
    assert [found[f"double {n}"].value for n in range(6)] == [2 * n for n in range(6)]
    assert isinstance(found["always"].error, WorkerLost)
    assert "always: its worker process was killed by SIGKILL, as the system does" in str(found["always"].error)
    assert str(found["memory"].error) == f"memory: its worker process ran out of memory, twice; {LOST}"
    assert found["memory"].error.exit_code == 3
    assert str(found["diverges"].error) == "the loss is nan; use a smaller learning rate"
    assert type(found["diverges"].error) is Diverged
    assert "in diverge" in found["diverges"].traceback
    assert str(found["odd"].error) == "OddError: nope"
    assert sorted(line.split(":")[0] for line in said) == ["always", "memory", "once"]
    assert all(line.endswith("; it is tried once more") for line in said)
    assert not any(alive(process) for process in pool.processes)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="signals and /proc")
def test_a_job_over_its_limit_is_ended_tried_again_and_reported():
    """Nothing that this machine is busy with besides is held against the quick one."""
    said: list[str] = []
    with executor(How(limit=1.0, tell=said.append)) as pool:
        found = {o.job.name: o for o in all_of([Job("slow", sleep, (600.0,)), Job("quick", double, (1,))], pool)}
    lost = f"slow: its worker process took longer than 1 s and was ended, twice; {LOST}"
    assert str(found["slow"].error) == lost
    assert said == ["slow: its worker process took longer than 1 s and was ended; it is tried once more"]
    assert found["quick"].value == 2


def test_workers_do_not_look_in_the_working_directory(tmp_path, monkeypatch):
    """A file there that has the name of a module would be run in the user's name."""
    for name in ("multiprocessing", "torch", "numpy", "pickle", "residua"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('run')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    monkeypatch.syspath_prepend(str(tmp_path))
    with Workers(1) as pool:
        (outcome,) = all_of([Job("path", path_and_modules, ("",))], pool)
    places, files = outcome.value
    assert "" not in places
    assert str(tmp_path) not in places
    assert not [file for file in files if file.startswith(str(tmp_path))]
    run = subprocess.run(child_command("import pickle, residua, torch"), capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_workers_that_cannot_start_end_the_run_with_a_sentence(monkeypatch):
    monkeypatch.setattr(executors, "child_command", lambda code: child_command("raise ImportError('no torch')"))
    with Workers(1) as pool, pytest.raises(InputError, match=r"can be started here .*ImportError: no torch.*--jobs 1"):
        list(all_of([Job("a", double, (1,)), Job("b", double, (2,))], pool))


def test_what_only_this_session_defines_is_refused(monkeypatch):
    monkeypatch.setattr(executors, "main_file", lambda: None)
    monkeypatch.setattr(double, "__module__", "__main__")
    monkeypatch.setattr(sys.modules["__main__"], "double", double, raising=False)
    with Workers(1) as pool, pytest.raises(InputError, match="put it into a file"):
        pool.give(Job("mine", double, (1,)))


def test_what_a_script_defines_is_found_by_its_workers(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from residua.study.executors import Job, Workers\n"
        "def square(n): return n * n\n"
        "if __name__ == '__main__':\n"
        "    with Workers(1) as pool:\n"
        "        pool.give(Job('a', square, (7,)))\n"
        "        while not (done := pool.wait()): pass\n"
        "        print([o.value for o in done])\n"
    )
    run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert run.stdout == "[49]\n", run.stderr


def test_workers_that_are_stopped_leave_no_half_written_file(tmp_path):
    def interrupted() -> None:
        with Workers(2) as pool:
            for number in range(2):
                pool.give(Job(str(number), dawdle, (str(tmp_path / f"{number}.txt"),)))
            until(lambda: len(list(tmp_path.iterdir())) == 2, "no worker was started")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")
def test_workers_end_with_a_parent_that_is_killed(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, time\n"
        "from residua.study.executors import Job, Workers\n"
        "if __name__ == '__main__':\n"
        "    with Workers(2) as pool:\n"
        "        for seconds in (600, 601):\n"
        "            pool.give(Job('sleep', time.sleep, (seconds,)))\n"
        "        while not all(worker.ready for worker in pool._workers):\n"
        "            pool.wait(0.1)\n"
        "        print(*pool.processes, flush=True)\n"
        "        time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        children = [int(word) for word in run.stdout.readline().split()]
        assert len(children) == 2
        assert all(alive(child) for child in children)
        run.kill()
    start = time.monotonic()
    until(lambda: not any(alive(child) for child in children), "a worker outlived its parent")
    assert time.monotonic() - start < 10


@pytest.mark.parametrize("visible", ["0,1", "4,5", "GPU-1a,GPU-2b"])
def test_with_several_gpus_each_worker_sees_one_and_its_share_of_the_cores(visible, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    monkeypatch.delenv("RESIDUA_PROCESSES", raising=False)
    monkeypatch.setattr("residua.study.executors.cores", lambda: 9)
    with Workers(2, gpus=2) as two:
        outcomes = list(all_of([Job(f"job {n}", seen_gpu, (n,)) for n in range(2)], two))
    assert sorted(outcome.value for outcome in outcomes) == [(name, "4") for name in visible.split(",")]
