"""Looking at a study without running it: what is left to do and what it costs, where it is, why a cell ran again."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from residua.errors import InputError
from residua.files import read_text, write_atomically
from residua.nested import differences
from residua.study.cells import Cell, Context
from residua.study.claims import Claims
from residua.study.definition import Study
from residua.study.remaining import Remaining, Sort
from residua.study.running import Run, Step
from residua.study.sharing import Shared
from residua.study.store import Result, Store

# Files beside the cells: what the study is, which key each of its cells has, and where the run is.
DEFINITION, KEYS, STATUS = "study.json", "keys.json", "status.json"


@dataclass(frozen=True)
class Plan:
    """`there` cells are finished and `missing` are to be made, by kind.

    `seconds` is what they take one after another by what cells like them took so far; `unknown` is how many
    cells it leaves out because nothing like them was ever made here.
    """

    there: dict[str, int]
    missing: dict[str, int]
    seconds: float
    unknown: int
    names: tuple[str, ...]


def plan(study: Study, out: str | Path, device: str = "cpu") -> Plan:
    """What `study.run(out)` would do."""
    store = Store(out)
    context = Context(study.tasks, device)
    run = Run(study.cells, store, Shared(context, store.folder), context.task_facts())
    run.look()
    missing = [cell for cell in study.cells if cell not in run.results]
    remaining = Remaining(study.cells, _times(store.results()))
    for cell, result in run.results.items():
        remaining.done(cell, result.seconds)
    left = remaining.left()
    return Plan(
        there=_by_kind(list(run.results)),
        missing=_by_kind(missing),
        seconds=left.seconds,
        unknown=left.unknown,
        names=tuple(cell.name for cell in missing),
    )


class _State(BaseModel):
    """What has to be in the file before anything is computed from it: others may have written to it."""

    done: int
    total: int
    failed: int
    running: list[str]
    failures: dict[str, str]
    finished: bool
    left: float = Field(default=0.0, ge=0, lt=1e12)
    unknown: int = 0


def status(out: str | Path) -> dict[str, Any]:
    """Where the last run of the study in this folder is: `Step` as plain values, failures, and who is at work."""
    out = Path(out)
    state = _read(out / STATUS)
    if state is None:
        raise InputError(f"{out} holds no study; give the folder that `residua study run --out` wrote to")
    try:
        _State.model_validate(state, strict=True)
    except ValidationError as error:
        raise InputError(f"{out / STATUS} is damaged; run the study again") from error
    damaged = out / "damaged"
    return state | {
        "processes": Claims(out).owners(),
        "damaged": sorted(path.name for path in damaged.iterdir()) if damaged.is_dir() else [],
    }


def why(out: str | Path, name: str) -> list[str]:
    """What made the cell of this name run again: which inputs changed, old and new; empty if it ran once."""
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
    for folder in ("cells", "arrays", "models", "damaged", "partial"):
        for path in (out / folder).glob("*"):
            if f"{folder}/{path.name}" not in needed:
                files, size = files + 1, size + path.stat().st_size
                if not dry:
                    path.unlink(missing_ok=True)
    return files, size


def write_status(out: Path, step: Step, failures: Mapping[str, str], finished: bool) -> None:
    body = asdict(step) | {"failures": dict(failures), "finished": finished}
    _write(out / STATUS, body)


def write_keys(out: Path, keys: Mapping[str, str]) -> None:
    with contextlib.suppress(InputError):  # a damaged one is written again
        if _read(out / KEYS) == dict(keys):
            return
    _write(out / KEYS, dict(keys))


def named_keys(out: Path) -> dict[str, str] | None:
    """The key of each cell that the last run knew, by name and in its order; None where none has ended yet."""
    keys = _read(out / KEYS)
    if keys is not None and not all(isinstance(key, str) for key in keys.values()):
        raise InputError(f"{out / KEYS} is damaged; run the study again")
    return keys


def _write(path: Path, body: Any) -> None:
    text = json.dumps(body, indent=1, ensure_ascii=False) + "\n"
    write_atomically(path, lambda part: part.write_text(text, encoding="utf-8"))


def _read(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        body = json.loads(read_text(path))
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise InputError(f"{path} is damaged; run the study again")
    return body


def _by_kind(cells: list[Cell]) -> dict[str, int]:
    kinds = [cell.kind for cell in cells]
    return {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}


def _times(results: Iterable[Result]) -> dict[Sort, float]:
    """Mean seconds of what was made here, by kind and by method or measure."""
    seconds: dict[Sort, list[float]] = {}
    for result in results:
        seconds.setdefault((result.kind, _label(result)), []).append(result.seconds)
    return {sort: mean(each) for sort, each in seconds.items()}


def _label(result: Result) -> str:
    return str(result.inputs.get(result.kind if result.kind == "measure" else "method", {}).get("label", ""))
