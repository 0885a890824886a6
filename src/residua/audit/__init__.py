"""The front door: models in, Audit out."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from residua.audit.evidence import BESIDE, NEEDED, draw_random, read_models, train_proxy
from residua.audit.rerunning import TOLERANCE, Rerun, check_model, check_task, rerun
from residua.audit.saved import as_saved, read_saved
from residua.audit.verifying import read_records, read_report, verify
from residua.classifier import Classifier
from residua.compare import Rules
from residua.compare.verdict import Against, Word
from residua.errors import InputError
from residua.files import check_place, write_atomically
from residua.measure import InformationCurve, Measure
from residua.recipes import TINY
from residua.record import Record, describe
from residua.report import AuditReport, IdiPart, audit_report
from residua.saved import Saved, SavedFeatures, SavedOutputs
from residua.task import ForgetTask
from residua.training import Pretraining

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

Model = Classifier | Saved | SavedOutputs | SavedFeatures


@dataclass(frozen=True)
class Audit:
    """A report, and the records of the models that it follows from."""

    report: AuditReport
    records: Mapping[str, Record]

    @property
    def verdict(self) -> Word:
        return self.report.verdict

    @property
    def sentence(self) -> str:
        return self.report.sentence

    @property
    def idi(self) -> IdiPart | None:
        """`value`, `interval`, `blocks`; None where the inside was not assessed."""
        return self.report.idi

    @property
    def metrics(self) -> dict[str, dict[str, float]]:
        """By model: unlearned, original, reference."""
        return self.report.metrics

    def save(self, folder: str | Path) -> Path:
        """Write `records/`, `report.md` and, last, `report.json`; `verify` reads them. No raw data."""
        folder = Path(folder)
        for record in self.records.values():
            record.write(folder / "records")
        plain, data = self.report.markdown(), self.report.model_dump_json(indent=1) + "\n"
        write_atomically(folder / "report.md", lambda part: part.write_text(plain, "utf-8"))
        write_atomically(folder / "report.json", lambda part: part.write_text(data, "utf-8"))
        return folder / "report.json"


def audit(
    *,
    original: Model,
    unlearned: Model,
    reference: Model | str | None = None,
    task: ForgetTask | None = None,
    rules: Rules | None = None,
    curve: InformationCurve | None = None,
    measures: Sequence[Measure] = BESIDE,
    pretraining: Pretraining = TINY,
    seed: int = 0,
    budget: float | None = None,
    command: str = "",
    typed: Mapping[str, Any] | None = None,
) -> Audit:
    """Did `unlearned` forget? A verdict with the evidence for it.

    `reference` is a model that never saw the forget set; or `"proxy:0.15"`, which trains one on that share of
    the retained data as `pretraining` says; or None, which leaves Original and a network with random weights to
    compare with. All models are classifiers with a `task`, or all are what their owner saved (`read_outputs`,
    `read_features`, or `read_saved` for both); what that does not show is named in the report. `curve` says how
    the inside is read, `measures` what is told beside the verdict, as long as `budget` (seconds) lasts. `seed` draws
    the proxy and the random network. `command` and `typed` are kept for whoever makes the audit again.
    """
    rules = rules or Rules()
    start = time.perf_counter()
    against, share = _against(reference)
    models: dict[str, Model] = {"unlearned": unlearned, "original": original}
    if against == "model":
        models["reference"] = cast(Model, reference)
    about = {"typed": dict(typed)} if typed else {}
    saved = {role: found for role, model in models.items() if (found := as_saved(model))}
    if saved:
        if len(saved) < len(models):
            raise InputError(
                "models and what was saved of models cannot be mixed; give the same for each model"
            )
        if against == "proxy":
            raise InputError(
                "a proxy reference cannot be trained from what was saved; give a reference or none"
            )
        records = read_saved(saved, seed=seed, command=command)
        return Audit(audit_report(records, rules=rules, about=about), records)
    if task is None:
        raise InputError("an audit of models needs a task; give task=forget_classes(data, [6]) or the like")
    ours = cast(dict[str, Classifier], models)
    proxy = describe(pretraining) | {"label": "proxy", "share": share} if against == "proxy" else None
    if against == "proxy":
        ours["reference"] = train_proxy(ours["original"], task, share, pretraining, seed)
    elif against == "none":
        ours["random"] = draw_random(ours["original"], task, seed)
    records, reasons = read_models(
        ours,
        task,
        (curve or InformationCurve(), *NEEDED),  # the curve's pass serves the others
        measures,
        left=None if budget is None else budget - (time.perf_counter() - start),
        seed=seed,
        command=command,
        proxy=proxy,
    )
    return Audit(audit_report(records, rules=rules, reasons=reasons, about=about), records)


def assert_forgot(**given: Any) -> Audit:
    """`audit(...)` for tests: AssertionError, with the reason, unless the verdict is FORGOTTEN."""
    found = audit(**given)
    if found.verdict != "FORGOTTEN":
        raise AssertionError(f"{found.verdict}: {found.sentence}")
    return found


def check_folder(folder: Path) -> None:
    """Say before the work, not after it, that an audit cannot be saved here."""
    check_place(folder / "report.json")
    check_place(folder / "records" / "unlearned.json")


def _against(reference: Model | str | None) -> tuple[Against, float]:
    if reference is None or reference == "none":
        return "none", 0.0
    if not isinstance(reference, str):
        return "model", 0.0
    found = re.fullmatch(r"proxy:(\d*\.?\d+)", reference)
    if not found or not 0 < float(found[1]) <= 1:
        raise InputError(
            f"reference {reference!r} is not understood; give a model, proxy:0.15 (a share) or none"
        )
    return "proxy", float(found[1])
