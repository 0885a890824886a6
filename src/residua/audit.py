"""The front door: models in, Audit out."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import ValidationError

from residua.classifier import Classifier, weights_digest
from residua.compare import Rules, reading_fields
from residua.compare.verdict import Against, Word
from residua.curve import Curve
from residua.errors import InputError
from residua.files import check_place, write_atomically
from residua.information import Z95, mutual_information
from residua.measure import (
    Accuracy,
    ClassAccuracy,
    ForgetOutputs,
    InformationCurve,
    Measure,
    Membership,
    Probe,
    Recovery,
    Representation,
    WeightSketch,
)
from residua.reading import Reading
from residua.recipes import TINY
from residua.record import Record, describe
from residua.report import AuditReport, IdiPart, audit_report, differences
from residua.report.audit import ROLES, Tier
from residua.saved import SavedFeatures, SavedOutputs
from residua.task import ForgetTask
from residua.training import Pretraining, seeded
from residua.unlearn import Random, Retrain

Model = Classifier | SavedOutputs | SavedFeatures

# What the verdict rests on; the others are told beside it, and are left out where time runs out.
NEEDED: tuple[Measure, ...] = (Accuracy(), ForgetOutputs(), Representation())
BESIDE: tuple[Measure, ...] = (ClassAccuracy(), Membership(), WeightSketch(), Recovery(), Probe())


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
        text = self.report.model_dump_json(indent=1) + "\n"
        for name, content in (("report.md", self.report.markdown()), ("report.json", text)):
            write_atomically(folder / name, lambda part, content=content: part.write_text(content, "utf-8"))
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
) -> Audit:
    """Did `unlearned` forget? A verdict with the evidence for it.

    `reference` is a model that never saw the forget set; or `"proxy:0.15"`, which trains one on that share of
    the retained data as `pretraining` says; or None, which leaves Original and a network with random weights to
    compare with. All models are classifiers with a `task`, or all are what their owner saved (`read_outputs`,
    `read_features`); what that does not show is named in the report. `curve` says how the inside is
    read, `measures` what is told beside the verdict, as long as `budget` (seconds) lasts. `seed` draws the proxy
    and the random network.
    """
    rules = rules or Rules()
    against, share = _against(reference)
    models: dict[str, Model] = {"unlearned": unlearned, "original": original}
    if against == "model":
        models["reference"] = cast(Model, reference)
    about: dict[str, Any] = {"command": command, "seed": seed}
    if all(isinstance(model, Classifier) for model in models.values()):
        if task is None:
            raise InputError("an audit of models needs a task; give task=forget_classes(data, [6]) or the like")
        ours = cast(dict[str, Classifier], models)
        made: dict[str, dict[str, Any]] = {}
        start = time.perf_counter()
        if against == "proxy":
            ours["reference"] = _proxy(ours["original"], task, share, pretraining, seed)
            made["reference"] = describe(pretraining) | {"label": "proxy", "share": share, "seed": seed}
            about["proxy"] = made["reference"]
        elif against == "none":
            with seeded(seed):
                ours["random"] = Random()(ours["original"], task)
        records, lacking = _read_models(ours, task, curve or InformationCurve(), measures, budget, start, command)
        tier: Tier = "weights"
        about |= {"task": task.manifest(), "network": ours["unlearned"].architecture}
    else:
        if against == "proxy":
            raise InputError("a proxy reference cannot be trained from what was saved; give a reference or none")
        records, lacking, tier = _read_saved(models, command)
        about |= {"task": records["unlearned"].setting["task"]}
    report = audit_report(
        records, tier=tier, against=against, rules=rules, not_assessed=lacking, about=about
    )
    return Audit(report, records)


def assert_forgot(**given: Any) -> Audit:
    """`audit(...)` for tests: AssertionError, with the reason, unless the verdict is FORGOTTEN."""
    found = audit(**given)
    if found.verdict != "FORGOTTEN":
        raise AssertionError(f"{found.verdict}: {found.sentence}")
    return found


def verify(folder: str | Path) -> list[str]:
    """What in a saved audit does not follow from its records; empty if all does.

    Every record must have the content that its hash, and the report, say; and verdict, sentence, IDI, tests and
    metrics are computed anew from records and settings. It does not show that the records are true.
    """
    folder = Path(folder)
    try:
        text = (folder / "report.json").read_text("utf-8")
        report = AuditReport.model_validate_json(text)
        rules = Rules(**report.settings)
    except OSError as error:
        raise InputError(f"{folder} holds no report.json ({error.strerror}); give the folder of an audit") from error
    except (ValidationError, UnicodeDecodeError, TypeError) as error:
        first = str(error).splitlines()
        raise InputError(
            f"{folder}/report.json is not a report of an audit ({'; '.join(first[:3])}); make it again"
        ) from error
    unknown = set(report.records) - set(ROLES)
    if unknown or not {"unlearned", "original"} <= set(report.records):
        return [f"records are of {', '.join(sorted(report.records)) or 'nothing'}"]
    records = {}
    for role in report.records:
        try:
            records[role] = Record.read(folder / "records" / f"{role}.json")
        except InputError as error:
            return [str(error)]
    anew = audit_report(
        records,
        tier=report.tier,
        against=report.against,
        rules=rules,
        not_assessed=report.not_assessed,
        about=report.about,
    )
    found = differences(json.loads(text), json.loads(anew.model_dump_json()))
    if not found and (folder / "report.md").is_file():
        if (folder / "report.md").read_text("utf-8") != report.markdown():
            found.append("report.md does not say what report.json says")
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
        raise InputError(f"reference {reference!r} is not understood; give a model, proxy:0.15 (a share) or none")
    return "proxy", float(found[1])


def _proxy(
    original: Classifier, task: ForgetTask, share: float, pretraining: Pretraining, seed: int
) -> Classifier:
    """Retrain on a share of each class of the retained data."""
    with seeded(seed):
        order = torch.randperm(len(task.retain))
        labels = task.retain.labels[order]
        some = [
            order[labels == c][: max(1, round(share * int((labels == c).sum())))] for c in labels.unique()
        ]
        part = task.retain.subset(torch.cat(some).sort().values)
        if len(part) < pretraining.batch:
            raise InputError(
                f"a proxy on {share:g} of the retained data has {len(part)} examples, fewer than the batch of "
                f"{pretraining.batch}; give a larger share or a smaller batch"
            )
        return Retrain(pretraining)(original, replace(task, retain=part))


def _read_models(
    models: Mapping[str, Classifier],
    task: ForgetTask,
    curve: InformationCurve,
    beside: Sequence[Measure],
    budget: float | None,
    start: float,
    command: str,
) -> tuple[dict[str, Record], dict[str, str]]:
    """A record of each model. A measure that one model refuses, or that comes too late, is left out of all."""
    read: dict[str, dict[str, Reading]] = {role: {} for role in models}
    seconds: dict[str, dict[str, float]] = {role: {} for role in models}
    lacking: dict[str, str] = {}
    chosen: dict[str, Measure] = {measure.label: measure for measure in (*NEEDED, curve, *beside)}
    needed = {measure.label for measure in (*NEEDED, curve)}
    for label, measure in chosen.items():
        if label not in needed and budget is not None and time.perf_counter() - start > budget:
            lacking[label] = f"the budget of {budget:g} s was used up"
            continue
        for role, model in models.items():
            before = time.perf_counter()
            try:
                read[role][label] = measure(model, task)
            except InputError as error:
                if label in needed:
                    raise
                lacking[label] = str(error)
            seconds[role][label] = time.perf_counter() - before
    setting = {"scale": "custom", "task": task.manifest()}
    settings = {label: describe(measure) for label, measure in chosen.items()}
    return {
        role: Record(
            name=role,
            setting=setting | {"network": model.architecture},
            method={"label": role.capitalize(), "weights": weights_digest(model)},
            seeds={},
            seconds=seconds[role],
            command=command,
            **reading_fields(read[role], settings),
        )
        for role, model in models.items()
    }, lacking


def _read_saved(models: Mapping[str, Model], command: str) -> tuple[dict[str, Record], dict[str, str], Tier]:
    tier: Tier
    if all(isinstance(model, SavedOutputs) for model in models.values()):
        tier, lacking = "outputs", {"white-box": "only outputs were given"}
        said = cast(Mapping[str, SavedOutputs], models)
        _check_outputs(said)
        readings = {role: _of_outputs(model) for role, model in said.items()}
        sizes = {role: {s: len(z) for s, z in model.logits.items()} for role, model in said.items()}
        if "TA" not in readings["unlearned"]["accuracy"].values:
            lacking["test accuracy"] = "the outputs or labels of the test data were not saved"
    elif all(isinstance(model, SavedFeatures) for model in models.values()):
        tier = "features"
        lacking = dict.fromkeys(("outputs", "test accuracy"), "only features were given")
        held = cast(Mapping[str, SavedFeatures], models)
        _check_features(held)
        readings = {role: {"information": _curve(model)} for role, model in held.items()}
        sizes = {role: {"forget": int((model.labels > 0).sum())} for role, model in held.items()}
    else:
        raise InputError("models, saved outputs and saved features cannot be mixed; give the same of each model")
    if "reference" not in models:
        lacking["reference"] = "none was given, and no random network can be made from what was saved"
    settings = {"accuracy": describe(Accuracy()), "outputs": {"label": "outputs"}}
    records = {
        role: Record(
            name=role,
            setting={"task": {"splits": {split: {"n": n} for split, n in sizes[role].items()}}},
            method={"label": role.capitalize()},
            seeds={},
            command=command,
            **reading_fields(of, settings),
            readings={},
        )
        if False
        else _saved_record(role, sizes[role], of, settings, command)
        for role, of in readings.items()
    }
    return records, lacking, tier
