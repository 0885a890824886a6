"""Progress reports in words, passed to a listener; without a listener they are dropped."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import TypeVar

# Called with a description of the current work, and the fraction of it that is done, if known.
Listener = Callable[[str, float | None], object]

T = TypeVar("T")
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)
_whose: ContextVar[str] = ContextVar("whose", default="")


def tell(what: str, share: float | None = None) -> None:
    """Report the current work, such as `information, block 5`; `share` is the fraction of it that is done."""
    listener = _listener.get()
    if listener is not None:
        whose = _whose.get()
        listener(f"{whose}: {what}" if whose else what, share)


@contextlib.contextmanager
def holding(variable: ContextVar[T], value: T) -> Iterator[None]:
    """In the body, the variable has this value."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def about(whose: str) -> AbstractContextManager[None]:
    """In the body, every report begins with the name of the model that is worked on."""
    return holding(_whose, whose)


def listening(listener: Listener) -> AbstractContextManager[None]:
    """In the body, `listener` is called with every report."""
    return holding(_listener, listener)
