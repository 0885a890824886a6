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
from residua.networks import NETWORKS

Network = str | Callable[..., nn.Module]


def built(network: Network, classes: int | None, channels: int | None) -> nn.Module:
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
                f"network {network} cannot be imported ({in_short(error)}); write module:callable, as seen from here"
            ) from error
    words = getattr(make, "__qualname__", network)
    try:
        found = make(**_asked_for(make, classes, channels))
    except (Exception, SystemExit) as error:
        raise InputError(
            f"network {words} cannot be built ({in_short(error)}); name a callable that needs no more than classes and channels"
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
