"""Audits: models or saved files in, a verdict with its evidence out; verified and run again.

Names are imported when they are first used: verifying is arithmetic on records and does without PyTorch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from residua.audits.auditing import Audit, assert_forgot, audit, check_folder
    from residua.audits.evidence import BESIDE, NEEDED
    from residua.audits.rerunning import Rerun, check_model, check_task, rerun
    from residua.audits.verifying import TOLERANCE, read_records, read_report, verify

_FILES = {
    "auditing": ("Audit", "assert_forgot", "audit", "check_folder"),
    "evidence": ("BESIDE", "NEEDED"),
    "rerunning": ("Rerun", "check_model", "check_task", "rerun"),
    "verifying": ("TOLERANCE", "read_records", "read_report", "verify"),
}
_PLACES = {name: file for file, names in _FILES.items() for name in names}

__all__ = [
    "BESIDE",
    "NEEDED",
    "TOLERANCE",
    "Audit",
    "Rerun",
    "assert_forgot",
    "audit",
    "check_folder",
    "check_model",
    "check_task",
    "read_records",
    "read_report",
    "rerun",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'residua.audits' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"residua.audits.{_PLACES[name]}"), name)
    globals()[name] = value
    return value
