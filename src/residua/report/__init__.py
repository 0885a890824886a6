"""Reports: records in, tables and figures out."""

from __future__ import annotations

from residua.report.audit import audit_report
from residua.report.audit_data import AuditReport, IdiPart
from residua.report.calibration import calibration_figure, calibration_table
from residua.report.catalogue import catalogue_table
from residua.report.controls import check_alike, compact, control_reports, fooled_table, verdict_table
from residua.report.information import information_table, order_table
from residua.report.likelihood_ratio import ulira_table
from residua.report.meta import detector_table, detectors
from residua.report.metrics import metrics_data, metrics_table
from residua.report.table import Table, accuracy_table, setting_line
from residua.report.unlearning import trajectory_table, unlearning_table

__all__ = [
    "AuditReport",
    "IdiPart",
    "Table",
    "accuracy_table",
    "audit_report",
    "calibration_figure",
    "calibration_table",
    "catalogue_table",
    "check_alike",
    "compact",
    "control_reports",
    "detector_table",
    "detectors",
    "fooled_table",
    "information_table",
    "order_table",
    "metrics_data",
    "metrics_table",
    "setting_line",
    "trajectory_table",
    "ulira_table",
    "unlearning_table",
    "verdict_table",
]
