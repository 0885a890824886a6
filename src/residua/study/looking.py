"""Looking at a study without running it: what is left to do and what it costs, where it is, why a cell ran again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from residua.errors import InputError
from residua.files import write_atomically
from residua.nested import differences
from residua.study.cells import Cell, Context
from residua.study.definition import Study
from residua.study.running import Run, Step
from residua.study.sharing import Shared
from residua.study.store import Result, Store

# Files beside the cells: what the study is, which key each of its cells has, and where the run is.
DEFINITION, KEYS, STATUS = "study.json", "keys.json", "status.json"


@dataclass(frozen=True)
class Plan:
    """`there` cells are finished and `missing` are to be made, by kind.

    `seconds` is what they take one after another by what cells of their kind took so far; `unknown` is how many
    cells it leaves out because nothing like them was ever measured here.
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
    times = _times(store.results())
    known = [times.get(_sort(cell)) for cell in missing]
    return Plan(
        there=_by_kind(list(run.results)),
        missing=_by_kind(missing),
        seconds=sum(each for each in known if each is not None),
        unknown=sum(each is None for each in known),
        names=tuple(cell.name for cell in missing),
    )


def status(out: str | Path) -> dict[str, Any]:
    """Where the last run of the study in this folder is: `Step` as plain values, failures, and who is at work."""
    out = Path(out)
    state = _read(out / STATUS)
    if state is None:
        raise InputError(f"{out} holds no study; give the folder that `residua study run --out` wrote to")
    claims = out / "claims"
    at_work = (
        sorted({path.read_text(encoding="utf-8") for path in claims.iterdir()}) if claims.is_dir() else []
    )
    damaged = out / "damaged"
    return state | {
        "processes": at_work,
        "damaged": sorted(path.name for path in damaged.iterdir()) if damaged.is_dir() else [],
    }


def why(out: str | Path, name: str) -> list[str]:
    """What made the cell of this name run again: which inputs changed, old and new; empty if it ran once."""
    keys = _read(Path(out) / KEYS) or {}
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
    keys = _read(out / KEYS)
    if keys is None:
        raise InputError(f"{out} holds no finished study; run it once before pruning")
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
    if _read(out / KEYS) != dict(keys):
        _write(out / KEYS, dict(keys))


def _write(path: Path, body: Any) -> None:
    text = json.dumps(body, indent=1, ensure_ascii=False) + "\n"
    write_atomically(path, lambda part: part.write_text(text, encoding="utf-8"))


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _by_kind(cells: list[Cell]) -> dict[str, int]:
    kinds = [cell.kind for cell in cells]
    return {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}


def _times(results: Any) -> dict[tuple[str, str], float]:
    """Mean seconds of what was made here, by kind and by method or measure."""
    seconds: dict[tuple[str, str], list[float]] = {}
    for result in results:
        seconds.setdefault((result.kind, _label(result)), []).append(result.seconds)
    return {sort: mean(each) for sort, each in seconds.items()}


def _label(result: Result) -> str:
    return str(result.inputs.get(result.kind if result.kind == "measure" else "method", {}).get("label", ""))


def _sort(cell: Cell) -> tuple[str, str]:
    worker = getattr(cell, "measure", None) or getattr(cell, "method", None)
    return cell.kind, str(getattr(worker, "label", ""))
