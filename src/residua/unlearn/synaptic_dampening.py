"""SSD: dampen the weights that matter more to the forget set than to the rest (Foster et al. 2024)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call, grad, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from residua.data.split import Split
from residua.data.task import ForgetTask
from residua.device import memory_budget, safe_kernels
from residua.models.classifier import Classifier, clone
from residua.training.settings import Checked, Count, Weight

# Samples whose gradients are held at once, if memory allows: more are hardly faster.
MOST = 32


@dataclass(frozen=True)
class SynapticDampening(Checked):
    """No training. With the importance of a weight for a set, the mean of its squared gradient over
    single samples (the diagonal of the Fisher information),

        theta <- theta min(dampening imp_D / imp_f, 1)   where imp_f > alpha imp_D.

    `samples` of D, drawn at random, estimate imp_D; None takes all.

    With all samples imp_f / imp_D is at most |D| / |forget|, because D holds the forget set: an alpha of 10, the public
    code's, cannot act where one class of ten is forgotten. The default is the square root of that bound.

    """

    alpha: Annotated[
        float | None,
        Weight(
            "Ratio of importances, forget set to all data, above which a weight is dampened; the square root of "
            "|D| / |forget| if not given.",
            stronger="less",
        ),
    ] = None
    dampening: Annotated[float, Weight("Factor on the weights that are dampened.", stronger="less")] = 1.0
    samples: Annotated[int | None, Count("Training samples that estimate importance; all if not given.")] = None

    label = "SSD"
    revision = 2

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        model = clone(original)
        everything = task.train
        if self.samples is not None:
            everything = everything.subset(torch.randperm(len(everything))[: self.samples])
        # Differs from the reference: by default alpha is the square root of |D| / |forget|. The public code has 10, which
        # can act there because it squares the gradients of whole batches, whose ratio is many times as large.
        alpha = math.sqrt(len(task.train) / len(task.forget)) if self.alpha is None else self.alpha
        of_all, of_forget = importance(model, everything), importance(model, task.forget)
        with torch.no_grad():
            for name, weight in model.named_parameters():
                chosen = of_forget[name] > alpha * of_all[name]
                factor = (self.dampening * of_all[name] / of_forget[name]).clamp(max=1)
                weight.copy_(torch.where(chosen, weight * factor, weight))
        return model


def importance(model: Classifier, split: Split, budget: int | None = None) -> dict[str, Tensor]:
    """The mean over samples of the squared gradient of each sample's own loss, in eval mode.

    Each sample's gradient is as large as the network; as many are held at once as fit into `budget` bytes.
    """
    weights = {name: p.detach() for name, p in model.named_parameters()}
    buffers = dict(model.named_buffers())

    def loss(weights: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(functional_call(model, (weights, buffers), (x[None],)), y[None])

    # Differs from the reference: gradients are squared sample by sample, as the Fisher information asks; the public code
    # squares those of whole batches.
    per_sample = vmap(grad(loss), in_dims=(None, 0, 0))
    total = {name: torch.zeros_like(p) for name, p in weights.items()}
    at_once = chunk(model, memory_budget(model.device) if budget is None else budget)
    for x, y in split.batches(at_once, device=model.device):
        with safe_kernels(model), sdpa_kernel(SDPBackend.MATH):  # the fused attention knows no single samples
            gradients = per_sample(weights, x, y)
        for name, gradient in gradients.items():
            total[name] += gradient.square().sum(dim=0)
    return {name: square / len(split) for name, square in total.items()}


def chunk(model: Classifier, budget: int) -> int:
    """Number of samples, 1 to 32, whose gradients fit into `budget` bytes; each is there twice, once squared."""
    size = sum(p.numel() * p.element_size() for p in model.parameters())
    return max(1, min(MOST, budget // (2 * size)))
