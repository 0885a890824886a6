"""What a model says: logits of a whole split, from one forward pass."""

from __future__ import annotations

import torch
from torch import Tensor

from residua.classifier import Classifier
from residua.device import Precision, autocast
from residua.errors import InputError
from residua.split import Split

BATCH = 500


def logits(model: Classifier, split: Split, *, precision: Precision = "float32") -> Tensor:
    """The model's logits (N, classes) in the order of the split, on the CPU, in eval mode.

    float32 by default, so that a reading does not depend on what the machine is good at.
    """
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode(), autocast(precision, model.device):
            parts = [model(x).float().cpu() for x, _ in split.batches(BATCH, device=model.device)]
    finally:
        model.train(was_training)
    found = torch.cat(parts) if parts else torch.zeros(0, split.classes)
    if not torch.isfinite(found).all():
        raise InputError(
            "the model's outputs are not finite numbers; its weights are damaged or have diverged"
        )
    return found
