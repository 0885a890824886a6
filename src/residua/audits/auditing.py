"""The front door: models in, Audit out."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from residua.audits.evidence import BESIDE, NEEDED, draw_random, read_models, train_proxies
from residua.audits.pages import THUMBNAILS, write_page, write_thumbnails
from residua.audits.planning import planned
from residua.audits.rerunning import Rerun, check_model, check_task, rerun
from residua.audits.saved_evidence import as_saved, read_saved
from residua.audits.saved_files import Saved, SavedFeatures, SavedOutputs
from residua.audits.verifying import TOLERANCE, read_records, read_report, verify
from residua.compare import Rules
from residua.compare.verdicts import Against, Word
from residua.data.task import ForgetTask
from residua.errors import InputError
from residua.facts import ProxyFacts
from residua.files import check_place, write_atomically
from residua.measure import InformationCurve, Measure
from residua.models.classifier import Classifier, weights_digest
from residua.record import Record
from residua.report import AuditReport, IdiPart, audit_report
from residua.report.audit_data import reference_role
from residua.report.plan import Plan
from residua.training.pretraining import Pretraining
from residua.training.recipes import TINY

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

    def save(self, folder: str | Path, thumbnails: ForgetTask | None = None) -> Path:
        """Write `records/`, `report.html`, `report.md` and, last, `report.json`; `verify` reads them.

        No raw data, unless `thumbnails` is the task: then the page shows the images of the samples that it names, and
        `thumbnails.npz` keeps them.
        """
        folder = Path(folder)
        (folder / THUMBNAILS).unlink(missing_ok=True)
        for record in self.records.values():
            record.write(folder / "records")
        if thumbnails is not None:
            write_thumbnails(folder, self.report, thumbnails)
        write_page(folder, self.report, self.records)
        plain, data = self.report.markdown(), self.report.model_dump_json(indent=1) + "\n"
        write_atomically(folder / "report.md", lambda part: part.write_text(plain, "utf-8"))
        write_atomically(folder / "report.json", lambda part: part.write_text(data, "utf-8"))
        return folder / "report.json"


def audit(
    *,
    original: Model,
    unlearned: Model,
    reference: Model | Sequence[Model] | str | None = None,
    task: ForgetTask | None = None,
    rules: Rules | None = None,
    curve: InformationCurve | None = None,
    measures: Sequence[Measure] = BESIDE,
    pretraining: Pretraining = TINY,
    seed: int = 0,
    budget: float | None = None,
    plan: Plan | None = None,
    command: str = "",
    typed: Mapping[str, Any] | None = None,
) -> Audit:
    """Did `unlearned` forget? A verdict with the evidence for it.

    `reference` is a model that never saw the forget set, or a list of such models, which shows how much retrainings
    differ; three to five are recommended. Or `"proxy:0.15"`, which trains one on that share of the retained data as
    `pretraining` says, and `"proxy:0.15x3"`, which trains three. Or None, which leaves Original and a network with random
    weights to compare with. All models are classifiers with a `task`, or all are what their owner saved (`read_outputs`,
    `read_features`, or `read_saved` for both); what that does not show is named in the report. `curve` says how
    the inside is read, `measures` what is told beside the verdict, as long as `budget` (seconds) lasts. `seed` draws
    the proxy and the random network. An audit with a `plan` (`audits.planning.planned`) refuses to depart from it, and
    its report says so. `command` and `typed` are kept for whoever makes the audit again.
    """
    rules = rules or Rules()
    start = time.perf_counter()
    against, share, proxies = kind_of_reference(reference)
    models: dict[str, Model] = {"unlearned": unlearned, "original": original}
    if against == "model":
        models |= _references(cast(Model | Sequence[Model], reference))
    about: dict[str, Any] = {"typed": dict(typed)} if typed else {}
    if plan is not None:
        about["plan"] = plan.model_dump(mode="json")
    saved = {role: held for role, model in models.items() if (held := as_saved(model))}
    if saved:
        _check_saved(saved, models, against, plan)
        records = read_saved(saved, seed=seed, command=command)
        return Audit(audit_report(records, rules=rules, about=about), records)
    if task is None:
        raise InputError("an audit of models needs a task; give task=forget_classes(data, [6]) or the like")
    if plan is not None:
        _check_plan(
            plan, original=original, reference=reference, task=task, rules=rules, curve=curve,
            measures=measures, seed=seed,
        )  # fmt: skip
    ours = cast(dict[str, Classifier], models)
    proxy = ProxyFacts(share=share, fields=asdict(pretraining)) if against == "proxy" else None
    if against == "proxy":
        ours |= train_proxies(ours["original"], task, share, pretraining, seed, proxies)
    elif against == "none":
        ours["random"] = draw_random(ours["original"], task, seed)
    needed = (curve or InformationCurve(), *NEEDED)  # the curve's pass serves the others
    left = None if budget is None else budget - (time.perf_counter() - start)
    records = read_models(ours, task, needed, measures, left=left, seed=seed, command=command, proxy=proxy)
    return Audit(audit_report(records, rules=rules, about=about), records)


def assert_forgot(**given: Any) -> Audit:
    """`audit(...)` for tests: AssertionError, with the reason, unless the verdict is FORGOTTEN."""
    made = audit(**given)
    if made.verdict != "FORGOTTEN":
        raise AssertionError(f"{made.verdict}: {made.sentence}")
    return made


def check_folder(folder: Path) -> None:
    """Say before the work, not after it, that an audit cannot be saved here."""
    check_place(folder / "report.json")
    check_place(folder / "records" / "unlearned.json")


def _check_plan(plan: Plan, **given: Any) -> None:
    """Refuse an audit that departs from its plan."""
    now = planned(**given)
    apart = [name for name in Plan.model_fields if getattr(now, name) != getattr(plan, name)]
    if apart:
        raise InputError(
            f"{', '.join(apart)} of this audit are not those of the plan; follow it, or audit without one"
        )


def _check_saved(
    saved: Mapping[str, Saved], models: Mapping[str, Model], against: Against, plan: Plan | None
) -> None:
    if plan is not None:
        raise InputError("a plan binds audits of models; leave it out where outputs or features were saved")
    if len(saved) < len(models):
        raise InputError(
            "models and saved files of models cannot be mixed; give the same kind for each model"
        )
    if against == "proxy":
        raise InputError("a proxy reference cannot be trained from saved files; give a reference or none")


def kind_of_reference(reference: Model | Sequence[Model] | str | None) -> tuple[Against, float, int]:
    """The kind of reference, the share of a proxy and how many proxies."""
    if reference is None or reference == "none":
        return "none", 0.0, 0
    if not isinstance(reference, str):
        return "model", 0.0, 0
    words = re.fullmatch(r"proxy:(\d*\.?\d+)(?:x([1-9]\d?))?", reference)
    if not words or not 0 < float(words[1]) <= 1:
        raise InputError(
            f"reference {reference!r} is not understood; give a model or several, proxy:0.15 (a share), proxy:0.15x3 "
            "(three of them) or none"
        )
    return "proxy", float(words[1]), int(words[2] or 1)


def _references(given: Model | Sequence[Model]) -> dict[str, Model]:
    """Models by the roles reference, reference2, ..."""
    models = list(given) if isinstance(given, Sequence) else [given]
    if not models:
        raise InputError("the list of references is empty; give a model or several, proxy:0.15 or none")
    digests = [weights_digest(model) for model in models if isinstance(model, Classifier)]
    if len(set(digests)) < len(digests):
        raise InputError(
            "two references have the same weights, so they do not show how much retrainings differ; give different ones"
        )
    return {reference_role(number): model for number, model in enumerate(models, start=1)}
