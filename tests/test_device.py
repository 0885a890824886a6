from __future__ import annotations

import ctypes
import os
import pickle
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

import residua as rs
from residua import device
from residua.cli.console import work
from residua.cli.inputs import choose_device
from residua.data.split import MemoryImages
from residua.device import autocast, clock, exact_float32, keep_memory, memory_budget, resolve_precision, visible_gpus
from residua.record import software
from residua.study.cells import kind_of
from residua.training import loop

CPU, GPU = torch.device("cpu"), torch.device("cuda")


def pretend(monkeypatch, *, amx: bool, runs: bool) -> None:
    monkeypatch.setattr(device, "_has_amx", lambda: amx)
    monkeypatch.setattr(device, "_bfloat16_runs", lambda: runs)


@pytest.mark.parametrize(
    ("word", "amx", "runs", "expected"),
    [
        ("auto", True, True, torch.bfloat16),
        ("auto", True, False, torch.float32),
        ("auto", False, True, torch.float32),
        ("float32", True, True, torch.float32),
        ("float32", True, False, torch.float32),
        ("float32", False, True, torch.float32),
        ("bfloat16", True, True, torch.bfloat16),
        ("bfloat16", False, True, torch.bfloat16),
    ],
)
def test_each_processor_gets_the_precision_that_pays(monkeypatch, word, amx, runs, expected):
    pretend(monkeypatch, amx=amx, runs=runs)
    assert resolve_precision(word, CPU) is expected


def test_the_environment_may_say_what_auto_is(monkeypatch):
    pretend(monkeypatch, amx=False, runs=True)
    monkeypatch.setenv("RESIDUA_PRECISION", "bfloat16")
    assert resolve_precision("auto", CPU) is torch.bfloat16
    assert resolve_precision("float32", CPU) is torch.float32
    assert software()["precision"] == "bfloat16"
    assert kind_of("cpu") != "cpu"  # cells of studies are other ones
    monkeypatch.setenv("RESIDUA_PRECISION", "half")
    with pytest.raises(rs.InputError, match="RESIDUA_PRECISION is 'half', expected auto, float32, bfloat16 or float16"):
        resolve_precision("auto", CPU)
    monkeypatch.delenv("RESIDUA_PRECISION")
    assert "precision" not in software()
    assert kind_of("cpu:0") == "cpu"


def test_a_processor_that_refuses_what_it_announces_is_not_asked_twice(monkeypatch):
    pretend(monkeypatch, amx=True, runs=False)
    with pytest.raises(rs.InputError, match="announces AMX and then refuses it; use float32") as refusal:
        resolve_precision("bfloat16", CPU)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("word", "has_it", "expected"),
    [
        ("auto", True, torch.bfloat16),
        ("auto", False, torch.float16),
        ("bfloat16", True, torch.bfloat16),
        ("float16", True, torch.float16),
        ("float32", True, torch.float32),
    ],
)
def test_each_gpu_gets_the_precision_that_pays(monkeypatch, word, has_it, expected):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: has_it or including_emulation)
    assert resolve_precision(word, GPU) is expected


def test_a_gpu_without_bfloat16_says_so(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: including_emulation)
    with pytest.raises(rs.InputError, match="this GPU lacks it; use float16 or float32"):
        resolve_precision("bfloat16", GPU)


@pytest.mark.parametrize("word", ["float64", "", "Auto", "bf16", None])
@pytest.mark.parametrize("where", [CPU, GPU])
def test_unknown_words_are_refused(word, where):
    with pytest.raises(rs.InputError, match="is unknown; choose auto, float32, bfloat16 or float16"):
        resolve_precision(word, where)


def test_float16_is_for_gpus():
    with pytest.raises(rs.InputError, match="cpu is no CUDA GPU; use float32"):
        resolve_precision("float16", CPU)


def test_a_gpus_budget_is_half_of_what_is_free_there(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda where: (1000, 9000))
    assert memory_budget(torch.device("cuda:1")) == 500
    assert memory_budget(CPU) == memory_budget()


def test_the_answer_of_this_machine_does_not_change():
    assert resolve_precision("auto", CPU) is resolve_precision("auto", CPU)


@pytest.mark.parametrize(
    ("amx", "code", "runs"), [(True, 0, True), (True, -4, False), (True, 1, False), (False, -4, True)]
)
def test_a_child_finds_out_whether_bfloat16_runs(monkeypatch, amx, code, runs):
    started = []

    def child(command, **_):
        started.append(command)
        return SimpleNamespace(returncode=code)

    monkeypatch.setattr(device, "_has_amx", lambda: amx)
    monkeypatch.setattr(subprocess, "run", child)
    assert device._bfloat16_runs.__wrapped__() is runs
    assert [command[0] for command in started] == ([sys.executable] if amx else [])


@pytest.mark.parametrize(
    ("limit", "announced", "expected"),
    [
        (None, "flags: avx2 amx_bf16 amx_tile", True),
        (None, "flags: avx2 avx512f", False),
        ("AVX512_CORE_BF16", "flags: avx2 amx_bf16", False),
        ("AVX512_CORE_AMX", "flags: avx2 amx_bf16", True),
    ],
)
def test_amx_is_there_if_announced_and_not_forbidden(monkeypatch, limit, announced, expected):
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    if limit:
        monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", limit)
    file = SimpleNamespace(exists=lambda: True, read_text=lambda: announced)
    monkeypatch.setattr(device, "Path", lambda _: file)
    device._announces_amx.cache_clear()
    try:
        assert device._has_amx() is expected
    finally:
        device._announces_amx.cache_clear()


def test_float32_products_are_float32_even_inside_somebody_elses_autocast():
    a = torch.ones(4, 4)
    with autocast("float32", CPU):
        assert (a @ a).dtype is torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.is_autocast_enabled("cpu")
        with autocast("float32", CPU):
            assert not torch.is_autocast_enabled("cpu")
            assert (a @ a).dtype is torch.float32


def test_bfloat16_is_switched_on_for_the_body_only(monkeypatch):
    pretend(monkeypatch, amx=True, runs=True)
    with autocast("auto", CPU):
        assert torch.is_autocast_enabled("cpu")
        assert torch.get_autocast_dtype("cpu") is torch.bfloat16
    assert not torch.is_autocast_enabled("cpu")


def test_bfloat16_products_are_bfloat16_where_they_run():
    if not device._bfloat16_runs():
        pytest.skip("this machine announces AMX and refuses it")
    a = torch.ones(4, 4)
    with autocast("bfloat16", CPU):
        assert (a @ a).dtype is torch.bfloat16


def test_memory_is_kept_by_settings_that_the_c_library_accepts(monkeypatch):
    """M_MMAP_THRESHOLD is -3 and at most 32 MiB in older versions, M_TRIM_THRESHOLD is -1."""
    asked = {}
    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace(mallopt=asked.__setitem__))
    keep_memory.__wrapped__()
    assert asked.keys() == {-3, -1}
    assert 1 << 22 < asked[-3] <= 1 << 25
    assert 1 << 30 < asked[-1] < 1 << 31


def test_keeping_memory_does_no_harm_without_that_library(monkeypatch):
    def missing(_):
        raise OSError("no libc.so.6")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert keep_memory.__wrapped__() is None  # it did not raise


def test_the_memory_budget_is_a_part_of_what_there_is():
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < memory_budget() <= physical // 4


@pytest.mark.parametrize(("limit", "expected"), [("4000000\n", 1_000_000), ("max\n", None), (None, None)])
def test_the_memory_budget_follows_the_container(monkeypatch, limit, expected):
    def read_text():
        if limit is None:
            raise FileNotFoundError
        return limit

    monkeypatch.setattr(device, "Path", lambda _: SimpleNamespace(read_text=read_text))
    quarter = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4
    assert memory_budget() == (quarter if expected is None else expected)


def test_threads_that_wait_go_to_sleep_unless_the_user_says_otherwise(monkeypatch):
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.delenv(name, raising=False)
    device.share_cores()
    assert os.environ["GOMP_SPINCOUNT"] == "2000"
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    device.share_cores()
    assert os.environ["GOMP_SPINCOUNT"] == "7"
    monkeypatch.delenv("GOMP_SPINCOUNT")
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    device.share_cores()
    assert "GOMP_SPINCOUNT" not in os.environ


def float32_kinds() -> list[str]:
    kinds = (torch.backends.cuda.matmul, torch.backends.cudnn.conv, torch.backends.cudnn.rnn)
    return [kind.fp32_precision for kind in kinds]


def test_float32_on_cuda_is_never_tf32_and_the_callers_choice_comes_back():
    before = float32_kinds()
    with exact_float32(torch.float32, GPU):
        assert set(float32_kinds()) == {"ieee"}
    assert float32_kinds() == before
    for dtype, where in ((torch.bfloat16, GPU), (torch.float32, CPU)):
        with exact_float32(dtype, where):
            assert float32_kinds() == before
    assert isinstance(torch.backends.cudnn.allow_tf32, bool)  # PyTorch refuses a mixture of its two interfaces


def test_a_record_of_a_gpu_names_it_and_its_float32(monkeypatch):
    assert "gpu" not in software()
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Some GPU")
    assert software()["gpu"] == "Some GPU"
    assert software()["float32"] == "without TF32"


def test_times_are_read_once_the_device_is_done(monkeypatch):
    waited = []
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    assert clock("cpu") <= clock(CPU)
    assert not waited
    clock("cuda:1")
    assert waited == [torch.device("cuda:1")]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, ["0", "1"]),
        ("", ["0", "1"]),
        ("4,5", ["4", "5"]),
        ("6, 4,5", ["6", "4"]),
        ("GPU-1a2b,MIG-3c", ["GPU-1a2b", "MIG-3c"]),
    ],
)
def test_gpus_are_named_as_the_caller_named_them(monkeypatch, given, expected):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if given is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", given)
    assert visible_gpus(2) == expected


def test_the_device_taken_is_said_once_as_training_begins(capsys):
    with work("FT", choose_device("cpu")):
        assert capsys.readouterr().err == ""
        for _ in range(2):
            loop._tell(loop.Tick(torch.nn.Linear(1, 1), 1, 1, 1, 2, 0.0, 0.1))
    assert capsys.readouterr().err.count("device cpu; ") == 1


def test_a_task_is_pickled_without_its_copies_on_devices():
    images = MemoryImages(torch.zeros(2, 4, 4, 1, dtype=torch.uint8))
    bare = pickle.dumps(images)
    images._copies[GPU] = torch.zeros(10_000)
    assert pickle.dumps(images) == bare
    assert images._copies.keys() == {GPU}
