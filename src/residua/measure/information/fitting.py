"""Fitting the critics of all blocks and folds: independent pieces of work that run side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from residua.measure.information.coordinates import canonical
from residua.measure.information.families import half_of, pooled_scores
from residua.measure.information.network import Course, Data, Fitting, fit_network
from residua.measure.information.samples import FIT_ONLY, READ_ONLY, Samples
from residua.models.classifier import Classifier
from residua.progress import tell
from residua.side_by_side import each
from residua.training.loop import seeded

HALVES = 2


@dataclass(frozen=True, eq=False)
class Piece:
    """Scores by part on the samples that one critic reads, how a network critic got there, and what it took."""

    block: int
    outside: Tensor
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
    stored: Mapping[int, Tensor],
    asked: Samples,
    parts: tuple[str, ...],
    how: Fitting,
    seed: int,
) -> Fits:
    """Fit every critic and put the scores where the samples stand. The numbers do not depend on what runs at once."""
    prior = asked.fit_prior()
    network = {block for block in stored if "network" in parts and block != model.depth}
    pooled_parts = tuple(part for part in parts if part != "network")
    tasks: list[Callable[[], Piece]] = []
    for block in sorted(network):
        data = Data(stored[block], asked.y, canonical(stored[block]), model.device)
        for half in range(HALVES):
            inside, outside = asked.inside(half, halves=True), asked.outside(half, halves=True)
            tasks.append(
                partial(
                    _network_piece, model, block, data, inside, outside, prior, how, seed + 100 * block + half
                )
            )
    for block, z in sorted(stored.items()):
        # At the last block the paper's critic is pooling and projection: a linear one.
        own = ("linear", *pooled_parts) if block not in network and "network" in parts else pooled_parts
        if not own:
            continue
        vector = z if z.ndim == 2 else z.flatten(1, -2).mean(1)
        coordinates = canonical(vector)
        vector = coordinates(vector)
        for fold in range(asked.folds):
            inside, outside = asked.inside(fold), asked.outside(fold)
            draw = seed + 100 * block + 10 + fold
            tasks.append(partial(_pooled_piece, block, vector, asked.y, inside, outside, prior, own, draw))
    blocks = ", ".join(str(block) for block in sorted(stored))
    what = f"information, {len(tasks)} critics of block{'s' if len(stored) > 1 else ''} {blocks}"
    tell(what)
    pieces = each(
        tasks, on=model.device.type, begin=lambda positions: tell(what, positions.start / len(tasks))
    )
    return _assembled(pieces, asked, model.depth if "network" in parts else None)


def _network_piece(
    model: Classifier, block: int, data: Data, inside: Tensor, outside: Tensor, prior: Tensor, how: Fitting, draw: int
) -> Piece:  # fmt: skip
    start = time.perf_counter()
    with seeded(draw):
        scores, course = fit_network(model, block, data, inside, outside, prior, how)
        # Half the samples in batches of half the size: as many steps as read the most, at half the cost. Further ones
        # would show what memorising costs, which is no shortfall of the data.
        half = replace(how, batch=max(2, how.batch // 2), rounds=1, steps=course.best)
        fewer, _ = fit_network(model, block, data, half_of(data.y, inside), outside, prior, half)
    seconds = time.perf_counter() - start
    return Piece(block, outside, {"network": scores}, {"network": fewer}, course, seconds)


def _pooled_piece(
    block: int, z: Tensor, y: Tensor, inside: Tensor, outside: Tensor, prior: Tensor, parts: tuple[str, ...], draw: int
) -> Piece:  # fmt: skip
    start = time.perf_counter()
    with seeded(draw):
        scores = pooled_scores(z, y, inside, outside, prior, parts)
        fewer = pooled_scores(z, y, half_of(y, inside), outside, prior, parts)
    return Piece(block, outside, scores, fewer, None, time.perf_counter() - start)


def _assembled(pieces: list[Piece], asked: Samples, linear_last: int | None) -> Fits:
    reading = (asked.fold != FIT_ONLY).nonzero()[:, 0]
    place = torch.full((len(asked.y),), -1)
    place[reading] = torch.arange(len(reading))
    test = (asked.fold[reading] == READ_ONLY)[None, :, None]
    fits = Fits({}, {}, {}, {})
    shares: dict[tuple[int, str], int] = {}
    for piece in pieces:
        fits.seconds[piece.block] = fits.seconds.get(piece.block, 0.0) + piece.seconds
        if piece.course:
            fits.course.setdefault(piece.block, []).append(piece.course)
        for name in piece.scores:
            shares[piece.block, name] = shares.get((piece.block, name), 0) + 1
        for kept, scored in ((fits.scores, piece.scores), (fits.fewer, piece.fewer)):
            of_block = kept.setdefault(piece.block, {})
            for name, scores in scored.items():
                of_block[name] = _added(of_block.get(name), scores, place[piece.outside], len(reading))
    for kept in (fits.scores, fits.fewer):
        for block, of_block in kept.items():
            for name, scores in of_block.items():
                # Test images were read by the critics of every fold: their mean is taken.
                of_block[name] = torch.where(test, scores / shares[block, name], scores)
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
