"""The cost that a file may have, and how the limits are raised."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from residua.errors import InputError
from residua.limits import FLOOR, LIMITS, Clock, check, check_unpacked, limit


@pytest.mark.parametrize("name", LIMITS)
def test_every_limit_has_a_default_and_a_variable_that_raises_it(name, monkeypatch):
    monkeypatch.delenv(LIMITS[name].variable, raising=False)
    most = limit(name)
    assert most > 0
    check("x", name, most)
    with pytest.raises(InputError) as refusal:
        check("x", name, 10**17)
    sentence = str(refusal.value)
    assert sentence.startswith(f"x has {10**17} {LIMITS[name].unit}, expected at most ")
    # What the sentence advises works.
    variable, value = re.search(r"set (\w+)=(\d+) in the environment", sentence).groups()
    monkeypatch.setenv(variable, value)
    check("x", name, 10**17)


@pytest.mark.parametrize("value", ["", "-1", "1e9", "many", "٣"])
def test_a_limit_that_is_not_a_number_is_refused(value, monkeypatch):
    monkeypatch.setenv("RESIDUA_MAX_PIXELS", value)
    with pytest.raises(InputError, match=r"RESIDUA_MAX_PIXELS is .* expected a whole number of pixels"):
        limit("pixels")


def test_a_small_file_does_not_unpack_into_much(monkeypatch):
    monkeypatch.setenv("RESIDUA_MAX_MEMORY", str(1 << 40))
    check_unpacked("x", FLOOR, on_disk=0)
    check_unpacked("x", 100 * FLOOR, on_disk=FLOOR)
    with pytest.raises(InputError, match=rf"would unpack into {FLOOR + 1} bytes, expected at most {FLOOR}"):
        check_unpacked("x", FLOOR + 1, on_disk=10)
    with pytest.raises(InputError, match="set RESIDUA_MAX_GROWTH=6710887 in the environment"):
        check_unpacked("x", FLOOR + 1, on_disk=10)
    monkeypatch.setenv("RESIDUA_MAX_GROWTH", "6710887")
    check_unpacked("x", FLOOR + 1, on_disk=10)
    monkeypatch.setenv("RESIDUA_MAX_MEMORY", str(FLOOR))
    with pytest.raises(InputError, match=f"set RESIDUA_MAX_MEMORY={FLOOR + 1} in the environment"):
        check_unpacked("x", FLOOR + 1, on_disk=FLOOR)


def test_a_callers_budget_goes_before_the_limits():
    check_unpacked("x", 1 << 60, on_disk=1, budget=1 << 60)
    with pytest.raises(InputError, match="would unpack into 11 bytes, expected at most 10; raise budget="):
        check_unpacked("x", 11, on_disk=11, budget=10)


def test_what_takes_too_long_is_refused(monkeypatch):
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    small, large = Clock("x", 10), Clock("y", 10**9)
    now = 61.0
    with pytest.raises(InputError, match=r"x took more than 60 seconds to read; .* RESIDUA_MAX_SECONDS"):
        small.check()
    large.check()
    now = 10_001.0
    with pytest.raises(InputError, match="y took more than 10000 seconds"):
        large.check()


def test_the_limits_are_documented():
    page = (Path(__file__).parents[1] / "SECURITY.md").read_text("utf-8")
    for one in LIMITS.values():
        assert one.variable in page
