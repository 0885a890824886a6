"""PyTorch's SGD and Adam without the compiler: same code, same weights, a second less to start.

The methods of `torch.optim` are wrapped so that `torch.compile` may trace or skip them, and the first call of a wrapper
imports the whole compiler (`torch._dynamo`): seconds in every process that trains anything. Nothing is compiled
here, so these classes take the methods inside the wrappers.
"""

from __future__ import annotations

from inspect import unwrap

import torch


class _Plain(torch.optim.Optimizer):
    add_param_group = unwrap(torch.optim.Optimizer.add_param_group)
    zero_grad = unwrap(torch.optim.Optimizer.zero_grad)
    state_dict = unwrap(torch.optim.Optimizer.state_dict)
    load_state_dict = unwrap(torch.optim.Optimizer.load_state_dict)


class SGD(_Plain, torch.optim.SGD):
    """`torch.optim.SGD`, to the bit."""

    step = torch.no_grad()(unwrap(torch.optim.SGD.step))


class Adam(_Plain, torch.optim.Adam):
    """`torch.optim.Adam`, to the bit."""

    step = torch.no_grad()(unwrap(torch.optim.Adam.step))
