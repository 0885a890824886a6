"""Figures by name: a saved audit, or records, become a figure for a paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from residua.errors import InputError
from residua.files import write_atomically
from residua.record import Record
from residua.report.audit import AuditReport
from residua.report.figures.audit import curves_figure, embeddings, idi_line, tsne_figure
from residua.report.figures.studies import index_figure, method_curves, metric_figure, points_of, trajectory_figure
from residua.report.figures.style import drawing
from residua.report.methods import by_method, by_setting, courses, method_means, role_of
from residua.report.text import role_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Kind = Literal["curves", "idi", "tsne", "recovery", "frontier", "trajectory"]
Against = Literal["TA", "RTE"]
FORMATS = (".pdf", ".svg", ".png")


def save_figure(
    kind: Kind, report: AuditReport | None, records: Mapping[str, Record], path: Path, against: Against = "TA"
) -> None:
    """Draw it, and write it as PDF, SVG or PNG. The same numbers give the same bytes, whenever it is drawn.

    `records` go by role where they belong to the audit of `report`, else by any name.
    """
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path} is not a figure that can be written; end its name in {', '.join(FORMATS)}")
    undated: dict[str, Any] = {"CreationDate": None} if path.suffix.lower() == ".pdf" else {"Date": None}
    with drawing(svg__fonttype="path", pdf__fonttype=42):
        figure = _figure(kind, report, records, against)
        how: dict[str, Any] = {} if path.suffix.lower() == ".png" else {"metadata": undated}
        write_atomically(path, lambda part: figure.savefig(part, dpi=200, facecolor="white", **how))


def _figure(kind: Kind, report: AuditReport | None, records: Mapping[str, Record], against: Against) -> Figure:
    if kind == "tsne":
        pictures = embeddings({
            f"{record.method.label}, {name}" if report is None else role_name(name): record
            for name, record in records.items()
        })  # fmt: skip
        if not pictures:
            raise _missing("t-SNE coordinates", "measure with --metrics tsne")
        return tsne_figure(pictures)
    if kind == "trajectory":
        found = courses(list(records.values()))
        if not found:
            raise _missing("trajectories", "make them with residua unlearn --trajectory --record FILE")
        return _with_names(trajectory_figure(found), list(found))
    if report is not None:
        return _of_audit(kind, report)
    return _of_study(kind, list(records.values()), against)


def _of_audit(kind: Kind, report: AuditReport) -> Figure:
    if kind == "curves" and report.curves:
        return curves_figure(report.curves)
    if kind == "idi" and report.idi is not None and report.idi.value is not None:
        return idi_line(report)
    if kind in ("curves", "idi"):
        raise _missing("an IDI", "audit models, or saved features, whose Original knows more than the references")
    raise InputError(f"{kind} compares methods, and an audit has one; give a study or several records")


def _of_study(kind: Kind, records: Sequence[Record], against: Against) -> Figure:
    groups = by_setting(records)
    if len(groups) > 1:
        raise InputError(f"the records are of {len(groups)} settings (tasks or networks); give those of one")
    if kind == "curves":
        found = method_means(records)
        if found is None:
            raise _missing(
                "information curves of two methods", "measure with residua measure --metrics IDI, or run a study"
            )
        return _with_names(method_curves(found), list(found.lines))
    known = {label: own for label, own in by_method(groups[0][1]).items() if own["IDI"]}
    if len(known) < 2:
        raise _missing("the IDI of two methods", "give the records of Original and Retrain too")
    if kind == "idi":
        return index_figure({label: (own["IDI"], role_of(label) or "other") for label, own in known.items()})
    name = "recovery" if kind == "recovery" else against
    points = points_of(known, name)
    if len(points) < 2:
        raise _missing(f"{name} of two methods", "measure it first")
    return metric_figure(points, name)


def _with_names(figure: Figure, labels: Sequence[str]) -> Figure:
    """A legend, which a page has beside the figure."""
    lines = {str(line.get_gid()): line for line in figure.axes[0].get_lines()}
    handles = [lines[f"series:{number}"] for number in range(len(labels))]
    figure.legend(handles, labels, loc="outside right upper", fontsize=8.5)
    return figure


def _missing(what: str, remedy: str) -> InputError:
    return InputError(f"these files do not hold {what}; {remedy}")
