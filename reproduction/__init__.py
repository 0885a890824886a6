"""The paper's own numbers, to stand beside ours."""

from __future__ import annotations

from reproduction.numbers import Number, numbers_of, table_labels

__all__ = ["Number", "numbers_of", "table_labels"]
