"""Outputs and features from strangers: read if they are what they should be, else one sentence."""

from __future__ import annotations

import io
import re
import struct
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import residua as rs
from residua.audits import saved

RNG = np.random.default_rng(0)
OUTPUTS = {
    "forget_logits": RNG.normal(size=(5, 3)),
    "retain_logits": RNG.normal(size=(7, 3)).astype(np.float32),
    "retain_labels": np.arange(7) % 3,
    "test_logits": RNG.normal(size=(4, 3)).astype(np.float16),
}
FEATURES = {
    "block4": RNG.normal(size=(6, 2, 2, 3)),
    "block12": RNG.normal(size=(6, 5)).astype(">f4"),
    "labels": np.arange(6) < 2,
}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_outputs_are_read(tmp_path, save):
    save(tmp_path / "o.npz", **OUTPUTS)
    found = rs.read_outputs(tmp_path / "o.npz")
    assert list(found.logits) == ["forget", "retain", "test"]
    assert found.classes == 3
    for split, logits in found.logits.items():
        assert torch.equal(logits, torch.from_numpy(OUTPUTS[f"{split}_logits"].astype(np.float32)))
    assert found.labels["retain"].tolist() == [0, 1, 2, 0, 1, 2, 0]


def test_features_are_read(tmp_path):
    np.savez(tmp_path / "f.npz", **FEATURES | {"block4": np.asfortranarray(FEATURES["block4"])})
    found = rs.read_features(tmp_path / "f.npz")
    assert list(found.blocks) == [4, 12]
    np.testing.assert_array_equal(found.blocks[4].numpy(), FEATURES["block4"].astype(np.float32))
    np.testing.assert_array_equal(found.blocks[12].numpy(), FEATURES["block12"].astype(np.float32))
    assert found.labels.tolist() == [1, 1, 0, 0, 0, 0]


def test_outputs_and_features_are_told_by_their_names(tmp_path):
    one, two, both = (tmp_path / f"{name}.npz" for name in ("one", "two", "both"))
    np.savez(one, **OUTPUTS)
    np.savez(two, **FEATURES)
    np.savez_compressed(both, **OUTPUTS, **FEATURES)
    found = rs.read_saved(both)
    assert found.outputs.logits.keys() == {"forget", "retain", "test"}
    assert found.features.blocks.keys() == {4, 12}
    assert rs.read_saved(one).features is None
    assert rs.read_saved(two).outputs is None
    # A hash of what is in it, not of how it is packed; one value less and it is another.
    assert rs.read_saved(two, one).digests() == found.digests() == rs.read_saved(both).digests()
    np.savez(one, **spoilt(OUTPUTS, test_logits=OUTPUTS["test_logits"][:3]))
    assert rs.read_saved(one).digests()["outputs"] != found.digests()["outputs"]


def test_two_files_of_a_kind_and_files_of_none_are_refused(tmp_path):
    np.savez(tmp_path / "one.npz", **OUTPUTS)
    with pytest.raises(rs.InputError, match="both hold outputs"):
        rs.read_saved(tmp_path / "one.npz", tmp_path / "one.npz")
    np.savez(tmp_path / "none.npz")
    with pytest.raises(rs.InputError, match="is empty"):
        rs.read_saved(tmp_path / "none.npz")
    np.savez(tmp_path / "odd.npz", **FEATURES, weights=np.zeros(3))
    with pytest.raises(rs.InputError, match=r"holds 'weights\.npy'"):
        rs.read_saved(tmp_path / "odd.npz")
    np.savez(tmp_path / "part.npz", **OUTPUTS, labels=np.arange(3))
    with pytest.raises(rs.InputError, match="has no features"):
        rs.read_saved(tmp_path / "part.npz")


def test_the_page_runs_as_printed(tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[2] / "docs/saved.md").read_text()
    code = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(code[1], {})
    shape, value = capsys.readouterr().out.splitlines()
    assert shape == "10 torch.Size([80, 10])"
    assert abs(float(value)) < 0.2


def spoilt(arrays, **change):
    return {name: value for name, value in (arrays | change).items() if value is not None}


BAD_OUTPUTS = {
    "no forget": (spoilt(OUTPUTS, forget_logits=None), "has no forget_logits"),
    "a misspelt name": (spoilt(OUTPUTS, forgot_logits=np.zeros((2, 3))), "holds 'forgot_logits.npy', expected arrays like"),
    "labels alone": (spoilt(OUTPUTS, forget_test_labels=np.arange(3)), "forget_test_labels but no forget_test_logits"),
    "other classes": (spoilt(OUTPUTS, test_logits=np.zeros((4, 4))), "test_logits of 4 x 4, expected N x 3"),
    "one class": ({"forget_logits": np.zeros((4, 1))}, "expected N x 2"),
    "a vector": (spoilt(OUTPUTS, test_logits=np.zeros(4)), "test_logits of 4, expected N x 3"),
    "a number": (spoilt(OUTPUTS, forget_logits=np.float64(1)), "of a single number"),
    "whole numbers": (spoilt(OUTPUTS, forget_logits=np.zeros((5, 3), int)), "as int64, expected floating-point"),
    "no rows": (spoilt(OUTPUTS, forget_logits=np.zeros((0, 3))), "of 0 x 3, expected at least one sample"),
    "NaN": (spoilt(OUTPUTS, test_logits=np.full((4, 3), np.nan)), "NaN or infinite values in test_logits"),
    "beyond float32": (spoilt(OUTPUTS, test_logits=np.full((4, 3), 1e300)), "NaN or infinite values in test_logits"),
    "probabilities": (spoilt(OUTPUTS, test_logits=np.full((4, 3), 1 / 3, np.float16)), "probabilities in test_logits, expected logits"),
    "too few labels": (spoilt(OUTPUTS, retain_labels=np.arange(6) % 3), "6 retain_labels for 7 rows of retain_logits"),
    "a label too high": (spoilt(OUTPUTS, retain_labels=np.full(7, 3)), "the label 3 in retain_labels, expected 0 to 2"),
    "a negative label": (spoilt(OUTPUTS, retain_labels=np.full(7, -1)), "labels from -1"),
    "fractions": (spoilt(OUTPUTS, retain_labels=np.zeros(7)), "expected one whole number per sample"),
    "text": (spoilt(OUTPUTS, retain_labels=np.array(["a"] * 7)), "retain_labels as <U1, expected numbers"),
    "dates": (spoilt(OUTPUTS, retain_labels=np.zeros(7, "M8[s]")), "expected numbers"),
    "complex": (spoilt(OUTPUTS, forget_logits=np.zeros((5, 3), complex)), "as complex128, expected numbers"),
    "records": (spoilt(OUTPUTS, forget_logits=np.zeros(5, [("a", "f4")])), "expected numbers"),
    "objects": (spoilt(OUTPUTS, forget_logits=np.array([print], dtype=object)), "as pickled objects, expected numbers"),
}  # fmt: skip
BAD_FEATURES = {
    "no labels": (spoilt(FEATURES, labels=None), "has no labels"),
    "no blocks": ({"labels": np.arange(3)}, "has no features"),
    "block zero": (spoilt(FEATURES, block0=np.zeros((6, 2))), "holds 'block0.npy'"),
    "lengths": (spoilt(FEATURES, block4=np.zeros((5, 2))), "has 6 labels for 5 rows of block4"),
    "a vector": (spoilt(FEATURES, block4=np.zeros(6)), "block4 of 6, expected N x"),
    "no features": (spoilt(FEATURES, block4=np.zeros((6, 0))), "of 6 x 0"),
    "one label": (spoilt(FEATURES, labels=np.ones(6, int)), "one label only"),
    "infinite": (spoilt(FEATURES, block4=np.full((6, 2), np.inf)), "NaN or infinite values in block4"),
    "labels beyond all bounds": (spoilt(FEATURES, labels=np.full(6, 2**63, np.uint64)), "labels of .* has 9223372036854775809 classes, expected at most"),
}  # fmt: skip


@pytest.mark.parametrize("case", [*BAD_OUTPUTS, *(f"features: {name}" for name in BAD_FEATURES)])
def test_other_contents_are_refused_in_one_sentence(tmp_path, case):
    of_features = case.startswith("features: ")
    arrays, sentence = BAD_FEATURES[case[10:]] if of_features else BAD_OUTPUTS[case]
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(rs.InputError, match=sentence) as refusal:
        (rs.read_features if of_features else rs.read_outputs)(tmp_path / "x.npz")
    assert str(tmp_path / "x.npz") in str(refusal.value)
    assert len(str(refusal.value).splitlines()) == 1


def header(shape: str, descr: str = "'<f8'", version: tuple[int, int] = (1, 0)) -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    text = text.ljust(117) + b"\n"
    return np.lib.format.magic(*version) + struct.pack("<H" if version[0] == 1 else "<I", len(text)) + text


def archive(path: Path, members: list[tuple[str, bytes]], how: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", how) as file:
        for name, content in members:
            file.writestr(name, content)
    return path


RAW = {
    "not there": (None, "does not exist"),
    "empty": (b"", "not a readable .npz"),
    "text": (b"hello", "not a readable .npz"),
    "an npy": (header("(2, 2)") + bytes(32), "not a readable .npz"),
    "no arrays": ([], "has no forget_logits"),
    "a text file": ([("forget_logits", b"1 2")], "expected arrays like forget_logits"),
    "a path": ([("../forget_logits.npy", header("(2, 2)") + bytes(32))], "expected arrays like"),
    "no magic": ([("forget_logits.npy", b"hello")], "not a readable .npz"),
    "nothing": ([("forget_logits.npy", b"")], "not a readable .npz"),
    "a header alone": ([("forget_logits.npy", header("(2, 2)"))], "has 32 bytes, which it does not have"),
    "too long": ([("forget_logits.npy", header("(2, 2)") + bytes(33))], "has 32 bytes, which it does not have"),
    "a size that is a lie": ([("forget_logits.npy", header("(9000000000, 1000000)"))], "which it does not have"),
    "a negative size": ([("forget_logits.npy", header("(-2, -2)") + bytes(32))], "negative side"),
    "a header that computes": ([("forget_logits.npy", header("(10**9, 2)"))], "not a readable .npz"),
    "a header that calls": ([("forget_logits.npy", header("(print(1), 2)"))], "not a readable .npz"),
    "a long header": ([("forget_logits.npy", header("(2, 2)", version=(2, 0)) + bytes(32))], "unusual header"),
    "objects": ([("forget_logits.npy", header("(2, 2)", "'|O'") + bytes(32))], "pickled objects"),
}  # fmt: skip


@pytest.mark.parametrize("case", RAW)
def test_other_bytes_are_refused_in_one_sentence(tmp_path, case):
    content, sentence = RAW[case]
    path = tmp_path / "x.npz"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        archive(path, content)
    with pytest.raises(rs.InputError, match=sentence) as refusal:
        rs.read_outputs(path)
    assert len(str(refusal.value).splitlines()) == 1


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_comes_twice_is_refused(tmp_path):
    member = ("forget_logits.npy", header("(2, 2)") + bytes(32))
    with pytest.raises(rs.InputError, match=r"holds 'forget_logits\.npy' twice"):
        rs.read_outputs(archive(tmp_path / "x.npz", [member, member]))


@pytest.mark.parametrize("how", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_unusual_packing_is_refused(tmp_path, how):
    member = ("forget_logits.npy", header("(2, 2)") + bytes(32))
    with pytest.raises(rs.InputError, match="in an unusual way"):
        rs.read_outputs(archive(tmp_path / "x.npz", [member], how))


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path):
    """Zeros pack a thousandfold. Whatever the file says of itself, no more than the headers are read."""
    big = header("(3000000, 2)") + bytes(48_000_000)
    path = archive(tmp_path / "x.npz", [("forget_logits.npy", big)])
    assert path.stat().st_size < 60_000
    assert rs.read_outputs(path, budget=72_000_000).classes == 2  # in float64, and then in float32
    tracemalloc.start()
    with pytest.raises(rs.InputError, match="would unpack into 72000000 bytes, expected at most 71999999"):
        rs.read_outputs(path, budget=71_999_999)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2_000_000


def test_a_damaged_array_is_noticed(tmp_path):
    np.savez(tmp_path / "x.npz", **OUTPUTS)
    raw = bytearray((tmp_path / "x.npz").read_bytes())
    raw[200] ^= 1
    (tmp_path / "x.npz").write_bytes(raw)
    with pytest.raises(rs.InputError, match="Bad CRC-32"):
        rs.read_outputs(tmp_path / "x.npz")


# --- whatever the bytes ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("npz") / "x.npz"


def packed(arrays: dict[str, np.ndarray], compressed: bool = False) -> bytes:
    file = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(file, **arrays)
    return file.getvalue()


def read_both(path: Path) -> None:
    for read in (rs.read_outputs, rs.read_features):
        sentence, tensors = None, {}
        try:
            found = read(path, budget=1 << 24)
            tensors = found.logits if read is rs.read_outputs else found.blocks
        except rs.InputError as error:
            sentence = str(error)
        assert sentence is None or (str(path) in sentence and len(sentence.splitlines()) == 1)
        assert all(torch.isfinite(values).all() for values in tensors.values())


WHOLE = [packed(OUTPUTS), packed(OUTPUTS, True), packed(FEATURES), packed(FEATURES, True)]
EDITS = st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=5), st.integers(0, 5)), min_size=1, max_size=5)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(raw=st.sampled_from(WHOLE), edits=EDITS, end=st.just(1.0) | st.floats(0, 1))
def test_damaged_files_give_arrays_or_a_sentence(place, raw, edits, end):
    for where, put, length in edits:
        at = int(where * len(raw))
        raw = raw[:at] + put + raw[at + length :]
    place.write_bytes(raw[: int(end * len(raw))])
    read_both(place)


NAMES = st.sampled_from(
    ["forget_logits", "forget_labels", "retain_logits", "test_logits", "test_labels", "block1", "block5", "labels"]
) | st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=8)
KINDS = st.one_of(
    hnp.floating_dtypes(), hnp.integer_dtypes(), hnp.unsigned_integer_dtypes(), hnp.boolean_dtypes(),
    hnp.complex_number_dtypes(), hnp.byte_string_dtypes(), hnp.unicode_string_dtypes(), hnp.datetime64_dtypes(),
)  # fmt: skip
ARRAYS = KINDS.flatmap(lambda kind: hnp.arrays(kind, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)))


@settings(max_examples=300, deadline=None, derandomize=True)
@example({"forget_logits": np.zeros((2, 2), np.longdouble)})
@example({"block1": np.zeros((2, 2)), "labels": np.array([False, True])})
@given(st.dictionaries(NAMES, ARRAYS, max_size=3))
def test_any_arrays_give_arrays_or_a_sentence(place, arrays):
    with zipfile.ZipFile(place, "w") as file:
        for name, array in arrays.items():
            raw = io.BytesIO()
            np.lib.format.write_array(raw, array, allow_pickle=True)
            file.writestr(f"{name}.npy", raw.getvalue())
    read_both(place)


@settings(max_examples=300, deadline=None, derandomize=True)
@example("(" * 3000, "'<f8'", b"")
@example("(2, 2)", "[('a', '<f8', (100000, 100000))]", b"")
@example("(2, 2)", "'V0'", b"")
@example("(0, 9223372036854775807, 9223372036854775807)", "'<f8'", b"")
@given(
    shape=st.text("0123456789(),-[]{}:'ex*_. ", max_size=20)
    | st.lists(st.integers(-3, 2**70), max_size=4).map(str)
    | st.lists(st.integers(0, 4), max_size=4).map(lambda s: str(tuple(s))),
    descr=st.sampled_from(["'<f8'", "'|O'", "'<i4'", "'|V0'", "'<U9'", "('<f8', (3,))", "None", "3", "[]", "'x'"]),
    rest=st.binary(max_size=64),
)
def test_any_header_gives_an_array_or_a_sentence(place, shape, descr, rest):
    archive(place, [("forget_logits.npy", header(shape, descr) + rest), ("block1.npy", header(shape, descr) + rest)])
    read_both(place)


def test_saved_files_of_other_samples_are_refused_before_critics_are_fitted(monkeypatch):
    features = rs.SavedFeatures({1: torch.randn(40, 3)}, torch.arange(40) % 2)
    logits = {"forget": torch.randn(20, 3)}
    monkeypatch.setattr(saved, "_curves", lambda held: pytest.fail("critics were fitted"))
    models = {
        role: rs.Saved(rs.SavedOutputs(logits, {"forget": torch.full((20,), label)}), features)
        for role, label in (("unlearned", 0), ("original", 1))
    }
    with pytest.raises(rs.InputError, match="has other forget_labels"):
        saved.records_of_saved(models)
