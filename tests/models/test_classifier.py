from __future__ import annotations

import pytest
import torch
from torch import nn

import residua as rs
from residua.models.classifier import weights_digest


@pytest.mark.parametrize(
    "build",
    [
        lambda: rs.models.resnet18(width=2),
        lambda: rs.models.resnet50(width=2),
        lambda: rs.models.vit(variant="tiny", image=16, patch=8),
    ],
)
def test_slices_compose_to_the_model(build):
    model, x = build(), torch.randn(2, 3, 16, 16)
    expected = model(x)
    for block in range(model.depth + 1):
        z = model.upto(block)(x)
        assert torch.equal(model.head(model.after(block)(z)), expected)
        assert torch.equal(model.features(x, [block])[block], z)
    assert torch.equal(model.after(0)(x), model.encode(x))
    assert model.encode(x).ndim == 2
    assert len(model.block_names) == model.depth


def test_blocks_that_do_not_exist_are_refused(net):
    with pytest.raises(rs.InputError, match="block 6 does not exist; this network has blocks 1 to 5"):
        net.upto(6)


def test_a_clone_shares_nothing_and_trains(net):
    rs.freeze(net)
    copy = rs.clone(net)
    before = weights_digest(net)
    for p in copy.parameters():
        assert p.requires_grad
        p.data.add_(1)
    assert weights_digest(net) == before
    assert not copy.training
    assert copy.train().blocks[0].training


def test_frozen_means_no_gradient_and_no_moving_statistics(net):
    rs.freeze(net.upto(3))
    before, moving = weights_digest(net.upto(3)), weights_digest(net.after(3))
    net.train()
    optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.1, weight_decay=0.1)
    net(torch.randn(8, 1, 16, 16)).sum().backward()
    optimizer.step()
    assert weights_digest(net.upto(3)) == before
    assert weights_digest(net.after(3)) != moving
    assert not any(part.training for part in net.upto(3).modules() if isinstance(part, nn.BatchNorm2d))
    rs.thaw(net)
    assert all(p.requires_grad for p in net.parameters())
    assert all(part.training for part in net.train().modules() if isinstance(part, nn.BatchNorm2d))


@pytest.mark.parametrize(
    "build", [lambda: rs.models.resnet50(width=2), lambda: rs.models.vit(variant="tiny", image=8, patch=4)]
)
def test_reinitialise_forgets_every_weight_at_every_depth(build):
    model = build()
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.fill_(7)
    rs.reinitialise(model)
    kept = [name for name, tensor in model.state_dict().items() if (tensor == 7).any()]
    assert kept == []


def test_reinitialise_draws_what_building_draws():
    with rs.seeded(5):
        built = rs.models.vit(variant="tiny", image=8, patch=4)
    again = rs.reinitialise(rs.clone(built))
    for (name, a), b in zip(built.named_parameters(), again.parameters(), strict=True):
        if a.numel() > 500:
            assert abs(a.detach().std() - b.detach().std()) <= 0.2 * a.detach().std(), name


def test_a_module_that_cannot_be_drawn_again_is_refused():
    class Stubborn(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(3))

    with pytest.raises(rs.InputError, match="Stubborn at 0 owns parameters"):
        rs.reinitialise(nn.Sequential(Stubborn()))


def test_the_digest_sees_every_bit_and_no_memory_layout(net):
    before = weights_digest(net)
    assert weights_digest(net.to(memory_format=torch.channels_last)) == before
    net.blocks[0][1].running_mean[0] += 1e-7
    assert weights_digest(net) != before


def test_what_is_drawn_again_does_not_depend_on_the_layout_in_memory(net):
    """Training leaves weights in channels-last, loading does not; critics of both must be the same."""
    other = rs.clone(net).to(memory_format=torch.channels_last)
    assert not other.blocks[1][0].conv1.weight.is_contiguous()
    found = []
    for model in (net, other):
        with rs.seeded(3):
            found.append(weights_digest(rs.reinitialise(rs.clone(model))))
    assert found[0] == found[1]


def test_a_fixed_buffer_is_kept_when_weights_are_drawn_again():
    class Projection(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("matrix", torch.eye(3))

    net = nn.Sequential(nn.Linear(3, 3), Projection())
    before = net[0].weight.clone()
    rs.models.classifier.reinitialise(net)
    assert torch.equal(net[1].matrix, torch.eye(3))
    assert not torch.equal(net[0].weight, before)
