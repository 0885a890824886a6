"""Writes docs/schemas/: JSON Schema of report.json, of a record and of what `residua export --as statement` prints, each with its version.

A number in a file's name is the schema's version. A change that makes files of before invalid gets a new number; the old
schema stays.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from residua.audits.attesting import PREDICATE, STATEMENT
from residua.record import Record
from residua.report.audit import AuditReport

FOLDER = Path(__file__).resolve().parent / "schemas"
DRAFT = "https://json-schema.org/draft/2020-12/schema"
SHA256 = {"type": "string", "pattern": "^[0-9a-f]{64}$"}


def schemas() -> dict[str, dict[str, Any]]:
    """By file name."""
    return {"report-1.json": report(), "record-2.json": record(), "statement-1.json": statement()}


def report() -> dict[str, Any]:
    body = AuditReport.model_json_schema()
    body["required"] = sorted({*body["required"], "schema_version"})
    return named(body, "report", 1, "What `residua audit` writes to report.json: shares, nats and seconds.")


def record() -> dict[str, Any]:
    """As it is on disk: with the hashes of its arrays, which are in the .npz file beside it, and of the whole."""
    body = Record.model_json_schema(schema_generator=_without_arrays())
    body["properties"]["arrays"] = {
        "type": "object",
        "additionalProperties": SHA256,
        "description": "SHA-256 of each array, over `dtype shape`, a line break and its bytes in C order.",
    }
    body["properties"]["sha256"] = SHA256 | {
        "description": "SHA-256 of this object without `sha256`, as JSON with sorted keys and no spaces."
    }
    body["required"] = sorted({*body["required"], "schema_version", "arrays", "sha256"})
    return named(body, "record", 2, "One model, what was measured of it, and all that the numbers depend on.")


def statement() -> dict[str, Any]:
    """The in-toto statement; of its predicate, what a policy would ask for."""
    words = AuditReport.model_json_schema()["properties"]["verdict"]["enum"]
    digests = {"type": "object", "minProperties": 1, "additionalProperties": {"type": "string"}}
    hashed = {"type": "object", "properties": {"sha256": SHA256}, "required": ["sha256"]}
    subject = {"type": "object", "properties": {"name": {"type": "string"}, "digest": digests}}
    predicate = {
        "verdict": {"enum": words},
        "sentence": {"type": "string"},
        "limits": {"type": "array", "items": {"type": "string"}},
        "notAssessed": {"type": "object", "additionalProperties": {"type": "string"}},
        "resolution": {"type": "string"},
        "idi": {"type": ["object", "null"]},
        "rules": {"type": "object", "additionalProperties": {"type": ["number", "string", "null"]}},
        "access": {"type": "string"},
        "reference": {"enum": ["model", "proxy", "none"]},
        "task": {"type": "object"},
        "models": {"type": "object"},
        "records": {"type": "object", "additionalProperties": hashed},
        "report": hashed,
        "auditor": {"type": "object"},
        "typed": {"type": "object"},
    }
    body = {
        "type": "object",
        "properties": {
            "_type": {"const": STATEMENT},
            "subject": {"type": "array", "minItems": 1, "items": subject | {"required": ["name", "digest"]}},
            "predicateType": {"const": PREDICATE},
            "predicate": {
                "type": "object",
                "properties": predicate,
                "required": list(predicate),
                "additionalProperties": False,
            },
        },
        "required": ["_type", "subject", "predicateType", "predicate"],
        "additionalProperties": False,
    }
    return named(
        body, "statement", 1, "What `residua export --as statement` prints: an in-toto statement on an audited model."
    )


def named(body: dict[str, Any], kind: str, version: int, words: str) -> dict[str, Any]:
    body.pop("title", None)
    head = {
        "$schema": DRAFT,
        "$id": f"urn:residua:schema:{kind}:{version}",
        "title": f"residua {kind}, version {version}",
    }
    return head | {"description": words} | {name: value for name, value in body.items() if name != "description"}


def _without_arrays() -> Any:
    """Arrays are no part of the file."""
    from pydantic.json_schema import GenerateJsonSchema, PydanticOmit

    class Generate(GenerateJsonSchema):
        def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> Any:
            raise PydanticOmit

    return Generate


def text(schema: dict[str, Any]) -> str:
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, schema in schemas().items():
        (FOLDER / name).write_text(text(schema), encoding="utf-8")
