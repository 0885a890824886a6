"""load and make: a classifier from a checkpoint, ours or anybody's, or from the words that name its network.

A third party's file is read, never run: safetensors, or the weights that `torch.save` wrote. No memory is filled on
the file's word before its names and shapes are those of the network.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import torch
from torch import Tensor, nn

from residua.errors import InputError
from residua.models.checkpoint import Checkpoint, check_tensor
from residua.models.classifier import Classifier, remember_start
from residua.models.foreign.adopting import adopt, adopt_as, random_inputs, rebuilt
from residua.models.foreign.building import LIBRARIES, Network, build_listed, built, from_words, importable_here
from residua.models.foreign.fitting import Weights, _names, _our_name, fitted, one_of_ours, same_names, weights_in
from residua.models.networks import LAYERS, NETWORKS

__all__ = ["load", "open_model", "with_stem"]


def load(
    path: str | Path | Checkpoint,
    network: Network | None = None,
    *,
    cuts: Sequence[str] | None = None,
    trust: bool = False,
    classes: int | None = None,
    channels: int | None = None,
    image: tuple[int, int] | None = None,
    expect: Mapping[str, Any] | None = None,
    device: str = "cpu",
) -> Classifier:
    """The classifier in this file, in eval mode.

    Args:
        path: A .safetensors, .pt or .pth file, or a `Checkpoint` that was read already.
        network: Needed if the file does not name its architecture: a name of `residua.models.NETWORKS`,
            `"package.module:callable"` (the current directory is importable), or the callable itself. The network that
            it builds goes through `adopt`.
        cuts: Submodules whose outputs end the blocks, for a network that is not recognised.
        trust: Opens full pickles. A pickle can run any program in your name when it is opened: use it only for files
            whose maker you trust with everything on this machine.
        classes: The number of classes of the data; a checkpoint of another number is refused.
        channels: The number of channels of the data, likewise.
        image: Height and width of the data's images, likewise.
        expect: Other fields of the architecture ("network", "width", ...), likewise.
        device: The device that the classifier is put on.
    """
    checkpoint = Checkpoint.of(path)
    path, named = checkpoint.path, checkpoint.network
    network, stem = with_stem(network)
    required = {k: v for k, v in (("classes", classes), ("channels", channels)) if v is not None} | dict(expect or {})
    if cuts is not None and (network or named) in NETWORKS:
        raise InputError(f"the blocks of {network or named} are known; leave out the cuts {', '.join(cuts)}")
    if network in NETWORKS and named in NETWORKS and network != named:
        raise InputError(
            f"checkpoint {path} belongs to the network {named}, not to {network}; leave out --network or give the other "
            "checkpoint"
        )
    # A network of an installed library, which is no code of the caller's.
    listed = network is None and cuts is None and str(named).partition(":")[0] in LIBRARIES and "." not in str(named)
    # A network of the caller's is for the third-party files among several; ours need none.
    if checkpoint.kind == "safetensors" and not listed and (network is None or named in NETWORKS):
        model = checkpoint.classifier(expect=required, device=device)
    else:
        model = _third_party(checkpoint, network, stem, cuts, trust, listed, required, image).to(device)
    side = model.architecture.get("image")
    if image is not None and side is not None and image != (side, side):
        raise InputError(
            f"checkpoint {path} takes images of {side} x {side} pixels, but those of the data have "
            f"{image[0]} x {image[1]}; give the checkpoint that belongs to this data"
        )
    return model.eval()


open_model = load


@overload
def with_stem(network: str) -> tuple[str, str | None]: ...
@overload
def with_stem(network: Network | None) -> tuple[Network | None, str | None]: ...
def with_stem(network: Network | None) -> tuple[Network | None, str | None]:
    """`resnet18,stem=cifar-pool` as the network and its stem; other words as they are."""
    if not isinstance(network, str) or "," not in network or network.partition(",")[0] not in NETWORKS:
        return network, None
    name, _, setting = network.partition(",")
    key, _, value = setting.partition("=")
    if key.strip() != "stem" or not value or name == "vit":
        raise InputError(f"network {network!r} is not understood; write {name}, or {name},stem=cifar-pool")
    return name, value.strip()


def _third_party(
    checkpoint: Checkpoint,
    network: Network | None,
    stem: str | None,
    cuts: Sequence[str] | None,
    trust: bool,
    listed: bool,
    required: Mapping[str, Any],
    image: tuple[int, int] | None,
) -> Classifier:
    """The network of a file that is not one of ours; `listed` ones the file names itself."""
    contents = weights_in(checkpoint, trust)
    # Anybody may have put files into this folder: they are imported only if the caller asks for code in them.
    own_code = trust or (isinstance(network, str) and ":" in network)
    with (
        importable_here() if own_code else contextlib.nullcontext(),
        torch.random.fork_rng(devices=range(torch.cuda.device_count())),
    ):
        if listed and isinstance(contents, dict):
            model = rebuilt(checkpoint, contents)
        else:
            classes, channels = required.get("classes"), required.get("channels")
            model = _assembled(checkpoint.path, contents, network, stem, cuts, classes, channels, image)
    for field, expected in required.items():
        if model.architecture.get(field) != expected:
            raise InputError(
                f"checkpoint {checkpoint.path} has {field} {model.architecture.get(field)}, expected {expected}; "
                "give the checkpoint and network that belong to this data"
            )
    model.preprocessing = checkpoint.preprocessing
    return model


def _assembled(
    path: Path,
    contents: Weights | nn.Module,
    network: Network | None,
    stem: str | None,
    cuts: Sequence[str] | None,
    classes: int | None,
    channels: int | None,
    image: tuple[int, int] | None,
) -> Classifier:
    example = None if channels is None or image is None else random_inputs(channels, *image)
    if network is None:
        if not isinstance(contents, nn.Module):
            raise InputError(
                f"checkpoint {path} does not say which network it belongs to; name it with --network "
                "(in Python, network=)"
            )
        return adopt(contents, cuts, example)
    weights = contents.state_dict() if isinstance(contents, nn.Module) else contents
    if isinstance(network, str) and network in NETWORKS:
        return one_of_ours(path, network, weights, stem)
    words = from_words(network, classes, channels) if isinstance(network, str) else None
    module = build_listed(**words) if words else built(network, classes, channels)
    if isinstance(module, Classifier) or same_names(weights, module):
        module.load_state_dict(fitted(path, weights, module))
        model = adopt_as(module, cuts, example, words)
    else:
        model = adopt_as(module, cuts, example, words)
        # A checkpoint of the adopted network has the adopted names, not those of the caller's module.
        model.load_state_dict(fitted(path, weights, model if same_names(weights, model) else module))
    if "classes" not in model.architecture and example is not None:
        model.architecture |= {"classes": int(model(example).shape[1]), "channels": example.shape[1]}
    return _named(model, network) if isinstance(network, str) else model


def _named(model: Classifier, network: str) -> Classifier:
    """The model, whose architecture names the caller's network if it names no other."""
    if "network" not in model.architecture:
        known = {key: value for key, value in model.architecture.items() if key != "adopted"}
        model.architecture = {"network": network} | known
    return model


# A part of a name of the usual implementations, and of ours; `{}` is the number of a layer.
VIT_NAMES = (
    (r"(patch_embed\.proj|conv_proj|(vit\.)?embeddings\.patch_embeddings\.projection)\.", "blocks.0.0.project."),
    (r"(cls_token|class_token|(vit\.)?embeddings\.cls_token)$", "blocks.0.0.token"),
    (r"(pos_embed|encoder\.pos_embedding|(vit\.)?embeddings\.position_embeddings)$", "blocks.0.0.position"),
    (r"(norm|encoder\.ln|(vit\.)?layernorm)\.", f"blocks.{LAYERS - 1}.1."),
    (r"(heads\.head|classifier)\.", "head."),
)
LAYER = re.compile(r"(?:blocks\.|encoder\.layers\.encoder_layer_|(?:vit\.)?(?:encoder\.layer|layers)\.)(\d+)\.(.*)")
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
    start: str | Path | Checkpoint | None = None,
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
            notes = _begin(start, trust, module)
        model = _named(adopt_as(module, cuts, random_inputs(channels, *image), words), network)
    model.notes = (*model.notes, *notes)
    return model


def begin(model: Classifier, start: str | Path | Checkpoint, trust: bool = False) -> Classifier:
    """`model`, one of our networks, with the weights of this file.

    They may bear our names, or those of timm, torchvision or Hugging Face. A head for another number of classes
    stays as it was drawn, and the model's notes say so. `trust` opens a full pickle, as in `load`.
    """
    model.notes = (*model.notes, *_begin(start, trust, model, _renaming(model)))
    return model


def started(model: Classifier, start: str | Path | Checkpoint, trust: bool = False) -> Classifier:
    """`model`, which remembers that its training began with the weights of this file."""
    taken, _ = _fitting(start, trust, model, _renaming(model))
    return remember_start(model, taken)


def _renaming(model: Classifier) -> Renaming:
    if own := getattr(model, "own_names", {}):  # of an adopted network
        return lambda weights: {ours: weights[theirs] for ours, theirs in own.items() if theirs in weights}
    network = str(model.architecture.get("network", ""))
    return _vit_weights if network == "vit" else _resnet(network)


def _begin(start: str | Path | Checkpoint, trust: bool, module: nn.Module, *renamings: Renaming) -> tuple[str, ...]:
    """Put the weights of a file into the module, which remembers them; notes about tensors that stay as they were drawn."""
    taken, notes = _fitting(start, trust, module, *renamings)
    module.load_state_dict(module.state_dict() | taken)
    remember_start(module, taken)
    return notes


def _fitting(
    start: str | Path | Checkpoint, trust: bool, module: nn.Module, *renamings: Renaming
) -> tuple[Weights, tuple[str, ...]]:
    """The weights of a file that fit the module, under its names, and notes about tensors that the file has not."""
    checkpoint = Checkpoint.of(start)
    path, contents = checkpoint.path, weights_in(checkpoint, trust)
    weights = contents.state_dict() if isinstance(contents, nn.Module) else contents
    expected = module.state_dict()
    forms = [form for plain in _names(weights) for form in (plain, *(rename(plain) for rename in renamings))]
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
    drawn = [name for name in expected if name.startswith(head) and name not in taken]
    note = f"{path}: {', '.join(drawn)} have new random weights, because the file has other ones or none"
    return taken, ((note,) if drawn else ())


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
