"""The folder of a study, read without running it: the state of the last run, why a cell ran again, pruning, compact records."""

from __future__ import annotations

import contextlib
import json
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, Field, ValidationError

from residua.compare import zrf
from residua.errors import InputError
from residua.files import read_text, write_atomically
from residua.record import Record
from residua.study.store import DAMAGED, PARTS, RECORDS, Claims, Result, Store, hash_of, is_name, own_file, own_folder
from residua.text import differences, from_json

# Files beside the cells: what the study is, which key each of its cells has, and where the run is.
DEFINITION, KEYS, STATUS = "study.json", "keys.json", "status.json"


class _State(BaseModel):
    """The fields that the file must have before anything is computed from it: others may have written to it."""

    done: int
    total: int
    failed: int
    running: list[str]
    failures: dict[str, str]
    finished: bool
    left: float = Field(default=0.0, ge=0, lt=1e12)
    unknown: int = 0


def status(out: str | Path) -> dict[str, Any]:
    """State of the last run of the study in this folder: `Step` as plain values, failures, and the processes at work."""
    out = Path(out)
    state = _read(out / STATUS)
    if state is None:
        raise InputError(f"{out} holds no study; give the folder that `residua study run --out` wrote to")
    try:
        _State.model_validate(state, strict=True)
    except ValidationError as error:
        raise InputError(f"{out / STATUS} is damaged; run the study again") from error
    damaged = own_folder(out, DAMAGED)
    return state | {
        "processes": Claims(out).owners(),
        "damaged": sorted(path.name for path in damaged.iterdir()) if damaged.is_dir() else [],
    }


def why(out: str | Path, name: str) -> list[str]:
    """Reasons why the cell of this name ran again: the inputs that changed, old and new; empty if it ran once."""
    keys = named_keys(Path(out)) or {}
    if name not in keys:
        similar = [each for each in keys if name in each][:5]
        hint = f"; it has {', '.join(similar)}" if similar else "; `residua study status` names the last ones"
        raise InputError(f"the study in {out} has no cell {name!r}{hint}")
    store = Store(out)
    now = store.get(keys[name])
    if now is None:
        return [f"{name} is not finished"]
    before = [r for r in store.results() if r.name == name and r.kind == now.kind and r.key != now.key]
    if not before:
        return []
    return [
        f"{each.place} was {each.short()[0]} and is {each.short()[1]}"
        for each in differences(before[-1].inputs, now.inputs)
    ]


def prune(out: str | Path, *, models: bool = False, dry: bool = False) -> tuple[int, int]:
    """Remove what the last run did not need; with `models` also weights, which are made again where they are needed.

    How many files, and how many bytes.
    """
    out = Path(out)
    keys = named_keys(out)
    if keys is None:
        raise InputError(f"{out} holds no finished study; run it once before pruning")
    if not (_read(out / STATUS) or {}).get("finished"):
        raise InputError(
            f"the last run in {out} is not finished, so what it needs is not known yet; run it to its end before pruning"
        )
    store = Store(out)
    kept = [result for key in set(keys.values()) if (result := store.get(key)) is not None]
    needed = {f"cells/{result.key}.json" for result in kept}
    needed |= {f"arrays/{result.arrays}.npz" for result in kept if result.arrays}
    needed |= {f"models/{result.model}.safetensors" for result in kept if result.model and not models}
    files = size = 0
    # All folders are looked at before anything is removed from one.
    folders = [own_folder(out, name) for name in (*PARTS, DAMAGED) if name != "claims"]
    for folder in folders:
        for path in folder.glob("*"):
            about = path.lstat()
            if f"{folder.name}/{path.name}" not in needed and not stat.S_ISDIR(about.st_mode):
                files, size = files + 1, size + about.st_size
                if not dry:
                    path.unlink(missing_ok=True)
    return files, size


def keep_definition(out: Path, definition: Mapping[str, Any]) -> list[str]:
    """Keep the definition of the study that is about to run, and say in what it differs from the last one here."""
    now = json.loads(json.dumps(definition, default=str))
    before = replace(out / DEFINITION, now)
    changes = [] if before is None else differences(before, now)[:10]
    shown = [(each.place, *each.short()) for each in changes]
    return [f"note: {place} was {was} in the last run and is {is_now} now" for place, was, is_now in shown]


def hash_in(path: Path) -> str | None:
    """The hash that the record at `path` claims; None where there is none."""
    try:
        return str(from_json(read_text(path))["sha256"])
    except (InputError, ValueError, KeyError, TypeError, RecursionError):
        return None


def named_keys(out: Path) -> dict[str, str] | None:
    """The key of each cell that the last run knew, by name and in its order; None where none has ended yet."""
    keys = _read(out / KEYS)
    if keys is not None and not all(is_name("cells", key) for key in keys.values()):
        raise InputError(f"{out / KEYS} is damaged; run the study again")
    return keys


def replace(path: Path, body: Mapping[str, Any]) -> dict[str, Any] | None:
    """Write the body with its hash unless it is there already; what was there before, None where nothing or damaged."""
    before = None
    with contextlib.suppress(InputError):
        before = _read(path)
    if before != body:
        text = json.dumps(dict(body) | {"sha256": hash_of(body)}, indent=1, ensure_ascii=False) + "\n"
        write_atomically(path, lambda part: part.write_text(text, encoding="utf-8"))
    return before


def _read(path: Path) -> dict[str, Any] | None:
    if not own_file(path).exists():
        return None
    try:
        body = from_json(read_text(path))
    except InputError:
        raise
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict) or body.pop("sha256", None) not in (None, hash_of(body)):
        raise InputError(f"{path} is damaged; run the study again")
    return body


def check(out: str | Path, *, repair: bool = False) -> list[str]:
    """Every file of the study against its hash: what is damaged, in one sentence each; with `repair` it is set aside."""
    out = Path(out)
    store = Store(out, repairs=repair)
    sentences = store.check()
    store.tell = sentences.append
    for path in (out / DEFINITION, out / KEYS, out / STATUS):
        try:
            text = read_text(path) if own_file(path).exists() else '"sha256"'
            _read(path)
        except InputError as error:
            text = str(error)
        if '"sha256"' not in text:
            store.set_aside(path, "its content does not match its hash")
    for path in sorted(own_folder(out, RECORDS).glob("[!.]*.json")):
        try:
            Record.read(own_file(path))
        except InputError as error:
            store.set_aside(path, str(error))
    return sentences


STEPS = 32  # of a nat; beside terms that differ by tenths of one, this adds nothing to an interval
OUTPUTS = 500
BITS = 10
POINTS = 64
DROPPED = re.compile(r"representation\..*|.*MIA\.forget|information[^.]*\.(index|test_labels)")
SAID, RANDOM = "outputs.log_probabilities", "outputs.random"
CURVE = re.compile(r".*MIA\.[ft]pr")
TERMS = re.compile(r"information[^.]*\.(test_)?terms")


def compact(record: Record) -> Record:
    """The same record with the values and arrays that tables and figures need, in a tenth of the space.

    A study of many models on large data would leave megabytes for each. A compact record keeps every value; of the arrays

    - terms of a curve: of the first family (the stack) each sample's, to 1/32 nats and with the mean unchanged; of the
      other families the mean of each block alone, so that IDI by family can be told, but not its interval; of test images
      the means;
    - of outputs on the forget set those of at most `OUTPUTS` samples, evenly chosen, to three digits; those of the random
      network, which are the same in every record, only in what is computed from them: ZRF becomes a value;
    - of attacks at most `POINTS` of the curve of false and true positives, not the score of every sample;
    - nothing of the pooled features of samples, which verdicts compare, nor where the samples stand in the data.

    The store of the study has it all.
    """
    record = without_random_outputs(record)
    return record.model_copy(update={"arrays": _compact_arrays(record.arrays)})


def compact_cell(result: Result, arrays: Mapping[str, np.ndarray]) -> tuple[Result, dict[str, np.ndarray]]:
    """The same cell, under its key, with the arrays that compact records need; these records stay the same to the bit."""
    label = (result.inputs.get("measure") or {}).get("label")
    values, named = dict(result.values), {f"{label}.{name}": array for name, array in arrays.items()}
    if RANDOM in named:
        values["values"] = values["values"] | {"ZRF": zrf(named[SAID], named.pop(RANDOM))}
    less = {name.removeprefix(f"{label}."): array for name, array in _compact_arrays(named).items()}
    if arrays:
        values["compact"] = True  # not for verdicts: see whole_records
    return result.model_copy(update={"values": values, "arrays": None}), less


def _compact_arrays(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: _smaller(name, array) for name, array in arrays.items() if not DROPPED.fullmatch(name)}


def without_random_outputs(record: Record) -> Record:
    """The same record with ZRF among its values instead of the random network's outputs."""
    if RANDOM not in record.arrays:
        return record
    said = record.readings["outputs"] | {"ZRF": zrf(record.arrays[SAID], record.arrays[RANDOM])}
    arrays = {name: array for name, array in record.arrays.items() if name != RANDOM}
    return record.model_copy(update={"readings": record.readings | {"outputs": said}, "arrays": arrays})


def _smaller(name: str, array: np.ndarray) -> np.ndarray:
    if match := TERMS.fullmatch(name):
        return _terms(array, samples=not match[1])
    if name == SAID:
        return rounded(array[:: max(1, -(-len(array) // OUTPUTS))])
    if CURVE.fullmatch(name):
        return array[np.unique(np.linspace(0, len(array) - 1, POINTS).round().astype(int))]
    return array


def rounded(log_probabilities: np.ndarray) -> np.ndarray:
    """Nearly the same, to `BITS` bits after the first: as many bytes, but most of them 0, which a file packs away.

    The largest of each row is what is left of 1, so that the row still belongs to probabilities.
    """
    exact = np.ascontiguousarray(log_probabilities, dtype=np.float32)
    dropped = 23 - BITS
    bits = (exact.view(np.uint32) + np.uint32(1 << (dropped - 1))) >> np.uint32(dropped) << np.uint32(dropped)
    kept = np.where(np.isfinite(exact), bits.view(np.float32), exact)
    rows, largest = np.arange(len(exact)), exact.argmax(axis=1)
    kept[rows, largest] = -np.inf
    kept[rows, largest] = np.log1p(-np.exp(kept.astype(np.float64)).sum(axis=1))
    return kept


def _terms(terms: np.ndarray, samples: bool) -> np.ndarray:
    """Terms (families, restarts, blocks, samples): the first family's in steps, of the others the mean in every place."""
    exact = terms.astype(np.float64)
    means = exact.mean(axis=-1, keepdims=True)
    kept = np.broadcast_to(means, exact.shape).astype(np.float32)
    if samples and terms.ndim == 4:
        steps = np.round(exact[0] * STEPS) / STEPS
        if np.ptp(exact[0] - steps, axis=-1).max(initial=0) < 1e-5:  # compact already, as in a committed cell
            return terms
        kept[0] = steps + (means[0] - steps.mean(axis=-1, keepdims=True))
    return kept
