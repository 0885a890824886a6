"""ESC and ESC-T: erase the principal directions of the forget set's last features (Lee et al., CVPR 2025)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from residua.data.task import ForgetTask
from residua.models.classifier import Classifier, clone, freeze
from residua.training.keeping import keeper
from residua.training.loop import SGD, descend
from residua.training.settings import Batch, Epochs, Rate, Scheduled, Share
from residua.unlearn._features import InHead, Rows, encoded, folded, linear_head, wide


@dataclass(frozen=True)
class ErasingSpace(InHead):
    """No training. With the left singular vectors U of the forget set's features (a column per sample),

        z <- (I - U_k U_k^T) z,

    U_k the first `share` of them. Read in KU-VGI/ESC, whose share is 1.5 %.

    A linear map before a linear head is a linear head: W <- W (I - U_k U_k^T) answers the same, and that is how the
    model is kept here. So every block of the encoder is Original's, bit for bit, and IDI is exactly 1.
    """

    share: Annotated[float, Share("Fraction of the directions that is erased.", stronger="more")] = 0.015

    label = "ESC"

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        model = clone(original)
        u = _directions(encoded(model, task.forget))
        # Differs from the reference: at least one direction is erased; the public code rounds down, to none where the
        # encoder has fewer than 67 channels.
        erased = u[:, : max(1, int(self.share * len(u)))]
        return folded(model, self.label, torch.eye(len(u), dtype=u.dtype) - erased @ erased.T)


@dataclass(frozen=True)
class ErasingSpaceTrained(InHead):
    """ESC-T: a mask M of the entries of U is learned instead, z <- (U * M)(U * M)^T z.

    On forget samples that are still answered right the cross-entropy rises, M stays in [0, 1], and in the end entries
    above `threshold` become 1 and all others 0. Read in KU-VGI/ESC. Kept like ESC, so IDI is exactly 1.
    """

    epochs: Annotated[int, Epochs("Passes over the forget set.", stronger="more", tune=(1, 100))] = 50
    lr: Annotated[float, Rate("Learning rate of the mask.", stronger="more", tune=(1e-5, 1))] = 1e-3
    batch: Batch = 64
    threshold: Annotated[float, Share("Smallest entry of the mask that is kept.", stronger="more")] = 0.7
    schedule: Scheduled = "constant"

    label = "ESC-T"

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        model = clone(original)
        z = encoded(model, task.forget)
        masked = _Masked(linear_head(model, self.label), _directions(z).to(z))

        def ascent(masked: nn.Module, z: Tensor, y: Tensor) -> Tensor:
            answers = masked(z)
            known = answers.argmax(dim=1) == y
            return -(F.cross_entropy(answers, y, reduction="none") * known).sum() / known.sum().clamp(min=1)

        # Differs from the reference: features are computed once, from images that are neither cropped nor flipped.
        descend(
            masked,
            Rows(z, task.forget.labels.to(z.device), self.batch),
            ascent,
            optimizer=SGD([masked.mask], lr=self.lr),
            epochs=self.epochs,
            schedule=self.schedule,
            precision="float32",
            after_step=lambda: masked.mask.data.clamp_(0, 1),  # type: ignore[arg-type]
            keep=keeper(),
        )
        kept = masked.u * (masked.mask.detach() > self.threshold)
        return folded(model, self.label, kept @ kept.T)


class _Masked(nn.Module):
    """The head behind (U * M)(U * M)^T."""

    u: Tensor

    def __init__(self, head: nn.Linear, u: Tensor) -> None:
        super().__init__()
        self.head = freeze(clone(head))
        self.mask = nn.Parameter(torch.ones_like(u))
        self.register_buffer("u", u)

    def forward(self, z: Tensor) -> Tensor:
        kept = self.u * self.mask
        return self.head(z @ kept @ kept.T)


def _directions(z: Tensor) -> Tensor:
    """All singular vectors of the features' columns, in float64, the strongest first."""
    # Differs from the reference: directions in which fewer samples than channels do not vary are kept, not erased.
    return torch.linalg.svd(wide(z), full_matrices=True).Vh.T
