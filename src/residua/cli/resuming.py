"""Going on where a run stopped: a record that is there counts only if it is what would be made now."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from residua.cli.console import say
from residua.errors import InputError
from residua.record import DamagedRecord, Record


def found_in(folder: Path, name: str, asked: Mapping[str, Any]) -> Record | None:
    """The record NAME of this folder, or None where there is none, or only a damaged one.

    `asked` maps fields of a record (setting, method, measures, seeds) to what they must be. One that differs is
    refused, and the sentence names the first difference.
    """
    place = folder / f"{name}.json"
    if not place.exists():
        return None
    try:
        record = Record.read(place)
    except DamagedRecord as error:
        say(f"warning: {error}")
        return None
    have = {field: getattr(record, field) for field in asked}
    if "measures" in asked:
        have["measures"] = {label: _settings(about) for label, about in record.measures.items()}
        asked = dict(asked) | {"measures": {k: _settings(v) for k, v in asked["measures"].items()}}
    different = difference(json.loads(json.dumps(have)), json.loads(json.dumps(dict(asked))))
    if different:
        what, was, now = different
        raise InputError(
            f"{place} was made with {what} {_short(was)}, and now it is {_short(now)}; "
            "choose another folder, or delete the record to make it again"
        )
    return record


def difference(have: Any, want: Any, path: str = "") -> tuple[str, Any, Any] | None:
    """Where two nested values first differ: the place, and both values; None if they are equal."""
    if have == want:
        return None
    if isinstance(have, dict) and isinstance(want, dict):
        for key in [*want, *(key for key in have if key not in want)]:
            found = difference(have.get(key), want.get(key), f"{path}.{key}" if path else str(key))
            if found:
                return found
    return path, have, want


def _settings(about: Mapping[str, Any]) -> dict[str, Any]:
    """A measure's own settings of what a record keeps of it; a curve keeps beside them what it was measured on,
    and in its readings which blocks."""
    own = about.get("measure", about)
    beside = ("notes", "label", "class", "last", "blocks")
    return {name: value for name, value in own.items() if name not in beside}


def _short(value: Any) -> str:
    words = "none" if value is None else json.dumps(value)
    return words if len(words) <= 60 else f"{words[:57]}..."
