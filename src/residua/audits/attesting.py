"""Attestation: a finished audit as an in-toto statement, for whoever signs it.

A statement (https://in-toto.io/Statement/v1) names files by their hashes, its subjects, and says one thing about them, its
predicate. Ours says which verdict an audit reached, by which rules, on which evidence. It is not signed here: cosign and
the like do that.
"""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

from residua.audits.verifying import read_records, read_report, verify
from residua.errors import InputError
from residua.files import read_bytes
from residua.record import Record
from residua.report.audit import AuditReport
from residua.report.text import part_of, resolution, task_of

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:residua:audit:v1"
# SHA-256 of every tensor under its name (models.classifier.weights_digest), whatever file the tensors are in.
WEIGHTS = "residuaWeights"


def statement(folder: str | Path) -> dict[str, Any]:
    """The unsigned statement of a saved audit. A report that does not follow from its records is refused.

    The subject is the unlearned model: its file as it was read for the audit (`sha256`), and the tensors in it
    (`residuaWeights`), or what its owner saved in place of a model (`residuaOutputs`, `residuaFeatures`). All hashes
    are the records'; names and dates that people typed stand under `typed`.
    """
    folder = Path(folder)
    report, digest = checked(folder)
    models = {role: _digests(record) for role, record in read_records(folder, report).items()}
    if not models["unlearned"]:
        raise InputError("the report does not say which model was audited; make the audit again")
    typed, task = part_of(report.about, "typed"), task_of(report)
    index = report.idi
    return {
        "_type": STATEMENT,
        "subject": [{"name": "unlearned", "digest": models["unlearned"]}],
        "predicateType": PREDICATE,
        "predicate": {
            "verdict": report.verdict,
            "sentence": report.sentence,
            "limits": list(report.limits),
            "notAssessed": dict(report.not_assessed),
            "resolution": resolution(report),
            "idi": None if index is None else {
                "value": index.value,
                "interval": index.interval,
                "zero": "random" if report.against == "none" else "reference",
            },
            "rules": dataclasses.asdict(report.rules),
            "access": report.tier,
            "reference": report.against,
            "task": {
                "dataset": task.dataset,
                "scenario": task.scenario,
                "forgotten": task.size("forget"),
                "sha256": task.sha256,
            },
            "models": models,
            "records": {role: {"sha256": value} for role, value in report.records.items()},
            "report": {"sha256": digest, "schemaVersion": report.schema_version},
            "auditor": {
                "software": part_of(report.about, "software"),
                "command": report.about.get("command"),
            },
            "typed": {name: typed.get(name) for name in ("unlearned", "by", "when")},
        },
    }  # fmt: skip


def checked(folder: Path) -> tuple[AuditReport, str]:
    """The report of a saved audit that follows from its records, and the SHA-256 of its file."""
    report = read_report(folder)
    faults = verify(folder)
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise InputError(
            f"{folder} is not passed on, because it does not follow from its records: {faults[0]}{more}; "
            "make the audit again, or look at all with residua verify"
        )
    return report, hashlib.sha256(read_bytes(folder / "report.json", limit="text")).hexdigest()


def _digests(record: Record) -> dict[str, str]:
    """By which hashes a model is known: of its file, of its tensors, of what was saved of it."""
    found = {} if record.method.file is None else {"sha256": record.method.file}
    if record.method.weights is not None:
        found[WEIGHTS] = record.method.weights
    return found | {f"residua{kind.capitalize()}": value for kind, value in record.method.saved.items()}
