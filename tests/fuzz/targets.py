"""Targets: every reader of files that others may have made, a sound input for it, and how that is mutated.

An input is a folder: names and bytes. The functions called `read_...` run in a child process, see `sandbox.py`; what
they raise other than InputError is a finding.
"""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import io
import json
import pickletools
import struct
import tarfile
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from mutations import NUMBERS, Bytes, damaged, in_gzip, in_json, in_png, in_zip, overwritten
from PIL import Image

import residua as rs
from residua.data.parsing import open_dataset, parse_forget
from residua.models.checkpoint import Checkpoint
from residua.models.foreign.fitting import _state_dict, weights_in
from residua.report.plan import Plan
from residua.study.folder import DEFINITION, KEYS, STATUS
from residua.study.folder import replace as write
from residua.study.store import Result, Store, key_of

Files = dict[str, bytes]


@dataclass(frozen=True)
class Target:
    """A reader: its name in this module, sound files, and how each kind of file is mutated."""

    read: str
    sound: Callable[[], Files]
    mutations: dict[str, Bytes]  # by the end of the name
    share: float = 1.0  # of the inputs of a run: those that take seconds get fewer

    def mutated(self, number: int) -> Files:
        """Input `number`: one of the files is changed. Number 0 is sound."""
        files = dict(self.sound())
        if number == 0:
            return files
        random = Random(f"{self.read} {number}")
        victims = [name for name in sorted(files) if any(name.endswith(end) for end in self.mutations)]
        name = random.choice(victims)
        mutate = next(how for end, how in self.mutations.items() if name.endswith(end))
        files[name] = mutate(files[name], random)
        if self.read == "read_store":
            return stored_again(files, random)
        recorded = "one.json" in files or any(each.startswith("records/") for each in files)
        return rehashed(files, random) if recorded else files


# --- data sets ------------------------------------------------------------------------------------


def idx(array: np.ndarray) -> bytes:
    return bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def pixels(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


@cache
def sound_idx() -> Files:
    labels = (np.arange(20) % 10).astype(np.uint8)
    return {
        "train-images-idx3-ubyte.gz": gzip.compress(idx(pixels(20, 6, 6)), mtime=0),
        "train-labels-idx1-ubyte": idx(labels),
        "t10k-images-idx3-ubyte": idx(pixels(20, 6, 6)),
        "t10k-labels-idx1-ubyte.gz": gzip.compress(idx(labels), mtime=0),
    }


def read_idx(folder: str) -> None:
    open_dataset(f"mnist:{folder}")


@cache
def sound_cifar() -> Files:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin", "readme.html"]:
            rows = pixels(2, 3073)
            rows[:, 0] %= 10
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = rows.size
            tar.addfile(member, io.BytesIO(rows.tobytes()))
    return {"cifar-10-binary.tar.gz": gzip.compress(out.getvalue(), mtime=0)}


def read_cifar(folder: str) -> None:
    open_dataset(f"cifar10:{folder}")


@cache
def encoded(kind: str, mode: str = "RGB", side: int = 8) -> bytes:
    out = io.BytesIO()
    channels = () if mode == "L" else (3,)
    Image.fromarray(pixels(side, side, *channels)).save(out, kind)
    return out.getvalue()


@cache
def sound_parquet() -> Files:
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    images = pa.array([{"bytes": encoded("png"), "path": "x"}, {"bytes": encoded("jpeg"), "path": None}] * 4, kind)
    names = {"label": {"names": ["a", "b"], "_type": "ClassLabel"}}
    about = {"huggingface": json.dumps({"info": {"features": names}})}
    table = pa.table({"image": images, "label": pa.array([0, 1] * 4)}).replace_schema_metadata(about)
    files = {}
    for half, packing in (("train", "snappy"), ("test", "zstd")):
        out = io.BytesIO()
        pq.write_table(table, out, compression=packing, row_group_size=4)
        files[f"{half}.parquet"] = out.getvalue()
    return files


def read_parquet(folder: str) -> None:
    open_dataset(f"parquet:{folder}")


@cache
def sound_images() -> Files:
    kinds = ("png", "jpeg", "webp", "bmp", "ppm", "gif", "tiff")
    return {f"{half}/{c}/{k}.{k}": encoded(k) for half in ("train", "test") for c in "ab" for k in kinds}


def read_images(folder: str) -> None:
    data = rs.data.image_folder(folder, size=8, workers=0)
    for split in (data.train, data.test):
        split.digest()
        for _ in split.batches(8):
            pass


@cache
def sound_indices() -> Files:
    out = io.BytesIO()
    np.save(out, np.arange(20))
    return {"a.npy": out.getvalue(), "b.json": b"[1, 2, 3]", "c.txt": b"1\n2\n30\n"}


def read_indices(folder: str) -> None:
    data = rs.data.arrays(pixels(100, 1, 2, 2), np.arange(100) % 2, pixels(4, 1, 2, 2), np.arange(4) % 2)
    refusal = None
    for path in sorted(Path(folder).iterdir()):
        try:
            parse_forget(data, f"indices:{path}")
        except rs.InputError as error:
            refusal = error
    if refusal:
        raise refusal


@cache
def sound_npz() -> Files:
    labels = np.arange(20) % 2
    whole = {"train_images": pixels(20, 1, 6, 6), "train_labels": labels}
    return {"d.npz": arrays(**whole, test_images=pixels(20, 1, 6, 6), test_labels=labels)}


def read_data_npz(folder: str) -> None:
    open_dataset(f"npz:{Path(folder, 'd.npz')}")


@cache
def sound_csv() -> Files:
    lines = [f"{half}{c}.png,{c},{half}" for half in ("train", "test") for c in "ab"]
    images = {line.split(",")[0]: encoded("png") for line in lines}
    return {"labels.csv": "\n".join(["path,label,split", *lines]).encode(), **images}


def read_csv(folder: str) -> None:
    open_dataset(f"csv:{Path(folder, 'labels.csv')}")


@cache
def sound_arrow() -> Files:
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    images = pa.array([{"bytes": encoded("png"), "path": "x"}] * 8, kind)
    table = pa.table({"image": images, "label": pa.array([0, 1] * 4)})
    files: Files = {"dataset_dict.json": json.dumps({"splits": ["train", "test"]}).encode()}
    for half in ("train", "test"):
        out = io.BytesIO()
        with pa.ipc.new_stream(out, table.schema) as writer:
            writer.write_table(table)
        files[f"{half}/data.arrow"] = out.getvalue()
        files[f"{half}/state.json"] = json.dumps({"_data_files": [{"filename": "data.arrow"}]}).encode()
        files[f"{half}/dataset_info.json"] = b"{}"
    return files


def read_arrow(folder: str) -> None:
    data = open_dataset(f"hf-datasets:{folder}")
    for split in (data.train, data.test):
        for _ in split.batches(8):
            pass


# --- checkpoints ----------------------------------------------------------------------------------


@cache
def model() -> rs.Classifier:
    with rs.seeded(0):
        return rs.models.resnet18(classes=2, channels=1, width=1)


@cache
def sound_safetensors() -> Files:
    with tempfile.TemporaryDirectory() as folder:
        rs.save(model(), Path(folder, "m.safetensors"))
        return {"m.safetensors": Path(folder, "m.safetensors").read_bytes()}


def read_safetensors(folder: str) -> None:
    rs.load(Path(folder, "m.safetensors"))


@cache
def sound_pickle(legacy: bool = False) -> Files:
    out = io.BytesIO()
    content = {"state_dict": model().state_dict(), "epoch": 3, "lr": 0.1}
    torch.save(content, out, _use_new_zipfile_serialization=not legacy)
    return {"m.pt": out.getvalue()}


def sound_legacy_pickle() -> Files:
    return sound_pickle(legacy=True)


def read_pickle(folder: str) -> None:
    path = Path(folder, "m.pt")
    rs.load(path, network="resnet18")
    ours = weights_in(Checkpoint(path), trust=False)
    try:
        theirs = _state_dict(path, torch.load(path, weights_only=True), torch.Tensor)
    except Exception:
        return  # PyTorch may refuse what we read, but not read anything else
    assert ours.keys() == theirs.keys(), "PyTorch reads other names"
    for name, tensor in theirs.items():
        plain = (each.detach().reshape(-1).contiguous().view(torch.uint8) for each in (tensor, ours[name]))
        assert torch.equal(*plain), f"PyTorch reads other numbers in {name}"


read_legacy_pickle = read_archive = read_pickle


def in_archive(raw: bytes, random: Random) -> bytes:
    """Members under other names, twice, in another order or packed, and another table or end, in an archive that fits."""
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        members = [(member.filename, archive.read(member)) for member in archive.infolist()]
    what = random.randrange(6)
    place = random.randrange(len(members))
    name, content = members[place]
    if what == 0:
        members.insert(place, (random.choice((name, name.upper(), f"x/{name}", "archive/data.pkl")), content))
    elif what == 1:
        members[place] = (random.choice((name.upper(), name[::-1], "", "a\0b", f"../{name}")), content)
    elif what == 2:
        random.shuffle(members)
    elif what == 3:
        members[place] = (name, in_pickle_body(content, random) if name.endswith(".pkl") else damaged(content, random))
    out = io.BytesIO()
    packing = zipfile.ZIP_DEFLATED if random.random() < 0.1 else zipfile.ZIP_STORED
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w", packing) as archive:
        warnings.simplefilter("ignore")  # about names that are there twice
        for each in members:
            archive.writestr(zipfile.ZipInfo(each[0] or "x"), each[1])
    made = out.getvalue()
    if what == 4:
        made += random.choice((raw, raw[-22:], raw[-98:], b"PK"))
    if what == 5:
        made = (
            overwritten(made[-120:], random).rjust(120, b"\0")
            if random.random() < 0.1
            else made[:-120] + overwritten(made[-120:], random)
        )
    return made


def in_pickle_body(raw: bytes, random: Random) -> bytes:
    """Steps of a pickle removed, repeated, exchanged or given other arguments; it is still a pickle."""
    places = [place for _, _, place in pickletools.genops(raw)]
    steps = [raw[a:b] for a, b in zip(places, [*places[1:], len(raw)], strict=True)]
    for _ in range(random.choice((1, 1, 2, 5))):
        i, j = random.randrange(1, len(steps) - 1), random.randrange(1, len(steps) - 1)
        match random.randrange(4):
            case 0:
                del steps[i]
            case 1:
                steps.insert(i, steps[j])
            case 2:
                steps[i], steps[j] = steps[j], steps[i]
            case 3:
                steps[i] = b"J" + struct.pack("<i", random.choice((0, -1, 2**31 - 1, 10**6, 7)))
    return b"".join(steps)


def in_arrow(raw: bytes, random: Random) -> bytes:
    """Other offsets of images and labels, or sizes in the tables of contents, in a stream that fits; or any damage."""
    if random.random() < 0.4:
        return damaged(raw, random)
    data = bytearray(raw)
    for _ in range(random.choice((1, 1, 2, 6))):
        place = 4 * random.randrange(len(data) // 4 - 1)
        number = random.choice((*NUMBERS, len(data), len(data) - 8, random.randrange(1 << 31)))
        data[place : place + 4] = struct.pack("<I", number % (1 << 32))
    return bytes(data)


# What a pickle may name: sound weights under other functions, and functions under other arguments.
GLOBALS = (
    b"ctorch\nTensor\n", b"ctorch\nSize\n", b"c_codecs\nencode\n", b"c__builtin__\nbytearray\n", b"cos\nsystem\n",
    b"ctorch._utils\n_rebuild_parameter\n", b"ccollections\nOrderedDict\n", b"ctorch\nFloatStorage\n",
)  # fmt: skip


def in_pickle(raw: bytes, random: Random) -> bytes:
    """Other functions and larger numbers in the program that a pickle is."""
    if random.random() < 0.5:
        return in_zip(raw, random) if raw[:2] == b"PK" else damaged(raw, random)
    data = bytearray(raw)
    places = [
        i for i in range(len(data) - 1) if data[i : i + 1] == b"c" and data[i + 1 : i + 6] in (b"torch", b"colle")
    ]
    for _ in range(random.choice((1, 3))):
        if random.random() < 0.5 and places:
            start = random.choice(places)
            end = data.find(b"\n", data.find(b"\n", start) + 1) + 1
            data[start:end] = random.choice(GLOBALS)
        else:
            start = random.randrange(max(1, len(data) - 8))
            data[start : start + 5] = b"J" + struct.pack("<i", random.choice((0, -1, 2**31 - 1, 10**6)))
    return bytes(data)


# --- what was saved, records and audits -----------------------------------------------------------


def arrays(**named: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.savez_compressed(out, **named)
    return out.getvalue()


def logits(seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    found = {f"{split}_logits": random.normal(size=(24, 3)) for split in ("forget", "retain", "test")}
    return found | {f"{split}_labels": np.arange(24) % 3 for split in ("forget", "retain", "test")}


def features(seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {"block5": random.normal(size=(48, 2)).astype(np.float16), "labels": np.arange(48) % 2}


@cache
def sound_outputs() -> Files:
    return {"saved.npz": arrays(**logits())}


def read_outputs(folder: str) -> None:
    one = rs.read_outputs(Path(folder, "saved.npz"))
    rs.audit(original=one, unlearned=one, reference=one)


@cache
def sound_features() -> Files:
    return {"saved.npz": arrays(**features())}


def read_features(folder: str) -> None:
    rs.read_features(Path(folder, "saved.npz")).digest()


def contents(folder: Path) -> Files:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@cache
def sound_record() -> Files:
    record = rs.Record(
        name="one",
        setting={"task": {"splits": {"forget": {"n": 3}}}},
        method={"label": "HD"},
        seeds={"audit": 0},
        readings={"accuracy": {"UA": 0.5}},
        arrays={"a.terms": np.arange(12.0).reshape(3, 4), "a.labels": np.arange(3)},
    )
    with tempfile.TemporaryDirectory() as folder:
        record.write(folder)
        return contents(Path(folder))


def read_record(folder: str) -> None:
    rs.Record.read(Path(folder, "one.json"))


@cache
def sound_audit() -> Files:
    with tempfile.TemporaryDirectory() as folder:
        saved = {}
        for seed, role in enumerate(("original", "unlearned", "reference")):
            path = Path(folder, f"{role}.npz")
            path.write_bytes(arrays(**logits(seed), **features(seed)))
            saved[role] = rs.read_saved(path)
        rs.audit(**saved).save(Path(folder, "audit"))
        return contents(Path(folder, "audit"))


def read_audit(folder: str) -> int:
    """Exit code 1, a report that does not follow, is an answer."""
    from residua.cli import main

    code = main(["verify", folder])
    return 0 if code == 1 else code


@cache
def sound_plan() -> Files:
    plan = Plan(
        rules=dataclasses.asdict(rs.Rules()),
        measures={"accuracy": {}, "information": {"last": 1, "seed": 0}},
        seed=0,
        task="0" * 64,
        original="1" * 64,
        references=["2" * 64, "proxy:0.15x3"],
    )
    with tempfile.TemporaryDirectory() as folder:
        plan.write(Path(folder, "plan.json"))
        return contents(Path(folder))


def read_plan(folder: str) -> None:
    Plan.read(Path(folder, "plan.json"))


@cache
def sound_store() -> Files:
    """The folder of a study as `study run` leaves it: cells, arrays, a model, records, and what stands beside them."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        store, keys = Store(folder), {}
        weights = store.keep_model(model())
        for name in ("seed0-original", "seed0-hd"):
            for kind, values in (
                ("unlearn", {"weights": weights, "kept": True}),
                ("measure", {"readings": {"UA": 0.5}}),
            ):
                inputs = {"method": {"label": name, "fields": {"lr": 0.1}}, "parents": [], "seed": 0}
                cell = name if kind == "unlearn" else f"{name}/accuracy"
                result = Result(
                    key=key_of(kind, inputs), kind=kind, name=cell, inputs=inputs, values=values, seconds=1.0
                )
                keys[cell] = store.put(result, {"x": np.arange(6.0)} if kind == "measure" else None).key
        write(folder / KEYS, keys)
        write(folder / DEFINITION, {"name": "tiny", "seeds": [0]})
        write(
            folder / STATUS, json.loads(sound_study()["status.json"]) | {"finished": True, "failed": 0, "failures": {}}
        )
        return contents(folder)


def read_store(folder: str) -> int:
    """Every command that only looks; exit code 1, a store with damaged files, is an answer."""
    from residua.cli import main

    words = (
        ["status", folder], ["status", folder, "--json"], ["check", folder], ["prune", folder, "--dry-run"],
        ["why", folder, "seed0-hd"],
    )  # fmt: skip
    codes = (main(["study", *each]) for each in words)
    return next((code for code in codes if code not in (0, 1)), 0)  # the first refusal is the sentence


def stored_again(files: Files, random: Random) -> Files:
    """Keys, names and hashes that fit what was changed, so that more than the hashes is tried; sometimes left as they are."""
    if random.random() < 0.2:
        return files
    names = {}
    for name in [name for name in files if name.startswith("cells/")]:
        body = plain(files.pop(name))
        if not isinstance(body, dict):
            files[name] = json.dumps(body).encode()
            continue
        body.pop("sha256", None)
        key = Path(name).stem
        if isinstance(body.get("kind"), str) and isinstance(body.get("inputs"), dict):
            key = body["key"] = text_hash({"kind": body["kind"], "inputs": body["inputs"]})[:32]
        names[Path(name).stem] = key
        files[f"cells/{key}.json"] = json.dumps(body | {"sha256": text_hash(body)}).encode()
    for name in ("keys.json", "status.json", "study.json"):
        body = plain(files[name])
        if isinstance(body, dict):
            body.pop("sha256", None)
            again = {k: names.get(v, v) if isinstance(v, str) else v for k, v in body.items()}
            files[name] = json.dumps(again | {"sha256": text_hash(again)}).encode()
    return files


def text_hash(body: object) -> str:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@cache
def sound_study() -> Files:
    """The files that `study table` and `study status` read of a study's folder; cells that are damaged are set aside elsewhere."""
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        for label in ("Original", "Retrain", "HD"):
            values = dict(zip(("UA", "RA", "TA"), random.random(3).tolist(), strict=True))
            record = rs.Record(
                name=f"seed0-{label.lower()}",
                setting={"scale": "tiny", "task": {"splits": {"forget": {"n": 3}}}},
                method={"label": label},
                seeds={"training": 0},
                readings={"accuracy": values},
                seconds={"RTE": 1.5},
            )
            record.write(Path(folder, "records"))
        files = contents(Path(folder))
    keys = {f"seed0-{label}": label[0] * 32 for label in ("original", "retrain", "hd")}
    state = {"done": 3, "total": 4, "reused": 0, "failed": 1, "running": ["seed0-ft"], "last": "seed0-hd"}
    state |= {"seconds": 2.0, "left": 3.0, "unknown": 1, "failures": {"seed0-ga": "no luck"}, "finished": False}
    return files | {"cells/one": b"", "keys.json": json.dumps(keys).encode(), "status.json": json.dumps(state).encode()}


def read_study(folder: str) -> int:
    from residua.cli import main

    return main(["study", "status", folder]) or main(["study", "table", folder])


def rehashed(files: Files, random: Random) -> Files:
    """Hashes that fit what was changed, so that more than the hashes is tried; sometimes left as they are."""
    if random.random() < 0.2:
        return files
    prefix = "" if "one.json" in files else "records/"
    report = plain(files.get("report.json", b"{}"))
    for name in [
        name for name in files if name.startswith(prefix) and name.endswith(".json") and name != "report.json"
    ]:
        body = plain(files[name])
        if not isinstance(body, dict):
            continue
        body.pop("sha256", None)
        text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        body["sha256"] = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        files[name] = json.dumps(body).encode()
        if isinstance(report, dict) and isinstance(report.get("records"), dict):
            report["records"][Path(name).stem] = body["sha256"]
    if "report.json" in files and report is not None:
        files["report.json"] = json.dumps(report).encode()
    return files


def plain(raw: bytes) -> object:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


TARGETS = {
    "idx": Target("read_idx", sound_idx, {".gz": in_gzip, "ubyte": damaged}),
    "cifar": Target("read_cifar", sound_cifar, {".gz": in_gzip}),
    "parquet": Target("read_parquet", sound_parquet, {".parquet": damaged}),
    "images": Target("read_images", sound_images, {".png": in_png, "": damaged}),
    "indices": Target("read_indices", sound_indices, {".json": in_json, "": damaged}),
    "npz": Target("read_data_npz", sound_npz, {"": in_zip}),
    "csv": Target("read_csv", sound_csv, {".png": in_png, "": damaged}),
    "arrow": Target("read_arrow", sound_arrow, {".json": in_json, "": in_arrow}),
    "safetensors": Target("read_safetensors", sound_safetensors, {"": damaged}),
    "pickle": Target("read_pickle", sound_pickle, {"": in_pickle}),
    "archive": Target("read_archive", sound_pickle, {"": in_archive}),
    "legacy pickle": Target("read_legacy_pickle", sound_legacy_pickle, {"": in_pickle}),
    "outputs": Target("read_outputs", sound_outputs, {"": in_zip}, 0.2),
    "features": Target("read_features", sound_features, {"": in_zip}),
    "record": Target("read_record", sound_record, {".json": in_json, ".npz": in_zip}),
    "plan": Target("read_plan", sound_plan, {"": in_json}),
    "study": Target("read_study", sound_study, {".json": in_json}, 0.1),
    "audit": Target("read_audit", sound_audit, {".json": in_json, ".npz": in_zip, ".md": damaged}, 0.1),
    "store": Target("read_store", sound_store, {".json": in_json, ".npz": in_zip, ".safetensors": damaged}, 0.3),
}
