"""A training that was stopped goes on from its last kept epoch with the same bits."""

from __future__ import annotations

import dataclasses

import pytest

import residua as rs
from residua.models.classifier import weights_digest
from residua.training.keeping import kept_at
from residua.training.loop import Tick, watching

pytestmark = pytest.mark.usefixtures("one_thread")


class Stopped(Exception):
    pass


def stop_at(epoch: int):
    def watch(tick: Tick) -> None:
        if tick.epoch == epoch and tick.step == 2:
            raise Stopped

    return watching(watch)


@pytest.fixture
def training(stripes_training) -> rs.Pretraining:
    return dataclasses.replace(stripes_training, epochs=4, crop=1, flip=True)


def trained(training: rs.Pretraining, task: rs.ForgetTask) -> rs.Classifier:
    with rs.seeded(3):
        return training(rs.models.resnet18(classes=4, channels=1, width=2), task.train)


def test_it_ends_with_the_weights_of_an_undisturbed_one(training, task, tmp_path):
    path = tmp_path / "partial" / "state.safetensors"
    whole = weights_digest(trained(training, task))
    for epoch in (2, 4):
        with pytest.raises(Stopped), stop_at(epoch), kept_at(path, every=0):
            trained(training, task)
        assert path.exists()
    epochs = []
    with watching(lambda tick: epochs.append(tick.epoch)), kept_at(path, every=0):
        assert weights_digest(trained(training, task)) == whole
    assert set(epochs) == {4}, "three epochs were kept"
    assert not path.exists(), "nothing is left of a finished training"


def test_a_damaged_state_costs_time_and_nothing_else(training, task, tmp_path):
    path = tmp_path / "state.safetensors"
    with pytest.raises(Stopped), stop_at(3), kept_at(path, every=0):
        trained(training, task)
    path.write_bytes(path.read_bytes()[:-7])
    with kept_at(path, every=0):
        assert weights_digest(trained(training, task)) == weights_digest(trained(training, task))


def test_a_short_training_keeps_nothing(training, task, tmp_path):
    path = tmp_path / "state.safetensors"
    with pytest.raises(Stopped), stop_at(3), kept_at(path):
        trained(training, task)
    assert not path.exists()


def test_every_phase_has_a_file_of_its_own_and_none_stays(training, task, tmp_path):
    path = tmp_path / "state.safetensors"
    phases = [dataclasses.replace(training, epochs=1), dataclasses.replace(training, epochs=2)]

    def both() -> list[str]:
        return [weights_digest(trained(each, task)) for each in phases]

    whole = both()
    with pytest.raises(Stopped), stop_at(2), kept_at(path, every=0):
        both()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["state.1.safetensors", "state.safetensors"]
    epochs = []
    with watching(lambda tick: epochs.append((tick.epochs, tick.epoch))), kept_at(path, every=0):
        assert both() == whole
    assert set(epochs) == {(2, 2)}, "the first training and one epoch of the second were kept"
    assert not list(tmp_path.iterdir())


def test_a_short_phase_is_not_kept_at_its_end(training, task, tmp_path):
    with kept_at(tmp_path / "state.safetensors"):
        trained(training, task)
        assert not list(tmp_path.iterdir())
