"""How a stranger's weights are drawn anew.

Other libraries often draw weights where the network is put together, not in the layer that owns them,
and a class token has no layer at all. What the owner's `reset_parameters` would miss or draw
otherwise is written down here, tensor by tensor, as `residua_draws` of the owner; `reinitialise`
follows it. What is neither known here nor to its owner stays refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from torch import Tensor, nn

Draw = Callable[[Tensor], object]

zeros: Draw = nn.init.zeros_
he: Draw = partial(nn.init.kaiming_normal_, mode="fan_out", nonlinearity="relu")
xavier: Draw = nn.init.xavier_uniform_


def normal(std: float) -> Draw:
    return partial(nn.init.normal_, std=std)


def truncated(std: float) -> Draw:
    return partial(nn.init.trunc_normal_, std=std)


def kept(constant: Tensor) -> None:
    """A constant is not learned, so it stays."""


# Tensors that networks own directly under names that everybody uses; std as in the ViT's usual code.
BY_NAME: dict[str, Draw] = {
    "cls_token": normal(1e-6),
    "class_token": normal(1e-6),
    "reg_token": normal(1e-6),
    "dist_token": truncated(0.02),
    "mask_token": zeros,
    "pos_embed": truncated(0.02),
    "pos_embedding": truncated(0.02),
    "position_embeddings": truncated(0.02),
    "layer_scale": partial(nn.init.constant_, val=1e-6),
}
# The mean and deviation by which some networks normalise their own input.
CONSTANTS = ("mean", "std")


def by(module: nn.Module, **draws: Draw) -> None:
    """These tensors of this module are drawn in this way, if it has them."""
    own = {name: draw for name, draw in draws.items() if isinstance(getattr(module, name, None), Tensor)}
    if own:
        module.residua_draws = module.__dict__.get("residua_draws", {}) | own


def known(module: nn.Module) -> None:
    """For any network: attention, tokens and positions by their names, and constants."""
    for part in module.modules():
        if isinstance(part, nn.MultiheadAttention):
            weights = ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight")
            biases = {
                "in_proj_bias": zeros,
                "bias_k": nn.init.xavier_normal_,
                "bias_v": nn.init.xavier_normal_,
            }
            by(part, **dict.fromkeys(weights, xavier), **biases)
            by(part.out_proj, bias=zeros)
        elif not callable(getattr(part, "reset_parameters", None)):
            by(part, **{name: draw for name, draw in BY_NAME.items() if name in part._parameters})
            by(
                part,
                **{
                    name: kept
                    for name, buffer in part.named_buffers(recurse=False)
                    if constant(name, buffer, part)
                },
            )


def constant(name: str, buffer: Tensor, owner: nn.Module) -> bool:
    """Tables of indices, what is not even saved, and the mean and deviation of an image's channels."""
    whole = not (buffer.is_floating_point() or buffer.is_complex())
    of_images = name in CONSTANTS and buffer.numel() in (1, 3)
    return whole or of_images or name in owner._non_persistent_buffers_set


def resnet(module: nn.Module) -> None:
    """Convolutions N(0, 2 / fan_out). timm also silences the last norm of each residual branch."""
    for part in module.modules():
        if isinstance(part, nn.Conv2d):
            by(part, weight=he)
        if callable(getattr(part, "zero_init_last", None)):
            by(part.bn3 if hasattr(part, "bn3") else part.bn2, weight=zeros)  # type: ignore[arg-type]


def timm_vit(module: nn.Module) -> None:
    for part in module.modules():
        if isinstance(part, nn.Linear):
            by(part, weight=truncated(0.02), bias=zeros)


def torchvision_vit(module: nn.Module) -> None:
    for name, part in module.named_modules():
        if isinstance(part, nn.Linear) and ".mlp." in name:
            by(part, weight=xavier, bias=normal(1e-6))
        elif name == "heads.head":
            by(part, weight=zeros, bias=zeros)
        elif name == "heads.pre_logits" and isinstance(part, nn.Linear):
            by(part, weight=truncated(math.sqrt(1 / part.in_features)), bias=zeros)
        elif name == "conv_proj" and isinstance(part, nn.Conv2d):
            fan_in = part.in_channels * math.prod(part.kernel_size)
            by(part, weight=truncated(math.sqrt(1 / fan_in)), bias=zeros)
    by(module, class_token=zeros)
    by(module.encoder, pos_embedding=normal(0.02))  # type: ignore[arg-type]


def transformers_vit(module: nn.Module) -> None:
    std = float(getattr(module.config, "initializer_range", 0.02))
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Conv2d):
            by(part, weight=normal(std), bias=zeros)
        by(part, position_embeddings=truncated(std), cls_token=truncated(std))
