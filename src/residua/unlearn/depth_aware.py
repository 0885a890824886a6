"""DAMP: remove a class's own direction from the input of every layer (Hatami et al. 2026)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor, nn

from residua.data.split import Split
from residua.data.task import ForgetTask
from residua.models.classifier import Classifier, clone
from residua.training.settings import Checked, Count
from residua.unlearn._features import only_classes, wide


@dataclass(frozen=True)
class DepthAware(Checked):
    """No training. Of the mean input of every convolution and linear map (over places or tokens) each class has a
    prototype, its mean over samples. Q is an orthonormal basis of the parts of the forgotten prototypes that are no linear
    combination of retained ones, so that retained prototypes pass as before, and

        W <- W (I - alpha Q Q^T),   alpha = max(0, 2 AUC - 1),

    with the AUC, as a detector of forgotten samples, of Q^T z along its mean over them: early layers, where classes hardly
    show, change little.
    All prototypes are Original's. A layer with fewer channels than there are retained classes has no such Q and stays.

    Written after the abstract of arXiv 2604.15166; no code is public.
    """

    # Differs from the paper: after the abstract; the prototypes' inputs, the residual by least squares and AUC as the
    # probe's separability are our readings of it.
    samples: Annotated[int, Count("Most samples of each side, forget and retain, that prototypes come from.")] = 5000

    label = "DAMP"
    scenarios = ("class",)

    def __call__(self, original: Classifier, task: ForgetTask) -> Classifier:
        only_classes(self.label, task)
        model = clone(original)
        some = [each.subset(torch.randperm(len(each))[: self.samples]) for each in (task.retain, task.forget)]
        split = some[0].joined(some[1])
        gone = torch.isin(split.labels, torch.tensor(task.forgotten))
        with torch.no_grad():
            for layer, z in _inputs(model, split).items():
                q = _own_directions(z, split.labels, task.forgotten)
                if q is not None:
                    own = z @ q
                    share = _separability(own @ own[gone].mean(dim=0), gone)
                    weight = wide(layer.weight).movedim(1, -1)
                    layer.weight.copy_((weight - share * (weight @ q) @ q.T).movedim(-1, 1))
        return model


def _inputs(model: Classifier, split: Split) -> dict[nn.Conv2d | nn.Linear, Tensor]:
    """One vector per sample for each layer: its input's mean over places or tokens."""
    seen: dict[nn.Conv2d | nn.Linear, list[Tensor]] = {}

    def see(layer: nn.Module, given: tuple[Tensor, ...]) -> None:
        z = given[0] if isinstance(layer, nn.Linear) else given[0].movedim(1, -1)
        seen.setdefault(layer, []).append(wide(z.reshape(len(z), -1, z.shape[-1]).mean(dim=1)))  # type: ignore[arg-type]

    layers = [part for part in model.modules() if isinstance(part, nn.Conv2d | nn.Linear)]
    hooks = [layer.register_forward_pre_hook(see) for layer in layers]
    for x, _ in split.batches(500, device=model.device):
        model(x)
    for hook in hooks:
        hook.remove()
    # A layer that runs several times in a pass, or sees other rows than samples, has no prototypes; nor has one of groups.
    whole = {layer: torch.cat(parts) for layer, parts in seen.items() if sum(map(len, parts)) == len(split)}
    return {layer: z for layer, z in whole.items() if layer.weight.shape[1] == z.shape[1]}


def _own_directions(z: Tensor, labels: Tensor, forgotten: tuple[int, ...]) -> Tensor | None:
    """Q; None where the forgotten prototypes are combinations of the others, to the last digits."""
    means = {int(c): z[labels == c].mean(dim=0) for c in labels.unique()}
    span = _basis(torch.stack([mean for c, mean in means.items() if c not in forgotten]), 0.0)
    mine = torch.stack([means[c] for c in forgotten if c in means])
    own = _basis(mine - mine @ span @ span.T, float(mine.norm(dim=1).max()))
    return own if own.shape[1] else None


def _basis(rows: Tensor, scale: float) -> Tensor:
    """Orthonormal columns that span the rows, but for directions of rounding errors beside the largest or `scale`."""
    _, sizes, basis = torch.linalg.svd(rows, full_matrices=False)
    least = 1e-9 * max(float(sizes[0]), scale)
    return basis[sizes > least].T


def _separability(scores: Tensor, positive: Tensor) -> float:
    """2 AUC - 1 of the scores, or 0."""
    ranks = scores.argsort().argsort().double() + 1
    p, n = int(positive.sum()), int((~positive).sum())
    auc = (float(ranks[positive].sum()) - p * (p + 1) / 2) / (p * n)
    return max(0.0, 2 * auc - 1)
