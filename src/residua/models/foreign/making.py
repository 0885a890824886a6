"""A network by its words, with random weights or with those of a file as a start."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from residua.errors import InputError
from residua.files import open_regular, reading, regular_file
from residua.models.checkpoint import check_tensor
from residua.models.classifier import Classifier
from residua.models.foreign.adopting import adopt_as
from residua.models.foreign.fitting import _names, _our_name
from residua.models.foreign.libraries import build_listed, from_words
from residua.models.foreign.own_code import built, importable_here
from residua.models.foreign.weight_files import Weights, from_pickle, from_safetensors, is_safetensors
from residua.models.transformer import LAYERS

# A part of a name of the usual implementations, and of ours; `{}` is the number of a layer.
VIT_NAMES = (
    (
        r"(patch_embed\.proj|conv_proj|(vit\.)?embeddings\.patch_embeddings\.projection)\.",
        "blocks.0.0.project.",
    ),
    (r"(cls_token|class_token|(vit\.)?embeddings\.cls_token)$", "blocks.0.0.token"),
    (r"(pos_embed|encoder\.pos_embedding|(vit\.)?embeddings\.position_embeddings)$", "blocks.0.0.position"),
    (r"(norm|encoder\.ln|(vit\.)?layernorm)\.", f"blocks.{LAYERS - 1}.1."),
    (r"(heads\.head|classifier)\.", "head."),
)
LAYER = re.compile(
    r"(?:blocks\.|encoder\.layers\.encoder_layer_|(?:vit\.)?(?:encoder\.layer|layers)\.)(\d+)\.(.*)"
)
LAYER_NAMES = (
    (r"(ln_1|layernorm_before)\.", "norm1."),
    (r"(ln_2|layernorm_after)\.", "norm2."),
    (r"(attn\.qkv\.|self_attention\.in_proj_)", "attention.qkv."),
    (r"(attn\.proj|self_attention\.out_proj|attention\.output\.dense|attention\.o_proj)\.", "attention.out."),
    (r"(mlp\.fc1|mlp\.linear_1|intermediate\.dense)\.", "mlp.0."),
    (r"(mlp\.fc2|mlp\.linear_2|mlp\.3|output\.dense)\.", "mlp.2."),
)
QKV = re.compile(r"attention\.(?:attention\.)?(query|key|value|q_proj|k_proj|v_proj)\.(weight|bias)")


Renaming = Callable[[Weights], Weights]


def make(
    network: str,
    *,
    classes: int,
    channels: int,
    image: tuple[int, int],
    cuts: Sequence[str] | None = None,
    start: Path | None = None,
    trust: bool = False,
) -> Classifier:
    """A network of an installed library or of the caller's own code, adopted; from the weights of `start` if given.

    `trust` opens a full pickle as `start`, as in `load`.
    """
    words = from_words(network, classes, channels)
    with importable_here():
        module = build_listed(**words) if words else built(network, classes, channels)
        notes: tuple[str, ...] = ()
        if start is not None:
            notes = _begin(start, module, _read(start, trust), [])
        example = torch.randn(4, channels, *image, generator=torch.Generator().manual_seed(0))
        model = adopt_as(module, cuts, example, words)
    if "network" not in model.architecture:
        model.architecture = {"network": network} | {
            k: v for k, v in model.architecture.items() if k != "adopted"
        }
    model.notes = (*model.notes, *notes)
    return model


def begin(model: Classifier, path: Path, trust: bool = False) -> Classifier:
    """`model`, one of our networks, with the weights of this file.

    They may bear our names, or those of timm, torchvision or Hugging Face. A head for another number of classes
    stays as it was drawn, and the model's notes say so. `trust` opens a full pickle, as in `load`.
    """
    weights = _read(path, trust)
    network = str(model.architecture.get("network", ""))
    renaming = _vit_weights if network == "vit" else _resnet(network)
    model.notes = (*model.notes, *_begin(path, model, weights, [renaming]))
    return model


def file_digest(path: Path) -> str:
    """SHA-256 of a file, for the record of what was started from it."""
    sha = hashlib.sha256()
    with open_regular(path, "a checkpoint") as file:
        while chunk := file.read(1 << 20):
            sha.update(chunk)
    return sha.hexdigest()


def _read(path: Path, trust: bool) -> Weights:
    path = regular_file(path, "a .safetensors, .pt or .pth file")
    with reading(path):
        contents = from_safetensors(path) if is_safetensors(path) else from_pickle(path, trust)
    return contents.state_dict() if isinstance(contents, nn.Module) else contents


def _begin(path: Path, module: nn.Module, weights: Weights, renamings: Sequence[Renaming]) -> tuple[str, ...]:
    """Put the weights into the module; what of it stays as it was drawn, in words."""
    expected = module.state_dict()
    forms = [
        form for plain in _names(weights) for form in (plain, *(renaming(plain) for renaming in renamings))
    ]
    form = max(forms, key=lambda one: len(one.keys() & expected.keys()))
    head = _head(module, expected)
    taken: Weights = {}
    for name, want in expected.items():
        have = form.get(name)
        if have is not None and have.shape == want.shape:
            check_tensor(path, name, have, want)
            taken[name] = have
        elif name.startswith(head):
            continue  # other classes: the head stays as it was drawn
        elif not name.endswith(("num_batches_tracked", "relative_position_index", "mask_token")):
            raise InputError(
                f"--init {path} does not fit the network: {name} is "
                f"{'missing' if have is None else tuple(have.shape)}, expected {tuple(want.shape)}; give weights of this "
                "architecture, and the image size that they were made for"
            )
    module.load_state_dict(expected | taken)
    drawn = [name for name in expected if name.startswith(head) and name not in taken]
    return (
        (f"{path}: {', '.join(drawn)} have new random weights, because the file has other ones or none",)
        if drawn
        else ()
    )


def _head(module: nn.Module, expected: Weights) -> tuple[str, ...]:
    """The names of the last layer with a matrix, which is the classifier in every network that is supported."""
    if isinstance(module, Classifier):
        return ("head.",)
    last = [name for name, tensor in expected.items() if name.endswith("weight") and tensor.ndim >= 2][-1]
    twin = ("head.", "head_dist.", "cls_classifier.", "distillation_classifier.")
    return (last.removesuffix("weight"), *twin)


def _resnet(network: str) -> Renaming:
    return lambda weights: {_our_name(network, name): tensor for name, tensor in weights.items()}


def _vit_weights(weights: Weights) -> Weights:
    """A ViT's weights under our names; query, key and value become one matrix."""
    named: Weights = {}
    parts: dict[str, dict[str, Tensor]] = {}
    for name, tensor in weights.items():
        found = LAYER.fullmatch(name)
        if found:
            number, rest = int(found[1]), found[2]
            place = {0: "0.1", LAYERS - 1: f"{LAYERS - 1}.0"}.get(number, str(number))
            if one := QKV.fullmatch(rest):
                parts.setdefault(f"blocks.{place}.attention.qkv.{one[2]}", {})[one[1][0]] = tensor
                continue
            named[f"blocks.{place}.{_renamed(rest, LAYER_NAMES)}"] = tensor
        else:
            named[_renamed(name, VIT_NAMES)] = tensor
    joined = {name: torch.cat([qkv[k] for k in "qkv"]) for name, qkv in parts.items() if len(qkv) == 3}
    return named | joined


def _renamed(name: str, table: Sequence[tuple[str, str]]) -> str:
    for theirs, ours in table:
        if re.match(theirs, name):
            return re.sub(f"^{theirs}", ours, name)
    return name
