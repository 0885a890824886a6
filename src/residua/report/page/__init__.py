"""Pages: one self-contained HTML file for an audit, a study or controls. Numbers and names in, markup out."""

from __future__ import annotations

from residua.report.page.audits import audit_page
from residua.report.page.controls import controls_page
from residua.report.page.rendering import same_page
from residua.report.page.studies import study_page

__all__ = ["audit_page", "controls_page", "same_page", "study_page"]
