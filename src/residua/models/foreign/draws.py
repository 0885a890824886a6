"""Initialisation of third parties' weights, for drawing them again.

Other libraries often draw weights where the network is put together, not in the layer that owns them,
and a class token has no layer at all. Tensors that the owner's `reset_parameters` would miss or draw
otherwise are listed here, as `residua_draws` of the owner; `reinitialise` follows it. Tensors that neither this file
nor their owner knows are refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor, nn

Draw = Callable[[Tensor], object]

zeros: Draw = nn.init.zeros_
he: Draw = partial(nn.init.kaiming_normal_, mode="fan_out", nonlinearity="relu")
he_fan_out: Draw = partial(nn.init.kaiming_normal_, mode="fan_out")
he_fan_in: Draw = nn.init.kaiming_normal_
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
    "layer_scale_parameter": partial(nn.init.constant_, val=1e-6),
    "gamma": partial(nn.init.constant_, val=1e-6),
    "gamma_1": partial(nn.init.constant_, val=0.1),
    "gamma_2": partial(nn.init.constant_, val=0.1),
    "lambda_1": partial(nn.init.constant_, val=0.1),
    "lambda_2": partial(nn.init.constant_, val=0.1),
    "distillation_token": zeros,
    "relative_position_bias_table": truncated(0.02),
    "logit_scale": partial(nn.init.constant_, val=math.log(10)),
    "q_bias": zeros,
    "k_bias": zeros,
    "v_bias": zeros,
}
# The mean and deviation by which some networks normalise their own input.
CONSTANTS = ("mean", "std")
# Tables that some layers compute when they are built and save nevertheless.
TABLES = ("relative_coords_table", "relative_position_index")


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
            biases = {"in_proj_bias": zeros, "bias_k": nn.init.xavier_normal_, "bias_v": nn.init.xavier_normal_}
            by(part, **dict.fromkeys(weights, xavier), **biases)
            by(part.out_proj, bias=zeros)
        elif not callable(getattr(part, "reset_parameters", None)):
            by(part, **{name: draw for name, draw in BY_NAME.items() if name in part._parameters})
            if type(part).__name__.endswith(("GRN", "GlobalResponseNorm")):
                by(part, weight=zeros, bias=zeros)
            by(
                part,
                **{name: kept for name, buffer in part.named_buffers(recurse=False) if constant(name, buffer, part)},
            )


def constant(name: str, buffer: Tensor, owner: nn.Module) -> bool:
    """Tables of indices, what is not even saved, and the mean and deviation of an image's channels."""
    whole = not (buffer.is_floating_point() or buffer.is_complex())
    of_images = name in CONSTANTS and buffer.numel() in (1, 3)
    return whole or of_images or name in (*TABLES, *owner._non_persistent_buffers_set)


def resnet(module: nn.Module) -> None:
    """Convolutions N(0, 2 / fan_out). timm also silences the last norm of each residual branch."""
    for part in module.modules():
        if isinstance(part, nn.Conv2d):
            by(part, weight=he)
        if callable(getattr(part, "zero_init_last", None)):
            by(part.bn3 if hasattr(part, "bn3") else part.bn2, weight=zeros)  # type: ignore[arg-type]


def layers(module: nn.Module, kernel: Draw | None, *, linear: Draw | None) -> None:
    """Kernels and matrices as given, biases 0; what is None is left to the layer's own reset_parameters."""
    for part in module.modules():
        if isinstance(part, nn.Conv2d) and kernel is not None:
            by(part, weight=partial(kernel, groups=part.groups) if kernel is he_by_group else kernel, bias=zeros)
        elif isinstance(part, nn.Linear):
            by(part, bias=zeros)
            by(part, **({} if linear is None else {"weight": linear}))


def he_by_group(weight: Tensor, groups: int = 1) -> None:
    """N(0, 2 / fan_out), where a grouped convolution's fan_out counts the outputs of one group."""
    outputs, _, *places = weight.shape
    nn.init.normal_(weight, std=math.sqrt(2.0 * groups / (outputs * math.prod(places))))


def by_outputs(weight: Tensor) -> None:
    """Uniform in +- 1 / sqrt(outputs), as EfficientNets draw their classifier."""
    nn.init.uniform_(weight, -(len(weight) ** -0.5), len(weight) ** -0.5)


def scaled(draw: Draw, factor: float) -> Draw:
    """Drawn, then multiplied."""

    def drawn(weight: Tensor) -> None:
        draw(weight)
        weight.data.mul_(factor)

    return drawn


def timm_swin(module: nn.Module) -> None:
    """Matrices N(0, 0.02), cut at two units; Swin-V2 silences both norms of every layer."""
    layers(module, None, linear=truncated(0.02))
    for part in module.modules():
        if type(part).__name__ == "SwinTransformerV2Block":
            by(part.norm1, weight=zeros, bias=zeros)  # type: ignore[arg-type]
            by(part.norm2, weight=zeros, bias=zeros)  # type: ignore[arg-type]


def timm_beit(module: nn.Module) -> None:
    """Like a ViT, with the last matrix of every branch divided by sqrt(2 l) in layer l."""
    layers(module, None, linear=truncated(0.02))
    blocks: Any = module.blocks
    for number, block in enumerate(blocks, start=1):
        for last in (block.attn.proj, block.mlp.fc2):
            by(last, weight=scaled(truncated(0.02), (2.0 * number) ** -0.5))


def transformers(module: nn.Module, *, norms: bool = False) -> None:
    """Hugging Face draws kernels and matrices N(0, initializer_range), and tokens and position tables as 0.

    With `norms` the weights of BatchNorm are drawn like that too, which is what its EfficientNet does.
    """
    config = module.config
    std = float(getattr(config, "initializer_range", None) or 0.02)
    scale = float(getattr(config, "layer_scale_init_value", None) or 1e-6)
    constant = partial(nn.init.constant_, val=scale)
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Conv2d):
            by(part, weight=normal(std), bias=zeros)
        elif isinstance(part, nn.BatchNorm2d) and norms:
            by(part, weight=normal(std))
        elif not callable(getattr(part, "reset_parameters", None)):
            tables = ("cls_token", "position_embeddings", "relative_position_bias_table", "distillation_token")
            by(part, **dict.fromkeys(tables, zeros))
            by(part, **dict.fromkeys(("layer_scale_parameter", "lambda_1", "lambda_2"), constant))


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
