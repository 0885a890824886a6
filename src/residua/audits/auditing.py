"""The front door: models in, Audit out; between them, what the measures find in each model, as records."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from residua.audits.saved import Saved, SavedFeatures, SavedOutputs, records_of_saved
from residua.compare import IDI, Rules
from residua.compare.verdicts import EXTRA_READINGS, START_READINGS, VERDICT_READINGS, Against, Word
from residua.data.task import ForgetTask
from residua.errors import InputError
from residua.files import write_atomically
from residua.measure import MEASURES, InformationCurve, Measure, Moved, Perturbed
from residua.measure.measuring import measured
from residua.models.checkpoint import Checkpoint
from residua.models.classifier import Classifier, check_redrawn, clone, remember_start, restart, weights_digest
from residua.models.foreign.opening import started
from residua.npz import write_npz
from residua.progress import about, tell
from residua.record import ProxyFacts, Record, TaskFacts, describe
from residua.report.audit import AuditReport, audit_report
from residua.report.pages import PAGE, THUMBNAILS, audit_page, read_thumbnails
from residua.report.plan import Plan
from residua.roles import reference_role, references_in
from residua.training.loop import seeded
from residua.training.pretraining import Pretraining
from residua.training.recipes import TINY
from residua.unlearn import Random, Retrain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Seeds of several proxies are so far apart that audits with neighbouring seeds share none.
PROXY_SEEDS = 1_000_000
_KINDS = {kind.label: kind for kind in MEASURES}
# Beside the curve, which has settings of its own. The extra ones are left out where time runs out.
VERDICT_MEASURES: tuple[Measure, ...] = tuple(_KINDS[label]() for label in VERDICT_READINGS["weights"][1:])
# Looks of a sequential audit: the fraction of the retained and test samples, and the share of the probability of an
# error that it spends. The shares add up to 1, so that the looks together err no oftener than one audit does, however they
# depend on each other.
LOOKS = ((0.1, 0.2), (0.3, 0.3), (1.0, 0.5))
FEWEST_RETAINED = 500  # a look at fewer retained samples is left out
# Further measures may contradict a model that would pass, but they acquit none.
ACCUSED: tuple[Word, ...] = ("SHALLOW", "NOT_FORGOTTEN", "UTILITY_LOST")
EXTRA_MEASURES: tuple[Measure, ...] = tuple(_KINDS[label]() for label in EXTRA_READINGS)


def by_auditor(measures: Sequence[Measure], seed: int) -> tuple[Measure, ...]:
    """The measures, of which those on noisy and moved images draw by the auditor's seed: whoever made the model knows the
    source, and not this. One that has a seed of its own keeps it."""
    return tuple(
        replace(each, seed=seed) if isinstance(each, Moved | Perturbed) and not each.seed else each for each in measures
    )


def train_proxy(
    original: Classifier, task: ForgetTask, share: float, pretraining: Pretraining, seed: int
) -> Classifier:
    """Retrain on a fraction of each class of the retained data."""
    with seeded(seed):
        order = torch.randperm(len(task.retain))
        labels = task.retain.labels[order]
        some = [order[labels == c][: max(1, round(share * int((labels == c).sum())))] for c in labels.unique()]
        part = task.retain.subset(torch.cat(some).sort().values)
        if len(part) < pretraining.batch:
            raise InputError(
                f"a proxy on {share:g} of the retained data has {len(part)} examples, fewer than the batch of "
                f"{pretraining.batch}; give a larger share or a smaller batch"
            )
        return Retrain(pretraining)(original, replace(task, retain=part))


def train_proxies(
    original: Classifier, task: ForgetTask, share: float, pretraining: Pretraining, seed: int, number: int
) -> dict[str, Classifier]:
    """Proxies by role. Each has its own draw of the retained data and its own training, from seeds of its own."""
    proxies = {}
    for i in range(number):
        role = reference_role(i + 1)
        with about(role):
            tell(f"training on {100 * share:g} % of the retained data")
            proxies[role] = train_proxy(original, task, share, pretraining, seed + PROXY_SEEDS * i)
    return proxies


def draw_random(original: Classifier, task: ForgetTask, seed: int) -> Classifier:
    """The floor where there is no reference."""
    with seeded(seed):
        return Random()(original, task)


def draw_start(original: Classifier, init: Checkpoint, seed: int, trust: bool = False) -> Classifier:
    """Original's network as its training began, which Original then remembers; what the file has no weights for is drawn."""
    with seeded(seed):
        return restart(clone(started(original, init, trust)))


def starting_at(original: Classifier, init: Classifier) -> Classifier:
    """Original, whose retrainings begin at `init`; unchanged where it remembers its start."""
    if any("residua_start" in part.__dict__ for part in original.modules()):
        return original
    own = original.state_dict()
    fitting = {
        name: tensor for name, tensor in init.state_dict().items() if name in own and own[name].shape == tensor.shape
    }
    return remember_start(clone(original), fitting)


def read_models(
    models: Mapping[str, Classifier],
    task: ForgetTask,
    needed: Sequence[Measure],
    beside: Sequence[Measure] = (),
    *,
    left: float | None = None,
    late_because: str = "the budget was used up",
    seed: int = 0,
    command: str = "",
    proxy: ProxyFacts | None = None,
    setting: Mapping[str, Any] | None = None,
    kept: dict[str, Record] | None = None,
    files: Mapping[str, str] | None = None,
) -> dict[str, Record]:
    """A record of each model.

    The verdict rests on what is `needed`: if a model refuses one of these, the audit is refused. Of the start only its
    curve is read. Those of `beside`
    that come when no time is `left` (seconds) are recorded as refused, `late_because` of this. `proxy` says how the reference
    was trained, if it was. Models that have a record in `kept` are not measured again, and `kept` gets what was measured here.
    `files` are the hashes of the files that models were read from, by role.
    """
    start = time.perf_counter()
    setting = setting or {"task": TaskFacts(**task.manifest())}
    kept = {} if kept is None else kept
    before = {role: set(record.measures) for role, record in kept.items()}
    for role, model in models.items():
        if role in kept:
            continue
        record = measured(
            model,
            task,
            [each for each in needed if role != "start" or each.label in START_READINGS],
            name=role,
            method={
                "label": role.capitalize(),
                "proxy": proxy if references_in([role]) else None,
                "file": (files or {}).get(role),
            },
            setting=setting,
            seeds={"audit": seed},
            command=command,
        )
        for why in record.refused.values():
            raise InputError(why)
        kept[role] = record
    records = {role: kept[role] for role in models}
    for measure in beside:
        late = left is not None and time.perf_counter() - start > left
        for role, model in models.items():
            if role == "start" or measure.label in before.get(role, ()):
                continue
            if late:
                records[role] = records[role].with_reading(measure, None, 0.0, late_because)
            else:
                records[role] = kept[role] = measured(model, task, [measure], into=records[role])
    return records


Model = Classifier | Saved | SavedOutputs | SavedFeatures


def as_saved(model: object) -> Saved | None:
    """Outputs alone and features alone, as what was saved; None for a model."""
    if isinstance(model, SavedOutputs):
        return Saved(outputs=model)
    if isinstance(model, SavedFeatures):
        return Saved(features=model)
    return model if isinstance(model, Saved) else None


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
    def idi(self) -> IDI | None:
        """`value`, `interval`, `blocks`; None where the inside was not assessed."""
        return self.report.idi

    @property
    def metrics(self) -> dict[str, dict[str, float]]:
        """By model: unlearned, original, reference."""
        return self.report.metrics

    def figure(self) -> Figure:
        """The information in each block of each model, as a figure of matplotlib."""
        from residua.report.figures.audit import curves_figure

        return curves_figure(self.report.curves)

    def _repr_html_(self) -> str:
        """The page, for notebooks: in a frame of its own, so that neither changes the other."""
        from html import escape

        page = escape(audit_page(self.report, self.records), quote=True)
        return f'<iframe srcdoc="{page}" title="{self.verdict}" style="width: 100%; height: 50rem; border: 0"></iframe>'

    def save(self, folder: str | Path, thumbnails: ForgetTask | None = None, *, records: bool = True) -> Path:
        """Write `records/`, `report.html`, `report.md` and, last, `report.json`; `verify` reads them.

        No raw data, unless `thumbnails` is the task: then the page shows the images of the samples that it names, and
        `thumbnails.npz` keeps them. Without `records` nothing is written of single samples but the places of those that
        the page names; such a report cannot be verified.
        """
        folder = Path(folder)
        if not records and (folder / "records").exists():
            raise InputError(f"{folder} holds the records of another audit; choose another folder")
        (folder / THUMBNAILS).unlink(missing_ok=True)
        for record in self.records.values() if records else ():
            record.write(folder / "records")
        if thumbnails is not None:
            _write_thumbnails(folder, self.report, thumbnails)
        # The page is what the folder gives, to the byte; `verify` draws it again.
        page = audit_page(self.report, self.records, read_thumbnails(folder))
        plain, data = self.report.markdown(), self.report.model_dump_json(indent=1) + "\n"
        for name, text in ((PAGE, page), ("report.md", plain), ("report.json", data)):
            write_atomically(folder / name, lambda part, text=text: part.write_text(text, "utf-8"))  # type: ignore[misc]
        return folder / "report.json"


def _write_thumbnails(folder: Path, report: AuditReport, task: ForgetTask) -> None:
    """Keep the images of the samples that the report names; nothing else of an audit holds raw data."""
    wanted = [] if report.residue is None else [each.index for each in report.residue.samples]
    places = {int(index): place for place, index in enumerate(task.forget.index.tolist())}
    wanted = [index for index in wanted if index in places]
    if not wanted or task.forget.images.shape[0] not in (1, 3):
        return
    where = task.forget.index[torch.tensor([places[index] for index in wanted])]
    images = next(iter(task.forget.images.stream([where], torch.device("cpu"))))
    pixels = images.permute(0, 2, 3, 1).contiguous().numpy()
    step = max(1, max(pixels.shape[1:3]) // 72)
    kept = {"index": np.array(wanted), "images": pixels[:, ::step, ::step]}
    write_atomically(folder / THUMBNAILS, lambda part: write_npz(part, kept))


class Auditor:
    """Audits of several models against one Original and its references, which are measured once.

    Each further model costs its own measurements only: with three references, about a fifth of the first audit.

    Args:
        original: The model before unlearning.
        reference: A model retrained without the forget set, or a list of them, which shows how much retrainings
            differ; five are recommended. `"proxy:0.15"` trains one on that fraction of the retained data,
            `"proxy:0.15x3"` three. None leaves Original and a network with random weights to compare with.
        task: The data and the forget set; needed for models, not for what was saved of them.
        init: The pretrained model that Original's training started from: its IDI is shown as a third anchor, and proxies
            start from it.
        rules: The lines that the verdict draws; `Rules()` by default.
        curve: The measurement of the inside; `InformationCurve()` by default.
        measures: Measures beside those that the verdict rests on.
        pretraining: Training of proxies.
        seed: Seed of proxies, of the random network, and of noisy and moved images.
        budget: Seconds of an audit after which no further one of `measures` is started.
        precision: Half-width of IDI's interval that is enough: an audit then looks at 10, 30 and 100 % of the retained and
            test samples, and ends with the first look that is as precise or has a verdict. All looks together keep the
            significance levels of the rules.
        plan: A plan (`planned`) that the audits must not depart from; the reports name it.
        command: Command line, kept in the reports for whoever makes the audits again.
    """

    def __init__(
        self,
        *,
        original: Model,
        reference: Model | Sequence[Model] | str | None = None,
        task: ForgetTask | None = None,
        init: Classifier | None = None,
        rules: Rules | None = None,
        curve: InformationCurve | None = None,
        measures: Sequence[Measure] = EXTRA_MEASURES,
        pretraining: Pretraining = TINY,
        seed: int = 0,
        budget: float | None = None,
        precision: float | None = None,
        plan: Plan | None = None,
        command: str = "",
    ) -> None:
        if precision is not None and not 0 < precision < 1:
            raise InputError(f"precision is {precision}, expected above 0 and below 1: a half-width of IDI")
        if precision is not None and plan is not None:
            raise InputError("a plan fixes the data of an audit; leave out the plan or the precision")
        self.precision = precision
        self.original, self.reference, self.task, self.rules = original, reference, task, rules or Rules()
        self.init = init
        self.measures, self.pretraining = by_auditor(measures, seed), pretraining
        self.seed, self.budget = seed, budget
        self.plan, self.command, self.curve = plan, command, curve or InformationCurve()
        self._fixed: dict[str, Model] = {"original": original}
        if kind_of_reference(reference)[0] == "model":
            given = cast(list[Model], list(reference) if isinstance(reference, Sequence) else [reference])
            if not given:
                raise InputError("the list of references is empty; give a model or several, proxy:0.15 or none")
            self._fixed |= {reference_role(number): model for number, model in enumerate(given, start=1)}
        self._digests = {
            role: weights_digest(model) for role, model in self._fixed.items() if isinstance(model, Classifier)
        }
        self._baseline: tuple[dict[str, Classifier], ProxyFacts | None] | None = None
        self._settings: dict[float, dict[str, Any]] = {}
        self._kept: dict[float, dict[str, Record]] = {}
        theirs = [self._digests[role] for role in references_in(self._digests)]
        if len(set(theirs)) < len(theirs):
            raise InputError(
                "two references have the same weights, so they do not show how much retrainings differ; give different ones"
            )
        if self._digests.get("original") in theirs:
            raise InputError(
                "Original and a reference have the same weights, so nothing lies between them; give a reference that was "
                "retrained without the forgotten data"
            )

    def check(self, *unlearned: Model) -> None:
        """Refuse a model that is one of the references; Original itself is audited like any other."""
        digests = {weights_digest(model) for model in unlearned if isinstance(model, Classifier)}
        for role in references_in(self._digests):
            if self._digests[role] in digests:
                raise InputError(
                    f"the unlearned model and {role} have the same weights, so nothing would be compared; give a "
                    "reference that was retrained apart from it"
                )

    def audit(
        self, unlearned: Model, *, typed: Mapping[str, Any] | None = None, files: Mapping[str, str] | None = None
    ) -> Audit:
        """Audit whether `unlearned` forgot: a verdict with its evidence.

        Args:
            unlearned: The model that is audited, or what was saved of it.
            typed: Names, dates and files as typed by people, kept in the report and taken on trust.
            files: SHA-256 of the bytes that models were read from, by role, kept in the records.
        """
        start = time.perf_counter()
        models = {"unlearned": unlearned} | self._fixed
        about: dict[str, Any] = {"typed": dict(typed)} if typed else {}
        about |= {} if self.plan is None else {"plan": self.plan.model_dump(mode="json")}
        if saved := {role: held for role, model in models.items() if (held := as_saved(model))}:
            _check_saved(saved, models, self.reference, self.plan)
            records = records_of_saved(saved, seed=self.seed, command=self.command, files=files)
            return Audit(audit_report(records, rules=self.rules, about=about), records)
        self.check(unlearned)
        task, fixed, proxy = self._ready()
        read = {"unlearned": cast(Classifier, unlearned)} | fixed
        for model in read.values() if self.curve.family in ("stack", "network") else ():
            check_redrawn(model.after(0))
        for part, share in ((1.0, 1.0),) if self.precision is None else LOOKS:
            if part < 1 and part * len(task.retain) < FEWEST_RETAINED:
                continue  # a look that is left out leaves its share to nobody
            rules, some = self.rules.spending(share), task.thinned(part)
            if part not in self._settings:
                self._settings[part] = {"task": TaskFacts(**some.manifest())}
            kept = self._kept.setdefault(part, {})
            kept.pop("unlearned", None)
            given: dict[str, Any] = {"seed": self.seed, "command": self.command, "proxy": proxy}
            given |= {"setting": self._settings[part], "kept": kept, "files": files}
            needed = (self.curve, *by_auditor(VERDICT_MEASURES, self.seed))  # the curve's pass serves the others
            left = None if self.budget is None else self.budget - (time.perf_counter() - start)
            if part < 1:
                found = audit_report(read_models(read, some, needed, **given), rules=rules)
                if not self._enough(found):
                    continue
                if found.verdict in ACCUSED:
                    left, given["late_because"] = -1.0, f"{100 * part:g} % of the samples had decided"
            records = read_models(read, some, needed, self.measures, left=left, **given)
            break
        return Audit(audit_report(records, rules=rules, about=about), records)

    def _enough(self, report: AuditReport) -> bool:
        """True if a look has a verdict, or is as precise as was asked for."""
        low, high = (report.idi and report.idi.interval) or (-math.inf, math.inf)
        return report.verdict != "UNDETERMINED" or high - low <= 2 * (self.precision or 0.0)

    def _ready(self) -> tuple[ForgetTask, dict[str, Classifier], ProxyFacts | None]:
        """The task and the models to compare with, the start among them.

        The first call checks the plan and trains proxies, or draws the random network where there is no reference.
        """
        if self.task is None:
            raise InputError("an audit of models needs a task; give task=forget_classes(data, [6]) or the like")
        if self._baseline is not None:
            return self.task, *self._baseline
        if self.plan is not None:
            _check_plan(self.plan, original=self.original, reference=self.reference, task=self.task,
                        rules=self.rules, curve=self.curve, measures=self.measures, seed=self.seed)  # fmt: skip
        against, fraction, number = kind_of_reference(self.reference)
        ours, proxy = cast(dict[str, Classifier], dict(self._fixed)), None
        if self.init is not None:
            ours["start"] = self.init
        if against == "proxy":
            before = ours["original"] if self.init is None else starting_at(ours["original"], self.init)
            ours |= train_proxies(before, self.task, fraction, self.pretraining, self.seed, number)
            proxy = ProxyFacts(share=fraction, fields=asdict(self.pretraining))
        elif against == "none":
            ours["random"] = draw_random(ours["original"], self.task, self.seed)
        self._baseline = ours, proxy
        return self.task, ours, proxy


def audit(
    *,
    original: Model,
    unlearned: Model,
    reference: Model | Sequence[Model] | str | None = None,
    task: ForgetTask | None = None,
    typed: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Audit:
    """Audit whether `unlearned` forgot: a verdict with its evidence.

    All models are classifiers with a `task`, or all are what their owner saved (`read_outputs`, `read_features`, or
    `read_saved` for both); what that does not show is named in the report.

    Args:
        original: The model before unlearning.
        unlearned: The model that is audited.
        reference: A model retrained without the forget set, a list of them, or a word, as in `Auditor`.
        task: The data and the forget set; needed for models, not for what was saved of them.
        typed: Names, dates and files as typed by people, kept in the report and taken on trust.
        **settings: The other arguments of `Auditor`: init, rules, curve, measures, seed, budget, plan, ...
    """
    auditor = Auditor(original=original, reference=reference, task=task, **settings)
    return auditor.audit(unlearned, typed=typed)


def assert_forgot(**given: Any) -> Audit:
    """`audit` for tests: an AssertionError with the reason unless the verdict is FORGOTTEN.

    Args:
        **given: The arguments of `audit`.

    Returns:
        The audit.
    """
    __tracebackhide__ = True  # pytest would print every tensor of the models
    made = audit(**given)
    if made.verdict != "FORGOTTEN":
        raise AssertionError(f"{made.verdict}: {made.sentence}")
    return made


def _check_plan(plan: Plan, **given: Any) -> None:
    """Refuse an audit that departs from its plan."""
    now = planned(**given)
    apart = [name for name in Plan.model_fields if getattr(now, name) != getattr(plan, name)]
    if apart:
        raise InputError(f"{', '.join(apart)} of this audit are not those of the plan; follow it, or audit without one")


def _check_saved(
    saved: Mapping[str, Saved],
    models: Mapping[str, Model],
    reference: Model | Sequence[Model] | str | None,
    plan: Plan | None,
) -> None:
    if plan is not None:
        raise InputError("a plan binds audits of models; leave it out where outputs or features were saved")
    if len(saved) < len(models):
        raise InputError("models and saved files of models cannot be mixed; give the same kind for each model")
    if kind_of_reference(reference)[0] == "proxy":
        raise InputError("a proxy reference cannot be trained from saved files; give a reference or none")


def kind_of_reference(reference: Model | Sequence[Model] | str | None) -> tuple[Against, float, int]:
    """The kind of reference, the fraction of the data for a proxy, and the number of proxies."""
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


def planned(
    *,
    original: Classifier,
    reference: Sequence[Classifier] | Classifier | str | None,
    task: ForgetTask,
    rules: Rules | None = None,
    curve: InformationCurve | None = None,
    measures: Sequence[Measure] = EXTRA_MEASURES,
    seed: int = 0,
) -> Plan:
    """The plan of an `audit` with the same arguments; `audit(plan=...)` is bound to it."""
    if isinstance(reference, Classifier):
        reference = [reference]
    if reference is None or isinstance(reference, str):
        references = [(reference or "none").removesuffix("x1")]
    else:
        references = [weights_digest(model) for model in reference]
    every = (curve or InformationCurve(), *by_auditor((*VERDICT_MEASURES, *measures), seed))
    return Plan(
        rules=asdict(rules or Rules()),
        measures={measure.label: describe(measure)["fields"] for measure in every},
        seed=seed,
        task=task.manifest()["sha256"],
        original=weights_digest(original),
        references=references,
    )
