"""Plan: what an audit will test and by which rules, written down before the model that is to be audited is looked at."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from residua.compare import Rules
from residua.errors import InputError, printable
from residua.files import read_text, write_atomically
from residua.record import Record
from residua.roles import references_in


class Plan(BaseModel):
    """Rules, measures, seed, and the hashes of data, Original and references.

    `references` are hashes of weights, or the words that make them (`proxy:0.15x3`, `none`). Who publishes the plan's
    hash before the audit shows that nothing in it was chosen afterwards.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    schema_version: Literal[1] = 1
    rules: dict[str, float | str | None]
    measures: dict[str, dict[str, Any]]
    seed: int
    task: str
    original: str
    references: list[str]

    @property
    def sha256(self) -> str:
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def write(self, path: str | Path) -> Path:
        text = self.model_dump_json(indent=1) + "\n"
        write_atomically(Path(path), lambda part: part.write_text(text, "utf-8"))
        return Path(path)

    @classmethod
    def read(cls, path: str | Path) -> Plan:
        text = read_text(path, "a plan that `residua audit --plan-only` wrote")
        try:
            return cls.model_validate_json(text)
        except (ValidationError, RecursionError) as error:
            first = printable("; ".join(str(error).splitlines()[:2]), 300)
            raise InputError(f"{path} is not a plan ({first}); write one with `residua audit --plan-only`") from error


def departures(plan: Plan, records: Mapping[str, Record], rules: Rules) -> list[str]:
    """Departures of an audit, by its records and rules, from its plan; empty if it follows it."""
    record = records["unlearned"]
    task = record.setting.task
    zeros = references_in(records)
    wrong = []
    if plan.rules != dataclasses.asdict(rules):
        names = [name for name, value in dataclasses.asdict(rules).items() if plan.rules.get(name) != value]
        wrong.append(f"the rules differ in {', '.join(names) or 'what they are'}")
    if task is None or task.sha256 != plan.task:
        wrong.append("the data or the forget set are not those of the plan")
    if record.seeds.get("audit") != plan.seed:
        wrong.append(f"the seed is {record.seeds.get('audit')}, but {plan.seed} was planned")
    if records["original"].method.weights != plan.original:
        wrong.append("Original is not that of the plan")
    proxy = records[zeros[0]].method.proxy if zeros else None
    own = [str(records[role].method.weights) for role in zeros]
    if proxy is not None:
        own = [f"proxy:{proxy.share:g}" + (f"x{len(zeros)}" if len(zeros) > 1 else "")]
    if (own or ["none"]) != plan.references:
        wrong.append("the references are not those of the plan")
    for label, fields in plan.measures.items():
        facts = record.measures.get(label)
        if facts is None:
            wrong.append(f"{label} was planned, but not measured")
        elif json.loads(json.dumps(facts.fields)) != json.loads(json.dumps(fields)):
            wrong.append(f"{label} was measured with other settings than planned")
    return wrong
