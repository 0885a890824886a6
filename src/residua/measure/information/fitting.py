"""Fitting the critics of all blocks and folds, as independent tasks that run in parallel."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

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
    chance: bool = False,
) -> Fits:
    """Fit every critic and put the scores where the samples stand. The numbers do not depend on what runs at once.

    Network critics are the dearest, so they come last and are told what critics on pooled features read: of many samples
    one that adds nothing to that is not fitted to its end. Those with half the samples are fitted only where network
    critics add something: elsewhere they have no part in the reading, and none in its shortfall.
    """
    prior, counts = asked.fit_prior(), asked.fold >= 0
    network = {block for block in stored if "network" in parts and block != model.depth}
    pooled_parts = tuple(part for part in parts if part != "network")
    tasks: list[Callable[[], Piece]] = []
    for block, z in sorted(stored.items()):
        # At the last block the paper's critic is pooling and projection: a linear one.
        own = ("linear", *pooled_parts) if block not in network and "network" in parts else pooled_parts
        if not own:
            continue
        vector = vectors(z)
        vector = canonical(vector)(vector)
        for fold in range(asked.folds):
            inside, outside = asked.inside(fold), asked.outside(fold)
            where = (inside, outside, outside[counts[outside]])
            draw = seed + 100 * block + 10 + fold
            tasks.append(partial(_pooled_piece, block, vector, asked.y, where, prior, own, draw, not chance))
    total = len(tasks) + HALVES * len(network)
    named = f"block{'s' * (len(stored) > 1)} {', '.join(map(str, sorted(stored)))}"
    what = f"{'chance' if chance else 'information'}, {total} critics of {named}"
    tell(what)
    linear_last = model.depth if "network" in parts else None
    # Critics on pooled features compute on the CPU, wherever the model is.
    pieces = each(tasks, on="cpu", begin=lambda some: tell(what, some.start / total))
    known = _known(_assembled(pieces, asked, linear_last), asked, prior) if pooled_parts else {}
    tasks = []
    late: list[tuple[int, Callable[[Course], Piece]]] = []
    for block in sorted(network):
        coordinates = canonical(rows(stored[block])).on(model.device)
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
    adds = {block for block in network if not pooled_parts or _adds(fits, block, asked, prior)}
    courses = [piece.course for piece in pieces if piece.course]
    fewer = [
        partial(fit, course) for (block, fit), course in zip(late, courses, strict=True) if block in adds
    ]
    return _assembled([*pieces, *each(fewer, on=model.device.type)], asked, linear_last) if fewer else fits


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
    block: int,
    z: Tensor,
    y: Tensor,
    where: Where,
    prior: Tensor,
    parts: tuple[str, ...],
    draw: int,
    half: bool,
) -> Piece:
    start, (inside, outside, own) = time.perf_counter(), where
    with seeded(draw):
        scores = pooled_scores(z, y, inside, outside, prior, parts)
        fewer = pooled_scores(z, y, half_of(y, inside), own, prior, parts) if half else {}
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
        for kept, scored, seen in (
            (fits.scores, piece.scores, piece.outside),
            (fits.fewer, piece.fewer, piece.own),
        ):
            of_block = kept.setdefault(piece.block, {})
            for name, scores in scored.items():
                of_block[name] = _added(of_block.get(name), scores, place[seen], len(reading))
    # The mean over folds for test images; at the last block the network critic is the linear one.
    for kept in (fits.scores, fits.fewer):
        for block, of_block in kept.items():
            for name, scores in of_block.items():
                of_block[name] = torch.where(test, scores / readers[block, name], scores)
            if block == linear_last and "linear" in of_block:
                of_block["network"] = of_block["linear"]
    return fits


def _added(total: Tensor | None, scores: Tensor, where: Tensor, n: int) -> Tensor:
    """Scores added at their places. Critics of two folds may differ in rounds: the shorter one's last round goes on."""
    rounds = max(len(scores), 0 if total is None else len(total))
    if total is None:
        total = scores.new_zeros(rounds, n, scores.shape[2])
    total, scores = (torch.cat([x, x[-1:].expand(rounds - len(x), -1, -1)]) for x in (total, scores))
    total = total.clone()
    total[:, where] += scores
    return total
