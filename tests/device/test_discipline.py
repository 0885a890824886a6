"""Device discipline on a machine without a GPU: everything that runs on the CPU runs on a GPU, and seldom waits for it."""

from __future__ import annotations

import dataclasses
import os
import pickle
import sys
import time
from pathlib import Path

import pytest
import torch

import residua as rs
from residua import parallel
from residua.cli import COMMANDS, loaded, main
from residua.controls import cheats, deceivers
from residua.controls.hidden import LowBits, hidden
from residua.controls.impostors import impostors
from residua.data.split import MemoryImages
from residua.device import device_facts
from residua.measure import MEASURES, InformationCurve
from residua.measure import _outputs as outputs
from residua.measure.information import coordinates, critics, curve, families, fitting, linear
from residua.measure.information.samples import frequencies
from residua.training.keeping import kept_at
from residua.training.loop import seeded
from residua.unlearn import METHODS, traits

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "unlearn")]
from pretend import OnGpu, pretend
from quick_settings import PRETRAINING, small

CONTROLS = [*cheats.CHEATS.values(), *deceivers.DECEIVERS, *impostors(PRETRAINING), *hidden(PRETRAINING)]
QUICK = {"epochs": 1, "steps": 3, "rounds": 2, "repeats": 1}
CURVES = [
    pytest.param({"family": family, "steps": 3, "rounds": 2}, marks=[pytest.mark.slow][family == "stack" :])
    for family in ("stack", "linear", "network", "nonlinear")  # the stack has them all
]
CURVES += [{"protocol": "paper", "epochs": 1}]


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(critics, "FEWEST_STEPS", 3)
    monkeypatch.setattr(critics, "MOST_STEPS", 5)
    monkeypatch.setenv("RESIDUA_PROCESSES", "1")
    curve._curves.clear()


@pytest.fixture
def gpu(monkeypatch):
    """Two GPUs with CUDA's rules and with Apple's, too: no float64, so that critics in it compute on the CPU."""
    monkeypatch.setattr(fitting, "_place", lambda *_: torch.device("cpu"))
    with pretend(mps=True) as log:
        yield log


@pytest.fixture
def cuda():
    with pretend() as log:
        yield log


@pytest.fixture
def original():
    """A network on the second GPU, which is not the one that a careless `cuda` means."""

    def make(where: str = "cuda:1") -> rs.Classifier:
        with rs.seeded(0):
            return rs.models.resnet18(classes=4, channels=1, width=2).to(where)

    return make


def away(model: torch.nn.Module, where: str = "cuda:1") -> list[str]:
    """The tensors of a model that are not on the device."""
    return [n for n, t in model.state_dict().items() if not isinstance(t, OnGpu) or str(t.device) != where]


def quick(measure):
    own = {field.name for field in dataclasses.fields(measure)}
    return measure(**{name: value for name, value in QUICK.items() if name in own})


def test_the_pretence_refuses_what_cuda_refuses(cuda):
    on = torch.ones(3, device="cuda")
    assert str(on.device) == "cuda:0"
    assert torch.equal((on + 1).cpu(), torch.full((3,), 2.0))
    for mixture in (lambda: on + torch.ones(3), lambda: on + torch.ones(3, device="cuda:1")):
        with pytest.raises(RuntimeError, match="same device"):
            mixture()
    with pytest.raises(TypeError, match="numpy"):
        on.numpy()
    with pytest.raises(RuntimeError, match="generator"):
        torch.rand(3, device="cuda", generator=torch.Generator())
    with pytest.raises(RuntimeError, match="pickled"):
        pickle.dumps(on)
    with pretend(mps=True), pytest.raises(TypeError, match="float64"):
        torch.ones(3, device="cuda").double()
    before = cuda.total("waits"), cuda.total("up"), cuda.total("down")
    float(on.sum()), on.cpu(), torch.ones(2).to("cuda")
    assert (cuda.total("waits"), cuda.total("up"), cuda.total("down")) == tuple(n + 1 for n in before)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.label)
def test_every_method_stays_on_the_device(method, gpu, original, task):
    with rs.seeded(1):
        made = small(method)(original(), task)
    assert not away(made)
    assert torch.isfinite(outputs.logits(made, task.test)).all()


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.label)
def test_every_method_forgets_samples_on_the_device(method, cuda, original, data):
    task = rs.forget_samples(data, 30, seed=1)
    if task.scenario not in traits(method).scenarios:
        pytest.skip("it forgets classes alone")
    with rs.seeded(1):
        assert not away(small(method)(original("cuda:0"), task), "cuda:0")


@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.label)
def test_every_control_is_made_and_answers_on_the_device(control, gpu, original, task):
    beside = {"retrained": original()} if hasattr(control, "pretraining") else {}  # as studies give it
    with rs.seeded(1):
        made = small(control)(original(), task, **beside)
    assert not away(made)
    assert torch.isfinite(outputs.logits(made, task.test)).any()
    if isinstance(control, LowBits):
        assert not away(control.recovered(made))


@pytest.mark.parametrize(
    "measure", [each for each in MEASURES if each is not InformationCurve], ids=lambda each: each.__name__
)
def test_every_measure_reads_a_model_on_the_device(measure, gpu, original, task):
    model = original()
    assert quick(measure)(model, task).values
    assert not away(model)


@pytest.mark.parametrize("fields", CURVES, ids=lambda fields: fields.get("family", "paper"))
def test_every_family_of_critics_reads_a_model_on_the_device(fields, gpu, original, task):
    assert "I5" in InformationCurve(last=2, **fields)(original(), task).values


@pytest.mark.slow
@pytest.mark.parametrize("fields", CURVES, ids=lambda fields: fields.get("family", "paper"))
def test_every_family_of_critics_reads_samples_on_the_device(fields, cuda, original, data):
    task = rs.forget_samples(data, 30, seed=1)
    assert "I5" in InformationCurve(last=1, **fields)(original("cuda:0"), task).values


@pytest.mark.parametrize("network", ["resnet50", "vit"])
def test_other_networks_train_and_are_read_on_the_device(network, gpu, task):
    shape = {"width": 2} if network == "resnet50" else {"image": 8, "variant": "micro", "patch": 4}
    with rs.seeded(0):
        model = PRETRAINING(rs.models.build(network, classes=4, channels=1, **shape).to("cuda:1"), task.train)
    assert not away(model)
    assert len(outputs.pooled(model, task.forget)) == model.depth


def test_somebody_elses_network_is_adopted_where_it_is(gpu):
    parts = [torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()]
    model = rs.adopt(torch.nn.Sequential(*parts, torch.nn.Linear(4, 4)).to("cuda:1"))
    assert not away(model)


def test_features_that_nothing_can_hold_are_computed_again_on_the_device(gpu, original, task):
    model = original().eval()
    kept = outputs.features(model, task.retain, [4])[4]
    again = outputs.features(model, task.retain, [4], memory=20_000, disk=0)[4]
    assert isinstance(again, outputs.Recomputed)
    index = torch.tensor([70, 3, 3, 12])
    assert str(again[index].device) == "cuda:1"
    torch.testing.assert_close(again[index].cpu(), kept[index])


def test_readings_on_the_device_are_those_of_the_cpu(original, task):
    here = InformationCurve(family="linear", last=1)(original("cpu"), task)
    curve._curves.clear()
    outputs._passes.clear()
    with pretend():
        there = InformationCurve(family="linear", last=1)(original(), task)
    assert there.values["I5"] == pytest.approx(here.values["I5"], abs=1e-4)  # other kernels


def test_a_checkpoint_goes_to_the_device_and_back(cuda, original, tmp_path):
    model = original()
    rs.save(model, tmp_path / "m.safetensors")
    again = rs.load(tmp_path / "m.safetensors", device="cuda:1")
    assert not away(again)
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), model.parameters(), strict=True))


def test_a_training_on_the_device_resumes(cuda, original, task, tmp_path):
    def trained(epochs: int) -> rs.Classifier:
        return dataclasses.replace(PRETRAINING, epochs=epochs, schedule="constant")(original(), task.train)

    with rs.seeded(0):
        whole = trained(2)
    place = tmp_path / "kept.safetensors"

    def stopped() -> None:
        with rs.seeded(0), kept_at(place, every=0.0):
            trained(1)
            raise InterruptedError

    with pytest.raises(InterruptedError):
        stopped()
    with rs.seeded(5), kept_at(place):
        resumed = trained(2)
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), resumed.parameters(), strict=True))


# Copies and waits, held where they are: whoever adds one says why here.
def test_a_step_of_training_copies_four_small_things_and_never_waits(cuda, original, task):
    epochs = dataclasses.replace(PRETRAINING, epochs=4)
    steps = 4 * (len(task.train) // epochs.batch)
    epochs(original(), task.train)
    assert cuda.total("up", "data/") - 1 - 4 * 2 <= 4 * steps  # the images once, their scaling once an epoch
    assert cuda.total("down") == 0
    assert cuda.total("waits", "training/") <= 4  # the loss, once an epoch or every twenty steps
    assert cuda.total("waits") == cuda.total("waits", "training/")


def test_a_pass_copies_each_batch_down_once_per_block(cuda, original, task, monkeypatch):
    monkeypatch.setattr(outputs, "BATCH", 50)
    model = original()
    outputs.pooled(model, task.retain)
    batches = -(-len(task.retain) // 50)
    assert cuda.total("down", "_outputs") == batches * (model.depth + 1)
    assert cuda.total("down", "_memo") == 1  # the weights, in one piece
    assert cuda.total("waits") == 0
    outputs.logits(model, task.retain)  # remembered
    assert cuda.total("down", "_outputs") == batches * (model.depth + 1)


def test_a_critic_copies_its_batch_and_nothing_else(cuda, original, task):
    InformationCurve(family="network", blocks=(4,), steps=20, rounds=1)(original(), task)
    assert cuda.total("up", "coordinates") <= 2 * 2  # of the labels, and of labels exchanged at random
    assert cuda.total("waits", "training/") <= 4 * 2


def test_each_copy_of_the_process_works_while_the_parent_has_used_a_gpu(cuda, monkeypatch):
    monkeypatch.setenv("RESIDUA_PROCESSES", "2")
    torch.ones(1, device="cuda")
    assert torch.cuda.is_initialized()

    def piece() -> int:
        with seeded(1):
            time.sleep(0.2)
            return os.getpid()

    with seeded(0):
        assert len({*parallel.each([piece] * 6), os.getpid()}) == 3


@pytest.mark.parametrize(("memory", "place"), [(24 << 30, "cuda"), (1 << 16, "cpu")])
def test_critics_on_pooled_features_compute_on_the_gpu_or_share_the_cores_where_it_has_no_room(
    memory, place, original, task, monkeypatch
):
    asked = []

    def each(tasks, *, on, **more):
        asked.append((len(tasks), on))
        return [one() for one in tasks]

    monkeypatch.setattr(fitting, "each", each)
    with pretend(memory=memory):
        InformationCurve(family="linear", last=2)(original(), task)
    assert asked[0] == (8, place)


def pooled_readings(labels: int, features: int, where: str, n: int = 600) -> tuple[torch.Tensor, dict[str, float]]:
    """The axes of made features, and what each critic reads of them on unseen samples, computed on a device."""
    generator = torch.Generator().manual_seed(0)
    y = (torch.arange(n) % labels)[torch.randperm(n, generator=generator)]
    z = torch.randn(n, features, generator=generator)
    z += 2 / features**0.5 * torch.randn(labels, features, generator=generator)[y]
    prior = frequencies(y)
    z = z.to(where)
    turn = coordinates.canonical(z)
    inside, outside = torch.arange(n).chunk(2)
    with rs.seeded(0):
        scores = families.pooled_scores(turn(z), y, inside, outside, prior, families.PARTS["nonlinear"])
    assert all(type(each) is torch.Tensor for each in scores.values())  # on the CPU
    own, fold = y[outside], torch.arange(len(outside)) % 2
    read = {
        name: families.read_family("nonlinear", {1: {name: each}}, own, fold, prior)[1] for name, each in scores.items()
    }
    return turn.axes.cpu(), {name: float(each.terms.mean()) for name, each in read.items()}


@pytest.mark.parametrize(("labels", "features"), [(2, 20), (2, 150), (3, 20)])
def test_critics_on_pooled_features_read_on_the_device_what_they_read_on_the_cpu(labels, features):
    here, read_here = pooled_readings(labels, features, "cpu")
    with pretend():
        there, read_there = pooled_readings(labels, features, "cuda:1")
    torch.testing.assert_close(there, here, rtol=0, atol=1e-8 * float(here.abs().max()))
    assert min(read_here.values()) > 0.01
    exact = ("linear",) if features < linear.FEW_FEATURES else ()  # others have products in single precision
    for name, value in read_here.items():
        assert read_there[name] == pytest.approx(value, abs=1e-8 if name in exact else 1e-6)


def test_critics_on_pooled_features_copy_and_wait_no_more_where_there_are_more_samples():
    """Up go the features, what is fitted and read, and a draw for each pass over the samples; down, each critic's scores."""
    found = []
    for n in (600, 300):
        with pretend() as log:
            pooled_readings(2, 20, "cuda:1", n)
        found.append((log.total("up", "information/"), log.total("down", "information/")))
        assert log.total("waits", "information/") < 100
    assert found[0] == found[1]
    assert found[0][0] <= 6 + critics.MOST_STEPS
    assert found[0][1] == 3


def test_a_task_that_was_used_on_the_device_travels_without_it(cuda, task):
    next(iter(task.train.batches(8, device="cuda")))
    assert isinstance(pickle.loads(pickle.dumps(task)), rs.ForgetTask)


@pytest.mark.parametrize(("major", "expected"), [(7, "float16"), (8, "bfloat16")])
def test_gpus_that_would_emulate_bfloat16_train_in_float16_with_scaled_losses(major, expected, original, task):
    with pretend(major=major) as log:
        assert f"Pretend GPU); {expected} in trainings" in device_facts(torch.device("cuda"))
        with rs.seeded(0):
            made = dataclasses.replace(PRETRAINING, clip=1.0)(original(), task.train)
        assert all(torch.isfinite(tensor).all() for tensor in made.state_dict().values())
        assert torch.get_autocast_dtype("cpu") is torch.bfloat16  # the caller's own
        scaled = log.total("waits", "training/loop.py") > 1  # whether a gradient overflowed is asked at each step
        assert scaled == (major == 7)


def test_images_that_a_gpu_has_no_room_for_stay_in_memory(data):
    images = MemoryImages(data.train.images.pixels)
    split = dataclasses.replace(data.train, images=images)
    with pretend(memory=2 * images.pixels.numel() - 2) as log:
        next(iter(split.batches(8, device="cuda:1")))
        assert not images._copies
        assert log.total("up", "data/") > 0


def test_every_command_takes_the_gpu_that_is_there():
    found = {}
    for name in COMMANDS:
        command = loaded(name)
        for each in [command, *getattr(command, "commands", {}).values()]:
            defaults = [option.default for option in each.params if option.name == "device"]
            found |= {(name, each.name): defaults[0]} if defaults else {}
    assert found.pop(("verify", "verify")) is None  # the device of the audit
    assert len(found) >= 9
    assert set(found.values()) == {"auto"}


def test_a_gpu_whose_memory_runs_out_is_one_sentence(monkeypatch, capsys):
    def full(*_: object, **more: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB")

    monkeypatch.setattr("residua.cli.inputs.open_dataset", full)
    assert run("train", "--data", "fashion-sample", "--forget", "class:1", "--out", "x.safetensors") == 3
    assert "the memory of the device ran out; use a smaller --batch" in capsys.readouterr().err


def run(*words: object) -> int:
    return main([str(word) for word in words])


def test_commands_compute_on_the_gpu_that_is_there(cuda, folder, monkeypatch, capsys):
    """train, unlearn, measure and audit, without a word about the device."""
    monkeypatch.chdir(folder)
    task = ["--data", "mnist:.", "--forget", "class:2"]
    short = ["--epochs", "1", "--batch", "120"]
    assert run("train", *task, "--width", "1", *short, "--out", "o.safetensors") == 0
    assert "device cuda" in capsys.readouterr().err
    assert run("train", *task, "--width", "1", *short, "--retrain", "--out", "r.safetensors") == 0
    assert run("unlearn", "FT", "--original", "o.safetensors", *task, *short, "--out", "u.safetensors") == 0
    assert run("measure", "u.safetensors", *task) == 0
    models = ["--original", "o.safetensors", "--reference", "r.safetensors", "--unlearned", "u.safetensors"]
    cheap = ["--last", "1", "--family", "linear", "--budget", "1s"]  # other measures have their own tests
    assert run("audit", *models, *task, *cheap, "--out", "audit") in (0, 1, 2)
    assert (folder / "audit" / "report.html").is_file()


STUDY = """
import residua as rs
from residua.measure import Accuracy, Probe
from residua.study import Study
from residua.unlearn import FineTune, Original, Retrain

quick = rs.Pretraining(epochs=1, batch=120, crop=1)
study = Study(
    tasks={"mnist": rs.forget_classes(rs.data.mnist("."), 2)},
    networks={"r": {"network": "resnet18", "classes": 10, "channels": 1, "width": 1}},
    pretraining=quick,
    methods=[Original(), Retrain(quick), FineTune(epochs=1, batch=120)],
    measures=[Accuracy(), Probe()],
)
"""


def test_a_study_with_workers_computes_on_the_gpu(cuda, folder, monkeypatch, as_if_in_processes):
    """Messages to workers and back are pickled, which a tensor on a GPU refuses."""
    monkeypatch.chdir(folder)
    (folder / "mine.py").write_text(STUDY)
    assert run("study", "run", "mine.py", "--jobs", "2", "--out", "study") == 0
    records = {path.stem for path in (folder / "study" / "records").glob("*.json")}
    assert records == {"seed0-original", "seed0-retrain", "seed0-ft"}
    assert "Pretend GPU" in (folder / "study" / "records" / "seed0-ft.json").read_text()
