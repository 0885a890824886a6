"""Shadow models: many models of random halves of the data, for attacks on a method rather than on a model."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import mean
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from residua import compare
from residua.compare import Observations
from residua.data.split import Split
from residua.data.task import Dataset, forget_indices
from residua.device import clock, resolve_precision
from residua.errors import Diverged, InputError
from residua.measure._outputs import logits
from residua.measure.measuring import Taken, recorded
from residua.measure.membership import contents
from residua.models.classifier import Classifier
from residua.models.networks import build
from residua.parallel import one_thread
from residua.record import MethodFacts, Record, Setting, ShadowFacts, describe
from residua.study.cells import (
    FIRST,
    REVISIONS,
    Cell,
    Context,
    Output,
    derived_seed,
    kind_of,
    split_facts,
    trained,
    training_inputs,
)
from residua.study.executors import How
from residua.study.schedule import Remaining, Run, Sort, computing, sort_of
from residua.study.store import Result, Store
from residua.text import duration, slug
from residua.training.loop import Tick, seeded, watching
from residua.training.pretraining import Pretraining
from residua.unlearn import Original, Unlearner

SMALLEST = 10  # examples that a model forgets at a time, on average


@dataclass(frozen=True, eq=False)
class Shadows:
    """Shadow models 0, 1, 2, ... and forget sets 0, 1, 2, ... of one data set, drawn from `seed`.

    Models come in pairs: 2p is trained on a random half of the training data and 2p + 1 on the other half, so
    that of each pair one model knows an example and one does not. A forget set holds 2 `size` candidates; a
    model unlearns those that it was trained on, about `size`. These are `in`, the others `out`: never trained
    on, then the same unlearning. Candidates are the images of class `of_class` (all where None) that the
    training data hold once; sets share no example until the candidates are used up, then they are drawn again.

    Neither a model nor a set depends on how many there are: more can be added later. The cells below train and
    score them.
    """

    data: Dataset
    network: dict[str, Any]
    pretraining: Pretraining
    of_class: int | None = None
    size: int = 200
    seed: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        train = self.data.train
        if self.size < SMALLEST:
            raise InputError(f"the size of a forget set is {self.size}, expected {SMALLEST} or more")
        if self.of_class is not None and not 0 <= self.of_class < train.classes:
            raise InputError(
                f"class {self.of_class} is not in {self.data.name}, which has the classes 0 to {train.classes - 1}; "
                "name one that is there"
            )
        if train.classes < 2:
            raise InputError(f"{self.data.name} has one class, so every score is infinite; use data with two")
        if len(self.candidates) < 4 * self.size:
            raise InputError(
                f"forget sets of {self.size} need {4 * self.size} candidates, so that others of their kind are "
                f"retained, but {self.data.name} has {len(self.candidates)}; choose a smaller size or more classes"
            )

    @cached_property
    def candidates(self) -> Tensor:
        """Positions in the training data. An image that is there twice could be in and out at once."""
        hashes = contents(self.data.train)
        count = Counter(hashes)
        once = torch.tensor([count[content] == 1 for content in hashes])
        if self.of_class is not None:
            once &= self.data.train.labels == self.of_class
        return once.nonzero()[:, 0]

    def half(self, model: int) -> Tensor:
        """The training data of this model, as positions in all training data."""
        order = self._order(len(self.data.train), "half", model // 2)
        middle = len(order) // 2
        return (order[:middle] if model % 2 == 0 else order[middle:]).sort().values

    def forget_set(self, number: int) -> Tensor:
        """2 `size` candidates, as positions in the training data."""
        candidates = self.candidates
        sets = len(candidates) // (2 * self.size)
        order = self._order(len(candidates), "sets", number // sets)
        start = number % sets * 2 * self.size
        return candidates[order[start : start + 2 * self.size]]

    def _order(self, n: int, *what: object) -> Tensor:
        generator = torch.Generator().manual_seed(derived_seed("shadows", self.seed, *what))
        return torch.randperm(n, generator=generator)

    def unlearned(self, method: Unlearner, model: Classifier, half: Tensor, forget_set: Tensor) -> Classifier:
        """The model after it has unlearned those of `forget_set` that it was trained on."""
        own = torch.isin(half, forget_set).nonzero()[:, 0]
        if not len(own):
            raise InputError("a shadow model was trained on nothing of a forget set; choose a larger size")
        task = forget_indices(replace(self.data, train=self.data.train.subset(half)), own)
        return method(model, task)


def sides(models: int) -> tuple[range, range]:
    """The models that are shadows, and those that are targets: half of the pairs each, and no pair divided."""
    if models < 4 or models % 4:
        raise InputError(
            f"{models} shadow models were asked for, expected a multiple of 4: they come in pairs, half of the pairs "
            "are shadows and half are targets"
        )
    return range(models // 2), range(models // 2, models)


def scores(logits: Tensor, labels: Tensor) -> np.ndarray:
    """log p_y - log(1 - p_y) = z_y - log sum_{c != y} exp z_c in float64: finite for logits of any size."""
    z = logits.double()
    own = torch.nn.functional.one_hot(labels, z.shape[1]).bool()
    others = z.masked_fill(own, -torch.inf).logsumexp(dim=1)
    return (z[own] - others).numpy()


@dataclass(frozen=True, eq=False)
class ShadowTraining:
    """Shadow model number `model`, of its half of the data."""

    kind: ClassVar[str] = "train"
    number: ClassVar[int] = -1  # every forget set needs it

    model: int
    parents: tuple[Cell, ...] = ()

    @property
    def name(self) -> str:
        return f"shadow model {self.model}"

    @property
    def cost(self) -> float:
        return FIRST  # scores wait for it

    def inputs(self, context: Context, parents: Sequence[Result]) -> dict[str, Any]:
        network, pretraining, data, seed = self._parts(context.shadows)
        return training_inputs(network, pretraining, split_facts(data), seed, context.device)

    def run(self, context: Context, store: Store, parents: Sequence[Result]) -> Output:
        return trained(*self._parts(context.shadows), context.device, store)

    def _parts(self, shadows: Shadows) -> tuple[dict[str, Any], Pretraining, Split, int]:
        half = shadows.data.train.subset(shadows.half(self.model))
        seed = derived_seed("shadow training", shadows.seed, self.model)
        return shadows.network, shadows.pretraining, half, seed


@dataclass(frozen=True, eq=False)
class ShadowScoring:
    """The scores of one shadow model after it has unlearned its part of one forget set."""

    kind: ClassVar[str] = "score"

    method: Unlearner
    number: int
    trained: ShadowTraining

    @property
    def model(self) -> int:
        return self.trained.model

    @property
    def name(self) -> str:
        return f"{self.method.label} on {self.trained.name} and forget set {self.number}"

    @property
    def parents(self) -> tuple[Cell, ...]:
        return (self.trained,)

    @property
    def cost(self) -> float:
        return 1.0

    def inputs(self, context: Context, parents: Sequence[Result]) -> dict[str, Any]:
        shadows: Shadows = context.shadows
        examples = shadows.forget_set(self.number)
        return {
            "revision": [REVISIONS["unlearn"], getattr(self.method, "revision", 1)],
            "method": describe(self.method),
            "original": parents[0].values["weights"],
            "data": parents[0].inputs["data"],
            "examples": [examples.tolist(), *split_facts(shadows.data.train.subset(examples))],
            "seed": self._seed(shadows),
            "device": kind_of(context.device),
        }

    def run(self, context: Context, store: Store, parents: Sequence[Result]) -> Output:
        shadows: Shadows = context.shadows
        original = store.model(parents[0].values["weights"], context.device)
        half, examples = shadows.half(self.trained.model), shadows.forget_set(self.number)
        try:
            with seeded(self._seed(shadows)):
                start = clock(context.device)
                model = shadows.unlearned(self.method, original, half, examples)
                spent = clock(context.device) - start
        except InputError as error:
            raise InputError(f"{self.name}: {error}") from error
        split = shadows.data.train.subset(examples)
        arrays = {
            "example": examples.numpy(),
            "trained": torch.isin(examples, half).numpy(),
            "score": scores(logits(model, split), split.labels),
        }
        return Output({"RTE": spent}, arrays)

    def _seed(self, shadows: Shadows) -> int:
        return derived_seed("shadow unlearning", shadows.seed, self.trained.model, self.number)


ShadowCell = ShadowTraining | ShadowScoring

# Seconds after which a probe is stopped, and computed from the steps that it has made.
TRAINING_PROBE, METHOD_PROBE = 5.0, 30.0


class Plan:
    """The cells of an attack that are still missing, and their cost, found by probes before anything starts.

    `costs` has the cost of one cell of each sort. Scores of a model that is trained again count as missing: only its
    weights tell whether they hold.
    """

    def __init__(self, shadows: Shadows, missing: Sequence[ShadowCell], *, models: int, sets: int, jobs: int) -> None:
        self.shadows, self.missing = shadows, missing
        self.models, self.sets, self.jobs = models, sets, jobs
        self.costs = self._probe()

    def _probe(self) -> dict[Sort, Cost]:
        """One training and one unlearning of each method, on as many threads as a job has.

        The network that is unlearned is a new one: how long a step takes does not depend on the weights.
        """
        shadows, half, forget_set = self.shadows, self.shadows.half(0), self.shadows.forget_set(0)
        resolve_precision("auto", torch.device(shadows.device))  # found out once, not at every training
        with one_thread() if self.jobs > 1 else contextlib.nullcontext(), seeded(0):
            network = build(**shadows.network).to(shadows.device)
            split = shadows.data.train.subset(half)

            def probe(cell: ShadowCell) -> Cost:
                if isinstance(cell, ShadowTraining):
                    return cost(lambda: shadows.pretraining(network, split), TRAINING_PROBE)
                return cost(lambda: attempt(cell.method), METHOD_PROBE)

            def attempt(method: Unlearner) -> None:
                with contextlib.suppress(Diverged):  # an untrained network may; its steps took as long as any
                    shadows.unlearned(method, network, half, forget_set)

            return {sort: probe(cell) for sort, cell in {sort_of(cell): cell for cell in self.missing}.items()}

    @property
    def whole(self) -> bool:
        """True if every method ran to its end; otherwise the plan costs at least what it says."""
        return all(cost.whole for (kind, _), cost in self.costs.items() if kind == ShadowScoring.kind)

    def count(self, sort: Sort) -> int:
        """The number of missing cells of one sort."""
        return sum(sort_of(cell) == sort for cell in self.missing)

    def seconds(self, models: int, sets: int) -> float:
        """Seconds for so many models and forget sets, without what is there already."""
        some = [cell for cell in self.missing if cell.model < models and cell.number < sets]
        costs = {sort: cost.seconds for sort, cost in self.costs.items()}
        return Remaining(some).left(costs).seconds / self.jobs

    def largest(self, allowed: float) -> tuple[int, int] | None:
        """The most models and forget sets that these seconds allow, cut down alike; None if nothing fits."""
        fitting = [
            (min(models / self.models, sets / self.sets), models * sets, models, sets)
            for models in range(4, self.models + 1, 4)
            for sets in range(1, self.sets + 1)
            if self.seconds(models, sets) <= allowed
        ]
        return max(fitting)[2:] if fitting else None

    def preview(self) -> str:
        """The cost in words."""
        training = ShadowTraining.kind, ""
        each = duration(self.costs.get(training, Cost(0.0)).seconds)
        lines = [f"To make: {self.count(training)} of {self.models} shadow models, {each} each."]
        lines += [
            f"{label}: {self.count((kind, label))} of {self.models * self.sets} unlearned models, "
            f"{'' if cost.whole else 'at least '}{duration(cost.seconds)} each."
            for (kind, label), cost in self.costs.items()
            if kind == ShadowScoring.kind and label != Original.label
        ]
        total = f"{'about' if self.whole else 'at least'} {duration(self.seconds(self.models, self.sets))}"
        return " ".join([*lines, f"Together {total} with {self.jobs} at a time."])

    def refusal(self, allowed: float) -> str:
        """The reason why it is not started, with the numbers that would fit."""
        wanted = (
            f"{self.models} models with {self.sets} forget sets take about "
            f"{duration(self.seconds(self.models, self.sets))}, more than --budget {duration(allowed)}"
        )
        fitting = self.largest(allowed)
        if fitting is None:
            return (
                f"{wanted}, and even 4 models with 1 forget set take {duration(self.seconds(4, 1))}; "
                "raise the budget or choose a smaller scale"
            )
        return f"{wanted}; the largest numbers that fit are --models {fitting[0]} --forget-sets {fitting[1]}"


@dataclass(frozen=True)
class Cost:
    """Seconds that some work takes; where it is not `whole`, at least as many."""

    seconds: float
    whole: bool = True


def cost(work: Callable[[], object], patience: float) -> Cost:
    """Do the work and time it. Once `patience` seconds are over, its `descend` is stopped and its end computed."""
    start = time.perf_counter()
    first: list[tuple[Tick, float]] = []

    def watch(tick: Tick) -> None:
        now = time.perf_counter()
        if not first or first[0][0].model is not tick.model or tick.epoch == tick.step == 1:
            first[:] = [(tick, now)]
            return
        done = (tick.epoch - 1) * tick.steps + tick.step
        if now - start > patience and done >= 4:
            each = (now - first[0][1]) / (done - 1)
            raise _EnoughError(first[0][1] - start + each * (tick.epochs * tick.steps - 1))

    try:
        with watching(watch):
            work()
    except _EnoughError as enough:
        return Cost(enough.args[0], whole=False)
    return Cost(time.perf_counter() - start)


class _EnoughError(Exception):
    """Stops a training whose end can be computed."""


Variance = Literal["example", "shared"]


def ulira(
    methods: Iterable[Unlearner],
    data: Dataset,
    *,
    network: dict[str, Any],
    pretraining: Pretraining,
    out: str | Path,
    models: int = 16,
    forget_sets: int = 4,
    size: int = 40,
    of_class: int | None = None,
    variance: Variance = "shared",
    scale: str = "custom",
    seed: int = 0,
    budget: float | None = None,
    **how: Any,
) -> list[Record]:
    """A likelihood ratio attack on methods: can an unlearned example be distinguished from one that was never seen?

    The cost is reported before anything starts. Shadow models and scores are kept in `out`, and found there again.

    Args:
        methods: Methods that are attacked, by shadow models that they share; Original is always there.
        data: The data set.
        network: Arguments of `networks.build`.
        pretraining: Training of the shadow models.
        out: Folder of the records and of the store.
        models: Number of shadow models, a multiple of 4.
        forget_sets: Number of forget sets that each model unlearns.
        size: Average number of examples that a model forgets at a time.
        of_class: Class of the forgotten examples; None takes all classes.
        variance: Variance of scores by example, or shared by all.
        scale: Name of the scale, for the records.
        seed: Seed of halves, forget sets and trainings.
        budget: Maximum number of seconds; an attack that costs more is refused.
        how: Fields of `executors.How`: jobs, device, tell, ...
    """
    sides(models)
    out, options = Path(out), How(**how)
    shadows = Shadows(data, network, pretraining, of_class, size, seed, options.device)
    unlearners = list({method.label: method for method in (Original(), *methods)}.values())
    trainings = [ShadowTraining(model) for model in range(models)]
    scorings = [
        ShadowScoring(unlearner, number, trained)
        for unlearner in unlearners
        for trained in trainings
        for number in range(forget_sets)
    ]
    run = _computed(shadows, [*trainings, *scorings], models, forget_sets, out, options, budget)
    setting = _setting(shadows, forget_sets, scale, _weights(run, trainings))
    records = [
        _record(each, [cell for cell in scorings if cell.method is each], run, setting, variance, seed)
        for each in unlearners
    ]
    for record in records:
        record.write(out)
    return records


def _computed(
    shadows: Shadows, cells: Sequence[ShadowCell], models: int, sets: int, out: Path, options: How, budget: float | None
) -> Run:
    """All cells, after their cost was reported and compared with the budget."""
    context = Context({}, options.device, shadows)
    found = Run(cells, Store(out), context)
    found.look()
    missing = [cell for cell in cells if cell not in found.results]
    plan = Plan(shadows, missing, models=models, sets=sets, jobs=options.jobs)
    options.tell(plan.preview())
    if budget is not None and plan.seconds(models, sets) > budget:
        raise InputError(plan.refusal(budget))
    with computing(out, context, options) as compute:
        return compute(cells)


def _weights(run: Run, trainings: Sequence[ShadowTraining]) -> list[str]:
    """The hashes of the shadow models, which must all be there and differ."""
    for cell, why in run.failures.items():
        raise InputError(why if cell.name in why else f"{cell.name}: {why}")
    weights = [str(run.results[cell].values["weights"]) for cell in trainings]
    if len(set(weights)) < len(weights):
        raise InputError("two shadow models have the same weights, so a target would be its own shadow; change --seed")
    return weights


def _record(
    unlearner: Unlearner, scorings: Sequence[ShadowScoring], run: Run, setting: Setting, variance: Variance, seed: int
) -> Record:
    """The attack on one method, from the scores of all models and forget sets."""
    results = [run.results[cell] for cell in scorings]
    found = [run.store.arrays(result) for result in results]
    rows = {name: [arrays[name] for arrays in found] for name in ("example", "trained", "score")}
    rows["model"] = [np.full(len(a["score"]), cell.model) for cell, a in zip(scorings, found, strict=True)]
    observed = Observations(**{name: np.concatenate(parts) for name, parts in rows.items()})
    reading = compare.ulira(observed, sides(len({cell.model for cell in scorings})), variance)
    return recorded(
        slug(unlearner.label),
        [Taken(_Attack(variance), reading)],
        method=MethodFacts(**describe(unlearner)),
        setting=setting,
        seeds={"shadows": seed},
        seconds={"RTE": mean(result.values["RTE"] for result in results)},
        command=run.how.command,
        arrays=observed.arrays(),
    )


def _setting(shadows: Shadows, sets: int, scale: str, weights: Sequence[str]) -> Setting:
    return Setting(
        scale=scale,
        dataset=shadows.data.name,
        train=shadows.data.train.digest(),
        network=shadows.network,
        pretraining=asdict(shadows.pretraining),
        shadows=ShadowFacts(
            models=len(weights), forget_sets=sets, size=shadows.size, of_class=shadows.of_class, weights=list(weights)
        ),
        device=torch.device(shadows.device).type,
    )


@dataclass(frozen=True)
class _Attack:
    """The settings of the attack, as a record keeps those of a measure."""

    variance: Variance

    label = "U-LiRA"
