"""The page of an audit: the verdict first, then the evidence, last how it was made and how to check it."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from residua.report.audit_data import AuditReport, references_in, roles_in
from residua.report.audit_text import CHECK, CLOSER, NOT_CHECKED
from residua.report.figures.curves import curves_figure, curves_text
from residua.report.figures.dots import treatments_figure, treatments_text
from residua.report.figures.idi_line import idi_line, idi_line_text
from residua.report.figures.scatter import embeddings, tsne_figure
from residua.report.figures.style import drawing, svg
from residua.report.known import known_methods
from residua.report.page.metric_rows import columns, metric_rows
from residua.report.page.rendering import render
from residua.report.plain import facts, headline, resolution, role_name, sentences, subject, tone
from residua.report.provenance import hashes, measure_settings, provenance
from residua.report.stress import treatments

if TYPE_CHECKING:
    from residua.record import Record


@dataclass(frozen=True)
class Picture:
    """A figure as markup, and as markup for a narrow screen where that is another drawing."""

    wide: str
    narrow: str = ""


def audit_page(
    report: AuditReport,
    records: Mapping[str, Record] | None = None,
    thumbnails: Mapping[int, np.ndarray] | None = None,
) -> str:
    """The page as one string. `records` add t-SNE pictures, `thumbnails` (by place in the training data) images."""
    few, others = metric_rows(report)
    pictures = {name: _png(image) for name, image in (thumbnails or {}).items()}
    return render(
        "audit.html",
        title=f"{report.verdict.replace('_', ' ')}: {headline(report)}",
        report=report,
        word=report.verdict.replace("_", " "),
        headline=headline(report),
        tone=tone(report),
        sentences=sentences(report),
        facts=facts(report),
        resolution=resolution(report),
        subject=subject(report),
        figures=_figures(report, records or {}),
        treatments=treatments(report.metrics),
        columns=columns(report),
        few=few,
        others=others,
        role_name=role_name,
        closer=CLOSER,
        zero="references" if references_in(report.metrics) else "random network",
        known=known_methods(report),
        thumbnails=pictures,
        provenance=provenance(report),
        hashes=hashes(report),
        settings=measure_settings(report),
        check=CHECK.replace("`", ""),
        not_checked=NOT_CHECKED,
    )


def _figures(report: AuditReport, records: Mapping[str, Record]) -> dict[str, Any]:
    found = treatments(report.metrics)
    drawn: dict[str, Any] = {"line": None, "curves": None, "back": None, "tsne": None}
    with drawing():
        if report.idi is not None and report.idi.value is not None:
            text = idi_line_text(report)
            drawn["line"] = Picture(
                svg(idi_line(report), "line", text), svg(idi_line(report, 350), "line-narrow", text)
            )
        if report.curves:
            drawn["curves"] = Picture(svg(curves_figure(report.curves), "curves", curves_text(report.curves)))
        if found:
            drawn["back"] = Picture(svg(treatments_figure(found), "back", treatments_text(found)))
        pictures = embeddings({role_name(role): records[role] for role in roles_in(records)})
        if len(pictures) > 1:
            text = f"Samples in two dimensions, the forgotten ones coloured, of {', '.join(pictures)}."
            drawn["tsne"] = Picture(svg(tsne_figure(pictures), "tsne", text))
    return drawn


def _png(image: np.ndarray) -> str:
    """An image (height, width, 1 or 3) of bytes as the address of a PNG that is inside of the page."""
    height, width, channels = image.shape
    rows = np.ascontiguousarray(image, dtype=np.uint8).reshape(height, width * channels)
    raw = b"".join(b"\0" + row.tobytes() for row in rows)

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    png = (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(raw, 9))
        + chunk(b"IEND", b"")
    )
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"
