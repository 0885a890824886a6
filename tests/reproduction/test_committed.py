"""Committed cells: a study goes on from them instead of training and measuring, and only from its own."""

from __future__ import annotations

import dataclasses
import gzip
import shutil
from pathlib import Path

import pytest

import residua as rs
from reproduction import committed
from residua.audits.verifying import PACKED, reports_in
from residua.errors import InputError
from residua.measure import Accuracy, ForgetOutputs, InformationCurve, Membership, Representation
from residua.study import Study
from residua.study.schedule import whole_records
from residua.study.store import Store
from residua.unlearn import FineTune, Original, Retrain

RECORDS = Path(__file__).resolve().parents[2] / "records"
pytestmark = pytest.mark.usefixtures("one_thread")
NETWORK = {"network": "resnet18", "classes": 4, "channels": 1, "width": 1, "stem": "cifar"}


def study(stripes, training, measures=(), **more) -> Study:
    few = dataclasses.replace(stripes, train=stripes.train.subset(range(80)))
    return Study(
        tasks={"stripes": rs.forget_classes(few, 2)},
        networks={"r": NETWORK},
        pretraining=training,
        methods=[Original(), Retrain(training), FineTune(epochs=1, crop=0, flip=False)],
        measures=list(measures) or [Accuracy()],
        **more,
    )


MEASURES = (InformationCurve(last=1, family="linear"), ForgetOutputs(), Membership(), Representation())


@pytest.fixture(scope="module")
def first(stripes, stripes_training, tmp_path_factory):
    """A finished study with its folder, and the folder that its cells were kept in."""
    out = tmp_path_factory.mktemp("first")
    made = study(stripes, dataclasses.replace(stripes_training, epochs=1), MEASURES, compact=True)
    return (made, made.run(out / "study"), out / "study", out / "kept", committed.keep(out / "study", out / "kept"))


def test_a_kept_study_is_finished_in_another_folder_with_the_same_records(first, tmp_path):
    made, done, out, kept, number = first
    assert number == done.computed, "every cell"
    assert len(list((kept / "models").iterdir())) == 2, "Original and Retrain, no method"
    assert committed.keep(out, kept) == 0, "they are there"
    assert committed.place(tmp_path, kept) == number
    again = made.run(tmp_path)
    assert (again.computed, again.failures) == (0, {})
    assert [record.sha256 for record in again.records] == [record.sha256 for record in done.records]
    arrays, fewer = (sum(path.stat().st_size for path in (each / "arrays").iterdir()) for each in (out, kept))
    assert fewer < arrays / 2
    assert Store(kept).check() == []
    with pytest.raises(InputError, match=r"only compact readings of .* and [0-9]+ others, which verdicts"):
        whole_records(made, tmp_path)


def test_a_measure_that_is_missing_is_taken_of_a_model_made_again(first, stripes, stripes_training, tmp_path):
    made, done, _, kept, _ = first
    committed.place(tmp_path, kept)
    more = dataclasses.replace(made, measures=[*MEASURES, Accuracy()])
    again = more.run(tmp_path)
    assert again.failures == {}
    assert again.computed == 4, "three readings and the method's model; Original and Retrain have theirs"
    assert [record.readings["mia"] for record in again.records] == [record.readings["mia"] for record in done.records]


def test_another_training_finds_nothing_of_it(first, stripes, stripes_training, tmp_path):
    committed.place(tmp_path, first[3])
    other = study(stripes, dataclasses.replace(stripes_training, epochs=1, lr=stripes_training.lr / 2))
    assert other.run(tmp_path).computed == len(other.cells)


def test_too_many_bytes_are_refused_and_nothing_is_nothing_to_keep(stripes, stripes_training, tmp_path, monkeypatch):
    with pytest.raises(InputError, match="no finished Original or Retrain"):
        committed.keep(tmp_path, tmp_path / "kept")
    study(stripes, dataclasses.replace(stripes_training, epochs=1)).run(tmp_path / "first")
    monkeypatch.setattr(committed, "MOST", 1000)
    with pytest.raises(InputError, match="at most 1,000 are committed"):
        committed.keep(tmp_path / "first", tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


def test_what_is_committed_is_small_and_whole_and_each_model_has_its_cell():
    files = list(committed.MODELS.glob("models/*.safetensors"))
    assert sum(path.stat().st_size for path in files) <= committed.MOST
    assert {result.model for result in committed.trained(committed.MODELS)} == {path.stem for path in files}
    rest = [*committed.MODELS.glob("cells/*"), *committed.MODELS.glob("arrays/*")]
    assert sum(path.stat().st_size for path in rest) <= committed.MOST / 3
    assert Store(committed.MODELS).check() == []


def test_packed_reports_are_those_of_the_folder_and_damage_is_refused(tmp_path):
    folder = tmp_path / "verdicts"
    folder.mkdir()
    for name in ("seed0-hd", "seed1-hd"):
        shutil.copy(RECORDS / f"controls/{name}.json", folder)
    assert committed.pack(folder, tmp_path) == 2
    assert reports_in(tmp_path) == reports_in(folder)
    packed = tmp_path / PACKED
    whole = packed.read_bytes()
    assert committed.pack(folder, tmp_path) == 2
    assert packed.read_bytes() == whole, "the same bytes whenever it is packed"
    for damaged in (whole[:-9], b"reports", gzip.compress(b"\xff")):
        packed.write_bytes(damaged)
        with pytest.raises(InputError, match=r"reports.jsonl.gz is damaged, expected gzipped lines"):
            reports_in(tmp_path)
    packed.write_bytes(gzip.compress(gzip.decompress(whole).splitlines()[0] + b'\n{"verdict": 1}'))
    with pytest.raises(InputError, match=r"reports.jsonl.gz, line 2, is not the report of a control"):
        reports_in(tmp_path)
    with pytest.raises(InputError, match="holds no reports of controls"):
        committed.pack(tmp_path / "nothing", tmp_path)


def test_packed_reports_that_unpack_into_far_too_much_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("RESIDUA_MAX_MEMORY", "100000")
    (tmp_path / PACKED).write_bytes(gzip.compress(b" " * 200_000))
    with pytest.raises(InputError, match="RESIDUA_MAX_MEMORY"):
        reports_in(tmp_path)
