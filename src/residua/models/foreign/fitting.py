"""Weights for a network: read from a third party's file and never run, fetched by name, and assigned to tensors by name
and shape."""

from __future__ import annotations

import importlib
import io
import math
import re
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from residua.errors import InputError, first_line
from residua.files import reading, write_atomically
from residua.models.checkpoint import Checkpoint, check_tensor
from residua.models.classifier import Classifier
from residua.models.foreign.building import importable_here, in_short
from residua.models.foreign.pickled import MoreThanWeights, Stored, read
from residua.models.networks import VARIANTS, build
from residua.text import slug

# Prefix, module, and the extra that installs it.
LIBRARIES = {"timm": "timm", "hf": "transformers"}


def starting_weights(word: str | Path, folder: str | Path) -> Path:
    """The file of starting weights that a word of --init means.

    Args:
        word: A file, or `timm:NAME` or `hf:NAME`: weights that the installed library fetches under this name.
        folder: Folder that weights of a library are written to.
    """
    library, _, name = str(word).partition(":")
    if library not in LIBRARIES or not name:
        return Path(word)
    place = Path(folder) / f"{library}-{slug(name)}.safetensors"
    if place.exists():
        return place
    try:
        module = importlib.import_module(LIBRARIES[library])
    except ImportError as error:
        raise InputError(f"--init {word} needs {LIBRARIES[library]}; install residua[{LIBRARIES[library]}]") from error
    try:
        weights = _fetched(library, module, name).state_dict()
    except Exception as error:  # no such name, no network, no room: the library says which
        raise InputError(f"--init {word} cannot be fetched ({first_line(error)}); give a file instead") from error
    tensors = {name: tensor.detach().clone(memory_format=torch.contiguous_format) for name, tensor in weights.items()}
    place.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(place, lambda part: save_file(tensors, part))
    return place


def _fetched(library: str, module: Any, name: str) -> torch.nn.Module:
    if library == "timm":
        return module.create_model(name, pretrained=True)
    # safetensors alone: a pickle of the hub is code.
    return module.AutoModelForImageClassification.from_pretrained(name, use_safetensors=True)


Weights = dict[str, Tensor]

NESTED = ("state_dict", "model_state_dict", "model", "net")


def weights_in(checkpoint: Checkpoint, trust: bool) -> Weights | nn.Module:
    """The weights in a file of either kind, or the module in a pickle whose maker is trusted."""
    with reading(checkpoint.path):
        if checkpoint.kind == "safetensors":
            return checkpoint.tensors()
        return _from_pickle(checkpoint, trust)


def _from_pickle(checkpoint: Checkpoint, trust: bool) -> Weights | nn.Module:
    """The contents of a file by `torch.save`: read by our own parser, or opened by PyTorch if its maker is trusted."""
    path = checkpoint.path
    if not trust:
        try:
            contents, tensor = read(path, checkpoint.raw)
        except MoreThanWeights as error:
            raise _more_than_weights(path, error.name) from error
        found = _state_dict(path, contents, Stored)
        return {name: tensor(name, stored) for name, stored in found.items()}
    try:
        with warnings.catch_warnings(), importable_here():
            warnings.simplefilter("ignore")
            opened = torch.load(io.BytesIO(checkpoint.raw), map_location="cpu", weights_only=False)
    except Exception as error:  # a pickle can raise anything
        raise InputError(
            f"checkpoint {path} is not a readable PyTorch file ({in_short(error)}); save the weights as safetensors"
        ) from error
    return _state_dict(path, opened, Tensor)


def _state_dict(path: Path, found: Any, kind: type) -> Any:
    """The weights in it, which may lie under `state_dict` or `model` beside other things."""
    for _ in range(3):
        if isinstance(found, nn.Module):
            return found
        if not isinstance(found, Mapping):
            break
        if found and all(isinstance(v, kind) and isinstance(k, str) for k, v in found.items()):
            return dict(found)
        found = next((found[k] for k in NESTED if isinstance(found.get(k), Mapping | nn.Module)), None)
    raise InputError(
        f"checkpoint {path} holds no plain tensors by name, also not under {', '.join(NESTED)}; save state_dict() alone"
    )


def _more_than_weights(path: Path, name: str | None) -> InputError:
    what = f"holds more than weights ({name})" if name else "is damaged or holds more than weights"
    return InputError(
        f"checkpoint {path} {what}, and opening that could run any program; save state_dict() alone, "
        "or pass --trust if you trust its maker with everything"
    )


PREFIXES = ("module.", "_orig_mod.", "model.")


def _names(weights: Weights) -> Iterator[Weights]:
    """The weights as they are named, then without what others put before every name."""
    yield weights
    for _ in range(3):
        prefix = next((p for p in PREFIXES if all(name.startswith(p) for name in weights)), None)
        if prefix is None:
            return
        weights = {name.removeprefix(prefix): tensor for name, tensor in weights.items()}
        yield weights


def _counts(name: str) -> bool:
    """BatchNorm's counter, which older files lack and which no output depends on."""
    return name.endswith("num_batches_tracked")


def same_names(weights: Weights, module: nn.Module) -> bool:
    expected = {name for name in module.state_dict() if not _counts(name)}
    return any({name for name in form if not _counts(name)} == expected for form in _names(weights))


def fitted(path: Path, weights: Weights, module: nn.Module) -> Weights:
    """The weights under the module's names; other names, shapes or kinds, and NaN, are refused."""
    expected = module.state_dict()
    for form in _names(weights):
        if form.keys() & expected.keys():
            break
    for name in sorted(expected.keys() | form.keys()):
        if _counts(name) and name not in form:
            continue
        have, want = form.get(name), expected.get(name)
        if have is None or want is None or have.shape != want.shape:
            raise InputError(
                f"checkpoint {path} does not fit its network: {name} is "
                f"{'missing' if have is None else tuple(have.shape)}, expected "
                f"{'no such tensor' if want is None else tuple(want.shape)}; give the network that it belongs to"
            )
        check_tensor(path, name, have, want)
    counters = {name: tensor for name, tensor in expected.items() if _counts(name) and name not in form}
    return dict(form) | {name: torch.zeros((), dtype=tensor.dtype) for name, tensor in counters.items()}


# Stems whose weights have the same shapes, by the width of the first kernel.
STEMS = {3: ("cifar", "cifar-pool"), 7: ("imagenet", "imagenet-no-pool")}


def one_of_ours(path: Path, network: str, weights: Weights, stem: str | None = None) -> Classifier:
    """One of our networks, in the size that the shapes of its weights show.

    They do not show whether a ResNet's stem pools: `stem` chooses, and the model's notes say what was taken.
    """
    for form in _names(weights):
        named = {_our_name(network, name): tensor for name, tensor in form.items()}
        fields = _fields(network, {name: tuple(t.shape) for name, t in named.items()})
        if fields:
            break
    else:
        raise InputError(
            f"checkpoint {path} does not hold the weights of a {network}; give its own network as module:callable"
        )
    notes: tuple[str, ...] = ()
    if network != "vit":
        fields["stem"], notes = _chosen_stem(path, network, int(fields.pop("kernel")), stem)
    with torch.device("meta"):
        model = build(network, **fields)
    model.notes = notes
    own = fitted(path, named, model)
    model.to_empty(device="cpu")
    model.load_state_dict(own)
    return model


def _chosen_stem(path: Path, network: str, kernel: int, stem: str | None) -> tuple[str, tuple[str, ...]]:
    stems = STEMS.get(kernel)
    if stems is None or (stem is not None and stem not in stems):
        raise InputError(
            f"checkpoint {path} has a first kernel of {kernel} x {kernel}, expected 3 or 7"
            + (f" for the stem {stem!r}" if stem else "")
            + f"; choose {' or '.join(stems or STEMS[3])}, or give its own network as module:callable"
        )
    if stem is not None:
        return stem, ()
    taken, other = stems
    what = {"cifar": "stride 1 and no max-pooling", "imagenet": "stride 2 and a max-pooling"}[taken]
    return taken, (
        f"{path}: the weights do not show stride and pooling of the stem; taken as {kernel} x {kernel} with {what}. "
        f"For the other, give --network {network},stem={other}",
    )


def _our_name(network: str, name: str) -> str:
    """torchvision's names for a ResNet's weights, which most implementations follow, become ours."""
    if network == "vit":
        return name
    name = re.sub(r"^conv1\.", "blocks.0.0.", re.sub(r"^bn1\.", "blocks.0.1.", name))
    name = re.sub(r"^(fc|linear)\.", "head.", name)
    found = re.match(r"^layer([1-4])\.(\d+)\.(.*)$", name)
    if not found:
        return name
    stage, unit, rest = int(found[1]), int(found[2]), found[3]
    if network == "resnet50":  # whose third stage is two blocks of three units
        late = stage == 3 and unit >= 3
        stage, unit = stage + (late or stage == 4), unit - 3 * late
    rest = re.sub(r"^bn(\d)\.", r"norm\1.", re.sub(r"^downsample\.", "shortcut.", rest))
    return f"blocks.{stage}.{unit}.{rest}"


def _fields(network: str, shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    """The arguments of our network of this name that has such weights, or nothing."""
    try:
        classes = shapes["head.weight"][0]
        if network == "vit":
            dim, channels, patch, _ = shapes["blocks.0.0.project.weight"]
            variant = {width: name for name, (width, _) in VARIANTS.items()}[dim]
            side = math.isqrt(shapes["blocks.0.0.position"][1] - 1)
            return {"variant": variant, "classes": classes, "channels": channels, "image": side * patch, "patch": patch}
        width, channels, kernel, _ = shapes["blocks.0.0.weight"]
    except (KeyError, ValueError, IndexError):
        return {}
    return {"classes": classes, "channels": channels, "width": width, "kernel": kernel}
