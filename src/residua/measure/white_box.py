"""White-box MIA: would an attacker who sees activations or gradients call the forgotten data members?"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from sklearn.neural_network import MLPClassifier
from torch import Tensor

from residua.attack import Sides, attack, sides
from residua.classifier import Classifier, clone
from residua.outputs import logits, pooled
from residua.reading import Reading
from residua.split import Split
from residua.task import ForgetTask

CHUNK = 256


@dataclass(frozen=True)
class WhiteBoxMembership:
    """The share of the forget set that an attack network calls member, in [0, 1].

    `A-MIA` sees activations: the pooled features of the last `last` blocks and the logits, sorted and as
    they are. `G-MIA` sees the gradient of the cross-entropy with the true label with respect to the head's
    weights: a random projection of it to `dim` numbers and the logarithm of its length. Members and
    others are chosen as for MIA. The paper does not say which layers; on a random network
    the value means nothing, so look at the attacker's own held-out accuracy first.
    """

    last: int = 2
    dim: int = 128
    hidden: int = 64
    held_out: float = 0.3
    most: int = 2000
    seed: int = 0

    label = "white-box-mia"

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading:
        chosen = sides(task, held_out=self.held_out, most=self.most, seed=self.seed)
        parts = {"retain": task.retain, "test": task.test, "forget": task.forget}
        asked = {"retain": _used(chosen, "members"), "test": _used(chosen, "others")}
        found = []
        looks = {"A-MIA": self._activations, "G-MIA": self._gradients}
        if not list(model.head.parameters()):
            found.append(Reading({}, notes={"G-MIA": "the head has no weights, so there are no gradients"}))
            looks.pop("G-MIA")
        for name, look in looks.items():
            seen = {side: look(model, split, asked.get(side)) for side, split in parts.items()}
            network = MLPClassifier(
                (self.hidden,), alpha=1e-2, max_iter=60, random_state=self.seed % 2**32, tol=1e-3
            )
            found.append(attack(name, network, chosen, **seen))
        return Reading(
            {name: value for reading in found for name, value in reading.values.items()},
            {name: array for reading in found for name, array in reading.arrays.items()},
            notes={name: why for reading in found for name, why in reading.notes.items()},
        )

    def _activations(self, model: Classifier, split: Split, asked: Tensor | None) -> Tensor:
        blocks = range(max(1, model.depth - self.last + 1), model.depth + 1)
        said = logits(model, split)
        return torch.cat([*pooled(model, split, list(blocks)).values(), said, said.sort(dim=1).values], dim=1)

    def _gradients(self, model: Classifier, split: Split, asked: Tensor | None) -> Tensor:
        """Rows that nobody asks about stay zero."""
        z = pooled(model, split, [model.depth])[model.depth]
        head = clone(model.head).cpu()
        names = [name for name, _ in head.named_parameters()]
        weights = {name: p.detach() for name, p in head.named_parameters()}
        numbers = sum(p.numel() for p in weights.values())
        generator = torch.Generator().manual_seed(self.seed)
        projection = torch.randn(numbers, self.dim, generator=generator) / self.dim**0.5

        def loss(weights: dict[str, Tensor], z: Tensor, y: Tensor) -> Tensor:
            said = torch.func.functional_call(head, weights, (z[None],))
            return torch.nn.functional.cross_entropy(said, y[None])

        each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
        found = torch.zeros(len(z), self.dim + 1)
        for part in (torch.arange(len(z)) if asked is None else asked).split(CHUNK):
            of_part = each(weights, z[part], split.labels[part])
            flat = torch.cat([of_part[name].flatten(1) for name in names], dim=1)
            length = flat.norm(dim=1, keepdim=True)
            found[part] = torch.cat([flat @ projection, length.clamp_min(1e-12).log()], dim=1)
        return found


def _used(chosen: Sides, side: str) -> Tensor:
    return torch.cat([getattr(chosen, side), getattr(chosen, f"{side}_held")])
