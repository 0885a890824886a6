"""Networks that an installed library (timm, torchvision, transformers) or the caller's own code builds.

`timm:convnext_atto,drop_rate=0.1` names one of a library, on the command line and in a checkpoint. A checkpoint is a third
party's file, so nothing in it may choose code, a place on disk or an address: the name must be in the library's own list,
and arguments are plain numbers and words.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from residua.errors import InputError, first_line
from residua.limits import check
from residua.models.networks import NETWORKS
from residua.text import from_json

LIBRARIES = ("timm", "torchvision", "transformers")
TRANSFORMERS = r"[A-Za-z0-9]+ForImageClassification(WithTeacher)?"
# Arguments that would fetch weights or code, or return something else than a classifier.
FORBIDDEN = re.compile(
    r"_.*|.*(pretrained|checkpoint|weights|cache|kernels|attn_implementation|auto_map|quantization|remote|dtype).*"
    r"|features_only|scriptable|exportable|architectures|name_or_path|model_type"
)
WORD = re.compile(r"[\w. +-]{0,64}")


# Each library's names for the numbers of classes and of channels; torchvision's networks always take three.
NUMBERS = {
    "timm": ("num_classes", "in_chans"),
    "torchvision": ("num_classes", None),
    "transformers": ("num_labels", "num_channels"),
}


def from_words(words: str, classes: int | None = None, channels: int | None = None) -> dict[str, Any] | None:
    """`{"network": "timm:NAME", "arguments": {...}}` of `timm:NAME,KEY=VALUE,...`; None for other words.

    The numbers of classes and channels are among the arguments if they are given here.
    """
    head, *settings = re.split(r",(?![^\[\]]*\])", words)
    library, colon, name = head.partition(":")
    if library not in LIBRARIES or not colon:
        return None
    if not settings and not _lists(library, name):  # a function of the library's, such as timm:create_model
        return None
    numbers = zip(NUMBERS[library], (classes, channels), strict=True)
    arguments: dict[str, Any] = {key: value for key, value in numbers if key and value is not None}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise InputError(
                f"network {words!r} has the setting {setting!r}, expected KEY=VALUE; write {head},drop_rate=0.1"
            )
        try:
            arguments[key.strip()] = from_json(value)
        except ValueError:
            arguments[key.strip()] = value.strip()
    return {"network": head, "arguments": arguments}


def build_listed(network: str, arguments: Mapping[str, Any]) -> nn.Module:
    """The network that the library builds by this name, with random weights."""
    library, _, name = network.partition(":")
    given = _checked(network, arguments)
    if not _lists(library, name):
        raise InputError(f"{library} does not list a network {name!r}; correct the name")
    try:
        if library == "transformers":
            kind = getattr(_library("transformers"), name)
            return kind(kind.config_class(**given))
        if library == "timm":
            return _library("timm").create_model(name, pretrained=False, **given)
        return _library("torchvision.models").get_model(name, weights=None, **given)
    except InputError:
        raise
    except Exception as error:  # the library's own complaint about the arguments
        raise InputError(
            f"{library} cannot build {name} with {given} ({first_line(error)}); correct the arguments"
        ) from error


def shapes_without_memory(network: str, arguments: Mapping[str, Any]) -> dict[str, tuple[int, ...]] | None:
    """Names and shapes of its tensors, found without storage for them; None where the library cannot."""
    try:
        with torch.device("meta"):
            module = build_listed(network, arguments)
    except InputError as error:
        if "meta" not in str(error) or set(arguments) - {"num_classes"}:
            raise
        check(network, "classes", int(arguments.get("num_classes", 0)))
        return None
    return {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}


def described(module: nn.Module, classes: int, channels: int) -> dict[str, Any] | None:
    """Name and arguments by which an installed library would build this module, guessed from class and configuration.

    The caller compares the outputs of the network that they build with the module's.
    """
    library = type(module).__module__.partition(".")[0]
    if library == "transformers":
        return _described_transformers(module)
    if library == "timm":
        settings = getattr(module, "pretrained_cfg", None) or getattr(module, "default_cfg", None) or {}
        name = settings.get("architecture") if isinstance(settings, Mapping) else None
        return {"network": f"timm:{name}", "arguments": _timm(module, classes, channels)} if name else None
    if library == "torchvision":
        arguments = {"num_classes": classes}
        own = {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
        models = _library("torchvision.models")
        for name in models.list_models(module=models):
            if models.get_model_builder(name).__module__ != type(module).__module__:
                continue
            if shapes_without_memory(f"torchvision:{name}", arguments) == own:
                return {"network": f"torchvision:{name}", "arguments": arguments}
    return None


def _timm(module: Any, classes: int, channels: int) -> dict[str, Any]:
    found: dict[str, Any] = {"num_classes": classes, "in_chans": channels}
    image = getattr(getattr(module, "patch_embed", None), "img_size", None)
    if image is not None:
        found["img_size"] = list(image)
    if type(module).__name__ == "VisionTransformer":
        block = module.blocks[0]
        found |= {"patch_size": module.patch_embed.patch_size[0], "embed_dim": module.embed_dim,
                  "depth": len(module.blocks), "num_heads": block.attn.num_heads,
                  "mlp_ratio": block.mlp.fc1.out_features / module.embed_dim,
                  "global_pool": module.global_pool}  # fmt: skip
    rate = getattr(module, "drop_rate", 0.0)
    return found | ({"drop_rate": float(rate)} if isinstance(rate, int | float) and rate else {})


def _described_transformers(module: Any) -> dict[str, Any] | None:
    name = type(module).__name__
    if not re.fullmatch(TRANSFORMERS, name):
        return None
    arguments = {
        key: value
        for key, value in module.config.to_diff_dict().items()
        if not FORBIDDEN.fullmatch(key) and key not in ("id2label", "label2id") and _plain(value)
    }
    return {"network": f"transformers:{name}", "arguments": arguments | {"num_labels": int(module.config.num_labels)}}


def _lists(library: str, name: str) -> bool:
    """True if the library itself has a network of this name."""
    if library == "timm":
        return bool(re.fullmatch(r"\w+", name)) and bool(_library("timm").is_model(name))
    if library == "torchvision":
        models = _library("torchvision.models")
        return name in models.list_models(module=models)
    if not re.fullmatch(TRANSFORMERS, name):
        return False
    try:
        return hasattr(_library("transformers"), name)
    except ImportError as error:  # it imports its networks when they are asked for
        raise _not_here("transformers", error.__cause__ or error) from error


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except Exception as error:  # a library built for another PyTorch fails in its own ways
        raise _not_here(name.partition(".")[0], error) from error


def _not_here(library: str, error: BaseException) -> InputError:
    return InputError(
        f"this network is {library}'s, which cannot be imported here ({first_line(error)}); install residua[{library}], "
        "and a torchvision that belongs to the installed PyTorch"
    )


def _checked(network: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    for key, value in arguments.items():
        if FORBIDDEN.fullmatch(key) or not re.fullmatch(r"\w{1,64}", key) or not _plain(value):
            raise InputError(
                f"network {network} has the argument {key}={str(value)[:40]!r}, expected plain numbers and words that "
                "name no file, address or weights; leave it out"
            )
    return dict(arguments)


def _plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return len(value) <= 100 and all(_plain(one) for one in value)
    if isinstance(value, str):
        return bool(WORD.fullmatch(value))
    return value is None or isinstance(value, bool | int | float)


Network = str | Callable[..., nn.Module]


def built(network: Network, classes: int | None, channels: int | None) -> nn.Module:
    """The network that the caller's own function builds, given classes and channels if it has such parameters."""
    if callable(network):
        make: Any = network
    else:
        place, colon, name = network.partition(":")
        if not (place and colon and name):
            raise InputError(
                f"network {network!r} is unknown; choose one of {', '.join(NETWORKS)} or write module:callable"
            )
        try:
            make = importlib.import_module(place)
            for part in name.split("."):
                make = getattr(make, part)
        except (Exception, SystemExit) as error:  # importing runs the user's own code
            raise InputError(
                f"network {network} cannot be imported ({in_short(error)}); write module:callable, as seen from here"
            ) from error
    name = str(getattr(make, "__qualname__", network))
    try:
        module = make(**_arguments(make, classes, channels))
    except (Exception, SystemExit) as error:
        raise InputError(
            f"network {name} cannot be built ({in_short(error)}); name a callable that needs no more than classes and channels"
        ) from error
    if not isinstance(module, nn.Module):
        raise InputError(f"network {name} returns a {type(module).__name__}, expected an nn.Module")
    return module


def _arguments(make: Any, classes: int | None, channels: int | None) -> dict[str, int]:
    try:
        parameters = inspect.signature(make).parameters
    except (TypeError, ValueError):
        return {}
    available = {
        "classes": classes,
        "num_classes": classes,
        "num_labels": classes,
        "channels": channels,
        "in_channels": channels,
        "in_chans": channels,
    }
    arguments = {name: value for name, value in available.items() if value is not None and name in parameters}
    anything = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    # torchvision's and timm's functions hand on what they are given.
    if anything and classes is not None and not arguments.keys() & {"classes", "num_classes", "num_labels"}:
        arguments["num_classes"] = classes
    return arguments


@contextlib.contextmanager
def importable_here() -> Iterator[None]:
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(here)


def in_short(error: BaseException) -> str:
    kind = type(error).__name__
    return f"{kind}: {first_line(error)}" if str(error) else kind
