"""Every method that is stopped in any of its phases goes on, and ends with the same weights."""

from __future__ import annotations

import dataclasses

import pytest
from quick_settings import small

from residua.models.classifier import weights_digest
from residua.training.keeping import kept_at
from residua.training.loop import Tick, seeded, watching
from residua.training.settings import Epochs, described
from residua.unlearn import METHODS, traits

pytestmark = pytest.mark.usefixtures("one_thread")


class Stopped(Exception):
    pass


class Counter:
    """Counts finished epochs, and stops a method at the end of one, before it is kept."""

    def __init__(self, stop: int | None = None) -> None:
        self.epochs, self.stop = 0, stop

    def __call__(self, tick: Tick) -> None:
        self.epochs += tick.epoch_done
        if self.epochs == self.stop:
            raise Stopped


# One with two phases, and one whose loss changes from epoch to epoch.
QUICK = ("COLA", "l1-sparse")


@pytest.mark.parametrize(
    "method", [pytest.param(m, id=m.label, marks=[] if m.label in QUICK else pytest.mark.slow) for m in METHODS]
)
def test_a_stopped_method_ends_with_the_weights_of_an_undisturbed_one(method, net, task, tmp_path):
    if task.scenario not in traits(method).scenarios:
        pytest.skip(f"{method.label} does not forget classes")
    method = small(method)
    fields = described(type(method)).items()
    method = dataclasses.replace(method, **{name: 2 for name, field in fields if isinstance(field.setting, Epochs)})

    def made(counter: Counter) -> str:
        with seeded(5), watching(counter):
            return weights_digest(method(net, task))

    undisturbed = Counter()
    whole = made(undisturbed)
    for stop in range(2, undisturbed.epochs + 1):
        path = tmp_path / str(stop) / "state.safetensors"
        with pytest.raises(Stopped), kept_at(path, every=0):
            made(Counter(stop))
        rest = Counter()
        with kept_at(path, every=0):
            assert made(rest) == whole, f"stopped at the end of epoch {stop} of {undisturbed.epochs}"
        assert rest.epochs == undisturbed.epochs - (stop - 1), "an epoch that was kept is not made again"
        assert not list(path.parent.iterdir())
