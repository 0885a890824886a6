"""Checkpoints of strangers: what is opened, and what is refused without being run."""

from __future__ import annotations

import os
import pickle
import re
import struct
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import nn

import residua as rs
from residua.cli import main
from residua.models.classifier import weights_digest
from residua.models.foreign import opening as strangers

pytestmark = pytest.mark.usefixtures("one_thread")


class Own(nn.Module):
    """A user's network, for images of 12 x 12 pixels in one channel."""

    def __init__(self, num_classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU())
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        self.fc = nn.Linear(4, num_classes)

    def forward(self, x):
        return self.fc(self.body(self.stem(x)).mean((2, 3)))


OWN = """
import torch
from torch import nn
from helpers_of_own import width

class Own(nn.Module):
    def __init__(self, num_classes=10):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, width, 3), nn.BatchNorm2d(width), nn.ReLU())
        self.body = nn.Sequential(nn.Conv2d(width, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        self.fc = nn.Linear(4, num_classes)

    def forward(self, x):
        return self.fc(self.body(self.stem(x)).mean((2, 3)))

def make(classes):
    return Own(classes)

def chain(classes=10):
    net = Own(classes)
    return nn.Sequential(net.stem, net.body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), net.fc)

def adopted():
    import residua
    return residua.adopt(Own(), ["stem", "body"], torch.randn(4, 1, 12, 12))

def broken():
    raise RuntimeError("out of\\norder")

number = 3
"""


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """A folder to work in, with the user's code and MNIST's four files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("/nowhere")  # forget the modules of the test before
    for name in ("own_networks", "helpers_of_own"):
        monkeypatch.delitem(__import__("sys").modules, name, raising=False)
    (tmp_path / "own_networks.py").write_text(OWN)
    (tmp_path / "helpers_of_own.py").write_text("width = 3")
    (tmp_path / "data").mkdir()
    random = np.random.default_rng(0)
    for stem, per_class in (("train", 24), ("t10k", 3)):
        labels = np.repeat(np.arange(10, dtype=np.uint8), per_class)
        images = (labels[:, None, None] * 22 + random.integers(0, 40, (len(labels), 12, 12))).astype(np.uint8)
        for name, array in (("images", images), ("labels", labels)):
            head = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
            (tmp_path / f"data/{stem}-{name}-idx{array.ndim}-ubyte").write_bytes(head + array.tobytes())
    return tmp_path


@pytest.fixture
def own() -> Own:
    with rs.seeded(0):
        return Own().eval()


IMAGES = torch.randn(5, 1, 12, 12, generator=torch.Generator().manual_seed(0))
FACTS = {"classes": 10, "channels": 1, "image": (12, 12)}
CUTS = ["stem", "body"]


def check_same(model: rs.Classifier, net: nn.Module) -> None:
    with torch.no_grad():
        torch.testing.assert_close(model(IMAGES), net(IMAGES), atol=1e-5, rtol=0)
    assert not model.training


# --- what is opened -------------------------------------------------------------------------------

WRITTEN = {
    "bare safetensors": ("m.safetensors", lambda w, p: save_file(w, p)),
    "state dict": ("m.pt", lambda w, p: torch.save(w, p)),
    "older format": ("m.pth", lambda w, p: torch.save(w, p, _use_new_zipfile_serialization=False)),
    "under state_dict": ("m.pth", lambda w, p: torch.save({"epoch": 3, "state_dict": w, "best": 0.5}, p)),
    "under model": ("m.ckpt", lambda w, p: torch.save({"model": w}, p)),
    "twice under": ("m.bin", lambda w, p: torch.save({"model": {"state_dict": w, "epoch": 1}}, p)),
    "of DataParallel": ("m.pth", lambda w, p: torch.save({f"module.{k}": v for k, v in w.items()}, p)),
    "of a compiled DataParallel": (
        "m.pth", lambda w, p: torch.save({f"_orig_mod.module.{k}": v for k, v in w.items()}, p)
    ),
    "without counters": (
        "m.pth", lambda w, p: torch.save({k: v for k, v in w.items() if "num_batches" not in k}, p)
    ),
    "parameters": ("m.pth", lambda w, p: torch.save({k: nn.Parameter(v) if v.is_floating_point() else v for k, v in w.items()}, p)),
    "safetensors by content": ("m.weights", lambda w, p: save_file(w, p)),
}  # fmt: skip


@pytest.mark.parametrize("case", WRITTEN)
def test_weights_are_found_wherever_people_put_them(here, own, case):
    name, write = WRITTEN[case]
    write(own.state_dict(), here / name)
    check_same(rs.open_model(here / name, Own, cuts=CUTS, **FACTS), own)


@pytest.mark.parametrize("network", ["own_networks:make", "own_networks:Own", "own_networks:adopted"])
def test_networks_are_built_by_the_user(here, own, network):
    generator = torch.get_rng_state()
    cuts = None if network.endswith("adopted") else CUTS
    weights = own.state_dict()
    if network.endswith("adopted"):
        weights = rs.adopt(own, CUTS, IMAGES).state_dict()
    torch.save(weights, here / "m.pt")
    model = rs.open_model(here / "m.pt", network, cuts=cuts, **FACTS)
    check_same(model, own)
    assert torch.equal(torch.get_rng_state(), generator)
    assert model.architecture["network"] == network


def test_an_adopted_model_is_saved_and_opened_again_but_not_on_the_files_word(here, own):
    torch.save(own.state_dict(), here / "m.pt")
    model = rs.open_model(here / "m.pt", "own_networks:make", cuts=CUTS, **FACTS)
    rs.save(model, here / "again.safetensors")
    again = rs.open_model(here / "again.safetensors", "own_networks:make", cuts=CUTS, **FACTS)
    assert weights_digest(again) == weights_digest(model)
    with pytest.raises(rs.InputError, match="network own_networks:make, which is code that is not run"):
        rs.open_model(here / "again.safetensors")
    with pytest.raises(rs.InputError, match="does not say how it is built"):
        rs.save(rs.adopt(own, CUTS, IMAGES), here / "other.safetensors")


@pytest.mark.parametrize(
    "build",
    [
        lambda: rs.models.resnet18(width=2, channels=1, classes=10),
        lambda: rs.models.resnet50(width=1, channels=1, classes=10, stem="imagenet"),
        lambda: rs.models.vit(variant="tiny", image=12, patch=4, channels=1, classes=10),
    ],
)
def test_our_own_networks_are_known_by_the_shapes_of_bare_weights(here, build):
    with rs.seeded(0):
        net = build()
    torch.save(net.state_dict(), here / "m.pt")
    rs.save(net, here / "m.safetensors")
    name = net.architecture["network"]
    model = rs.open_model(here / "m.pt", name, **FACTS)
    assert model.architecture == net.architecture
    assert weights_digest(model) == weights_digest(net)
    for network in (None, name, Own):
        assert weights_digest(rs.open_model(here / "m.safetensors", network, **FACTS)) == weights_digest(net)


@pytest.mark.parametrize("name", ["resnet18", "resnet50"])
def test_a_resnet_under_torchvisions_names_becomes_ours(here, name):
    """Renamed as torchvision names them, and opened again: the same network."""
    with rs.seeded(0):
        net = rs.models.NETWORKS[name](width=1, channels=1, classes=10)
    stages = {"resnet18": [[1], [2], [3], [4]], "resnet50": [[1], [2], [3, 4], [5]]}[name]
    theirs = {}
    for key, tensor in net.state_dict().items():
        part = key.split(".")
        if part[0] == "head":
            theirs[f"fc.{part[1]}"] = tensor
        elif part[1] == "0":
            theirs[f"{'conv1' if part[2] == '0' else 'bn1'}.{part[3]}"] = tensor
        else:
            stage = next(i for i, blocks in enumerate(stages) if int(part[1]) in blocks)
            unit = int(part[2]) + 3 * stages[stage].index(int(part[1]))
            rest = ".".join(part[3:]).replace("norm", "bn").replace("shortcut", "downsample")
            theirs[f"layer{stage + 1}.{unit}.{rest}"] = tensor
    torch.save({"state_dict": {f"module.{k}": v for k, v in theirs.items()}}, here / "m.pth")
    assert weights_digest(rs.open_model(here / "m.pth", name, **FACTS)) == weights_digest(net)


def test_a_whole_pickled_network_needs_trust(here, own):
    torch.save(own, here / "m.pt")
    with pytest.raises(rs.InputError, match=r"holds more than weights \(\w*test_opening.Own\).*--trust"):
        rs.open_model(here / "m.pt", Own, cuts=CUTS, **FACTS)
    check_same(rs.open_model(here / "m.pt", cuts=CUTS, trust=True, **FACTS), own)
    check_same(rs.open_model(here / "m.pt", Own, cuts=CUTS, trust=True, **FACTS), own)


# --- what is refused ------------------------------------------------------------------------------


class Bomb:
    """Opened as a pickle, it leaves a file."""

    def __reduce__(self):
        return (os.system, ("touch executed",))


class Filling:
    """A few bytes that ask for a terabyte."""

    def __reduce__(self):
        return (bytearray, (10**12,))


def zip_bomb(weights, path):
    """A checkpoint whose storage of zeros was packed. The rule is relative, so megabytes will do."""
    torch.save({"fc.weight": torch.zeros(1)}, path)
    with zipfile.ZipFile(path) as old:
        members = {m.filename: old.read(m) for m in old.infolist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as new:
        for name, content in members.items():
            if name.endswith("data/0"):
                with new.open(name, "w", force_zip64=True) as file:
                    file.write(bytes(1 << 24))
            else:
                new.writestr(name, content)


def expanded(weights, path):
    """One number that says it is a terabyte of weights."""
    torch.save(weights | {"fc.weight": torch.zeros(1).expand(10**6, 10**6)}, path)


def changed(**more):
    return lambda w, p: torch.save({k: v for k, v in (w | more).items() if v is not None}, p)


NAN = float("nan")
REFUSED = {
    "missing": ("m.pt", lambda w, p: None, "does not exist"),
    "a folder": ("m.pt", lambda w, p: p.mkdir(), "is a folder"),
    "a pipe": ("m.pt", lambda w, p: os.mkfifo(p), "is a pipe"),
    "a device": ("m.pt", lambda w, p: p.symlink_to("/dev/zero"), "a pipe, a socket or a device"),
    "a pipe as safetensors": ("m.safetensors", lambda w, p: os.mkfifo(p), "is a pipe"),
    "empty": ("m.pt", lambda w, p: p.touch(), "is empty"),
    "empty safetensors": ("m.safetensors", lambda w, p: p.touch(), "not a readable safetensors"),
    "random bytes": ("m.safetensors", lambda w, p: p.write_bytes(np.random.default_rng(0).bytes(5000)), "not a readable safetensors"),
    "random bytes as pt": ("m.pt", lambda w, p: p.write_bytes(np.random.default_rng(0).bytes(5000)), "not a readable PyTorch file"),
    "text": ("m.pth", lambda w, p: p.write_text("hello"), "not a readable PyTorch file"),
    "cut short": ("m.pt", lambda w, p: (torch.save(w, p), os.truncate(p, p.stat().st_size - 40)), "not a readable PyTorch file"),
    "a damaged archive": ("m.pt", lambda w, p: p.write_bytes(b"PK\x03\x04" + b"a" * 200), "not a readable PyTorch file"),
    "a pickle that runs code": ("m.pt", lambda w, p: p.write_bytes(pickle.dumps(Bomb())), "is damaged or holds more than weights"),
    "a pickle of an older protocol": ("m.pt", lambda w, p: p.write_bytes(pickle.dumps(Bomb(), 2)), r"holds more than weights \(posix.system\)"),
    "another protocol": ("m.pt", lambda w, p: torch.save(w, p, pickle_protocol=4), "is damaged or holds more than weights"),
    "older, it runs code": ("m.pt", lambda w, p: torch.save({"a": Bomb()}, p, _use_new_zipfile_serialization=False), "holds more than weights"),
    "code beside weights": ("m.pt", lambda w, p: torch.save(w | {"a": Bomb()}, p), r"holds more than weights \(posix.system\)"),
    "a pickle as safetensors": ("m.safetensors", lambda w, p: p.write_bytes(pickle.dumps(Bomb())), "not a readable safetensors"),
    "a pickle under another name": ("m.weights", lambda w, p: p.write_bytes(pickle.dumps(Bomb())), "is damaged or holds more than weights"),
    "zip bomb": ("m.pt", zip_bomb, "is packed, which torch.save never does"),
    "pickle bomb": ("m.pt", lambda w, p: torch.save(w | {"a": Filling()}, p), "bytearray"),
    "older pickle bomb": ("m.pt", lambda w, p: p.write_bytes(pickle.dumps(Filling(), 2)), "bytearray"),
    "view bomb": ("m.pt", expanded, "does not hold the 1000000000000 numbers that it says fc.weight has"),
    "other shapes": ("m.pt", changed(**{"fc.weight": torch.zeros(10, 5)}), r"fc.weight is \(10, 5\), expected \(10, 4\)"),
    "a missing name": ("m.pt", changed(**{"fc.bias": None}), r"fc.bias is missing, expected \(10,\)"),
    "a name too many": ("m.pt", changed(aux=torch.zeros(2)), r"aux is \(2,\), expected no such tensor"),
    "other names": ("m.pt", lambda w, p: torch.save({f"x.{k}": v for k, v in w.items()}, p), "does not fit its network"),
    "NaN": ("m.pt", changed(**{"fc.bias": torch.full((10,), NAN)}), "NaN or infinite weights in fc.bias"),
    "beyond the network's precision": ("m.pt", changed(**{"fc.bias": torch.full((10,), 1e300, dtype=torch.float64)}), "NaN or infinite weights in fc.bias"),
    "NaN of eight bits": ("m.pt", changed(**{"fc.bias": torch.full((10,), NAN).to(torch.float8_e4m3fn)}), "NaN or infinite weights in fc.bias"),
    "NaN in safetensors": ("m.safetensors", lambda w, p: save_file(w | {"fc.bias": torch.full((10,), NAN)}, p), "NaN or infinite weights in fc.bias"),
    "NaN in statistics": ("m.pt", changed(**{"stem.1.running_var": torch.full((3,), NAN)}), "NaN or infinite weights in stem.1.running_var"),
    "whole numbers": ("m.pt", changed(**{"fc.bias": torch.zeros(10, dtype=torch.int64)}), "fc.bias as torch.int64"),
    "complex": ("m.pt", changed(**{"fc.bias": torch.zeros(10, dtype=torch.complex64)}), "fc.bias as torch.complex64"),
    "sparse": ("m.pt", changed(**{"fc.weight": torch.zeros(10, 4).to_sparse()}), "holds no plain tensors by name"),
    "no memory": ("m.pt", changed(**{"fc.weight": torch.zeros(10, 4, device="meta")}), "holds no plain tensors by name"),
    "a list": ("m.pt", lambda w, p: torch.save(list(w.values()), p), "holds no plain tensors by name"),
    "a number": ("m.pt", lambda w, p: torch.save(3, p), "holds no plain tensors by name"),
    "nothing": ("m.pt", lambda w, p: torch.save({}, p), "holds no plain tensors by name"),
    "an optimizer": ("m.pt", lambda w, p: torch.save({"optimizer": {"lr": 1.0}, "epoch": 3}, p), "holds no plain tensors by name"),
    "numbers as names": ("m.pt", lambda w, p: torch.save(dict(enumerate(w.values())), p), "holds no plain tensors by name"),
}  # fmt: skip


def contents(folder: Path) -> dict[str, int]:
    return {
        str(p.relative_to(folder)): p.stat().st_mtime_ns
        for p in folder.rglob("*")
        if "__pycache__" not in str(p) and p.is_file()
    }


def refusal(capsys, *words: object) -> str:
    """Exit code 3 and one sentence."""
    capsys.readouterr()
    assert main([str(word) for word in words]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("residua: ")
    assert len(err.splitlines()) == 1
    assert "Traceback" not in err
    return err


@pytest.mark.parametrize("case", REFUSED)
def test_a_strangers_file_is_refused_in_one_sentence_and_never_run(here, own, case, capsys):
    name, write, sentence = REFUSED[case]
    path = here / name
    write(own.state_dict(), path)
    before = contents(here)
    with pytest.raises(rs.InputError, match=sentence):
        rs.open_model(path, Own, cuts=CUTS, **FACTS)
    assert not (here / "executed").exists()
    words = [
        "--network",
        "own_networks:make",
        "--cuts",
        "stem,body",
        "--data",
        f"mnist:{here}/data",
        "--forget",
        "class:1",
    ]
    said = refusal(capsys, "measure", path, *words)
    assert re.search(sentence, said)
    assert str(path) in said
    if case in ("a pickle that runs code", "zip bomb"):
        refusal(capsys, "measure", "--original", path, "--reference", path, *words, "--out", here / "out")
    assert contents(here) == before


def test_trust_and_nothing_else_opens_a_pickle(here, own, capsys):
    torch.save(own.state_dict() | {"a": Bomb()}, here / "m.pt")
    with pytest.raises(rs.InputError, match="holds no plain tensors by name"):
        rs.open_model(here / "m.pt", Own, cuts=CUTS, trust=True, **FACTS)
    assert (here / "executed").exists()
    capsys.readouterr()
    for command in ("measure",):
        assert main([command, "--help"]) == 0
        said = " ".join(capsys.readouterr().out.replace("│", " ").split())
        assert "can run any program as you" in said


def test_load_opens_ours_and_third_party_files_alike(here, own):
    ours = rs.models.resnet18(width=1, channels=1, classes=10)
    rs.save(ours, here / "ours.safetensors")
    torch.save(own.state_dict(), here / "theirs.pt")
    assert weights_digest(rs.load(here / "ours.safetensors")) == weights_digest(ours)
    check_same(rs.load(here / "theirs.pt", network=Own, cuts=CUTS, **FACTS), own)
    assert rs.load is rs.open_model is rs.models.load
    with pytest.raises(rs.InputError, match="has width 1, expected 2"):
        rs.load(here / "ours.safetensors", expect={"width": 2})
    with pytest.raises(rs.InputError, match="has network None, expected resnet18"):
        rs.load(here / "theirs.pt", network=Own, cuts=CUTS, expect={"network": "resnet18"}, **FACTS)


BAD_NETWORKS = {
    "unknown": ("nonet", "network 'nonet' is unknown; choose one of resnet18, resnet50, vit or write module:callable"),
    "no module": ("nowhere_at_all:make", "cannot be imported"),
    "no callable": ("own_networks:nothing", "cannot be imported"),
    "not callable": ("own_networks:number", "cannot be built"),
    "half a name": ("own_networks:", "is unknown"),
    "no name": (":make", "is unknown"),
    "nothing": ("", "is unknown"),
    "broken": ("own_networks:broken", "own_networks:broken|broken cannot be built"),
    "no network": ("builtins:dict", "returns a dict, expected an nn.Module"),
    "another network": ("resnet18", "does not hold the weights of a resnet18"),
    "another of ours": ("vit", "does not hold the weights of a vit"),
    "not recognised": ("own_networks:make", "for example --cuts stem,body"),
    "other names": ("own_networks:chain", "does not fit its network"),
    "none": (None, "does not say which network it belongs to"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_NETWORKS)
def test_a_network_that_does_not_exist_or_fit_is_refused(here, own, case, capsys):
    network, sentence = BAD_NETWORKS[case]
    torch.save(own.state_dict(), here / "m.pt")
    with pytest.raises(rs.InputError, match=sentence):
        rs.open_model(here / "m.pt", network, **FACTS)
    words = [] if network is None else [f"--network={network}"]
    refusal(capsys, "measure", here / "m.pt", *words, "--data", f"mnist:{here}/data", "--forget", "class:1")


def test_cuts_of_a_network_of_ours_are_refused(here):
    net = rs.models.resnet18(width=1, classes=10, channels=1)
    torch.save(net.state_dict(), here / "m.pt")
    rs.save(net, here / "m.safetensors")
    for name, network in (("m.pt", "resnet18"), ("m.safetensors", "resnet18"), ("m.safetensors", None)):
        with pytest.raises(rs.InputError, match="the blocks of resnet18 are known; leave out the cuts stem"):
            rs.open_model(here / name, network, cuts=["stem"], **FACTS)
    # Cuts that belong to the strangers' among several files are no harm.
    assert rs.open_model(here / "m.safetensors", Own, cuts=CUTS, **FACTS).depth == 5


@pytest.mark.parametrize("kind", [torch.float8_e4m3fn, torch.float8_e5m2, torch.float16, torch.float64])
def test_weights_of_any_precision_are_opened(here, own, kind):
    weights = {k: v.to(kind) if v.is_floating_point() else v for k, v in own.state_dict().items()}
    torch.save(weights, here / "m.pt")
    model = rs.open_model(here / "m.pt", Own, cuts=CUTS, **FACTS)
    head = dict(model.head.named_parameters())
    assert torch.equal(head["fc.weight"], weights["fc.weight"].float())


def test_a_vit_whose_shapes_make_no_sense_is_refused(here):
    weights = rs.models.vit(variant="tiny", image=8, patch=4, channels=1, classes=10).state_dict()
    for tokens in (0, 1, 4):
        torch.save(weights | {"blocks.0.0.position": torch.zeros(1, tokens, 192)}, here / "m.pt")
        with pytest.raises(rs.InputError, match=r"m\.pt does not|image size"):
            rs.open_model(here / "m.pt", "vit", **FACTS)


NO_SENSE = {"deep": "[" * 100_000, "digits": '{"network": ' + "9" * 5000 + "}", "cut short": "{", "number": "3"}


@pytest.mark.parametrize("words", NO_SENSE.values(), ids=NO_SENSE)
def test_a_file_whose_metadata_are_no_sense_bears_no_name(here, own, words):
    save_file(own.state_dict(), here / "m.safetensors", metadata={"residua": words})
    check_same(rs.open_model(here / "m.safetensors", Own, cuts=CUTS, **FACTS), own)
    with pytest.raises(rs.InputError, match="has damaged metadata"):
        rs.open_model(here / "m.safetensors")


def test_weights_that_only_say_how_large_they_are_are_refused(here):
    weights = rs.models.resnet18(width=1, classes=10, channels=1).state_dict()
    torch.save(weights | {"head.weight": torch.zeros(1).expand(10**18, 8)}, here / "m.pt")
    with pytest.raises(rs.InputError, match="does not hold the 8000000000000000000 numbers"):
        rs.open_model(here / "m.pt", "resnet18")


def test_weights_that_are_one_number_shown_many_times_are_refused(here):
    """They fit a network of any size, and would fill its memory."""
    with torch.device("meta"):
        wanted = rs.models.resnet18(width=64, classes=10, channels=1).state_dict()
    torch.save({k: torch.zeros((), dtype=t.dtype).expand(t.shape) for k, t in wanted.items()}, here / "m.pt")
    assert (here / "m.pt").stat().st_size < 100_000
    with pytest.raises(rs.InputError, match=r"m.pt does not hold the \d+ numbers that it says blocks.0"):
        rs.open_model(here / "m.pt", "resnet18")


def test_this_folder_is_importable_only_where_its_code_is_asked_for(here, own, monkeypatch):
    """Whoever can put a file beside a checkpoint must not have it imported."""
    seen: list[bool] = []

    def looking(function):
        return lambda *words, **more: seen.append(str(here) in sys.path) or function(*words, **more)

    monkeypatch.setattr(torch, "load", looking(torch.load))
    monkeypatch.setattr(strangers, "_assembled", looking(strangers._assembled))
    torch.save(own.state_dict(), here / "m.pt")
    for words, expected in (
        ({"network": Own}, [False]),
        ({"network": Own, "trust": True}, [True, True]),
        ({"network": "own_networks:Own"}, [True]),
    ):
        seen.clear()
        rs.open_model(here / "m.pt", **words, cuts=CUTS, **FACTS)
        assert seen == expected, words


def test_a_network_for_other_data_is_refused(here, own):
    with rs.seeded(0):
        torch.save(Own(7).state_dict(), here / "m.pt")
    with pytest.raises(rs.InputError, match=r"m.pt has classes 7, expected 10"):
        rs.open_model(here / "m.pt", lambda: Own(7), cuts=CUTS, **FACTS)
    torch.save(own.state_dict(), here / "m.pt")
    with pytest.raises(rs.InputError, match="does not take the example"):
        rs.open_model(here / "m.pt", Own, cuts=CUTS, **FACTS | {"channels": 3})
    with rs.seeded(0):
        rs.save(rs.models.resnet18(width=1, classes=10, channels=1), here / "m.safetensors")
    with pytest.raises(rs.InputError, match="belongs to the network resnet18, not to vit"):
        rs.open_model(here / "m.safetensors", "vit")


def test_the_commands_work_on_strangers_files(here, own, capsys):
    with rs.seeded(1):
        other = Own()
    torch.save({"state_dict": own.state_dict()}, here / "original.pth")
    save_file(other.state_dict(), here / "reference.safetensors")
    words = [
        "--network",
        "own_networks:Own",
        "--cuts",
        "stem, body",
        "--data",
        f"mnist:{here}/data",
        "--forget",
        "class:1",
    ]
    assert main(["measure", "original.pth", "reference.safetensors", *words, "--json"]) == 0
    assert '"model": "original"' in capsys.readouterr().out
    code = main(["measure", "--metrics", "IDI", "--original", "original.pth", "--reference", "reference.safetensors", *words,
                 "--random", "--critic-steps", "5", "--critic-rounds", "1", "--out", "out"])  # fmt: skip
    assert code == 0
    record = rs.Record.read(here / "out/original.json")
    assert record.setting.network["network"] == "own_networks:Own"
    assert record.setting.network["cuts"] == CUTS


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> tuple[Path, bytes, bytes]:
    folder = tmp_path_factory.mktemp("fuzz")
    weights = nn.Linear(2, 2).state_dict()
    torch.save(weights, folder / "new.pt")
    torch.save(weights, folder / "old.pt", _use_new_zipfile_serialization=False)
    return folder, (folder / "new.pt").read_bytes(), (folder / "old.pt").read_bytes()


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    older=st.booleans(),
    edits=st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=6), st.integers(0, 6)), min_size=1, max_size=4),
    end=st.floats(0, 1) | st.just(1.0),
)
def test_a_damaged_pickle_gives_a_model_or_a_sentence(whole, older, edits, end):
    folder, new, old = whole
    raw = old if older else new
    for where, put, length in edits:
        at = int(where * len(raw))
        raw = raw[:at] + put + raw[at + length :]
    path = folder / "damaged.pt"
    path.write_bytes(raw[: int(end * len(raw))])
    with pytest.raises(rs.InputError):  # a linear layer alone has no blocks, so even the whole file is refused
        rs.open_model(path, lambda: nn.Linear(2, 2))
