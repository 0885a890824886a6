"""Where a report comes from: who, when, which version, files, data, settings, seeds, hashes, and how to check them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from residua.report.audit_parts import roles_in
from residua.report.plain import forgotten, role_name, task_of

if TYPE_CHECKING:
    from residua.report.audit_data import AuditReport

ACCESS = {
    "weights": "the weights of all models",
    "features and outputs": "features and outputs that the owner saved",
    "features": "features that the owner saved",
    "outputs": "outputs that the owner saved",
}


def provenance(report: AuditReport) -> list[tuple[str, str]]:
    """Terms and what stands under them, the most asked for first. What is typed by people is taken on trust."""
    about, task = report.about, task_of(report)
    typed, software = _part(about, "typed"), _part(about, "software")
    rows = [("Made by", typed.get("by")), ("Made on", typed.get("when"))]
    rows.append(("Version", _joined(software)))
    rows += [
        (f"{role_name(role)} model", _model(typed.get(role), report.models.get(role)))
        for role in roles_in(report.records)
    ]
    rows.append(("Given", ACCESS[report.tier]))
    sizes = ", ".join(f"{split.n} {name.replace('_', ' ')}" for name, split in task.splits.items())
    rows += [("Data", typed.get("data") or task.dataset), ("Examples", sizes)]
    rows.append(("To be forgotten", "; ".join(forgotten(report))))
    rows.append(("Hash of the task", task.sha256))
    rows.append(("Network", _joined(_part(about, "network"))))
    rows.append(("Rules", rules_line(report.settings)))
    rows.append(("Seed", None if "seed" not in about else str(about["seed"])))
    if "plan" in about:
        rows.append(("Planned before", f"the plan {plan_digest(about['plan'])}"))
    rows.append(("Command", about.get("command")))
    return [(term, str(value)) for term, value in rows if value]


def hashes(report: AuditReport) -> list[tuple[str, str, str]]:
    """Role, hash of the weights (or nothing), hash of the record."""
    return [
        (role_name(role), report.models.get(role, ""), report.records[role])
        for role in roles_in(report.records)
    ]


def measure_settings(report: AuditReport) -> list[tuple[str, str]]:
    """The settings of each measure; reports before 0.2.0 leave them to the records."""
    found = _part(report.about, "measures")
    return [(label, _joined(fields) or "none") for label, fields in found.items() if isinstance(fields, dict)]


def rules_line(settings: Mapping[str, float | None]) -> str:
    return ", ".join(
        f"{name} {'by the number of references' if value is None else format(value, 'g')}"
        for name, value in settings.items()
    )


def plan_digest(plan: Any) -> str:
    text = json.dumps(plan, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _part(about: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = about.get(name)
    return found if isinstance(found, dict) else {}


def _model(file: Any, weights: str | None) -> str | None:
    parts = [str(file)] if file else []
    parts += [f"weights {weights[:16]}"] if weights else []
    return ", ".join(parts) or None


def _joined(values: Mapping[str, Any]) -> str | None:
    return ", ".join(f"{name} {value}" for name, value in values.items()) or None
