"""Evidence: what the measures find in each model, as records."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from residua.data.task import ForgetTask
from residua.errors import InputError
from residua.facts import ProxyFacts, TaskFacts
from residua.measure import (
    Accuracy,
    ClassAccuracy,
    ForgetOutputs,
    Measure,
    Membership,
    Perturbed,
    Probe,
    Recovery,
    Representation,
    WeightSketch,
)
from residua.measure.measuring import measured
from residua.models.classifier import Classifier
from residua.progress import about, tell
from residua.record import Record
from residua.report.audit_data import reference_role, references_in
from residua.training.loop import seeded
from residua.training.pretraining import Pretraining
from residua.unlearn import Random, Retrain

# Seeds of several proxies are so far apart that audits with neighbouring seeds share none.
PROXY_SEEDS = 1_000_000
# What the verdict rests on; the others are told beside it, and are left out where time runs out.
NEEDED: tuple[Measure, ...] = (Accuracy(), ForgetOutputs(), Perturbed(), Representation())
BESIDE: tuple[Measure, ...] = (ClassAccuracy(), Membership(), WeightSketch(), Recovery(), Probe())


def train_proxy(
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


def read_models(
    models: Mapping[str, Classifier],
    task: ForgetTask,
    needed: Sequence[Measure],
    beside: Sequence[Measure] = (),
    *,
    left: float | None = None,
    seed: int = 0,
    command: str = "",
    proxy: ProxyFacts | None = None,
) -> dict[str, Record]:
    """A record of each model.

    The verdict rests on what is `needed`: if a model refuses one of these, the audit is refused. Those of `beside`
    that come when no time is `left` (seconds) are recorded as refused. `proxy` says how the reference was trained,
    if it was.
    """
    start = time.perf_counter()
    setting = {"task": TaskFacts(**task.manifest())}
    records = {}
    for role, model in models.items():
        records[role] = measured(
            model,
            task,
            needed,
            name=role,
            method={"label": role.capitalize(), "proxy": proxy if references_in([role]) else None},
            setting=setting,
            seeds={"audit": seed},
            command=command,
        )
        for why in records[role].refused.values():
            raise InputError(why)
    for measure in beside:
        late = left is not None and time.perf_counter() - start > left
        for role, model in models.items():
            records[role] = (
                records[role].and_read(measure, None, 0.0, "the budget was used up")
                if late
                else measured(model, task, [measure], into=records[role])
            )
    return records
