"""White-box MIA: would an attacker who sees activations or gradients call the forgotten data members?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from sklearn.neural_network import MLPClassifier
from torch import Tensor

from residua.data.split import Split
from residua.data.task import ForgetTask
from residua.explaining import ATTACKER_PARTS, NEARER, QUALITY, Explanation
from residua.measure._attack import Sides, attack, sides
from residua.measure._outputs import logits, pooled
from residua.models.classifier import Classifier, clone
from residua.readings import Reading
from residua.training.settings import Count, Seed, Share, check_settings

CHUNK = 256


EXPLANATIONS = (
    Explanation(
        name="A-MIA",
        title="White-box membership inference from activations",
        box="white",
        definition=(
            "The share of the forget set that an attack network which sees activations calls member."
        ),
        formula="as E-MIA, with the pooled features of the last two blocks and the logits",
        range="[0, 1]",
        better=NEARER,
        better_of=QUALITY,
        ideal="Retrain's.",
        blind="The paper finds it unstable: on a random network it means nothing. " + ATTACKER_PARTS,
        elsewhere="The column Activation of the paper's table.",
        source="The paper, section on white-box MIA; Nasr et al. 2019. Layers and network are ours.",
        parts="attacker",
    ),
    Explanation(
        name="G-MIA",
        title="White-box membership inference from gradients",
        box="white",
        definition=(
            "The share of the forget set that an attack network which sees gradients of the head "
            "calls member."
        ),
        formula=("as E-MIA, with a random projection of d CE(x, y) / d head and the logarithm of its length"),
        range="[0, 1]",
        better=NEARER,
        better_of=QUALITY,
        ideal="Retrain's.",
        blind="The paper finds it unstable: on a random network it means nothing. " + ATTACKER_PARTS,
        elsewhere="The column Gradient of the paper's table.",
        source=(
            "The paper, section on white-box MIA; Nasr et al. 2019. The head's gradients only, and "
            "the projection, are ours."
        ),
        parts="attacker",
    ),
)


@dataclass(frozen=True)
class WhiteBoxMembership:
    """The share of the forget set that an attack network calls member, in [0, 1].

    `A-MIA` sees activations: the pooled features of the last `last` blocks and the logits, sorted and as
    they are. `G-MIA` sees the gradient of the cross-entropy with the true label with respect to the head's
    weights: a random projection of it to `dim` numbers and the logarithm of its length. Members and
    others are chosen as for MIA. The paper does not say which layers; on a random network
    the value means nothing, so look at the attacker's own held-out accuracy first.
    """

    last: Annotated[int, Count("How many of the last blocks are seen.")] = 2
    dim: Annotated[int, Count("Numbers that a gradient is projected to.")] = 128
    hidden: Annotated[int, Count("Width of the attack network.")] = 64
    held_out: Annotated[float, Share("Share of members and others that judges the attacker.", below=1)] = 0.3
    most: Annotated[int, Count("Most members, and most others.")] = 2000
    seed: Annotated[int, Seed()] = 0

    label = "white-box-mia"

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, model: Classifier, task: ForgetTask) -> Reading:
        chosen = sides(task, held_out=self.held_out, most=self.most, seed=self.seed)
        parts = {"retain": task.retain, "test": task.test, "forget": task.forget}
        wanted = {"retain": _used(chosen, "members"), "test": _used(chosen, "others")}
        readings = []
        looks = {"A-MIA": self._activations, "G-MIA": self._gradients}
        if not list(model.head.parameters()):
            readings.append(
                Reading({}, notes={"G-MIA": "the head has no weights, so there are no gradients"})
            )
            looks.pop("G-MIA")
        for name, look in looks.items():
            seen = {side: look(model, split, wanted.get(side)) for side, split in parts.items()}
            network = MLPClassifier(
                (self.hidden,), alpha=1e-2, max_iter=60, random_state=self.seed % 2**32, tol=1e-3
            )
            readings.append(attack(name, network, chosen, **seen))
        return Reading(
            {name: value for reading in readings for name, value in reading.values.items()},
            {name: array for reading in readings for name, array in reading.arrays.items()},
            notes={name: why for reading in readings for name, why in reading.notes.items()},
        )

    def _activations(self, model: Classifier, split: Split, wanted: Tensor | None) -> Tensor:
        blocks = range(max(1, model.depth - self.last + 1), model.depth + 1)
        outputs = logits(model, split)
        return torch.cat(
            [*pooled(model, split, list(blocks)).values(), outputs, outputs.sort(dim=1).values], dim=1
        )

    def _gradients(self, model: Classifier, split: Split, wanted: Tensor | None) -> Tensor:
        """Rows that nobody needs stay zero."""
        z = pooled(model, split, [model.depth])[model.depth]
        # Differs from the reference: gradients of the head only, randomly projected; Nasr et al. attack with networks of
        # their own for the gradients of several layers.
        head = clone(model.head).cpu()
        names = [name for name, _ in head.named_parameters()]
        weights = {name: p.detach() for name, p in head.named_parameters()}
        numbers = sum(p.numel() for p in weights.values())
        generator = torch.Generator().manual_seed(self.seed)
        projection = torch.randn(numbers, self.dim, generator=generator) / self.dim**0.5

        def loss(weights: dict[str, Tensor], z: Tensor, y: Tensor) -> Tensor:
            outputs = torch.func.functional_call(head, weights, (z[None],))
            return torch.nn.functional.cross_entropy(outputs, y[None])

        each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
        rows = torch.zeros(len(z), self.dim + 1)
        for part in (torch.arange(len(z)) if wanted is None else wanted).split(CHUNK):
            gradients = each(weights, z[part], split.labels[part])
            flat = torch.cat([gradients[name].flatten(1) for name in names], dim=1)
            length = flat.norm(dim=1, keepdim=True)
            rows[part] = torch.cat([flat @ projection, length.clamp_min(1e-12).log()], dim=1)
        return rows


def _used(chosen: Sides, side: str) -> Tensor:
    return torch.cat([getattr(chosen, side), getattr(chosen, f"{side}_held")])
