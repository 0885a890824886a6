from __future__ import annotations

import dataclasses
import json
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

import residua as rs
from residua.measure import Accuracy
from residua.record import DamagedRecord, describe
from residua.unlearn import Original, Retrain

SOFTWARE = {"residua": "0.1.0", "torch": "2.13.0"}
ARRAYS = {
    "float64": np.linspace(-1, 1, 50),
    "float32": np.arange(6, dtype=np.float32).reshape(2, 3),
    "float16": np.float16([1.5, np.nan, np.inf]),
    "int8": np.arange(-3, 3, dtype=np.int8),
    "uint64": np.array([2**64 - 1], dtype=np.uint64),
    "bool": np.array([[True], [False]]),
    "big_endian": np.arange(4, dtype=">i4"),
    "text": np.array(["ä", "long"]),
    "number": np.array(3.25),
    "empty": np.zeros((0, 3)),
    "columns": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    "backwards": np.arange(9)[::-2],
}


def make(**changes) -> rs.Record:
    fields = {
        "name": "original",
        "setting": {
            "scale": "tiny",
            "task": {"dataset": "ä", "splits": {"forget": {"n": 3, "per_class": [1, 2, 30]}}},
            "network": {"width": 2},
        },
        "method": {"label": "Original"},
        "measures": {"accuracy": {"label": "accuracy"}},
        "seeds": {"training": 7},
        "readings": {"accuracy": {"UA": 0.125, "RA": 1 / 3, "TA": 1.0}},
        "seconds": {"train": 12.5},
        "software": SOFTWARE,
        "command": "residua train --seed 7",
    }
    return rs.Record(**fields | changes)


# --- there and back -------------------------------------------------------------------------------


@pytest.mark.parametrize("arrays", [{}, ARRAYS], ids=["numbers alone", "with arrays"])
def test_a_record_comes_back_as_it_was_written(tmp_path, arrays):
    record = make(arrays=arrays)
    path = record.write(tmp_path / "deep")
    assert path == tmp_path / "deep" / "original.json"
    assert sorted(p.suffix for p in path.parent.iterdir()) == [".json"] + [".npz"] * bool(arrays)
    again = rs.Record.read(str(path))
    assert again == record
    assert again.sha256 == record.sha256
    assert again.model_dump() == record.model_dump()
    assert again.arrays.keys() == arrays.keys()
    for name, array in arrays.items():
        assert again.arrays[name].dtype == array.dtype
        assert again.arrays[name].shape == array.shape
        np.testing.assert_array_equal(again.arrays[name], array)


def test_what_is_written_can_be_read_without_us(tmp_path):
    path = make(arrays={"terms": np.arange(3.0)}).write(tmp_path)
    body = json.loads(path.read_text(encoding="utf-8"))
    assert body["readings"]["accuracy"] == {"UA": 0.125, "RA": 1 / 3, "TA": 1.0}
    assert body["sha256"] == make(arrays={"terms": np.arange(3.0)}).sha256
    assert "ä" in path.read_text(encoding="utf-8")


def test_a_record_without_arrays_reads_though_old_arrays_lie_beside_it(tmp_path):
    make(arrays={"x": np.zeros(3)}).write(tmp_path)
    path = make().write(tmp_path)
    assert rs.Record.read(path) == make()


CHANGES = {
    "name": "retrain",
    "setting": {"scale": "small"},
    "method": {"label": "Retrain"},
    "measures": {},
    "seeds": {"training": 8},
    "readings": {"accuracy": {"UA": np.nextafter(0.125, 1), "RA": 1 / 3, "TA": 1.0}},
    "seconds": {},
    "software": SOFTWARE | {"torch": "2.4.0"},
    "command": "residua train --seed 8",
    "arrays": {"x": np.zeros(2)},
}


@pytest.mark.parametrize("field", [name for name in rs.Record.model_fields if name != "schema_version"])
def test_records_are_equal_only_if_every_field_is(field):
    assert make() == make()
    assert make(**{field: CHANGES[field]}) != make()
    assert make() != "a record"


@pytest.mark.parametrize(
    "other", [np.zeros(3, np.float32), np.zeros((3, 1)), np.array([0, 0, 1e-300]), np.array([0, 0, -0.0])]
)
def test_arrays_count_with_type_shape_and_every_bit(other):
    assert make(arrays={"x": other}) != make(arrays={"x": np.zeros(3)})
    assert make(arrays={"y": np.zeros(3)}) != make(arrays={"x": np.zeros(3)})


def test_the_hash_is_the_same_in_another_process_and_in_any_order():
    program = (
        "import sys; sys.path.insert(0, 'tests'); import numpy as np; from test_record import make\n"
        "print(make(arrays={'b': np.arange(3.0), 'a': np.ones(2)}).sha256)"
    )
    env = os.environ | {"PYTHONHASHSEED": "12345", "OMP_NUM_THREADS": "1"}
    found = subprocess.run(
        [sys.executable, "-c", program],
        env=env, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1],
    )  # fmt: skip
    here = make(
        arrays={"a": np.ones(2), "b": np.arange(3.0)}, readings={"accuracy": {"TA": 1.0, "RA": 1 / 3, "UA": 0.125}}
    )
    assert found.stdout.strip() == here.sha256


# --- damage ---------------------------------------------------------------------------------------


@pytest.fixture
def written(tmp_path) -> Path:
    return make(arrays={"terms": np.arange(50.0), "none": np.zeros((3, 0))}).write(tmp_path)


def arrays_beside(path: Path) -> Path:
    (found,) = path.parent.glob(f"{path.stem}*.npz")
    return found


def same_json(a: str, b: str) -> bool:
    try:
        return json.loads(a) == json.loads(b)
    except ValueError:
        return False


def check_damage(path: Path, good: str, bad: str) -> None:
    path.write_text(bad, encoding="utf-8")
    if same_json(good, bad):  # a blank for a line break, 1.0 for 1e0: nothing was changed
        assert rs.Record.read(path).sha256 == json.loads(good)["sha256"]
        return
    with pytest.raises(rs.InputError) as refusal:
        rs.Record.read(path)
    assert str(path.with_suffix("")) in str(refusal.value)


def test_one_changed_character_is_noticed_wherever_it_is(written):
    good = written.read_text(encoding="utf-8")
    for i in range(len(good)):
        other = '0a"9 e-}\n1é'[i % 11]
        check_damage(written, good, good[:i] + other + good[i + 1 :])


def test_one_changed_digit_is_noticed_wherever_it_is(written):
    good = written.read_text(encoding="utf-8")
    digits = [i for i, character in enumerate(good) if character.isdigit()]
    assert len(digits) > 150
    for i in digits:
        check_damage(written, good, good[:i] + str((int(good[i]) + 1) % 10) + good[i + 1 :])


@pytest.mark.parametrize(
    "change",
    [
        lambda b: b["readings"]["accuracy"].update(UA=0.124),
        lambda b: b["readings"]["accuracy"].pop("UA"),
        lambda b: b["setting"].update(scale="full"),
        lambda b: b["software"].pop("torch"),
        lambda b: b.update(name="other"),
        lambda b: b.update(name="../other"),
        lambda b: b.update(schema_version=1),
        lambda b: b.update(schema_version=3),
        lambda b: b.update(extra=1),
        lambda b: b.update(readings=None),
        lambda b: b.update(readings={"accuracy": {"UA": "much"}}),
        lambda b: b.update(sha256="0" * 64),
        lambda b: b.update(sha256=None),
        lambda b: b.pop("sha256"),
        lambda b: b.pop("arrays"),
        lambda b: b.pop("seeds"),
        lambda b: b.update(arrays={}),
        lambda b: b.update(arrays=[]),
        lambda b: b.update(arrays=7),
        lambda b: b["arrays"].pop("none"),
        lambda b: b["arrays"].update(more=b["arrays"]["terms"]),
        lambda b: b["arrays"].update(terms=b["arrays"]["none"]),
    ],
)
def test_a_changed_field_is_noticed(written, change):
    body = json.loads(written.read_text(encoding="utf-8"))
    change(body)
    written.write_text(json.dumps(body), encoding="utf-8")
    with pytest.raises(rs.InputError, match=r"original.*(damaged|does not exist; give the path of a record)"):
        rs.Record.read(written)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"7", b'"text"', b"{}", b"\xff\xfe\x00", b"<html>", b"[" * 100_000],
    ids=lambda content: repr(content[:8]),
)
def test_what_is_no_record_is_refused(written, content):
    written.write_bytes(content)
    with pytest.raises(DamagedRecord, match=r"original\.json is damaged"):
        rs.Record.read(written)


def test_a_record_cut_short_anywhere_is_noticed(written):
    good = written.read_bytes()
    for n in [*range(0, len(good), 7), len(good.rstrip()) - 1]:
        written.write_bytes(good[:n])
        with pytest.raises(DamagedRecord):
            rs.Record.read(written)


def test_a_missing_array_file_is_named(written):
    arrays_beside(written).unlink()
    with pytest.raises(rs.InputError, match=r"original.*\.npz does not exist"):
        rs.Record.read(written)


def test_the_arrays_of_another_record_are_noticed(tmp_path, written):
    make(name="other", arrays={"terms": np.arange(50.0) + 1, "none": np.zeros((3, 0))}).write(tmp_path)
    arrays_beside(tmp_path / "other.json").replace(arrays_beside(written))
    with pytest.raises(DamagedRecord, match="array terms is not what was written"):
        rs.Record.read(written)


@pytest.mark.parametrize(
    "arrays",
    [
        {"terms": np.r_[np.arange(49.0), np.nextafter(49.0, 50)], "none": np.zeros((3, 0))},
        {"terms": np.arange(50.0).astype(np.float32), "none": np.zeros((3, 0))},
        {"terms": np.arange(50.0).reshape(5, 10), "none": np.zeros((3, 0))},
        {"terms": np.arange(50.0), "none": np.zeros((4, 0))},
        {"terms": np.arange(50.0)},
        {"terms": np.arange(50.0), "none": np.zeros((3, 0)), "more": np.zeros(1)},
        {},
    ],
    ids=["one bit", "type", "shape", "empty shape", "fewer", "more", "none"],
)
def test_arrays_that_are_not_those_written_are_noticed(written, arrays):
    np.savez(arrays_beside(written), **arrays)
    with pytest.raises(DamagedRecord, match=r"original.*\.npz"):
        rs.Record.read(written)


def test_one_changed_byte_of_the_arrays_is_noticed_wherever_it_is(written):
    path = arrays_beside(written)
    good, record = path.read_bytes(), rs.Record.read(written)
    refused = 0
    for i in range(len(good)):
        path.write_bytes(good[:i] + bytes([good[i] ^ (0x01, 0x80, 0xFF)[i % 3]]) + good[i + 1 :])
        try:
            assert rs.Record.read(written) == record  # a date inside the zip file, for instance
        except rs.InputError:
            refused += 1
    assert refused > len(good) / 3


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"junk", b"\x93NUMPY\x01\x00"])
def test_what_is_no_array_file_is_refused(written, content):
    arrays_beside(written).write_bytes(content)
    with pytest.raises(DamagedRecord, match="original"):
        rs.Record.read(written)


def test_arrays_larger_than_the_memory_are_refused_before_they_are_unpacked(written, monkeypatch):
    """Zeros pack a thousandfold, and `verify` reads what strangers wrote."""
    np.savez_compressed(arrays_beside(written), terms=np.zeros(200_000))
    monkeypatch.setenv("RESIDUA_MAX_MEMORY", "1599999")
    with pytest.raises(DamagedRecord, match="would unpack into 1600000 bytes, expected at most 1599999"):
        rs.Record.read(written)


class Bomb:
    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self):
        return Path.touch, (self.trace,)


@pytest.mark.parametrize("how", ["object array", "bare pickle", "pickle in a zip"])
def test_nothing_in_a_strangers_file_is_executed(written, tmp_path, how):
    path, trace = arrays_beside(written), tmp_path / "executed"
    if how == "object array":
        np.savez(path, terms=np.array([Bomb(trace)], dtype=object), none=np.zeros((3, 0)))
    elif how == "bare pickle":
        path.write_bytes(pickle.dumps(Bomb(trace)))
    else:
        with zipfile.ZipFile(path, "w") as packed:
            packed.writestr("terms.npy", pickle.dumps(Bomb(trace)))
            packed.writestr("none", pickle.dumps(Bomb(trace)))
    with pytest.raises(DamagedRecord):
        rs.Record.read(written)
    assert not trace.exists()


@pytest.mark.parametrize("name", ["", "nothing.json", "original.json/deeper.json"])
def test_a_place_without_a_record_is_refused(written, name):
    with pytest.raises(rs.InputError, match=r"does not exist|cannot be read|is a folder") as refusal:
        rs.Record.read(written.parent / name)
    assert not isinstance(refusal.value, DamagedRecord)


# --- what no record can hold ----------------------------------------------------------------------


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("where", ["readings", "seconds"])
def test_numbers_that_are_none_are_refused(number, where):
    with pytest.raises(ValidationError, match="finite"):
        make(**{where: {"accuracy": {"UA": number}} if where == "readings" else {"train": number}})


@pytest.mark.parametrize(
    "name", ["", "../x", "/x", "a/b", "a\\b", ".hidden", "..", "-rf", "Upper", "a b", "a\n", "ä", "a\0"]
)
def test_names_that_are_no_plain_file_names_are_refused(name):
    with pytest.raises(ValidationError, match="name"):
        make(name=name)


@pytest.mark.parametrize("name", ["a", "original", "cifar10.resnet18-s0", "0_1"])
def test_plain_names_are_taken(name, tmp_path):
    assert make(name=name).write(tmp_path).name == f"{name}.json"
    assert rs.Record.read(tmp_path / f"{name}.json").name == name


@pytest.mark.parametrize("bad", [{"extra": 1}, {"seeds": {"training": 0.5}}, {"arrays": {"x": [1, 2]}}])
def test_fields_that_are_unknown_or_of_another_type_are_refused(bad):
    with pytest.raises(ValidationError, match=next(iter(bad))):
        make(**bad)


def test_python_objects_in_arrays_are_refused_before_anything_is_written(tmp_path):
    with pytest.raises(rs.InputError, match="Python objects"):
        make(arrays={"x": np.array([{}], dtype=object)}).write(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_record_cannot_be_changed():
    with pytest.raises(ValidationError, match="frozen"):
        make().name = "other"


@settings(max_examples=50, deadline=None)
@given(
    st.dictionaries(
        st.text(max_size=5),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
            max_leaves=8,
        ),
        max_size=4,
    )
)
def test_any_network_comes_back(tmp_path_factory, setting):
    record = make(setting={"network": setting})
    again = rs.Record.read(record.write(tmp_path_factory.mktemp("record")))
    assert again == record
    assert again.setting.network == setting


# --- whole or absent ------------------------------------------------------------------------------


def fail_for(suffix: str, monkeypatch) -> None:
    real = Path.replace

    def replace(self, target):
        if Path(target).suffix == suffix:
            raise OSError(28, "No space left on device")
        return real(self, target)

    monkeypatch.setattr(Path, "replace", replace)


@pytest.mark.parametrize("suffix", [".json", ".npz"])
def test_a_failed_write_leaves_the_old_record_readable(tmp_path, monkeypatch, suffix):
    old = make(arrays={"x": np.zeros(3)})
    path = old.write(tmp_path)
    fail_for(suffix, monkeypatch)
    with pytest.raises(rs.InputError, match="No space left"):
        make(arrays={"x": np.ones(3)}, command="another").write(tmp_path)
    monkeypatch.undo()
    assert rs.Record.read(path) == old
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_a_failed_write_of_numbers_alone_leaves_the_old_record_readable(tmp_path, monkeypatch):
    path = make().write(tmp_path)
    fail_for(".json", monkeypatch)
    with pytest.raises(rs.InputError, match="No space left"):
        make(command="another").write(tmp_path)
    assert rs.Record.read(path) == make()
    assert [p.name for p in tmp_path.iterdir()] == ["original.json"]


# --- describe -------------------------------------------------------------------------------------


def test_settings_are_described_with_label_class_and_every_field():
    assert describe(Original()) == {"label": "Original", "kind": "Original", "fields": {}}
    assert describe(Accuracy()) == {"label": "accuracy", "kind": "Accuracy", "fields": {}}
    pretraining = rs.Pretraining(epochs=3, lr=0.5, clip=1.0)
    described = describe(Retrain(pretraining))
    assert described == {
        "label": "Retrain",
        "kind": "Retrain",
        "fields": {
            "pretraining": {
                "epochs": 3, "batch": 128, "lr": 0.5, "momentum": 0.9, "weight_decay": 5e-4,
                "schedule": "cosine", "warmup": 0.0, "nesterov": False, "clip": 1.0,
                "crop": 4, "flip": True, "precision": "auto",
            },
        },
    }  # fmt: skip
    assert describe(pretraining)["fields"] == described["fields"]["pretraining"]
    assert make(method=described).method.fields == described["fields"]


@dataclasses.dataclass(frozen=True)
class Inner:
    rates: tuple[float, ...] = (0.1, 0.2)


@dataclasses.dataclass(frozen=True)
class Outer:
    label = "OUT"
    steps: tuple[Inner, ...] = (Inner(), Inner((0.3,)))


def test_settings_within_settings_come_back_from_the_disk(tmp_path):
    record = make(method=describe(Outer()))
    again = rs.Record.read(record.write(tmp_path))
    assert again == record
    assert again.method.kind == "Outer"
    assert again.method.fields == {"steps": [{"rates": [0.1, 0.2]}, {"rates": [0.3]}]}
