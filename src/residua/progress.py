"""Progress reports in words, passed to a listener; without a listener they are dropped."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar

# Called with a description of the current work, and the fraction of it that is done, if known.
Listener = Callable[[str, float | None], object]

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)
_whose: ContextVar[str] = ContextVar("whose", default="")


def tell(what: str, share: float | None = None) -> None:
    """Report the current work, such as `information, block 5`; `share` is the fraction of it that is done."""
    listener = _listener.get()
    if listener is not None:
        whose = _whose.get()
        listener(f"{whose}: {what}" if whose else what, share)


@contextlib.contextmanager
def about(whose: str) -> Iterator[None]:
    """In the body, every report begins with the name of the model that is worked on."""
    token = _whose.set(whose)
    try:
        yield
    finally:
        _whose.reset(token)


@contextlib.contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """In the body, `listener` is called with every report."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
