"""Methods that reach the blocks, and metrics that notice: two studies and their tables.

    python -m reproduction.inside inside --out DIR
    python -m reproduction.inside inside-small --data cifar10:DIR --out DIR
    python -m reproduction.inside tribunal --out DIR

`inside` makes every method beside five references; `tribunal` makes a pool of models that keep the knowledge and of models
that never had it, and says for each metric how well it separates them. Each command is `residua study run`, then
`residua study verdicts` (both also work by themselves, with reproduction/inside.py:NAME as the study), then the table of the
audits in DIR/verdicts. A run that was killed resumes.
"""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from residua.audits.verifying import reports_in
from residua.cli.console import complain, show
from residua.controls.cheats import CHEATS
from residua.controls.deceivers import DECEIVERS
from residua.controls.impostors import impostors
from residua.data.parsing import split_settings, with_settings
from residua.data.task import ForgetTask
from residua.errors import InputError
from residua.measure import Embedding, LogOdds, Measure, Relearning, Stress
from residua.report.audit import AuditReport
from residua.report.controls import FURTHER, WITHOUT, Detector, detectors
from residua.report.table import Table, mean_sd, with_interval
from residua.roles import references_in, role_of
from residua.study.definition import Row, Study
from residua.study.executors import Tell
from residua.study.presets import TENTH, Preset
from residua.training.pretraining import Pretraining
from residua.training.recipes import SMALL
from residua.unlearn import Unlearner, traits

HONEST = "Honest: "
# What a model's knowledge should outlive; rows that were treated have it behind their label.
TREATMENTS = ("4 bits", "relearned")
# The metrics of the first table, in its order; of one that is read by block, the last block's.
SHOWN = (
    "UA", "TA", "recovery", "IDI", "KR", "LPR", "RUS", "activation_distance", "completeness", "offline_LiRA", "offline_RMIA",
    "log_odds", "ZRF_paper", "three_sample", "three_sample_aggregated",
)  # fmt: skip
# Trainings of models that never saw the data, beside the one that Original and the references had.
VARIED: dict[str, dict[str, Any]] = {
    "as Original": {}, "half the epochs": {"epochs": 6}, "twice the epochs": {"epochs": 24}, "cropped": {"crop": 2},
    "not flipped": {"flip": False}, "larger batches": {"batch": 128}, "lower rate": {"lr": 0.05},
    "more decay": {"weight_decay": 2e-3},
}  # fmt: skip
WIDTHS = (16, 24)
# An Original of a fifth of CIFAR-10 that is trained to the end.
CONVERGED = dataclasses.replace(SMALL, epochs=30, crop=0)


@dataclass(frozen=True)
class Inside(Preset):
    """Every method, with the measures of verdicts, of stress and of rivals.

    Args:
        part: Fraction of the training data, unless the data is given with one.
        training: Training of Original and Retrain, if it is not that of the scale.
    """

    part: float = 1
    training: Pretraining | None = None

    def task(self, data: str | None, forget: str | None, tell: Tell) -> ForgetTask:
        if data is not None and self.part != 1 and "part" not in split_settings(data)[1]:
            data = with_settings(data, part=self.part)
        return super().task(data, forget, tell)

    def pretraining(self) -> Any:
        return self.training or super().pretraining()

    def method(self, label: str, task: ForgetTask, network: str) -> Unlearner:
        made: Any = super().method(label, task, network)
        return dataclasses.replace(made, pretraining=self.training) if self.training and label == "Retrain" else made

    def measures(self, network: str) -> tuple[Measure, ...]:
        drawn = (each for each in super().measures(network) if not isinstance(each, Embedding))
        return (*drawn, Stress(), LogOdds(), Relearning())

    def __call__(self, *given: Any, **named: Any) -> Study:
        return dataclasses.replace(super().__call__(*given, **named), compact=True)


@dataclass(frozen=True)
class Tribunal(Inside):
    """Models whose truth is known: those of `VARIED` never saw the data; methods that keep the encoder, cheats, deceivers
    and impostors have all of it. In networks of two widths, for each of two seeds; those of the first width also after
    each treatment."""

    def __call__(self, *given: Any, **named: Any) -> Study:
        study = super().__call__(*given, **named)
        (name, fields), = study.networks.items()  # fmt: skip
        networks = {f"{name} of width {width}": {**fields, "width": width} for width in WIDTHS}
        return dataclasses.replace(study, networks=networks)

    def methods(self, task: ForgetTask, network: Mapping[str, Any]) -> list[Unlearner | Row]:
        made: dict[str, Any] = {
            label: self.method(label, task, str(network["network"])) for label in self.labels(task, self.name)
        }
        retrain = made["Retrain"]
        honest = {
            label: dataclasses.replace(retrain, pretraining=dataclasses.replace(retrain.pretraining, **changed))
            for label, changed in VARIED.items()
        }
        references = [Row(f"Retrain {n + 1}", retrain, draw=n, role="reference") for n in range(1, self.references)]
        further = Row(FURTHER, retrain, draw=self.references, role="control")
        # Methods that keep the encoder, by their own trait: it is known what their models know.
        keep = [each for each in made.values() if traits(each).keeps_encoder and traits(each).role == "method"]
        rows = [
            Row("Original", made["Original"]),
            Row("Retrain", retrain),
            further,
            *(
                Row(f"{HONEST}{label}", each, draw=self.references + 1, role="control")
                for label, each in honest.items()
            ),
            *(Row(each.label, each) for each in (*keep, *CHEATS.values(), *DECEIVERS)),
            *(
                Row(each.label, each, beside=further.label)
                for each in impostors(retrain.pretraining)
                if each.label in ("Faint copy", "Defeat device")
            ),
        ]
        treated = [_treated(row, by) for by in TREATMENTS for row in rows if network["width"] == WIDTHS[0]]
        return [*rows, *references, *treated]


def _treated(row: Row, by: str) -> Row:
    """A row after a treatment, by the file beside this one as a module by itself: workers do not look in the checkout."""
    folder = str(Path(__file__).resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)
    kind = importlib.import_module("treated").Treated
    label = f"{row.label}, {by}"
    if traits(row.method).savable:
        return Row(label, kind(by), beside=row.label, role="control")
    return Row(label, kind(by, row.method), beside=row.beside, role="control")


studies: dict[str, Preset] = {
    each.name: each
    for each in (
        Inside("inside", "tiny", "fashion-sample", seeds=3, references=5),
        Inside("inside-small", "small", "cifar10", references=5, ratio=TENTH, part=0.2, training=CONVERGED),
        Tribunal("tribunal", "tiny", "fashion-sample", seeds=2, references=3),
    )
}


def inside_table(reports: Sequence[AuditReport]) -> Table:
    """Methods by IDI, with the verdicts and what rivals' metrics say; first the references, against each other."""
    if not reports:
        raise InputError("there are no audits of methods; run the study inside first")
    by_method: dict[str, list[AuditReport]] = {}
    for report in reports:
        by_method.setdefault(report.about["control"], []).append(report)
    rows = []
    for label, own in by_method.items():
        read = [report.metrics["unlearned"] for report in own]
        words = ", ".join(f"{word} {n}" for word, n in Counter(report.verdict for report in own).items())
        rows.append((_mean(read, "IDI"), (label, words, *(_cell(read, name, own) for name in SHOWN))))
    seeds = {report.about["seed"]: report.metrics for report in reports}.values()
    references = [metrics[role] for metrics in seeds for role in references_in(metrics)]
    lines = [("Retrain", "", *(_cell(references, name) for name in SHOWN))]
    lines += [cells for _, cells in sorted(rows, key=lambda row: row[0])]
    return Table(
        title=f"{reports[0].about['setting']}: which methods reach the blocks",
        columns=("Method", "Verdicts", *SHOWN),
        rows=tuple(lines),
        note=f"A method reaches the blocks as far as its IDI is below 1. Means and standard deviations over {len(seeds)} "
        "Originals; one IDI with its 95 % interval. Each metric is good where it has Retrain's value. LPR: the last block's.",
    )


def _named(values: Iterable[Mapping[str, float]], name: str) -> list[float]:
    """A metric of each model; of one that is read by block, the last block's, which compact reports keep."""
    found = []
    for of_model in values:
        parts = [own for own in of_model if own == name or (own.startswith(f"{name}.") and own[-1].isdigit())]
        found += [of_model[max(parts)]] if parts else []
    return found


def _mean(values: Iterable[Mapping[str, float]], name: str) -> float:
    found = _named(values, name)
    return fmean(found) if found else float("inf")


def _cell(values: Sequence[Mapping[str, float]], name: str, reports: Sequence[AuditReport] = ()) -> str:
    if name == "IDI" and len(reports) == 1 and (only := reports[0].idi) and only.value is not None:
        return with_interval(only.value, only.interval)
    return mean_sd(_named(values, name), 2 if name == "IDI" else 3)


def tribunal_table(reports: Sequence[AuditReport]) -> Table:
    """For each metric its AUC as a detector of kept knowledge, with a 95 % interval, also after each treatment of all
    models, Original and Retrain among them, and the models that fool it."""
    found = detectors(plain(reports), knows)
    if not found:
        raise InputError("there is no model of either kind among the audits; run the study tribunal first")
    later = [{each.name: each for each in detectors(after(reports, by), knows)} for by in TREATMENTS]
    return Table(
        title="Metrics as detectors of kept knowledge",
        columns=("Metric", "AUC", "knows", "honest", *(f"AUC, {by}" for by in TREATMENTS), "fooled by"),
        rows=tuple(
            (each.name, _auc(each), str(each.knowing), str(each.without), *(_auc(of.get(each.name)) for of in later),
             ", ".join(each.fooled_by))
            for each in found
        ),
        note="AUC 1: every model that knows is further from the references, towards Original, than every honest one. 95 % "
        "intervals by Hanley and McNeil. 4 bits, relearned (one epoch of all data): of models, Original and Retrain that were "
        "all treated so. Fooled by: models that it separates from honest ones with an AUC below 0.75.",
    )  # fmt: skip


def knows(label: str) -> bool | None:
    """The truth of the pool: what was trained without the data, and nothing else, does not know it."""
    if label == "Original":  # at 1 by definition
        return None
    return not (label.startswith(HONEST) or label in WITHOUT)


def plain(reports: Sequence[AuditReport]) -> list[AuditReport]:
    """The models as they were made."""
    return [report for report in reports if not _treatment(report)]


def after(reports: Sequence[AuditReport], by: str) -> list[AuditReport]:
    """The treated models, under the labels that they had before, beside the treated Original and Retrain."""
    treated = {
        (r.about["setting"], r.about["seed"], r.about["control"].removesuffix(f", {by}")): r
        for r in reports
        if _treatment(r) == by
    }
    found = []
    for (setting, seed, label), report in treated.items():
        ends = [treated.get((setting, seed, end)) for end in ("Original", "Retrain")]
        if label != "Retrain" and None not in ends:
            named = zip(("original", "reference"), ends, strict=True)
            metrics = {role: end.metrics["unlearned"] for role, end in named if end is not None}
            metrics["unlearned"] = report.metrics["unlearned"]
            about = report.about | {"control": label}
            found.append(report.model_copy(update={"metrics": metrics, "about": about}))
    return found


def _treatment(report: AuditReport) -> str:
    return next((by for by in TREATMENTS if report.about["control"].endswith(f", {by}")), "")


def _auc(found: Detector | None) -> str:
    return "none" if found is None else with_interval(found.auc, (found.low, found.high))


def main(words: Sequence[str]) -> int:
    """Run a study and its verdicts, and print its table."""
    from residua.cli import main as residua

    out = next((Path(after) for word, after in itertools.pairwise(words) if word == "--out"), None)
    if out is None or words[0] not in studies:
        raise InputError(f"python -m reproduction.inside takes {', '.join(studies)} and --out DIR; name one of them")
    study = f"{os.path.relpath(__file__)}:{words[0]}"
    # Verdicts have no workers.
    judging = [word for i, word in enumerate(words) if "--jobs" not in words[max(i - 1, 0) : i + 1]]
    for given in (["study", "run", study, *words[1:]], ["study", "verdicts", study, *judging[1:]]):
        sys.argv = ["residua", *given]
        if code := residua(given):
            return int(code)
    show(table_of(words[0], reports_in(out / "verdicts")))
    return 0


def table_of(name: str, reports: Sequence[AuditReport]) -> Table:
    """The table of one of the studies."""
    return tribunal_table(reports) if name == "tribunal" else inside_table(reports)


def one_line(name: str, reports: Sequence[AuditReport]) -> str:
    """The finding of the study in one sentence."""
    if name == "tribunal":
        found = {each.name: each for each in detectors(plain(reports), knows)}
        named = (f"{each} {_auc(found[each])}" for each in ("IDI", "KR", "recovery", "JSD", "UA") if each in found)
        some = found.get("IDI")
        pool = f" over {some.knowing} models that know and {some.without} that do not" if some else ""
        return f"AUC as a detector of kept knowledge{pool}: {', '.join(named)}."
    own = [report for report in reports if role_of(report.about["control"]) == "method"]
    words = Counter(report.verdict for report in own)
    by_method: dict[str, list[float]] = {}
    for report in own:
        if report.idi and report.idi.value is not None:
            by_method.setdefault(report.about["control"], []).append(report.idi.value)
    reach = sorted(label for label, each in by_method.items() if fmean(each) < 0.5)
    return (
        f"of {len(by_method)} methods {len(reach)} have a mean IDI below 0.5 ({', '.join(reach) or 'none'}); verdicts: "
        f"{', '.join(f'{word} {n}' for word, n in words.most_common())}."
    )


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except InputError as error:
        complain(str(error))
        sys.exit(InputError.exit_code)
