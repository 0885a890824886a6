"""Pages: one self-contained HTML file for an audit, a study or controls. Numbers and names in, markup out."""

from __future__ import annotations

import base64
import functools
import hashlib
import re
import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from residua.compare.verdicts import WORDS
from residua.errors import InputError, printable
from residua.explanations import explained
from residua.npz import read_npz
from residua.readings import Reading
from residua.record import Record
from residua.report.audit import AuditReport
from residua.report.controls import KNOWING, OTHERWISE, WITHOUT, detectors, fooled_table, verdict_table, verdicts_of
from residua.report.figures import audit, studies
from residua.report.figures.style import DARK, colour_of, drawing, svg, variables
from residua.report.methods import COLUMNS, Rows, by_method, by_setting, courses, method_cell, method_means, role_of
from residua.report.table import better_side, cell, headlines, ordered, setting_line
from residua.report.text import A_REFERENCE, TEMPLATES, TONES, environment, provenance, role_name, shown, treatments
from residua.roles import references_in, roles_in
from residua.text import slug

PAGE, THUMBNAILS = "report.html", "thumbnails.npz"
MOST_BYTES = 20_000_000  # of thumbnails
# Metrics in the open table of an audit.
FEW = ("UA", "RA", "TA", "E-MIA", "JSD", "recovery", "IDI")
# Terms of the provenance that whoever signs must see.
SIGNED = ("Made by", "Made on", "Unlearned model", "Data", "To be forgotten", "Hash of the task")
# Methods of a study that are ticked at first, beside those that have a role; trajectories of more would cover each other.
TICKED, MOST_COURSES = 4, 6
# Of one t-SNE picture among many.
POINTS = 300
# What a page is about comes first, and is seen on a phone.
SHOWN = tuple(sorted(COLUMNS, key=lambda column: column[1] != "IDI"))
Values = Mapping[str, Mapping[str, Sequence[float]]]


@dataclass(frozen=True)
class Picture:
    """A figure as markup, and as markup for a narrow screen where that is another drawing."""

    wide: str
    narrow: str = ""


def audit_page(
    report: AuditReport, records: Mapping[str, Record] | None = None, thumbnails: Mapping[int, np.ndarray] | None = None
) -> str:
    """The verdict first, then the evidence, last how it was made and how to check it.

    Args:
        report: The report of an audit.
        records: Its records by role, for t-SNE pictures.
        thumbnails: Images by their place in the training data.
    """
    zeros = references_in(report.metrics)
    together = "Reference" if len(zeros) == 1 else f"{len(zeros)} references"
    rows = _metric_rows(report)
    return render(
        "audit.html",
        **shown(report),
        level=f"{100 * report.rules.confidence:g} %",
        title=f"{report.verdict.replace('_', ' ')}: {WORDS[report.verdict]}",
        tone=TONES.get(report.verdict, "bad"),
        a_reference=A_REFERENCE[report.against],
        provenance_line="; ".join(f"{term}: {value}" for term, value in provenance(report) if term in SIGNED),
        figures=_figures(report, records or {}),
        columns=[
            together if role in zeros else role.capitalize()
            for role in roles_in(report.metrics)
            if role not in zeros[1:]
        ],
        few=[rows[name] for name in FEW if name in rows],
        others=[row for name, row in rows.items() if name not in FEW],
        thumbnails={name: _png(image) for name, image in (thumbnails or {}).items()},
    )


def _figures(report: AuditReport, records: Mapping[str, Record]) -> dict[str, Picture | None]:
    found = treatments(report.metrics)
    drawn: dict[str, Picture | None] = dict.fromkeys(("line", "curves", "back", "tsne"))
    with drawing():
        if report.idi is not None and report.idi.value is not None:
            text = audit.idi_line_text(report)
            drawn["line"] = Picture(
                svg(audit.idi_line(report), "line", text), svg(audit.idi_line(report, 350), "line-narrow", text)
            )
        if report.curves:
            drawn["curves"] = Picture(
                svg(audit.curves_figure(report.curves), "curves", audit.curves_text(report.curves))
            )
        if found:
            drawn["back"] = Picture(svg(audit.treatments_figure(found), "back", audit.treatments_text(found)))
        pictures = audit.embeddings({role_name(role): records[role] for role in roles_in(records)})
        if len(pictures) > 1:
            text = f"Samples in two dimensions, the forgotten ones coloured, of {', '.join(pictures)}."
            drawn["tsne"] = Picture(svg(audit.tsne_figure(pictures), "tsne", text))
    return drawn


def _png(image: np.ndarray) -> str:
    """An image (height, width, 1 or 3) of bytes as the address of a PNG that is inside of the page."""
    height, width, channels = image.shape
    rows = np.ascontiguousarray(image, dtype=np.uint8).reshape(height, width * channels)
    raw = b"".join(b"\0" + row.tobytes() for row in rows)

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b"")
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def _metric_rows(report: AuditReport) -> dict[str, dict[str, Any]]:
    """By metric: title, unit, the text of each column, the better side, the explanation and the notes."""
    zeros = references_in(report.metrics)
    found = {role: Reading(report.metrics[role], notes=report.notes.get(role, {})) for role in roles_in(report.metrics)}
    rows = {}
    for name in headlines(ordered(found)):
        entry, part = explained(name), name.partition(".")[2]
        title, unit = (entry.title, entry.unit) if entry else (name, "number")
        rows[name] = {
            "name": name,
            "title": f"{title}: {part}" if part else title,
            "unit": {"share": "%", "number": ""}.get(unit, unit),
            "cells": [
                _together([found[each] for each in zeros], name) if role in zeros else cell(reading, name)
                for role, reading in found.items()
                if role not in zeros[1:]
            ],
            "better": better_side(name, report.against != "none"),
            "entry": entry,
            "notes": [reading.notes[name] for reading in found.values() if name in reading.notes],
        }
    return rows


def _together(readings: Sequence[Reading], name: str) -> str:
    """Several references in one cell: the mean, and from the least to the largest."""
    values = sorted(reading.values[name] for reading in readings if name in reading.values)
    if not values:
        return "none"
    middle, low, high = (cell(Reading({name: value}), name) for value in (mean(values), values[0], values[-1]))
    return middle if low == high else f"{middle} ({low} to {high})"


def _toned(words: Mapping[str, int]) -> list[tuple[str, str, int]]:
    """Verdicts as a page shows them, their tones, and of how many models."""
    return [(word.replace("_", " "), TONES.get(word, "bad"), n) for word, n in words.items()]


def controls_page(reports: Sequence[AuditReport]) -> str:
    """Verdicts on models whose truth is known, and what each metric makes of them."""
    table, fooled, found = verdict_table(reports), fooled_table(reports), detectors(reports)
    controls: list[dict[str, Any]] = []
    for name, *counts, bar, met in table.rows:
        words: dict[str, int] = {word: int(n) for word, n in zip(WORDS, counts, strict=True) if n != "0"}
        controls.append({
            "name": name, "link": f"seed{reports[0].about['seed']}-{slug(name)}.json", "truth": truth(name), "counts": _toned(words), "n": sum(words.values()), "bar": bar, "met": met,
        })  # fmt: skip
    picture = None
    if found:
        text = f"How well {len(found)} metrics distinguish models that kept the knowledge from retrained ones; the table has the numbers."
        with drawing():
            picture = Picture(svg(studies.detectors_figure(found), "trust", text))
    bars = [each["met"] for each in controls if each["met"]]
    return render(
        "controls.html",
        title="Can the audit be trusted?",
        setting=table.title,
        made=_made(reports[0]),
        note=table.note,
        controls=controls,
        kept=bars.count("met"),
        bars=len(bars),
        audits=len(reports),
        fooled=[
            (name, [(text, 0.0 if text == "none" else float(text) / 100) for text in cells])
            for name, *cells in fooled.rows
        ],
        fooled_columns=[(name, truth(name)) for name in fooled.columns[1:]],
        detectors=[(each, explained(each.name)) for each in found],
        picture=picture,
    )


def _made(report: AuditReport) -> list[tuple[str, str]]:
    """Command, date and versions, as far as the reports say them."""
    return [row for row in provenance(report) if row[0] in ("Command", "Made on", "Version")]


def truth(name: str) -> str:
    """The truth about a control."""
    if name in KNOWING:
        return "knows it"
    return "never saw it" if name in (*WITHOUT, *OTHERWISE) else "in between"


def study_page(
    records: Sequence[Record], title: str = "Study", rows: Rows | None = None, links: Mapping[str, str] | None = None
) -> str:
    """Methods side by side, what they cost, what their blocks know; a section for each setting.

    Args:
        records: Records of a study, or of any folder.
        title: Name of the study.
        rows: The `summary` of the records, if it is there.
        links: By method, the address of a single audit.
    """
    with drawing():
        sections = [_section(*group, number) for number, group in enumerate(by_setting(records, rows))]
    columns = {column for section in sections for column in section["columns"]}
    entries = [(column, explained(name)) for column, name, *_ in SHOWN if column in columns]
    return render(
        "study.html",
        title=title,
        links=links or {},
        sections=sections,
        command=next((record.command for record in records if record.command), ""),
        software=", ".join(f"{name} {value}" for record in records[:1] for name, value in record.software.items()),
        models=len(records),
        entries=[(column, entry) for column, entry in entries if entry],
        records=[(record.name, record.sha256) for record in records],
    )


def _section(records: Sequence[Record], rows: Rows, number: int) -> dict[str, Any]:
    values, counts = by_method(rows), Counter(row["method"] for row in rows)
    shown = [column for column in SHOWN if any(column[1] in row for row in rows)]
    verdicts = {label: _toned(words) for label, words in verdicts_of(records).items()}
    methods = [
        {
            "name": label,
            "cells": [
                (
                    method_cell([row for row in rows if row["method"] == label], own[name], name, digits),
                    mean(own[name]) if own[name] else None,
                    name == "IDI",
                )
                for _, name, _, digits in shown
            ],
            "n": counts[label],
            "verdicts": verdicts.get(label, ()),
        }
        for label, own in sorted(values.items(), key=lambda item: _place(item[0], item[1]["IDI"]))
    ]
    return {
        "title": setting_line(records[0]).split(", seed ")[0],
        "seeds": len({row["seed"] for row in rows}),
        "columns": [column for column, *_ in shown],
        "methods": methods,
        "with_verdicts": bool(verdicts),
        "best": _best(values),
        "plots": _plots(values, number),
        "curves": _curves(records, values, number),
        "trajectories": _trajectories(records, number),
        "tsne": _tsne(records, number),
    }


def _best(values: Values) -> str:
    """The first thing to know: which methods leave least inside."""
    known = {label: mean(own["IDI"]) for label, own in values.items() if own["IDI"] and role_of(label) is None}
    if not known:
        return ""
    least, most = min(known, key=lambda label: abs(known[label])), max(known, key=lambda label: known[label])
    return (
        f"How much is left inside, from 0 (what a model that never saw the data knows) to 1 (what the model knew before): "
        f"of {len(known)} methods, {least} comes nearest to 0 ({known[least]:.2f}), and {most} leaves most "
        f"({known[most]:.2f}). The column IDI has all."
    )


def _place(label: str, indices: Sequence[float]) -> tuple[int, float]:
    """References, Original and Random first, then methods from the one that leaves least; those without an IDI last."""
    role = role_of(label)
    if role is not None:
        return 0, ("reference", "original", "random").index(role)
    return (1, abs(mean(indices))) if indices else (2, 0.0)


def _plots(values: Values, number: int) -> list[tuple[str, Picture, str]]:
    """IDI against accuracy, run time and recovery, where they were measured."""
    titles = {
        "TA": "Useful and forgetful",
        "RTE.cpu" if any(own["RTE.cpu"] for own in values.values()) else "RTE": "Fast and forgetful",
        "recovery": "What can be brought back",
    }
    plots = []
    for name, title in titles.items():
        # Random is far from everything, and Original took no time to unlearn.
        left_out = ("random", "original") if name.startswith("RTE") else ("random",)
        points = studies.points_of(values, name, left_out)
        if len(points) < 2:
            continue
        words, larger, _ = studies.AXES[name]
        caption = f"Each point is a method, with the standard deviation over seeds; {' and '.join(map(str.capitalize, left_out))} left out."
        if larger is not None:
            names = ", ".join(each.name for each in studies.frontier(points, larger))
            caption += f" Frontier, which no method beats on both sides: {names or 'none'}."
        text = f"{len(points)} methods: IDI against {words}. The table above has every number."
        drawn = svg(studies.metric_figure(points, name), f"{slug(name)}{number}", text)
        plots.append((title, Picture(drawn), caption))
    return plots


def _curves(records: Sequence[Record], values: Values, number: int) -> dict[str, Any] | None:
    """Mean curves of all methods, and who is ticked."""
    found = method_means(records)
    if found is None:
        return None
    lines, blocks = found.lines, found.blocks
    near = sorted((label for label in lines if not role_of(label) and values[label]["IDI"]),
                  key=lambda label: abs(mean(values[label]["IDI"])))[:TICKED]  # fmt: skip
    text = f"Information of blocks {', '.join(map(str, blocks))} of {len(lines)} models, at most {found.ceiling:.3f} nats. A table below has the numbers."
    return {
        "picture": Picture(svg(studies.method_curves(found), f"curves{number}", text)),
        "id": f"curves-of-{number}",
        "choices": [
            (i, label, colour_of(i, role_of(label)), bool(role_of(label)) or label in near)
            for i, label in enumerate(lines)
        ],
        "blocks": blocks,
        "lines": lines,
    }


def _trajectories(records: Sequence[Record], number: int) -> dict[str, Any] | None:
    """The way of each method whose records have it, epoch by epoch, and where each ends."""
    found = courses(records)
    if not found:
        return None
    text = f"Accuracy on the forgotten and on test data after each epoch of {len(found)} methods. A table below has where each ends."
    return {
        "picture": Picture(svg(studies.trajectory_figure(found), f"courses{number}", text)),
        "id": f"courses-of-{number}",
        "choices": [(i, label, colour_of(i, role_of(label)), i < MOST_COURSES) for i, label in enumerate(found)],
        "rows": [(label, len(rows), *(100 * float(x) for x in rows[-1])) for label, rows in found.items()],
    }  # fmt: skip


def _tsne(records: Sequence[Record], number: int) -> Picture | None:
    """t-SNE pictures of the encoder of one model of each method, where they were measured."""
    first: dict[str, Record] = {}
    for record in records:
        if "tsne.coordinates" in record.arrays:
            first.setdefault(record.method.label, record)
    pictures = audit.embeddings(first, POINTS)
    if len(pictures) < 2:
        return None
    text = (
        f"Samples in two dimensions, the forgotten ones coloured, as the encoders of {len(pictures)} methods see them."
    )
    return Picture(svg(audit.tsne_figure(pictures, columns=5), f"tsne{number}", text))


def render(template: str, **shown: Any) -> str:
    """The page. Whatever comes from a file is escaped; only figures, which we drew, are markup.

    The policy in its head lets the browser load nothing and run this one script and no other, known by its hash.
    """
    from markupsafe import Markup

    script = _template("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    scheme = f"{variables(DARK)} color-scheme: dark;"
    style = (
        f":root {{ {variables()} color-scheme: light; }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {scheme} }} }}\n{_template('page.css')}"
    )
    page = environment(autoescape=True).get_template(template).render(
        **shown,
        style=Markup(style),
        script=Markup(script),
        policy=f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'",
        generator=generator(),
    )  # fmt: skip
    return printable(page)  # nothing in it hides or reorders text


def generator() -> str:
    """The versions that draw pages here: others may draw the same numbers otherwise."""
    return f"residua {version('residua')}, matplotlib {version('matplotlib')}"


def same_page(written: str, drawn: str) -> str:
    """The reason why a page is not the one that its numbers give; empty if it is.

    A page that another version drew is compared without its figures, and without the line that names the version.
    """
    if written == drawn:
        return ""
    if not drawn_elsewhere(written):
        return "report.html is not the page that report.json and the records give"
    if _bare(written) == _bare(drawn):
        return ""
    return (
        "report.html is not the page that this version makes of report.json and the records (another version drew it); "
        "make it again with `residua export`"
    )


def drawn_elsewhere(written: str) -> bool:
    """True if another version of residua or matplotlib drew this page, so that its figures cannot be compared."""
    return generator() not in written


def _bare(page: str) -> str:
    page = re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL)
    return re.sub(r"residua [^,<\"]{1,40}, matplotlib [^,<\"]{1,40}", "", page)


@functools.cache
def _template(name: str) -> str:
    return (TEMPLATES / name).read_text("utf-8")


def audits_in(folder: Path, labels: Iterable[str]) -> dict[str, str]:
    """By method, the first of its audits that `residua study verdicts` wrote there, as seen from the folder."""
    found = ((label, next(iter(sorted(folder.glob(f"verdicts/seed*-{slug(label)}.json"))), None)) for label in labels)
    return {label: path.relative_to(folder).as_posix() for label, path in found if path is not None}


def read_thumbnails(folder: Path) -> dict[int, np.ndarray]:
    """Images by their place in the training data; none where the audit was made without."""
    path = folder / THUMBNAILS
    if not path.exists():
        return {}
    arrays = read_npz(path, lambda member: member.filename.removesuffix(".npy"), budget=MOST_BYTES)
    index, images = arrays.get("index"), arrays.get("images")
    fits = (
        index is not None and images is not None and images.dtype == np.uint8 and images.ndim == 4
        and index.dtype.kind == "i" and index.shape == images.shape[:1] and images.shape[3] in (1, 3)
        and len(index) <= 100 and max(images.shape[1:3]) <= 256
    )  # fmt: skip
    if not fits or index is None or images is None:
        raise InputError(f"{path} does not hold thumbnails; remove it, or make the audit again")
    return {int(place): image for place, image in zip(index, images, strict=True)}
