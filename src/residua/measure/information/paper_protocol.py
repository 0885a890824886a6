"""The paper's own protocol: its critics, its learning rates, read on the data they were fitted on.

A flexible critic that is read on its fitting data measures how much it can memorise: a random network then knows as
much as Original. It is here so that the two can be compared.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from residua.measure.information import network as nets
from residua.models.classifier import Classifier
from residua.training.loop import Adam, descend, unwatched

LABEL_LR = 5e-4
# The paper, "Implementation details": the learning rate of f by data set and network; elsewhere the last one.
LR = {("cifar10", "resnet18"): 2e-5, ("imagenet", "vit"): 2e-6}
OTHER_LR = 1e-5


def paper_lr(dataset: str, network: str) -> float:
    """The paper's learning rate of f. Copies of a data set ("cifar10-jpeg") count as the data set."""
    return LR.get((dataset.split("-")[0], network), OTHER_LR)


def paper_scores(
    model: Classifier,
    block: int,
    data: nets.Data,
    prior: Tensor,
    *,
    lr: float,
    label_lr: float,
    batch: int,
    epochs: int,
    dim: int,
) -> Tensor:
    """Scores (n, |Y|) of the critic of this block on the very samples that it was fitted on."""
    everything = torch.arange(len(data.y))
    example = data.batch(everything[:2])[0]
    critic = (
        nets.NetworkCritic(nn.Flatten(), example.flatten(1).shape[1], len(prior), dim).to(model.device)
        if block == model.depth
        else nets.new_critic(model, block, example, len(prior), dim)
    )
    with unwatched():
        descend(
            critic,
            nets.Steps(data, nets.stratified(data.y, everything, batch), max(1, len(everything) // batch)),
            nets.LabelLoss(prior.float().log().to(data.device)),
            optimizer=Adam([{"params": list(critic.f.parameters()), "lr": lr}, {"params": [critic.g], "lr": label_lr}]),
            epochs=epochs,
            precision="float32",
        )
    return nets.read(critic, data, everything)


def batch_terms(scores: Tensor, y: Tensor, batch: int) -> Tensor:
    """InfoNCE with the labels of each batch: s_k[y_k] - log sum_c (n_c / K) exp s_k[c]."""
    terms = torch.empty(len(y), dtype=torch.float64)
    for part in torch.randperm(len(y)).split(batch):
        shares = torch.bincount(y[part], minlength=scores.shape[1]).double() / len(part)
        own = scores[part].gather(1, y[part, None])[:, 0]
        terms[part] = own - torch.logsumexp(scores[part] + shares.log(), dim=1)
    return terms
