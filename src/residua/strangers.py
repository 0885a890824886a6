"""open_model: a classifier from anybody's checkpoint.

A stranger's file is read, never run: safetensors, or what `torch.load(weights_only=True)` accepts.
Nothing is allocated on the file's word before its names and shapes are those of the network.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import json
import mmap
import pickle
import re
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from residua.adopt import adopt
from residua.checkpoint import KEY, load
from residua.classifier import Classifier
from residua.errors import InputError
from residua.networks import NETWORKS, build

Network = str | Callable[..., nn.Module]
Weights = dict[str, Tensor]

NESTED = ("state_dict", "model_state_dict", "model", "net")
PREFIXES = ("module.", "_orig_mod.", "model.")


def open_model(
    path: str | Path,
    network: Network | None = None,
    *,
    cuts: Sequence[str] | None = None,
    trust: bool = False,
    classes: int | None = None,
    channels: int | None = None,
    image: tuple[int, int] | None = None,
    device: str = "cpu",
) -> Classifier:
    """The classifier in this file, in eval mode.

    `network` is needed where the file does not say what it belongs to: a name of
    `residua.networks`, `"package.module:callable"` (the current directory is importable), or the
    callable itself. What it builds goes through `adopt`, with `cuts` where it is not recognised.
    `classes`, `channels` and `image` (height, width) are those of the data; another network is refused.

    `trust=True` opens full pickles. A pickle can run any program in your name when it is opened: use
    it for files whose maker you trust with everything on this machine.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(
            f"checkpoint {path} does not exist; give the path of a .safetensors, .pt or .pth file"
        )
    expect = {k: v for k, v in (("classes", classes), ("channels", channels)) if v is not None}
    found: Weights | nn.Module
    if _is_safetensors(path):
        if _says_its_network(path, network):
            return _of_size(path, load(path, expect=expect, device=device), image)
        found = _safetensors(path)
    else:
        found = _pickled(path, trust)
    with _importable_here(), torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        model = _assembled(path, found, network, cuts, classes, channels, image)
    for field, wanted in expect.items():
        if model.architecture.get(field) != wanted:
            raise InputError(
                f"checkpoint {path} has {field} {model.architecture.get(field)}, expected {wanted}; "
                "give the checkpoint and network that belong to this data"
            )
    return _of_size(path, model.to(device), image).eval()


def _assembled(
    path: Path,
    found: Weights | nn.Module,
    network: Network | None,
    cuts: Sequence[str] | None,
    classes: int | None,
    channels: int | None,
    image: tuple[int, int] | None,
) -> Classifier:
    if network is None:
        if not isinstance(found, nn.Module):
            raise InputError(
                f"checkpoint {path} does not say which network it belongs to; name it with --network "
                "(in Python, network=)"
            )
        return adopt(found, cuts, _example(channels, image))
    weights = found.state_dict() if isinstance(found, nn.Module) else found
    if isinstance(network, str) and network in NETWORKS:
        if cuts is not None:
            raise InputError(f"the blocks of {network} are known; leave out the cuts {', '.join(cuts)}")
        return _ours(path, network, weights)
    module = _made(network, classes, channels)
    example = _example(channels, image)
    if isinstance(module, Classifier) or _same_names(weights, module):
        module.load_state_dict(_fitting(path, weights, module))
        model = adopt(module, cuts, example)
    else:
        model = adopt(module, cuts, example)
        # A checkpoint of the adopted network has its names, not the stranger's.
        model.load_state_dict(_fitting(path, weights, model if _same_names(weights, model) else module))
    if "classes" not in model.architecture and example is not None:
        model.architecture |= {"classes": int(model(example).shape[1]), "channels": example.shape[1]}
    if isinstance(network, str):
        model.architecture = {"network": network} | {
            k: v for k, v in model.architecture.items() if k != "adopted"
        }
    return model


# --- files ----------------------------------------------------------------------------------------


def _is_safetensors(path: Path) -> bool:
    if path.suffix == ".safetensors":
        return True
    with path.open("rb") as file:
        head = file.read(9)
    return path.suffix not in (".pt", ".pth") and head[8:] == b"{"


def _says_its_network(path: Path, network: Network | None) -> bool:
    """Whether the file bears the name of one of our networks, or nobody gave it another."""
    with _readable(path), safe_open(path, framework="pt") as file:
        try:
            bears = json.loads((file.metadata() or {}).get(KEY, "{}")).get("network")
        except (json.JSONDecodeError, AttributeError):
            bears = None
    ours = isinstance(bears, str) and bears in NETWORKS
    if ours and isinstance(network, str) and network in NETWORKS and bears != network:
        raise InputError(
            f"checkpoint {path} belongs to the network {bears}, not to {network}; leave out --network or give "
            "the other checkpoint"
        )
    return ours or network is None


def _safetensors(path: Path) -> Weights:
    with _readable(path), safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except SafetensorError as error:
        raise InputError(
            f"checkpoint {path} is not a readable safetensors file ({error}); save the weights as safetensors"
        ) from error


def _pickled(path: Path, trust: bool) -> Weights | nn.Module:
    """What `torch.save` wrote, opened as weights alone unless its maker is trusted."""
    zipped = zipfile.is_zipfile(path)
    if not trust:
        _check_size(path, zipped)
    try:
        with warnings.catch_warnings(), _importable_here():
            warnings.simplefilter("ignore")
            # Mapped, not read: a storage cannot be larger than what lies in the file.
            found = torch.load(path, map_location="cpu", weights_only=not trust, mmap=zipped and not trust)
    except Exception as error:  # a damaged pickle can raise anything
        if trust or not isinstance(error, pickle.UnpicklingError):
            raise InputError(
                f"checkpoint {path} is not a readable PyTorch file ({_short(error)}); save the weights as safetensors"
            ) from error
        wanted = re.search(r"GLOBAL ([\w.]+)|Unsupported class ([\w.]+)", str(error))
        what = (
            f"holds more than weights ({wanted[1] or wanted[2]})"
            if wanted
            else "is damaged or holds more than weights"
        )
        raise InputError(
            f"checkpoint {path} {what}, and opening that could run any program; save state_dict() alone, "
            "or pass --trust if you trust its maker with everything"
        ) from error
    return _state_dict(path, found)


def _check_size(path: Path, zipped: bool) -> None:
    """Refuse what is small on disk and large in memory, before it is opened."""
    if not zipped:
        with path.open("rb") as file:
            if not path.stat().st_size:
                raise InputError(f"checkpoint {path} is empty; give the file that holds the weights")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as raw:
                _check_pickle(path, raw)
        return
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            packed = [m for m in members if m.compress_type != zipfile.ZIP_STORED]
            if packed or sum(m.file_size for m in members) > path.stat().st_size:
                raise InputError(
                    f"checkpoint {path} would unpack into {sum(m.file_size for m in members)} bytes, more than it has on "
                    "disk, which torch.save never writes; save it again with torch.save"
                )
            for member in members:
                if member.filename.endswith(".pkl"):
                    _check_pickle(path, archive.read(member))
    except (zipfile.BadZipFile, NotImplementedError, OSError, EOFError, ValueError) as error:
        raise InputError(
            f"checkpoint {path} is a damaged archive ({error}); save the weights as safetensors"
        ) from error


def _check_pickle(path: Path, raw: bytes | mmap.mmap) -> None:
    # The one thing that weights_only allows and that fills memory from a number in the file.
    if raw.find(b"bytearray") >= 0:
        raise InputError(f"checkpoint {path} holds a bytearray, expected weights; save state_dict() alone")


def _state_dict(path: Path, found: Any) -> Weights | nn.Module:
    """The weights in it, which may lie under `state_dict` or `model` beside other things."""
    for _ in range(3):
        if isinstance(found, nn.Module):
            return found
        if not isinstance(found, Mapping):
            break
        if found and all(isinstance(v, Tensor) and isinstance(k, str) for k, v in found.items()):
            return dict(found)
        found = next((found[k] for k in NESTED if isinstance(found.get(k), Mapping | nn.Module)), None)
    raise InputError(
        f"checkpoint {path} holds no weights by name, also not under {', '.join(NESTED)}; save state_dict() alone"
    )


# --- weights and the network they belong to -------------------------------------------------------


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


def _same_names(weights: Weights, module: nn.Module) -> bool:
    expected = {name for name in module.state_dict() if not _counts(name)}
    return any({name for name in form if not _counts(name)} == expected for form in _names(weights))


def _fitting(path: Path, weights: Weights, module: nn.Module) -> Weights:
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
        plain = have.layout is torch.strided and have.device.type == "cpu" and not have.is_quantized
        if not plain or have.is_complex() or have.is_floating_point() != want.is_floating_point():
            raise InputError(
                f"checkpoint {path} holds {name} as {have.dtype} {have.layout}, expected {want.dtype}; "
                "save plain floating-point weights"
            )
    for name, tensor in form.items():
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise InputError(
                f"checkpoint {path} holds NaN or infinite weights in {name}; train the model again"
            )
    counters = {name: tensor for name, tensor in expected.items() if _counts(name) and name not in form}
    return dict(form) | {name: torch.zeros((), dtype=tensor.dtype) for name, tensor in counters.items()}


def _ours(path: Path, network: str, weights: Weights) -> Classifier:
    """One of our networks, in the size that the shapes of its weights tell."""
    for form in _names(weights):
        named = {_our_name(network, name): tensor for name, tensor in form.items()}
        fields = _fields(network, {name: tuple(t.shape) for name, t in named.items()})
        if fields:
            break
    else:
        raise InputError(
            f"checkpoint {path} does not hold the weights of a {network}; give its own network as module:callable"
        )
    with torch.device("meta"):
        model = build(network, **fields)
    fitting = _fitting(path, named, model)
    model.to_empty(device="cpu")
    model.load_state_dict(fitting)
    return model


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
            variant = {192: "tiny", 384: "small", 768: "base"}[dim]
            side = round((shapes["blocks.0.0.position"][1] - 1) ** 0.5)
            return {
                "variant": variant,
                "classes": classes,
                "channels": channels,
                "image": side * patch,
                "patch": patch,
            }
        width, channels, kernel, _ = shapes["blocks.0.0.weight"]
    except (KeyError, ValueError, IndexError):
        return {}
    stem = "imagenet" if kernel == 7 else "cifar"
    return {"classes": classes, "channels": channels, "width": width, "stem": stem}


def _made(network: Network, classes: int | None, channels: int | None) -> nn.Module:
    """The network that the caller's own function builds, told of classes and channels if it asks."""
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
                f"network {network} cannot be imported ({_short(error)}); write module:callable, as seen from here"
            ) from error
    words = getattr(make, "__qualname__", network)
    try:
        found = make(**_asked_for(make, classes, channels))
    except (Exception, SystemExit) as error:
        raise InputError(
            f"network {words} cannot be built ({_short(error)}); name a callable that needs no more than classes and channels"
        ) from error
    if not isinstance(found, nn.Module):
        raise InputError(f"network {words} returns a {type(found).__name__}, expected an nn.Module")
    return found


def _asked_for(make: Any, classes: int | None, channels: int | None) -> dict[str, int]:
    try:
        parameters = inspect.signature(make).parameters
    except (TypeError, ValueError):
        return {}
    told = {
        "classes": classes,
        "num_classes": classes,
        "channels": channels,
        "in_channels": channels,
        "in_chans": channels,
    }
    asked = {name: value for name, value in told.items() if value is not None and name in parameters}
    anything = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    # torchvision's and timm's functions hand on what they are given.
    if anything and classes is not None and not asked.keys() & {"classes", "num_classes"}:
        asked["num_classes"] = classes
    return asked


def _short(error: BaseException) -> str:
    return (
        f"{type(error).__name__}: {str(error).splitlines()[0][:120]}" if str(error) else type(error).__name__
    )


@contextlib.contextmanager
def _importable_here() -> Iterator[None]:
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(here)


def _example(channels: int | None, image: tuple[int, int] | None) -> Tensor | None:
    if channels is None or image is None:
        return None
    return torch.randn(4, channels, *image, generator=torch.Generator().manual_seed(0))


def _of_size(path: Path, model: Classifier, image: tuple[int, int] | None) -> Classifier:
    side = model.architecture.get("image")
    if image is not None and side is not None and image != (side, side):
        raise InputError(
            f"checkpoint {path} takes images of {side} x {side} pixels, but those of the data have "
            f"{image[0]} x {image[1]}; give the checkpoint that belongs to this data"
        )
    return model
