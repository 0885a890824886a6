"""Committed models: a study starts from them instead of training, and only from its own."""

from __future__ import annotations

import dataclasses

import pytest

import residua as rs
from reproduction import committed
from residua.errors import InputError
from residua.measure import Accuracy
from residua.study import Study
from residua.unlearn import FineTune, Original, Retrain

pytestmark = pytest.mark.usefixtures("one_thread")
NETWORK = {"network": "resnet18", "classes": 4, "channels": 1, "width": 1, "stem": "cifar"}


def study(stripes, training) -> Study:
    few = dataclasses.replace(stripes, train=stripes.train.subset(range(80)))
    return Study(
        tasks={"stripes": rs.forget_classes(few, 2)},
        networks={"r": NETWORK},
        pretraining=training,
        methods=[Original(), Retrain(training), FineTune(epochs=1, crop=0, flip=False)],
        measures=[Accuracy()],
    )


def test_a_study_starts_from_committed_models_and_only_from_its_own(stripes, stripes_training, tmp_path):
    training = dataclasses.replace(stripes_training, epochs=1)
    first = study(stripes, training).run(tmp_path / "first")
    assert committed.keep(tmp_path / "first", tmp_path / "kept") == 2, "Original and Retrain, no method"
    assert len(list((tmp_path / "kept/models").iterdir())) == 2
    assert committed.keep(tmp_path / "first", tmp_path / "kept") == 0, "they are there"
    assert committed.place(tmp_path / "second", tmp_path / "kept") == 2
    second = study(stripes, training).run(tmp_path / "second")
    assert first.computed - second.computed == 2
    names = [record.name for record in first.records]
    for name in names:
        ours, theirs = (
            next(r for r in done.records if r.name == name).method.weights for done in (first, second)
        )
        assert ours == theirs
    committed.place(tmp_path / "third", tmp_path / "kept")
    other = study(stripes, dataclasses.replace(training, lr=training.lr / 2)).run(tmp_path / "third")
    assert other.computed == first.computed, "another training finds nothing of it"


def test_too_many_bytes_are_refused_and_nothing_is_nothing_to_keep(
    stripes, stripes_training, tmp_path, monkeypatch
):
    with pytest.raises(InputError, match="no finished Original or Retrain"):
        committed.keep(tmp_path, tmp_path / "kept")
    study(stripes, dataclasses.replace(stripes_training, epochs=1)).run(tmp_path / "first")
    monkeypatch.setattr(committed, "MOST", 1000)
    with pytest.raises(InputError, match="at most 1,000 are committed"):
        committed.keep(tmp_path / "first", tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


def test_what_is_committed_is_small_and_each_model_has_its_cell():
    files = list(committed.MODELS.glob("models/*.safetensors"))
    assert sum(path.stat().st_size for path in files) <= committed.MOST
    named = {body["values"]["weights"] for _, body in committed.trained(committed.MODELS)}
    assert named == {path.stem for path in files}
