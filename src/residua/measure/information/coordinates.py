"""Coordinates that do not depend on how a block writes its features down.

I(Z; Y) is the same for Z and for A Z + b, whatever the invertible matrix A. Estimates are not, unless critics
are given coordinates that are the same for both. These are: centred, whitened (every direction has variance
1 and no two are correlated), and turned so that the directions stand in an order of their own. An attacker who
scales, mixes or rotates the channels of a block, and undoes it in the next, changes nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from scipy.linalg import blas
from torch import Tensor

from residua.measure._outputs import ENOUGH

# Directions whose variance is below this share of the largest are rounding errors of float32.
FLOOR = 1e-12
# The weights of far rows fall faster with every round; outliers of any size are gone after a few.
ROUNDS = 12
# Beyond so many times the typical distance from the centre nothing is learned, and one outlier rules.
FAR = 5.0
CHUNK = 2048  # rows whose products are added up in single precision


@dataclass(frozen=True, eq=False)
class Coordinates:
    """z -> (z - mean) @ axes; features keep their shape, channels last, and far rows are drawn in."""

    mean: Tensor
    axes: Tensor
    radius: float

    def on(self, device: torch.device) -> Coordinates:
        """The same in float32 on this device, for batches there."""
        mean, axes = (each.to(device, torch.float32) for each in (self.mean, self.axes))
        return Coordinates(mean, axes, self.radius)

    def __call__(self, z: Tensor) -> Tensor:
        turned = (z - self.mean.to(z)) @ self.axes.to(z)
        norm = torch.linalg.vector_norm(turned, dim=-1, keepdim=True)
        return turned * (self.radius / norm.clamp_min(self.radius))


def canonical(z: Tensor, on: torch.device | None = None) -> Coordinates:
    """The coordinates of features (N, ..., d), each of the last axis' directions a channel, computed `on` a device.

    No label goes in, so all samples may take part. Mean and covariance are robust (rows far out weigh less, as
    in Tyler's estimator), or a few huge rows would shrink the rest to nothing. Directions are turned to the
    eigenvectors of E[ |z|^2 z z^T ], as in fourth-order blind identification, and point to their longer tail.
    Dead directions become 0, so that the number of channels stays.
    """
    rows = z.reshape(-1, z.shape[-1])
    # Every k-th row, so that at most ENOUGH are left.
    rows = rows[:: math.ceil(len(rows) / ENOUGH)].to(on or z.device).double()
    # Channels may differ by many orders of magnitude; equal scales keep the arithmetic exact.
    scale = rows.std(0)
    scale = torch.where(scale > 0, 1 / scale.clamp_min(1e-300), torch.zeros_like(scale))
    centre = rows.mean(0)
    rows = (rows - centre).mul_(scale)
    mean, whiten, white = _whitening(rows)
    length = torch.linalg.vecdot(white, white)
    radius = FAR * float(length.median().sqrt())
    length = length.sqrt_()
    white *= (radius / length.clamp_min(radius))[:, None]
    # Single precision is enough for the sign of a third moment.
    rough = white.float()
    turn = torch.linalg.eigh(gram(white.mul_(length.clamp_max_(radius)[:, None])) / len(white))[1].flip(1)
    cubes = [(part @ turn.float()).pow_(3).sum(0, dtype=torch.float64) for part in rough.split(CHUNK)]
    turn *= torch.where(torch.stack(cubes).sum(0) < 0, -1.0, 1.0)
    axes = rows.new_zeros(z.shape[-1], z.shape[-1])
    axes[:, : turn.shape[1]] = scale[:, None] * (whiten @ turn)
    mean = centre + torch.where(scale > 0, mean / scale.clamp_min(1e-300), torch.zeros_like(mean))
    return Coordinates(mean, axes, max(radius, 1e-12))


def gram(rows: Tensor) -> Tensor:
    """rows^T rows in double precision; products of rows in single precision are in theirs, and so are short sums of them.

    NumPy, on the CPU, sees that the product is symmetric and computes half of it.
    """
    parts = [rows] if rows.dtype == torch.float64 else rows.split(CHUNK)
    total = rows.new_zeros(rows.shape[1], rows.shape[1], dtype=torch.float64)
    for part in parts:
        matrix = part if part.is_cuda else part.numpy()
        total += torch.as_tensor(matrix.T @ matrix)
    return total


def solved(root: Tensor, rows: Tensor) -> Tensor:
    """rows @ root^-T for a Cholesky factor, in the precision of the rows, which may be overwritten.

    SciPy, on the CPU, solves in half the time of PyTorch, which copies rows into columns and back.
    """
    if rows.is_cuda:
        return torch.linalg.solve_triangular(root.to(rows), rows.T, upper=False).T
    solve = blas.strsm if rows.dtype == torch.float32 else blas.dtrsm
    upper = root.to(rows).contiguous().numpy().T
    return torch.from_numpy(solve(1.0, upper, rows.numpy().T, trans_a=1, overwrite_b=1).T)


def _whitening(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Robust mean (d), the matrix (d, rank) that takes the robust covariance to 1, and the rows that it makes white."""
    weights = rows.new_ones(len(rows))
    for _ in range(ROUNDS):
        mean = (weights @ rows) / weights.sum()
        centred = rows - mean
        covariance = gram(centred if weights.min() == 1 else centred * weights.sqrt()[:, None])
        whiten, white = _whitened(covariance / weights.sum(), centred)
        distance = torch.linalg.vecdot(white, white)
        typical = 3 * float(distance.median().clamp_min(1e-300))
        before, weights = weights, (typical / distance.clamp_min(typical)).square()
        if float((weights / before).min()) > 0.5:
            break
    return mean, whiten, white


def _whitened(covariance: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """The matrix that takes the covariance to 1 without directions that are rounding errors, and the rows times it.

    A Cholesky factor, which costs a tenth of the eigenvectors, serves where no direction is that small:
    trace(C) trace(C^-1) bounds the ratio of the largest variance to the smallest. The rows are overwritten.
    """
    root, failed = torch.linalg.cholesky_ex(covariance)
    if not failed:
        whiten = solved(root, torch.eye(len(root), dtype=root.dtype, device=root.device))
        if float(covariance.trace() * whiten.square().sum()) < 1 / FLOOR:
            return whiten, solved(root, rows)
    variance, axes = torch.linalg.eigh(covariance)
    kept = variance > FLOOR * variance[-1].clamp_min(1e-300)
    whiten = axes[:, kept] / variance[kept].sqrt()
    return whiten, rows @ whiten
