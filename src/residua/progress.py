"""Progress in words: whoever works reports what it is at, whoever listens shows it. Without a listener nothing happens."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar

_listener: ContextVar[Callable[[str], object] | None] = ContextVar("listener", default=None)


def tell(what: str) -> None:
    """Report what is being worked on, such as `original: information, block 5`."""
    listener = _listener.get()
    if listener is not None:
        listener(what)


@contextlib.contextmanager
def listening(listener: Callable[[str], object]) -> Iterator[None]:
    """In the body, `listener` is called with every report."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
