"""Losses against other people's code and at their limits."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from residua.training.losses import distillation, kl_divergence, supervised_contrastive

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("temperature", [0.07, 0.5])
@pytest.mark.parametrize("labels", [3, 40])
def test_supervised_contrast_agrees_with_pytorch_metric_learning(labels, temperature):
    losses = pytest.importorskip("pytorch_metric_learning.losses")
    generator = torch.Generator().manual_seed(labels)
    z = torch.randn(48, 16, generator=generator, dtype=torch.float32, requires_grad=True)
    y = torch.randint(0, labels, (48,), generator=generator)
    ours = supervised_contrastive(z, y, temperature)
    theirs = losses.SupConLoss(temperature=temperature)(z, y)
    assert float(ours.detach()) == pytest.approx(float(theirs.detach()), abs=1e-5)
    (our_gradient,) = torch.autograd.grad(ours, z)
    (their_gradient,) = torch.autograd.grad(theirs, z)
    torch.testing.assert_close(our_gradient, their_gradient, rtol=1e-3, atol=1e-5)


def test_supervised_contrast_never_divides_by_zero():
    z = torch.randn(6, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    alone = supervised_contrastive(z, torch.arange(6), 0.07)
    alone.backward()
    assert float(alone.detach()) == 0
    assert torch.equal(z.grad, torch.zeros_like(z))
    # Anchors without a positive are left out of the mean, but stay in the others' denominators.
    some = supervised_contrastive(z, torch.tensor([0, 0, 1, 2, 3, 4]), 0.07)
    assert torch.isfinite(some)
    assert float(some.detach()) > 0
    zero = supervised_contrastive(torch.zeros(4, 3), torch.tensor([0, 0, 1, 1]), 0.07)
    assert torch.isfinite(zero)
    assert float(supervised_contrastive(z[:1], torch.tensor([0]), 0.07).detach()) == 0


def test_supervised_contrast_is_float32_where_products_are_bfloat16():
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(32, 16, generator=generator)
    y = torch.randint(0, 4, (32,), generator=generator)
    found = []
    for enabled in (False, True):
        features = z.clone().requires_grad_(True)
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            assert (features @ features.T).dtype is (torch.bfloat16 if enabled else torch.float32)
            loss = supervised_contrastive(features, y, 0.07)
        loss.backward()
        found.append((loss.detach(), features.grad))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])


def test_a_masked_target_counts_nothing_and_gives_finite_gradients():
    said = torch.tensor([[2.0, -1.0, 0.5]], requires_grad=True)
    target = F.softmax(torch.tensor([[1.0, -torch.inf, 0.0]]), dim=1)
    loss = kl_divergence(said, target)
    loss.backward()
    p = F.log_softmax(said.detach(), dim=1)
    expected = sum(t * (t.log() - q) for t, q in zip(target[0], p[0], strict=True) if t > 0)
    assert float(loss.detach()) == pytest.approx(float(expected), abs=1e-6)
    assert torch.isfinite(said.grad).all()


def test_distillation_is_torchs_kl_times_the_square_of_the_temperature():
    generator = torch.Generator().manual_seed(1)
    student, teacher = (torch.randn(7, 5, generator=generator) for _ in range(2))
    expected = F.kl_div(
        F.log_softmax(student / 4, 1), F.log_softmax(teacher / 4, 1), log_target=True, reduction="batchmean"
    )
    assert float(distillation(student, teacher, 4.0)) == pytest.approx(16 * float(expected), rel=1e-5)
    assert float(distillation(teacher, teacher, 4.0)) == pytest.approx(0, abs=1e-6)
