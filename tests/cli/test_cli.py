"""The command line as people use it: what it does, and what it says to input that it cannot use."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import sysconfig
import tarfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

import residua as rs
from residua.cli import main
from residua.cli.options import command_line
from residua.data.fetching import SOURCES, Source


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """Networks this small gain nothing from more, and lose much on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


# --- small data and checkpoints -------------------------------------------------------------------


def idx(array: np.ndarray) -> bytes:
    return bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.fixture(scope="module")
def idx_folder(tmp_path_factory) -> Path:
    """MNIST's four files with 200 and 50 images of 28 x 28 pixels, brighter from class to class."""
    folder = tmp_path_factory.mktemp("idx")
    rng = np.random.default_rng(0)
    for stem, n in (("train", 200), ("t10k", 50)):
        labels = (np.arange(n) % 10).astype(np.uint8)
        images = (labels[:, None, None] * 22 + rng.integers(0, 40, (n, 28, 28))).astype(np.uint8)
        (folder / f"{stem}-images-idx3-ubyte").write_bytes(idx(images))
        (folder / f"{stem}-labels-idx1-ubyte").write_bytes(idx(labels))
    return folder


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> Path:
    """A network that was never trained; enough to be measured."""
    path = tmp_path_factory.mktemp("models") / "model.safetensors"
    with rs.seeded(0):
        rs.save(rs.models.resnet18(classes=10, channels=1, width=1), path)
    return path


@pytest.fixture
def run(capsys) -> Callable[..., tuple[int, str, str]]:
    def call(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([str(word) for word in arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return call


def contents(folder: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def check_refusal(code: int, out: str, err: str, notes: int = 0) -> str:
    """Exit code 3, one sentence on standard error after so many notes, nothing on standard output."""
    assert code == 3
    assert out == ""
    assert "Traceback" not in err
    assert err.endswith("\n")
    assert len(err.splitlines()) == notes + 1
    last = err.splitlines()[-1]
    assert last.startswith("residua: ")
    return last


# --- the command itself ---------------------------------------------------------------------------


def test_the_version_is_the_installed_one(run):
    assert run("--version") == (0, f"{version('residua')}\n", "")


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ([], ["demo", "train", "measure", "data"]),
        (["--help"], ["demo", "train", "measure", "data"]),
        (["-h"], ["demo", "train", "measure", "data"]),
        (["data", "-h"], ["show", "manifest", "fetch"]),
        (["demo", "--help"], ["--out", "--seed"]),
        (["measure", "--help"], ["--data", "--forget", "--device", "--json"]),
        (["train", "--help"], ["--data", "--forget", "--out", "--retrain", "--epochs", "--lr", "--record"]),
    ],
)
def test_help_names_what_there_is(run, words, names):
    code, out, err = run(*words)
    assert (code, err) == (0, "")
    assert [name for name in names if name not in out] == []


def test_every_field_of_the_pretraining_is_an_option(run):
    _, out, _ = run("train", "--help")
    for name in rs.Pretraining.__dataclass_fields__:
        assert f"--{name.replace('_', '-')}" in out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["forget"], "No such command 'forget'"),
        (["--nonsense"], "No such option"),
        (["data"], "Missing command"),
        (["data", "shw"], "No such command 'shw'"),
        (["train"], "Missing option"),
        (["train", "--data", "fashion-sample", "--out", "x.safetensors"], "Missing option '--forget'"),
        (
            ["measure", "--data", "fashion-sample", "--forget", "class:1"],
            "no model was given; name one or several checkpoints",
        ),
        (["data", "show", "--data", "fashion-sample", "more"], "unexpected extra argument"),
        (["data", "fetch", "mnist"], "Missing option '--to'"),
        (["demo", "--seed", "many"], "--seed"),
        (["train", "--epochs", "1.5"], "--epochs"),
    ],
)
def test_mistyped_commands_are_refused(run, words, sentence):
    assert sentence in check_refusal(*run(*words))


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, pytest.param(EOFError, id="closed input")])
def test_an_interruption_ends_with_130(run, monkeypatch, idx_folder, interruption):
    def interrupt(*_):
        raise interruption

    monkeypatch.setattr("residua.cli.data.open_dataset", interrupt)
    code, out, err = run("data", "show", "--data", f"mnist:{idx_folder}")
    assert (code, out) == (130, "")
    assert err.splitlines()[-1].startswith("residua: interrupted")


@pytest.mark.parametrize(
    "crash", [MemoryError(), RuntimeError("CUDA out of memory"), BrokenProcessPool("a worker died")], ids=repr
)
def test_a_crash_has_a_code_that_no_verdict_has(run, monkeypatch, idx_folder, crash):
    """Whoever asks only for the code must not take a full memory for a model that remembers."""

    def fail(*_):
        raise crash

    monkeypatch.setattr("residua.cli.data.open_dataset", fail)
    code, out, err = run("data", "show", "--data", f"mnist:{idx_folder}")
    assert (code, out) == (70, "")
    assert err.startswith("Traceback")
    assert err.splitlines()[-1].startswith(f"residua: internal error ({type(crash).__name__})")


# --- bad input ------------------------------------------------------------------------------------


def spoilt_idx(folder: Path, work: Path, change: Callable[[Path], object]) -> str:
    shutil.copytree(folder, work / "spoilt")
    change(work / "spoilt")
    return f"mnist:{work / 'spoilt'}"


def truncated_cifar(work: Path) -> str:
    packed = io.BytesIO()
    rows = np.random.default_rng(0).integers(0, 10, (20, 3073), dtype=np.uint8).tobytes()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(rows)
            tar.addfile(member, io.BytesIO(rows))
    whole = packed.getvalue()
    (work / "cifar-10-binary.tar.gz").write_bytes(whole[: len(whole) // 2])
    return f"cifar10:{work}"


BAD_DATA: dict[str, tuple[Callable[[Path, Path], str], str]] = {
    "no folder": (lambda idx, work: f"mnist:{work / 'nowhere'}", "nowhere is not there"),
    "a file": (lambda idx, work: f"mnist:{idx / 'train-images-idx3-ubyte'}", "is a file, expected a folder"),
    "empty folder": (lambda idx, work: f"mnist:{work}", "has no train-images"),
    "no name": (lambda idx, work: "nonsense", "no data set 'nonsense'"),
    "nothing": (lambda idx, work: "", "no data set ''"),
    "a line break": (lambda idx, work: "mnist:two\nlines", "two lines is not there"),
    "no home": (lambda idx, work: "mnist:~nobody-of-this-name", "nobody-of-this-name"),
    "cifar cut short": (lambda idx, work: truncated_cifar(work), "damaged or cut short"),
    "label of 10": (
        lambda idx, work: spoilt_idx(
            idx, work, lambda d: (d / "t10k-labels-idx1-ubyte").write_bytes(idx_of(np.arange(50) % 11))
        ),
        "holds the label 10, expected 0 to 9",
    ),
    "images cut short": (
        lambda idx, work: spoilt_idx(
            idx, work, lambda d: os.truncate(d / "train-images-idx3-ubyte", 9999)
        ),
        "train-images-idx3-ubyte holds 9983 values",
    ),
}  # fmt: skip


def idx_of(labels: np.ndarray) -> bytes:
    return idx(labels.astype(np.uint8))


@pytest.mark.parametrize("case", BAD_DATA)
@pytest.mark.parametrize("command", ["train", "measure", "show"])
def test_bad_data_are_refused(run, idx_folder, checkpoint, tmp_path, case, command):
    make, sentence = BAD_DATA[case]
    (tmp_path / "work").mkdir()
    (tmp_path / "out").mkdir()
    data = make(idx_folder, tmp_path / "work")
    words = {
        "train": ["train", "--data", data, "--forget", "class:1", "--out", tmp_path / "out/m.safetensors"],
        "measure": ["measure", checkpoint, "--data", data, "--forget", "class:1"],
        "show": ["data", "show", "--data", data],
    }[command]
    assert sentence in check_refusal(*run(*words))
    assert contents(tmp_path / "out") == {}


class Bomb:
    def __reduce__(self):
        return exec, ("raise SystemExit('executed')",)


def write(name: str, content: str | bytes) -> Callable[[Path], str]:
    def make(work: Path) -> str:
        (work / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return f"indices:{work / name}"

    return make


def npy(array: np.ndarray) -> Callable[[Path], str]:
    def make(work: Path) -> str:
        np.save(work / "ids.npy", array, allow_pickle=True)
        return f"indices:{work / 'ids.npy'}"

    return make


def huge_header() -> bytes:
    header = b"{'descr': '<i8', 'fortran_order': False, 'shape': (9000000000000000,), }".ljust(117) + b"\n"
    return np.lib.format.magic(1, 0) + struct.pack("<H", len(header)) + header


BAD_FORGET: dict[str, tuple[str | Callable[[Path], str], str]] = {
    "class that is not there": ("class:10", "class 10 is not in mnist"),
    "negative class": ("class:-1", "class -1 is not in mnist"),
    "enormous class": ("class:" + "9" * 30, "is not in mnist"),
    "class by another name": ("class:shirt", "mnist has no class 'shirt'; give a number or one of 0, 1"),
    "no class": ("class:", "no class to forget"),
    "everything": ("classes:0,1,2,3,4,5,6,7,8,9", "is all of mnist"),
    "too many samples": ("samples:20", "expected 1 to 19"),
    "no samples": ("samples:0", "per_class is 0"),
    "half a sample": ("samples:0.5", "not understood"),
    "enormous seed": ("samples:2:" + "9" * 30, "not understood"),
    "nothing": ("", "not understood"),
    "no colon": ("6", "not understood"),
    "another kind": ("klass:6", "write class:6, classes:1,2, samples:50 or indices:FILE"),
    "no file": ("indices:nowhere.txt", "nowhere.txt does not exist"),
    "no file name": ("indices:", "is a folder; give the path of a file of training indices"),
    "a folder": (lambda work: f"indices:{work}", "is a folder; give the path of a file of training indices"),
    "file name too long": ("indices:" + "a" * 300, "aaa"),
    "empty file": (write("ids.txt", ""), "is empty"),
    "empty list": (write("ids.json", "[]"), "is empty"),
    "all indices": (write("ids.txt", "\n".join(map(str, range(200)))), "is all of mnist"),
    "junk": (write("ids.txt", "1 2 three"), "ids.txt does not hold training indices"),
    "bytes": (write("ids.txt", bytes(range(256))), "ids.txt is not text in UTF-8"),
    "fractions": (write("ids.json", "[1.5, 2.5]"), "whole numbers"),
    "truths": (write("ids.json", "[true, false]"), "whole numbers"),
    "an object": (write("ids.json", '{"a": 1}'), "ids.json does not hold training indices"),
    "lists in lists": (write("ids.json", "[[1, 2], [3]]"), "ids.json does not hold training indices"),
    "not closed": (write("ids.json", "[1, 2"), "ids.json does not hold training indices"),
    "too deep": (write("ids.json", "[" * 100_000), "ids.json does not hold training indices"),
    "out of range": (write("ids.txt", "0 200"), "expected 0 to 199"),
    "below zero": (write("ids.txt", "-1"), "from -1"),
    "beyond 64 bits": (write("ids.txt", "9" * 30), "ids.txt"),
    "beyond 64 bits in JSON": (write("ids.json", f"[{'9' * 30}]"), "ids.json does not hold training indices"),
    "2^63 in JSON": (write("ids.json", f"[{2**63}]"), "ids.json does not hold training indices (9223372036854775808 is too large)"),
    "2^63": (npy(np.array([2**63], dtype=np.uint64)), "ids.npy does not hold training indices (9223372036854775808 is too large)"),
    "pickled objects": (npy(np.array([Bomb()], dtype=object)), "ids.npy holds pickled objects"),
    "floats": (npy(np.array([1.0])), "whole numbers"),
    "complex numbers": (npy(np.array([1j])), "whole numbers"),
    "a table": (npy(np.array([[1, 2]])), "whole numbers"),
    "text": (npy(np.array(["1"])), "ids.npy does not hold training indices"),
    "npy cut short": (write("ids.npy", b"\x93NUMPY\x01\x00"), "ids.npy is not a readable .npy file"),
    "no npy": (write("ids.npy", b"0 1 2"), "ids.npy is not a readable .npy file"),
    "half a zip": (write("ids.npy", b"PK\x03\x04"), "ids.npy is not a readable .npy file"),
    "a size that is a lie": (write("ids.npy", huge_header()), "ids.npy is not a readable .npy file"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_FORGET)
def test_bad_requests_are_refused(run, idx_folder, tmp_path, case):
    what, sentence = BAD_FORGET[case]
    (tmp_path / "out").mkdir()
    out = tmp_path / "out" / "m.safetensors"
    words = what if isinstance(what, str) else what(tmp_path)
    found = run("train", "--data", f"mnist:{idx_folder}", f"--forget={words}", "--out", out)
    assert sentence in check_refusal(*found)
    assert contents(tmp_path / "out") == {}


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", ">i8"])
def test_indices_of_any_whole_number_type_are_taken(run, idx_folder, tmp_path, kind):
    np.save(tmp_path / "ids.npy", np.array([3, 5, 7]).astype(kind))
    code, out, _ = run(
        "data", "manifest", "--data", f"mnist:{idx_folder}", "--forget", f"indices:{tmp_path / 'ids.npy'}"
    )
    assert code == 0
    assert json.loads(out)["splits"]["forget"]["n"] == 3


def spoilt(path: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    model = rs.load(path)
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, metadata={"residua": json.dumps(model.architecture)})


BAD_MODELS: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda p: p.unlink(), "does not exist"),
    "a folder": (lambda p: (p.unlink(), p.mkdir()), "is a folder"),
    "not a checkpoint": (lambda p: p.write_text("hello"), "not a readable safetensors file"),
    "cut short": (lambda p: os.truncate(p, p.stat().st_size - 1), "not a readable safetensors file"),
    "NaN weights": (
        lambda p: spoilt(p, lambda t: t["head.weight"].fill_(float("nan"))),
        "NaN or infinite weights in head.weight",
    ),
    "other classes": (
        lambda p: rs.save(rs.models.resnet18(classes=9, channels=1, width=1), p),
        "has classes 9, expected 10",
    ),
    "other channels": (
        lambda p: rs.save(rs.models.resnet18(classes=10, channels=3, width=1), p),
        "has channels 3, expected 1",
    ),
    "other image size": (
        lambda p: rs.save(rs.models.vit(variant="tiny", classes=10, channels=1, image=8, patch=4), p),
        "8",
    ),
    "outputs beyond all numbers": (
        lambda p: spoilt(p, lambda t: t["head.weight"].fill_(3e38)),
        "outputs are not finite",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_MODELS)
@pytest.mark.parametrize("place", ["first", "last"])
def test_bad_checkpoints_are_refused(run, idx_folder, checkpoint, tmp_path, case, place):
    bad = tmp_path / "bad.safetensors"
    shutil.copy(checkpoint, bad)
    spoil, sentence = BAD_MODELS[case]
    spoil(bad)
    before = contents(tmp_path)
    models = [bad, checkpoint] if place == "first" else [checkpoint, bad]
    assert sentence in check_refusal(*run("measure", *models, "--data", f"mnist:{idx_folder}", "--forget", "class:1"))
    assert contents(tmp_path) == before


BAD_TRAINING: dict[str, tuple[list[str], str]] = {
    "unknown network": (["--network", "nonet"], "'nonet' is unknown"),
    "unknown scale": (["--scale", "huge"], "--scale"),
    "no recipe": (["--scale", "full"], "no pretraining of resnet18 on mnist"),
    "unknown device": (["--device", "quantum"], "--device quantum cannot be used here"),
    "no device": (["--device", ""], "--device"),
    "device without numbers": (["--device", "meta"], "--device meta"),
    "unknown precision": (["--precision", "float8"], "--precision"),
    "unknown schedule": (["--schedule", "linear"], "--schedule"),
    "other format": (["--out", "{out}/model.pt"], "must end in .safetensors"),
    "no name": (["--out", "{out}/.safetensors"], "must end in .safetensors"),
    "below a file": (["--out", "{out}/file/m.safetensors"], "cannot be written"),
    "onto a folder": (["--out", "{out}/taken.safetensors"], "taken.safetensors"),
    "record of another format": (["--record", "{out}/r.txt"], "must end in .json"),
    "record below a file": (["--record", "{out}/file/r.json"], "cannot be written"),
    "record with a name that none can have": (["--record", "{out}/My run.json"], "My run"),
    "zero width": (["--width", "0"], "width"),
    "negative width": (["--width", "-2"], "width of resnet18 is -2"),
    "patches that do not fit": (["--network", "vit", "--patch", "5"], "not a multiple of patch size 5"),
    "unknown variant": (["--network", "vit", "--variant", "giant"], "'giant' is unknown"),
    "empty batches": (["--batch", "0"], "batch is 0"),
    "negative epochs": (["--epochs", "-1"], "epochs is -1"),
    "diverging": (["--lr", "1e30"], "lr 1e+30; use a smaller learning rate"),
    "no rate": (["--lr", "nan"], "lr is nan"),
    "negative rate": (["--lr", "-1"], "lr"),
    "negative momentum": (["--momentum", "-1"], "momentum"),
    "negative decay": (["--weight-decay", "-1"], "weight"),
    "negative crop": (["--crop", "-1"], "crop"),
    "negative clip": (["--clip", "-1"], "clip"),
    "warm-up that never ends": (["--warmup", "2"], "warmup"),
    "seed beyond 64 bits": (["--seed", "9" * 30], "seed"),
}


@pytest.mark.parametrize("case", BAD_TRAINING)
def test_bad_settings_are_refused_and_nothing_is_written(run, idx_folder, tmp_path, case):
    """One line on standard error also means: before any training, except where training is what fails."""
    extra, sentence = BAD_TRAINING[case]
    (tmp_path / "file").write_text("mine")
    (tmp_path / "taken.safetensors").mkdir()
    (tmp_path / "old.safetensors").write_text("old")
    before = contents(tmp_path)
    found = run(
        "train", "--data", f"mnist:{idx_folder}", "--forget", "class:1", "--epochs", "1", "--width", "1",
        "--out", tmp_path / "old.safetensors",
        *(word.format(out=tmp_path) for word in extra),
    )  # fmt: skip
    # A training that has begun has said its device.
    assert sentence in check_refusal(*found, notes=int(case == "diverging"))
    assert contents(tmp_path) == before


def test_a_full_disk_is_told_in_a_sentence_and_leaves_nothing(run, idx_folder, tmp_path, monkeypatch):
    def fail(tensors, part, metadata):
        part.write_bytes(b"half")
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("residua.models.checkpoint.save_file", fail)
    found = run(
        "train", "--data", f"mnist:{idx_folder}", "--forget", "class:1", "--epochs", "0", "--width", "1",
        "--out", tmp_path / "m.safetensors",
    )  # fmt: skip
    assert "No space left on device" in check_refusal(*found)
    assert contents(tmp_path) == {}


# --- train, measure, look at data -----------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(idx_folder, tmp_path_factory) -> Path:
    """A folder with an Original, its record, the same again, another seed, and a Retrain."""
    folder = tmp_path_factory.mktemp("trained")
    for name, extra in {
        "original": ["--record", folder / "original.json"],
        "again": [],
        "other": ["--seed", "1"],
        "retrain": ["--retrain", "--record", folder / "records" / "retrain.json"],
    }.items():
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            code = main([
                "train", "--data", f"mnist:{idx_folder}", "--forget", "class:3", "--width", "2",
                "--epochs", "1", "--batch", "50", "--lr", "0.05", "--no-flip",
                "--out", f"{folder}/deep/{name}.safetensors", *map(str, extra),
            ])  # fmt: skip
        assert code == 0
    return folder


def test_training_writes_a_checkpoint_and_a_record_and_nothing_else(trained):
    assert {name for name, content in contents(trained).items() if content is not None} == {
        "deep/original.safetensors", "deep/again.safetensors", "deep/other.safetensors",
        "deep/retrain.safetensors", "original.json", "records/retrain.json",
    }  # fmt: skip
    model = rs.load(trained / "deep/original.safetensors")
    assert model.architecture == {
        "network": "resnet18", "classes": 10, "channels": 1, "width": 2, "stem": "imagenet",
    }  # fmt: skip


def test_the_record_says_what_was_done(trained):
    record = rs.Record.read(trained / "original.json")
    assert record.name == "original"
    assert record.seeds == {"training": 0}
    assert record.setting.task.forgotten_classes == [3]
    assert record.setting.task.size("forget") == 20
    assert record.setting.network["width"] == 2
    assert record.setting.scale == "tiny"
    used = record.method.fields
    assert (used["epochs"], used["batch"], used["lr"], used["flip"]) == (1, 50, 0.05, False)
    assert used["nesterov"] is True  # the recipe's, where nothing else was said
    assert record.seconds["train"] > 0
    assert rs.Record.read(trained / "records/retrain.json").method.label == "Retrain"


def test_a_record_and_a_measurement_agree(run, trained, idx_folder):
    models = [trained / f"deep/{name}.safetensors" for name in ("original", "retrain")]
    code, out, err = run("measure", *models, "--data", f"mnist:{idx_folder}", "--forget", "class:3", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert [row.pop("model") for row in found] == ["original", "retrain"]
    assert found[0] == rs.Record.read(trained / "original.json").readings["accuracy"]
    assert found[1] == rs.Record.read(trained / "records/retrain.json").readings["accuracy"]
    assert all(0 <= value <= 1 for row in found for value in row.values())


def test_a_measurement_is_shown_as_a_table_in_per_cent(run, trained, idx_folder):
    words = ("measure", trained / "deep/retrain.safetensors", "--data", f"mnist:{idx_folder}", "--forget", "class:3")
    _, out, _ = run(*words, "--json")
    values = json.loads(out)[0]
    code, shown, err = run(*words)
    assert (code, err) == (0, "")
    assert "retrain" in shown
    for name in ("UA", "RA", "TA"):
        row = next(line for line in shown.splitlines() if f"{name} %" in line)
        assert f" {100 * values[name]:.1f} " in row
        assert "nearer the reference" in row
    assert "mnist, 20 examples forgotten" in shown


def test_a_model_is_called_by_its_name_whatever_it_is(run, checkpoint, idx_folder, tmp_path):
    names = ["run[a]", "[bold]", "x:dog:"]
    for name in names:
        shutil.copy(checkpoint, tmp_path / f"{name}.safetensors")
    _, shown, _ = run(
        "measure", *(tmp_path / f"{name}.safetensors" for name in names),
        "--data", f"mnist:{idx_folder}", "--forget", "class:3",
    )  # fmt: skip
    assert [name for name in names if name not in shown] == []


def test_what_was_typed_is_said_back_as_it_was_typed(run):
    assert "'x:dog:[red]'" in check_refusal(
        *run("data", "manifest", "--data", "fashion-sample", "--forget", "x:dog:[red]")
    )


def test_the_same_seed_gives_the_same_file_to_the_last_bit(trained):
    files = {
        name: (trained / f"deep/{name}.safetensors").read_bytes() for name in ("original", "again", "other", "retrain")
    }
    assert files["original"] == files["again"]
    assert len(set(files.values())) == 3


def test_duplicates_across_the_task_are_mentioned(run, idx_folder, checkpoint, tmp_path):
    def duplicate(folder: Path) -> None:
        path = folder / "train-images-idx3-ubyte"
        raw = bytearray(path.read_bytes())
        raw[16 : 16 + 784] = raw[16 + 784 : 16 + 2 * 784]
        path.write_bytes(raw)

    data = spoilt_idx(idx_folder, tmp_path, duplicate)
    code, _, err = run("measure", checkpoint, "--data", data, "--forget", "class:1")
    assert code == 0
    assert err == "note: 1 pairs of exactly equal images in forget/retain (first: 1 and 0)\n"


def test_data_are_shown(run, idx_folder):
    code, out, err = run("data", "show", "--data", f"mnist:{idx_folder}")
    assert (code, err) == (0, "")
    assert "mnist: 1 x 28 x 28 pixels, 10 classes" in out
    assert ["9", "9", "20", "5"] in [row.replace("│", " ").split() for row in out.splitlines()]
    code, out, err = run("data", "show", "--data", f"mnist:{idx_folder}", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert (found["name"], found["shape"], found["classes"]) == ("mnist", [1, 28, 28], 10)
    assert found["train"] == {"n": 200, "per_class": [20] * 10}
    assert found["test"] == {"n": 50, "per_class": [5] * 10}


@pytest.mark.parametrize(
    ("forget", "n", "classes"),
    [
        ("class:6", 20, [6]),
        ("classes:1,2", 40, [1, 2]),
        ("class:1,2", 40, [1, 2]),
        ("samples:3", 30, []),
        ("samples:3:9", 30, []),
        ("indices:{folder}/ids.txt", 2, []),
        ("indices:{folder}/ids.json", 20, [4]),
    ],
)
def test_a_manifest_says_what_is_forgotten(run, idx_folder, tmp_path, forget, n, classes):
    (tmp_path / "ids.txt").write_text("0\n1\n")
    (tmp_path / "ids.json").write_text(json.dumps(list(range(4, 200, 10))))
    words = forget.format(folder=tmp_path)
    code, out, err = run("data", "manifest", "--data", f"mnist:{idx_folder}", "--forget", words)
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["splits"]["forget"]["n"] == n
    assert found["splits"]["retain"]["n"] == 200 - n
    assert found["forgotten_classes"] == classes


def test_a_class_can_be_called_by_its_name(run, idx_folder):
    by = [
        run("data", "manifest", "--data", f"fashion-mnist:{idx_folder}", "--forget", words)
        for words in ("class:shirt", "class:6", "class:ankle boot")
    ]
    assert by[0] == by[1]
    assert json.loads(by[2][1])["forgotten_classes"] == [9]


# --- fetching -------------------------------------------------------------------------------------


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def mirror(idx_folder, monkeypatch) -> Iterator[str]:
    """The folder of IDX files on a web server of this machine, and their checksums in the table."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1")
    sources = tuple(
        Source(f"http://127.0.0.1:9/{path.name}", path.name, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in sorted(idx_folder.iterdir())
    )
    monkeypatch.setitem(SOURCES, "mnist", sources)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(idx_folder))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_data_are_fetched_and_used(run, mirror, idx_folder, tmp_path):
    code, out, err = run("data", "fetch", "mnist", "--to", tmp_path / "new", "--mirror", mirror)
    assert (code, out) == (0, "")
    assert err.splitlines()[-1] == f"mnist is in {tmp_path}/new; use it as --data mnist:{tmp_path}/new"
    assert contents(tmp_path / "new") == contents(idx_folder)
    assert run("data", "show", "--data", f"mnist:{tmp_path}/new")[0] == 0


def test_a_fetched_file_with_another_checksum_is_refused(run, mirror, monkeypatch, tmp_path):
    wrong = tuple(Source(s.url, s.filename, "0" * 32) for s in SOURCES["mnist"])
    monkeypatch.setitem(SOURCES, "mnist", wrong)
    code, out, err = run("data", "fetch", "mnist", "--to", tmp_path / "new", "--mirror", mirror)
    assert (code, out) == (3, "")
    assert "Traceback" not in err
    assert err.splitlines()[-1].startswith(f"residua: {mirror}/")
    assert "expected 00000000" in err
    assert contents(tmp_path / "new") == {}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["imagenet", "--to", "{out}"], "no data set to fetch 'imagenet'"),
        (["mnist", "--to", "{out}", "--mirror", "ftp://127.0.0.1"], "is not a web address"),
        (["mnist", "--to", "{out}", "--mirror", "http://127.0.0.1:9"], "could not be downloaded"),
        (["mnist", "--to", "{out}/file", "--mirror", "http://127.0.0.1:9"], "cannot be written"),
    ],
)
def test_what_cannot_be_fetched_is_refused(run, mirror, tmp_path, words, sentence):
    (tmp_path / "file").touch()
    found = run("data", "fetch", *(word.format(out=tmp_path) for word in words))
    assert sentence in check_refusal(*found)
    assert contents(tmp_path) == {"file": b""}


# --- whatever is typed ----------------------------------------------------------------------------

WORDS = st.one_of(
    st.text(max_size=20),
    st.from_regex(r"[0-9,:.\-+ _eE~/]{0,12}", fullmatch=True),
    st.lists(st.integers(-3, 12), max_size=12).map(lambda ids: ",".join(map(str, ids))),
    st.integers().map(str),
    st.tuples(st.integers(-2, 25), st.integers()).map(lambda pair: f"{pair[0]}:{pair[1]}"),
)
FORGET = st.one_of(
    WORDS, st.tuples(st.sampled_from(["class", "classes", "samples", "indices", "Class"]), WORDS).map(":".join)
)
DATA = st.one_of(
    WORDS,
    st.tuples(st.sampled_from(["fashion-mnist", "mnist", "cifar10", "cifar100", "parquet", "image-folder"]), WORDS).map(
        ":".join
    ),
)


def quietly(*words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(words))
    return code, out.getvalue(), err.getvalue()


@settings(max_examples=150, deadline=None, derandomize=True)
@example("samples:1:99999999999999999999")
@example("samples:1:-1")
@example("classes:0,0,0")
@example("indices:\0")
@given(FORGET)
def test_any_words_after_forget_give_a_task_or_a_sentence(idx_folder, words):
    code, out, err = quietly("data", "manifest", "--data", f"mnist:{idx_folder}", f"--forget={words}")
    if code == 0:
        assert 0 < json.loads(out)["splits"]["forget"]["n"] < 200
    else:
        check_refusal(code, out, err)


@settings(max_examples=150, deadline=None, derandomize=True)
@example("mnist:~nobody-of-this-name")
@example("mnist:~")
@example("mnist:\0")
@example("mnist:\r\n\x1b[2J")
@example("mnist:" + "a" * 5000)
@given(DATA)
def test_any_words_after_data_give_data_or_a_sentence(words):
    code, out, err = quietly("data", "show", f"--data={words}")
    if code == 0:
        assert json.loads(out)["classes"] > 0
    else:
        check_refusal(code, out, err)


# --- a process of its own -------------------------------------------------------------------------

ENV = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "40"}


def test_the_module_is_the_command():
    found = subprocess.run([sys.executable, "-m", "residua", "--version"], env=ENV, capture_output=True, text=True)
    assert (found.returncode, found.stdout, found.stderr) == (0, f"{version('residua')}\n", "")


def test_the_installed_script_refuses_in_one_line_and_with_code_3():
    script = Path(sysconfig.get_path("scripts"), "residua")
    found = subprocess.run(
        [script, "data", "show", "--data", b"mnist:/no/such/folder/of\xff/this/very/long/name"],
        env=ENV, capture_output=True, text=True,
    )  # fmt: skip
    assert "is not there, expected a folder" in check_refusal(found.returncode, found.stdout, found.stderr)


def training(idx_folder: Path, out: Path, epochs: int) -> list[str | Path]:
    return [
        sys.executable, "-m", "residua", "train", "--data", f"mnist:{idx_folder}", "--forget", "class:1",
        "--width", "2", "--epochs", str(epochs), "--precision", "float32", "--out", out,
    ]  # fmt: skip


@pytest.mark.slow
def test_ctrl_c_ends_a_training_with_130_and_leaves_nothing(idx_folder, tmp_path):
    process = subprocess.Popen(
        training(idx_folder, tmp_path / "m.safetensors", 100_000), env=ENV, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    with process:
        assert process.stderr.readline().startswith("device cpu; ")
        assert process.stderr.readline().startswith("Original: epoch 1/100000")
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert process.returncode == 130
    assert rest.splitlines()[-1] == "residua: interrupted; nothing was left half-written"
    assert "Traceback" not in rest
    assert contents(tmp_path) == {}


def test_a_command_says_which_number_format_the_environment_chose(monkeypatch):
    monkeypatch.setattr("sys.argv", ["residua", "train", "--out", "a b"])
    assert command_line() == "residua train --out 'a b'"
    monkeypatch.setenv("RESIDUA_PRECISION", "bfloat16")
    assert command_line() == "RESIDUA_PRECISION=bfloat16 residua train --out 'a b'"
