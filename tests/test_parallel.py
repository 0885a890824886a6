from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from threadpoolctl import threadpool_info

from residua import parallel
from residua.parallel import each
from residua.training.loop import seeded


@pytest.fixture
def two(monkeypatch):
    monkeypatch.setenv("RESIDUA_PROCESSES", "2")


def test_results_come_in_order_and_from_other_processes(two):
    def piece() -> int:
        time.sleep(0.3)  # whoever is free takes the next piece: a quick one would leave none for the other
        return os.getpid()

    assert len(set(each([piece] * 4))) == 2
    assert [value() for value in [lambda i=i: i for i in range(5)]] == each([lambda i=i: i for i in range(5)])


def test_whoever_is_free_takes_the_next_piece(two):
    def piece(seconds: float) -> int:
        time.sleep(seconds)
        return os.getpid()

    long, *others = each([lambda s=s: piece(s) for s in (1.5, 0.1, 0.1, 0.1, 0.1)])
    assert long not in others


def test_each_piece_has_one_thread_wherever_it_runs(two, monkeypatch):
    before = torch.get_num_threads()
    assert each([torch.get_num_threads] * 4) == [1] * 4
    pools = [pool for pools in each([threadpool_info] * 2) for pool in pools]
    assert {pool["num_threads"] for pool in pools if pool["user_api"] == "blas"} == {1}
    monkeypatch.setenv("RESIDUA_PROCESSES", "1")
    assert each([torch.get_num_threads] * 2) == [1] * 2
    assert torch.get_num_threads() == before


def test_large_results_do_not_fill_a_pipe(two):
    results = each([lambda: torch.ones(500_000)] * 6)
    assert [float(result.sum()) for result in results] == [500_000] * 6


def test_a_process_that_is_killed_is_reported_and_costs_nothing_but_time(two):
    parent = os.getpid()

    def piece() -> int:
        if os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return 7

    with pytest.warns(RuntimeWarning, match="a process was killed .* 4 of 4 tasks"):
        assert each([piece] * 4) == [7] * 4


ENDLESS = """
import os, time
from residua.parallel import each
def piece():
    os.write(1, b"%d\\n" % os.getpid())  # in one piece, whoever else writes
    time.sleep(600)
each([piece] * 2)
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")
def test_processes_end_with_a_parent_that_is_killed(two):
    with subprocess.Popen([sys.executable, "-c", ENDLESS], stdout=subprocess.PIPE, text=True) as run:
        try:
            both = {int(run.stdout.readline()) for _ in range(2)}
        finally:
            run.kill()
    deadline = time.monotonic() + 10
    assert len(both) == 2
    while any(map(alive, both)):
        assert time.monotonic() < deadline, "a process outlived its parent"
        time.sleep(0.05)


def alive(process: int) -> bool:
    """True if it is there and not over."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_an_error_in_a_task_is_raised_here(two):
    def piece() -> int:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        each([lambda: 1, piece])


def test_the_rest_ends_at_the_first_error(two):
    def piece(seconds: float) -> int:
        time.sleep(seconds)
        raise ValueError("no")

    start = time.monotonic()
    with pytest.raises(ValueError, match="no"):
        each([lambda s=s: piece(s) for s in (0, 600)])
    assert time.monotonic() - start < 60


def test_an_error_that_cannot_be_pickled_is_raised_here_too(two):
    class Odd(Exception):
        pass

    def piece() -> int:
        raise Odd("odd")

    with pytest.raises(Exception, match=r"odd|pickle"):
        each([piece, piece])


def test_seeding_leaves_a_driver_that_nobody_uses_alone(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_rng_state_all", lambda: pytest.fail("the driver was initialised"))
    with seeded(3):
        torch.rand(1)


def test_gradients_can_be_computed_in_other_processes(two):
    def piece() -> float:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            layer = torch.nn.Linear(4, 1)
            layer(torch.ones(3, 4)).sum().backward()
            return float(layer.weight.grad.sum())

    piece()
    assert each([piece] * 4) == [piece()] * 4


@pytest.mark.parametrize(("given", "count"), [("3", 3), ("0", 1)])
def test_the_environment_says_how_many(monkeypatch, given, count):
    monkeypatch.setenv("RESIDUA_PROCESSES", given)
    assert parallel.processes() == count


def test_threads_that_the_user_allows_are_the_processes(monkeypatch):
    monkeypatch.delenv("RESIDUA_PROCESSES", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert parallel.processes() == 1
