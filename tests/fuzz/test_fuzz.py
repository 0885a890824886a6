"""Mutated inputs to every reader: read, or refused in a sentence, in seconds and below a gigabyte.

Which inputs are tried is fixed (`derandomize`): a failure names the target and the number of the input, and
`python tests/fuzz/run.py --target TARGET --number N` repeats it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzzing import try_input
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sandbox import Sandbox
from targets import TARGETS

SUPPRESSED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.differing_executors]


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox() as one:
        yield one


def try_some(sandbox: Sandbox, name: str, folder: Path, count: int) -> None:
    @settings(max_examples=count, derandomize=True, database=None, deadline=None, suppress_health_check=SUPPRESSED)
    @given(st.integers(1, 2**32))
    def is_read_or_refused(number: int) -> None:
        result = try_input(sandbox, name, number, folder)
        assert result.good, f"{name} {number}: {result.outcome}"

    is_read_or_refused()


@pytest.mark.parametrize("name", TARGETS)
def test_a_sound_input_is_read(sandbox, name, tmp_path):
    assert try_input(sandbox, name, 0, tmp_path / "files").outcome == "read"


@pytest.mark.parametrize("name", TARGETS)
def test_mutated_inputs_are_read_or_refused(sandbox, name, tmp_path):
    # A study's folder takes seconds to look through, where the others take hundredths.
    try_some(sandbox, name, tmp_path / "files", 3 if name == "study" else 6)


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_many_mutated_inputs_are_read_or_refused(sandbox, name, tmp_path):
    try_some(sandbox, name, tmp_path / "files", 500)
