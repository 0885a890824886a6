"""Fitting the critics of all blocks and folds, as independent tasks that run in parallel."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from residua.device import exact_float32, memory_budget
from residua.measure._outputs import Stored, rows, vectors
from residua.measure.information.coordinates import canonical
from residua.measure.information.families import half_of, pooled_scores, read_family
from residua.measure.information.network import ADDED, Course, Data, Fitting, fit_network
from residua.measure.information.samples import FIT_ONLY, READ_ONLY, Samples
from residua.models.classifier import Classifier
from residua.parallel import each
from residua.progress import tell
from residua.training.loop import seeded

HALVES = 2
# Copies of pooled features in single precision that a GPU has room for while critics are fitted on them: those that are
# fitted on, read and changed, and for their coordinates three in double precision.
COPIES = 10


@dataclass(frozen=True, eq=False)
class Piece:
    """Scores by part on the samples that one critic reads, how a network critic got there, and what it took.

    Critics with half the samples (`fewer`) read only `own`, the samples that I is the mean over: test images have no use
    for a shortfall.
    """

    block: int
    outside: Tensor
    own: Tensor
    scores: Mapping[str, Tensor]
    fewer: Mapping[str, Tensor]
    course: Course | None
    seconds: float


@dataclass(frozen=True, eq=False)
class Fits:
    """Unseen scores (critics, n, |Y|) of every sample that is read, by block and part.

    `fewer` are those of critics that were fitted on half as many samples. `course` is how each network
    critic got there, by block.
    """

    scores: dict[int, dict[str, Tensor]]
    fewer: dict[int, dict[str, Tensor]]
    course: dict[int, list[Course]]
    seconds: dict[int, float]


def fit_blocks(
    model: Classifier,
    stored: Mapping[int, Stored],
    asked: Samples,
    parts: tuple[str, ...],
    how: Fitting,
    seed: int,
    what: str = "information",
    shortfall: bool = True,
) -> Fits:
    """Fit every critic and put the scores where the samples stand. The numbers do not depend on what runs at once.

    Without `shortfall` none is fitted on half the samples, and `fewer` of the pieces is empty.

    Network critics are the dearest, so they come last and are told what critics on pooled features read: of many samples
    one that adds nothing to that is not fitted to its end. Those with half the samples are fitted only where network
    critics add something: elsewhere they have no part in the reading, and none in its shortfall.
    """
    prior, counts = asked.fit_prior(), asked.fold >= 0
    network = {block for block in stored if "network" in parts and block != model.depth}
    pooled = any(part != "network" for part in parts)
    place = _place(model.device, max(z.shape[0] * z.shape[-1] for z in stored.values()))
    tasks = _pooled_tasks(model.depth, stored, asked, parts, prior, seed, shortfall, place)
    total = len(tasks) + HALVES * len(network)
    what = f"{what}, {total} critics of block{'s' if len(stored) > 1 else ''} "
    what += ", ".join(str(block) for block in sorted(stored))
    tell(what)
    linear_last = model.depth if "network" in parts else None
    pieces = each(tasks, on=place.type, begin=lambda some: tell(what, some.start / total))
    known = _known(_assembled(pieces, asked, linear_last), asked, prior) if pooled else {}
    tasks = []
    late: list[tuple[int, Callable[[Course], Piece]]] = []
    for block in sorted(network):
        coordinates = canonical(rows(stored[block]), place).on(model.device)
        data = Data(stored[block], asked.y, coordinates, model.device)
        for half in range(HALVES):
            inside, outside = asked.inside(half, halves=True), asked.outside(half, halves=True)
            where = (inside, outside, outside[counts[outside]])
            draw = seed + 100 * block + half
            others = known[block][outside] if known else None
            tasks.append(partial(_network_piece, model, block, data, where, prior, how, draw, others))
            late.append((block, partial(_fewer_piece, model, block, data, where, prior, how, draw + 50)))
    done = len(pieces)
    pieces += each(tasks, on=model.device.type, begin=lambda some: tell(what, (done + some.start) / total))
    fits = _assembled(pieces, asked, linear_last)
    adds = {block for block in network if shortfall and (not pooled or _adds(fits, block, asked, prior))}
    courses = [piece.course for piece in pieces if piece.course]
    fewer = [partial(fit, course) for (block, fit), course in zip(late, courses, strict=True) if block in adds]
    return _assembled([*pieces, *each(fewer, on=model.device.type)], asked, linear_last) if fewer else fits


def _place(device: torch.device, features: int) -> torch.device:
    """The device of critics on so many pooled features: the model's GPU, if it is CUDA's and has room for them.

    Else the CPU, where they share the cores. They need double precision, which Apple's GPUs lack.
    """
    fits = device.type == "cuda" and COPIES * 4 * features <= memory_budget(device)
    return device if fits else torch.device("cpu")


def _pooled_tasks(
    depth: int, stored: Mapping[int, Stored], asked: Samples, parts: tuple[str, ...], prior: Tensor, seed: int,
    shortfall: bool, place: torch.device,
) -> list[Callable[[], Piece]]:  # fmt: skip
    """Critics on the pooled features of every block, one task for each fold."""
    counts = asked.fold >= 0
    tasks: list[Callable[[], Piece]] = []
    for block, z in sorted(stored.items()):
        own = tuple(part for part in parts if part != "network")
        if block == depth and "network" in parts:
            # At the last block the paper's critic is pooling and projection: a linear one.
            own = ("linear", *own)
        if not own:
            continue
        vector = vectors(z).to(place)
        vector = canonical(vector)(vector)
        for fold in range(int(asked.fold.max()) + 1):
            inside, outside = asked.inside(fold), asked.outside(fold)
            where = (inside, outside, outside[counts[outside]])
            draw = seed + 100 * block + 10 + fold
            tasks.append(partial(_pooled_piece, block, vector, asked.y, where, prior, own, draw, shortfall))
    return tasks


def _known(fits: Fits, asked: Samples, prior: Tensor) -> dict[int, Tensor]:
    """By block, the score of every sample that critics on pooled features give together; 0 where none is read."""
    reading = asked.fold != FIT_ONLY
    y, fold = asked.y[reading], asked.fold[reading]
    known: dict[int, Tensor] = {}
    for block, read in read_family("nonlinear", fits.scores, y, fold, prior).items():
        known[block] = torch.zeros(len(asked.y), len(prior), dtype=torch.float64)
        known[block][reading] = read.scores
    return known


def _adds(fits: Fits, block: int, asked: Samples, prior: Tensor) -> bool:
    """True if network critics read more at this block than critics on pooled features do."""
    reading = asked.fold != FIT_ONLY
    y, fold = asked.y[reading], asked.fold[reading]
    stack, pooled = (
        float(read_family(family, fits.scores, y, fold, prior)[block].terms[fold >= 0].mean())
        for family in ("stack", "nonlinear")
    )
    return stack - pooled > ADDED


Where = tuple[Tensor, Tensor, Tensor]  # samples that a critic is fitted on, reads, and reads for I


def _network_piece(
    model: Classifier, block: int, data: Data, where: Where, prior: Tensor, how: Fitting, draw: int,
    others: Tensor | None,
) -> Piece:  # fmt: skip
    start, (inside, outside, own) = time.perf_counter(), where
    with seeded(draw):
        scores, course = fit_network(model, block, data, inside, outside, prior, how, others)
    return Piece(block, outside, own, {"network": scores}, {}, course, time.perf_counter() - start)


def _fewer_piece(
    model: Classifier, block: int, data: Data, where: Where, prior: Tensor, how: Fitting, draw: int, course: Course
) -> Piece:  # fmt: skip
    """Half the samples in batches of half the size, by the same rounds up to the one that read the most: only the data
    may differ, else the shortfall is one of the schedule. Further rounds would show what memorising costs, which is no
    shortfall of the data."""
    start, (inside, outside, own) = time.perf_counter(), where
    half = replace(how, batch=max(2, how.batch // 2), rounds=course.best, fixed=True)
    with seeded(draw):
        fewer, _ = fit_network(model, block, data, half_of(data.y, inside), own, prior, half)
    return Piece(block, outside, own, {}, {"network": fewer}, None, time.perf_counter() - start)


def _pooled_piece(
    block: int, z: Tensor, y: Tensor, where: Where, prior: Tensor, parts: tuple[str, ...], draw: int, shortfall: bool
) -> Piece:  # fmt: skip
    start, (inside, outside, own) = time.perf_counter(), where
    with seeded(draw), exact_float32(torch.float32, z.device):
        scores = pooled_scores(z, y, inside, outside, prior, parts)
        fewer = pooled_scores(z, y, half_of(y, inside), own, prior, parts) if shortfall else {}
    return Piece(block, outside, own, scores, fewer, None, time.perf_counter() - start)


def _assembled(pieces: list[Piece], asked: Samples, linear_last: int | None) -> Fits:
    """Scores of all pieces, summed at the positions of the samples that they belong to."""
    # The position of every sample among those that are read; -1 for samples that only fit critics.
    reading = (asked.fold != FIT_ONLY).nonzero()[:, 0]
    place = torch.full((len(asked.y),), -1)
    place[reading] = torch.arange(len(reading))
    test = (asked.fold[reading] == READ_ONLY)[None, :, None]
    fits = Fits({}, {}, {}, {})
    readers: dict[tuple[int, str], int] = {}  # critics per block and part
    for piece in pieces:
        fits.seconds[piece.block] = fits.seconds.get(piece.block, 0.0) + piece.seconds
        if piece.course:
            fits.course.setdefault(piece.block, []).append(piece.course)
        for name in piece.scores:
            readers[piece.block, name] = readers.get((piece.block, name), 0) + 1
        # Each sample of the task is outside of one fold, so that these sums have one term; test images have one per fold.
        for kept, scored, seen in ((fits.scores, piece.scores, piece.outside), (fits.fewer, piece.fewer, piece.own)):
            of_block = kept.setdefault(piece.block, {})
            for name, scores in scored.items():
                # Critics of two folds may differ in rounds: the shorter one's last round goes on.
                total = of_block.get(name, scores.new_zeros(len(scores), len(reading), scores.shape[2]))
                rounds = max(len(scores), len(total))
                total, scores = (torch.cat([x, x[-1:].expand(rounds - len(x), -1, -1)]) for x in (total, scores))
                total[:, place[seen]] += scores
                of_block[name] = total
    # The mean over folds for test images; at the last block the network critic is the linear one.
    for kept in (fits.scores, fits.fewer):
        for block, of_block in kept.items():
            for name, scores in of_block.items():
                of_block[name] = torch.where(test, scores / readers[block, name], scores)
            if block == linear_last and "linear" in of_block:
                of_block["network"] = of_block["linear"]
    return fits
