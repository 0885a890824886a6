"""Networks: functions that build a Classifier. Adding one is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from residua.errors import InputError, first_line
from residua.models.classifier import Classifier
from residua.models.resnet import resnet18, resnet50, stem_for
from residua.models.transformer import vit

__all__ = ["NETWORKS", "build", "resnet18", "resnet50", "stem_for", "vit"]

NETWORKS: dict[str, Callable[..., Classifier]] = {"resnet18": resnet18, "resnet50": resnet50, "vit": vit}


def build(network: str, **fields: Any) -> Classifier:
    """The network of this name; `fields` are the arguments of its function."""
    if network not in NETWORKS:
        raise InputError(f"network {network!r} is unknown; choose one of {', '.join(NETWORKS)}")
    try:
        return NETWORKS[network](**fields)
    except InputError:
        raise
    except (TypeError, ValueError, RuntimeError) as error:  # fields of a file can be of any kind and size
        raise InputError(
            f"{network} cannot be built from these fields ({first_line(error)}); correct them"
        ) from error
