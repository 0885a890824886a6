"""Reports and records that were made up for tests of pages; nothing is measured and PyTorch is not needed."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from residua.record import MeasureFacts, MethodFacts, Record, Setting, SplitFacts, TaskFacts
from residua.report import pages
from residua.report.audit import AuditReport

HOSTILE = ("<script>alert(1)</script>", "\"quotes' & <b>tags</b>", "قطة وكلب", "$\\frac{1}{0}$", "x" * 300)


def audit_report(names=("boot", "cat", "shirt"), reference: bool = True, **more) -> AuditReport:
    """A shallow model beside two references, or none."""
    task = {
        "dataset": names[0], "scenario": "random", "class_names": list(names), "sha256": "ab" * 32,
        "splits": {"forget": {"n": 281, "per_class": [200, 81, 0]}, "test": {"n": 900}},
    }  # fmt: skip
    metrics = {
        "unlearned": {"UA": 0.9, "RA": 0.99, "TA": 0.91, "recovery": 0.8, "stress.int4": 0.1, "IDI": 0.93, "MI.5": 0.2},
        "original": {"UA": 0.1, "RA": 0.99, "TA": 0.92, "recovery": 0.8, "stress.int4": 0.9, "IDI": 1.0, "MI.5": 0.2},
    }  # fmt: skip
    curve = {"ceiling": 0.6, "blocks": {4: 0.3, 5: 0.2}, "intervals": {4: (0.25, 0.35), 5: (0.15, 0.25)}}
    curves = {"unlearned": curve, "original": curve | {"blocks": {4: 0.31, 5: 0.22}}}
    zeros = ("reference", "reference2") if reference else ("random",)
    for place, role in enumerate(zeros):
        metrics[role] = {
            "UA": 0.95,
            "RA": 0.98,
            "TA": 0.9,
            "recovery": 0.3 + 0.1 * place,
            "stress.int4": 0.1,
            "MI.5": 0.1,
        }
        curves[role] = curve | {"blocks": {4: 0.2, 5: 0.1 + 0.01 * place}}
    idi = {
        "value": 0.93, "interval": (0.8, 1.05), "blocks": {4: 0.4, 5: 0.53}, "id_unlearned": 0.2, "id_original": 0.22, "id_original_interval": (0.2, 0.24),
        "samples": 0.05, "restarts": None,
    }  # fmt: skip
    inside: dict[str, object] = {"idi": idi, "references": 0}
    if reference:
        chance = {"references": 2, "spread": 0.05, "measured": 0.05, "degrees": 3, "left_out": [-0.05, 0.05]}
        inside |= {"references": 2, "tolerance": 0.25, "resolution": 0.4, "chance": chance}
    sample = {"index": 7, "unlearned": 1.2, "reference": 0.1}
    residue = {
        "block": 5, "above": 200, "forgotten": 281, "samples": [sample],
        "classes": [{"label": f"class 0, {names[0]}", "n": 200, "unlearned": 0.3, "original": 0.3, "reference": 0.1}],
    }  # fmt: skip
    body = {
        "verdict": "SHALLOW", "sentence": "It no longer says it: IDI.\nHow sure: very.\nNot shown: the rest.",
        "limits": ["Only these models."], "tier": "weights", "against": "model" if reference else "none",
        "rules": {"margin": None, "utility": 0.1}, "inside": inside,
        "findings": {"says": "like", "knows": "more", "keeps": "kept"},
        "curves": curves, "residue": residue, "loss": {"value": 0.01, "low": -0.01, "high": 0.03}, "tests": {}, "guards": [], "metrics": metrics,
        "notes": {}, "not_assessed": {names[1]: "it was not measured"}, "models": {"unlearned": "cd" * 32},
        "about": {"task": task, "command": f"residua audit {names[1]}", "typed": {"by": names[0], "unlearned": names[1]}},
        "records": dict.fromkeys(metrics, "ef" * 32),
    }  # fmt: skip
    return AuditReport.model_validate(body | more)


def record(
    label: str, seed: int, share: float, seconds: float = 1.0, tsne: bool = False, points: int = 50, epochs: int = 0
) -> Record:
    """A model that knows this share of what Original knows beyond Retrain."""
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 0.1, (1, 1, 2, 60)).astype(np.float16)
    terms = noise + np.float16(0.1 + 0.2 * share + 0.001 * seed)
    arrays = {
        "information.terms": terms, "information.blocks": np.array([4, 5]),
        "information.labels": np.arange(60) % 2, "information.index": np.arange(60),
    }  # fmt: skip
    if tsne:
        arrays |= {
            "tsne.coordinates": rng.normal(size=(points, 2)),
            "tsne.forgotten": (np.arange(points) < points // 5).astype(np.int8),
        }
    if epochs:
        way = np.linspace(1, 0, epochs + 1)[1:, None]
        arrays["trajectory"] = np.array([1 - share, 0.99, 0.9]) * (1 - way) + np.array([0.05, 1.0, 0.92]) * way
    values = {"H": 0.69} | {f"I{b}": float(terms[0, 0, i].astype(float).mean()) for i, b in enumerate((4, 5))}
    values |= {"accuracy4": 0.6, "accuracy5": 0.6}
    accuracy = {"UA": 1 - share, "RA": 0.99, "TA": 0.9 + 0.01 * share}
    return Record(
        name=f"seed{seed}-model{len(label)}", seeds={"training": seed}, software={"residua": "0"}, seconds={"RTE": seconds},
        setting=Setting(task=TaskFacts(splits={"forget": SplitFacts(n=30)}, dataset="levels"), network={"network": "tiny"}),
        method=MethodFacts(label=label), arrays=arrays,
        measures={"information": MeasureFacts(label="information", reading="curve")},
        readings={"information": values, "accuracy": accuracy, "recovery": {"recovery": 0.3 + 0.5 * share}},
    )  # fmt: skip


def study_records(names=("HD", "COLA", "FT"), seeds: int = 2, **more) -> list[Record]:
    """Seeds of Original, Retrain and methods that leave less and less."""
    shares = {"Original": 1.0, "Retrain": 0.0} | {
        name: 0.9 - 0.8 * i / (len(names) + 1) for i, name in enumerate(names)
    }
    return [
        record(label, seed, share, seconds=2.0 + place, **more)
        for seed in range(seeds)
        for place, (label, share) in enumerate(shares.items())
    ]


def full_study() -> str:
    """The page of a study with every column, verdicts among them, and cells as wide as they come."""
    records = study_records(["Boundary Expand", "COLA", "HD"], seeds=3)
    values = {
        "UA": 0.862,
        "RA": 0.84,
        "TA": 0.806,
        "JSD": 0.305,
        "recovery": 0.519,
        "IDI": 0.88,
        "RTE": 126.7,
        "RTE.cpu": 226.7,
    }
    rows = [
        {"method": each.method.label, "seed": (seed := each.seeds["training"]), "E-MIA": 0.3 + seed / 10 if seed < 2 else None}
        | {name: value * (1 + seed / 10) for name, value in values.items()}
        for each in records
    ]  # fmt: skip
    words = Counter({"NOT_FORGOTTEN": 1, "UNDETERMINED": 2})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "verdicts_of", lambda of: {each.method.label: words for each in of})
        return pages.study_page(records, "Full", rows)


def control_reports(reports: list[AuditReport], names=HOSTILE) -> list[AuditReport]:
    """These reports of controls under other names, in a setting of another name."""
    known = list(dict.fromkeys(report.about["control"] for report in reports))
    other = dict(zip(known[-len(names) :], names, strict=False))
    return [
        report.model_copy(
            update={
                "about": report.about
                | {"control": other.get(report.about["control"], report.about["control"]), "setting": names[0]}
            }
        )
        for report in reports
    ]
