"""Models of an audit as they are typed: files, folders, or a word for references that the audit makes itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from residua.errors import InputError
from residua.files import file_hash
from residua.record import Record
from residua.roles import reference_role, references_in

MODEL_FILES = (".safetensors", ".pt", ".pth", ".npz")


def is_keyword(word: str) -> bool:
    """True if a word of --reference names no file: none, or a proxy that the audit trains."""
    return word == "none" or word.startswith("proxy:")


def references_by_role(words: Sequence[str]) -> dict[str, str]:
    """The references that were typed, by role; a folder stands for the models and saved files in it."""
    files = [file for word in words for file in ([word] if is_keyword(word) else _files_in(word))]
    if len(files) > 1 and any(is_keyword(file) for file in files):
        raise InputError(
            f"--reference {next(filter(is_keyword, files))} stands alone; give files, proxy:0.15x3 or none"
        )
    return {reference_role(number): file for number, file in enumerate(files, start=1)}


def _files_in(word: str) -> list[str]:
    folder = Path(word)
    if not folder.is_dir() or (folder / "config.json").exists():
        return [word]  # a folder with a config.json is one model
    files = sorted(str(path) for path in folder.iterdir() if path.suffix in MODEL_FILES)
    if not files:
        raise InputError(
            f"--reference {word} is a folder without models ({', '.join(MODEL_FILES)}); give files or another folder"
        )
    return files


def files_of(words: str) -> list[Path]:
    """One file, or several separated by commas; an existing file whose name has a comma is one."""
    return [Path(words)] if exists(Path(words)) else [Path(word) for word in words.split(",")]


def exists(path: Path) -> bool:
    """True if there is such a file; False for a name that no file can have."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def file_hashes(words: Mapping[str, str]) -> dict[str, str]:
    """SHA-256 of each single file that was typed, by role, which identifies the file that was audited."""
    files = {role: files_of(word) for role, word in words.items() if not is_keyword(word)}
    return {role: file_hash(paths[0]) for role, paths in files.items() if len(paths) == 1 and paths[0].is_file()}


def as_kwargs(models: Mapping[str, Any]) -> dict[str, Any]:
    """Models by role as `audit` and `rerun` take them: the references in one list."""
    references = [models[role] for role in references_in(models)]
    names = {"original": "original", "unlearned": "unlearned", "start": "init"}
    others = {names[role]: model for role, model in models.items() if role in names}
    return others | ({"reference": references} if references else {})


def measuring_seconds(records: Mapping[str, Record]) -> float:
    """The time that measuring all models took; parts of a measurement are not counted twice."""
    return sum(seconds for record in records.values() for part, seconds in record.seconds.items() if "." not in part)
