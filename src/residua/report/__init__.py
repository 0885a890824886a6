"""Reports: records in, tables out."""

from __future__ import annotations

from residua.report.table import Table, accuracy_table, setting_line

__all__ = ["Table", "accuracy_table", "setting_line"]
