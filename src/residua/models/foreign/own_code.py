"""The network that the caller's own code builds."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from torch import nn

from residua.errors import InputError, first_line
from residua.models.networks import NETWORKS

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
        "channels": channels,
        "in_channels": channels,
        "in_chans": channels,
    }
    arguments = {name: value for name, value in available.items() if value is not None and name in parameters}
    anything = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    # torchvision's and timm's functions hand on what they are given.
    if anything and classes is not None and not arguments.keys() & {"classes", "num_classes"}:
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
