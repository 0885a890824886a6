"""Comparisons: pure functions on the numbers of several models."""

from __future__ import annotations

from residua.compare.curves import curve_fields, curve_of
from residua.compare.guards import guards
from residua.compare.idi import IDI, check_comparable, idi

__all__ = ["IDI", "check_comparable", "curve_fields", "curve_of", "guards", "idi"]
