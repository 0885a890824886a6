"""RESULTS.md: every table with the paper's numbers and ours, what agrees and what does not, from records alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from residua.audits.reports import reports_in
from residua.paper.cases import SCALES, Case, chosen_group
from residua.paper.drawings import save
from residua.paper.figure_list import FIGURES
from residua.paper.labels import ROWS, THIRTEEN
from residua.paper.numbers import table_labels
from residua.paper.quantities import Reader
from residua.paper.reproducing import ABOUT, Reproduction, all_labels, reproduce
from residua.paper.shelf import Group, Shelf
from residua.paper.statements import AIM, ENOUGH, agreement, statements
from residua.paper.tables import Part, rank_line, shown, table_parts
from residua.report import AuditReport, Table
from residua.report.verdicts import model_verdicts
from residua.study.searches import SettingsRange, idi_range

HEAD = """# Results

The paper's numbers and ours. This page is written by `make results` from the records in `records/` alone, in under two minutes and without any training; a test compares it with what the records give. `residua reproduce LABEL` prints any single table, with CSV, LaTeX and JSON, and `residua reproduce --list` says what there is.

Our networks are narrow, our trainings short and our seeds few: beside each table stand the data, the width, the epochs, the seeds and n, the number of our models behind each number. Nothing here was run at the paper's scale unless a table says `full`.
"""
CIFAR10 = Case("cifar10", "resnet18")
# Bytes of a figure that is kept beside the page.
MOST = 1_000_000


def results_page(shelf: Shelf, notes: str = "", figures: dict[str, str] | None = None) -> str:
    """The whole page. `notes` is what people have to say about it; `figures` are paths of drawings by label."""
    parts = [HEAD, *_conclusions(shelf)]
    if notes:
        parts.append(notes.strip() + "\n")
    parts += [
        *_verdicts(shelf),
        *_ranges(shelf),
        *_tables(shelf),
        *_figures(figures or {}),
        *_missing(shelf),
        *_sources(shelf),
    ]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def drawable(shelf: Shelf) -> dict[str, Reproduction]:
    """The figures of which there are records enough, by the name of the file that they are drawn into."""
    made = {figure_name(spec.label): reproduce(spec.label, shelf) for spec in FIGURES}
    return {name: each for name, each in made.items() if any(panel.enough for panel in each.panels)}


def figure_name(label: str) -> str:
    return label.removeprefix("fig:").strip("_") + ".svg"


def draw_figures(shelf: Shelf, folder: Path) -> None:
    """Every figure of which there are records, as SVG; those too large to be kept are removed again."""
    for name, made in drawable(shelf).items():
        assert made.spec is not None
        path = save(made.spec, made.panels, folder / name)
        if path.stat().st_size > MOST:
            path.unlink()


def _class_groups(shelf: Shelf) -> list[Group]:
    """The records of one class forgotten by a ResNet-18, at each scale that has enough methods for an order."""
    found = [chosen_group(shelf, CIFAR10, scale) for scale in SCALES]
    return [group for group in found if group is not None and len(_methods(group)) >= ENOUGH]


def _methods(group: Group) -> list[str]:
    return [label for label in THIRTEEN if group.labelled(label)]


def _conclusions(shelf: Shelf) -> Iterator[str]:
    groups = _class_groups(shelf)
    yield "## What agrees and what does not\n"
    if not groups:
        yield "There are no records of one class forgotten by a ResNet-18.\n"
        return
    readers = [Reader(group, CIFAR10) for group in groups]
    yield (
        "The paper's conclusions on one class of CIFAR-10 forgotten by a ResNet-18, asked of our records. Each answer is "
        "computed when this page is written; IDI sums the last two blocks, its zero is the first Retrain.\n"
    )
    columns = [_column(group) for group in groups]
    answers = [statements(reader) for reader in readers]
    rows = [
        (first.claim, *(f"**{each[place].answer}**: {each[place].evidence}" for each in answers))
        for place, first in enumerate(answers[0])
    ]
    yield Table("The paper's conclusions", ("Claim", *columns), tuple(rows)).markdown()
    yield _by_family(readers, columns)


def _column(group: Group) -> str:
    seeds = ", ".join(map(str, group.seeds))
    models = len(group.models)
    return f"{group.scale}: {group.task.dataset}, width {group.width}, seeds {seeds}, {models} models"


def _by_family(readers: list[Reader], columns: list[str]) -> str:
    found = [agreement(reader) for reader in readers]
    families = list(dict.fromkeys(family for each in found for family in each))
    rows = []
    for family in families:
        cells = []
        for each in found:
            value = each.get(family)
            cells.append("not measured" if value is None else f"{value[0]:.2f} over {value[1]} methods")
        rows.append((family, *cells))
    note = f"The aim is {AIM}. The paper's IDI is that of tab:main_baseline, CIFAR-10; HD's is 1 in both by construction."
    title = "Rank correlation (Spearman) of our IDI with the paper's, by family of critics"
    return Table(title, ("Critics", *columns), tuple(rows), note).markdown()


def _verdicts(shelf: Shelf) -> Iterator[str]:
    """What audits say of the models of studies, where those were asked for it."""
    tables = [
        (folder.parent.name, model_verdicts(sorted(reports, key=_place)))
        for folder in sorted(shelf.folder.glob("*/verdicts"))
        if (reports := reports_in(folder))
    ]
    if tables:
        yield "## Verdicts\n"
        yield (
            "What `residua audit` would say of each model, against all Retrains of its study ([docs/verdict.md]"
            "(docs/verdict.md)); made by `residua study verdicts` from what the study has measured.\n"
        )
    for name, table in tables:
        yield Table(f"{name}: {table.title}", table.columns, table.rows, table.note).markdown()


def _place(report: AuditReport) -> tuple[int, int, int]:
    """As the paper orders methods."""
    label, about = report.about["control"], report.about
    return ROWS.index(label) if label in ROWS else len(ROWS), about["seed"], about.get("draw", 0)


def _ranges(shelf: Shelf) -> Iterator[str]:
    """IDI over all settings that UA and TA do not tell apart."""
    found: dict[str, list[SettingsRange]] = {}
    images: dict[str, int] = {}
    for path, record in shelf.paths.items():
        each, folder = idi_range(record), str(Path(path).parent)
        if each is not None and record.setting.task is not None:
            found.setdefault(folder, []).append(each)
            images[folder] = sum(record.setting.task.size(name) for name in ("retain", "forget"))
    if not found:
        return
    yield "## Settings that UA and TA do not tell apart\n"
    for folder, ranges in found.items():
        rows = tuple(
            (each.method, str(each.trials), f"{each.gap:.3f}", str(each.near), _value(each.chosen),
             _value(each.low) if each.low == each.high else f"{each.low:.2f} to {each.high:.2f}")
            for each in sorted(ranges, key=lambda each: ROWS.index(each.method) if each.method in ROWS else len(ROWS))
        )  # fmt: skip
        title = (
            f"{folder}, {images[folder]:,} training images: IDI over all settings within one point of the best gap to "
            "Retrain"
        )
        columns = ("Method", "tried", "best gap", "within one point", "IDI of the best", "IDI of all of them")
        note = "Gap: |UA - Retrain's| + |TA - Retrain's|, TA on training data that was left out; IDI was read after the search."
        yield Table(title, columns, rows, note).markdown()


def _value(value: float | None) -> str:
    return "not read" if value is None else f"{value:.2f}"


def _tables(shelf: Shelf) -> Iterator[str]:
    """Every table of which we have something, from the largest scale; the main one from every scale.

    Where other data stand in for the paper's and the same numbers of ours stand above already, they are not repeated.
    """
    yield "## The tables\n"
    yield "Each cell: the paper's number → ours (the difference). Accuracies and MIA in per cent, RTE in minutes.\n"
    seen: set[tuple[str, str, float | None]] = set()
    repeated = []
    for label in sorted(table_labels(), key=lambda label: not label.startswith("tab:main")):
        scales: tuple[str | None, ...] = SCALES if label == "tab:main_baseline" else (None,)
        parts = [
            part
            for scale in scales
            for part in table_parts(label, shelf, scale)
            if part.there and (scale is None or _mostly(part))
        ]
        lines = []
        for part in parts:
            own = {(row.method, row.quantity, row.ours) for row in part.rows if row.ours is not None}
            if own <= seen and any("stands in for" in line for line in part.differs):
                repeated.append(f"{label}, {part.setting}")
                continue
            seen |= own
            lines.append(_brief(shown(part, spread=True), part))
        if lines:
            about = ABOUT[label]
            yield f"### {label}\n"
            yield f"{about[0].upper()}{about[1:]}. `residua reproduce {label}`\n"
            yield from lines
    if repeated:
        yield f"Not repeated, because the same records stand in for them: {'; '.join(repeated)}.\n"


def _mostly(part: Part) -> bool:
    """Whether most of the paper's methods have a number of ours."""
    theirs = {row.method for row in part.rows if row.paper is not None}
    ours = {row.method for row in part.rows if row.ours is not None}
    return len(theirs & ours) > len(theirs) / 2


def _brief(table: Table, part: Part) -> str:
    lines = [f"What differs: {'; '.join(part.differs)}."]
    lines += [rank] if (rank := rank_line(part)) else []
    if part.missing:
        more = f" and {len(part.missing) - 2} more" if len(part.missing) > 2 else ""
        lines.append(f"Missing: {'; '.join(part.missing[:2])}{more}. Made by `{part.commands[0]}`.")
    return Table(table.title, table.columns, table.rows, "\n\n".join(lines)).markdown()


def _figures(figures: dict[str, str]) -> Iterator[str]:
    if not figures:
        return
    yield "## The figures\n"
    abouts = {spec.label: spec.about for spec in FIGURES}
    for label, path in figures.items():
        about = abouts[label]
        yield f"**{label}**: {about}. `residua reproduce {label} --out figure.pdf`\n\n![{about}]({path})\n"


def _missing(shelf: Shelf) -> Iterator[str]:
    """Labels without any record, with the command."""
    rows = []
    for label in all_labels():
        made = reproduce(label, shelf)
        there = (
            any(panel.enough for panel in made.panels) if made.panels else any(p.there for p in made.parts)
        )
        if not there and made.parts and not label.startswith(("tab:hyperparam", "tab:pretraining")):
            commands = dict.fromkeys(command for part in made.parts for command in part.commands)
            rows.append((label, " or ".join(f"`{command}`" for command in list(commands)[:2])))
    if rows:
        yield "## Without records\n"
        yield Table("What would make them", ("Label", "Command"), tuple(rows)).markdown()


def _sources(shelf: Shelf) -> Iterator[str]:
    """Every folder of records: how many, of which version, by which commands."""
    rows = []
    for folder, commands in shelf.commands().items():
        own = [record for path, record in shelf.paths.items() if str(Path(path).parent) == folder]
        versions = ", ".join(sorted({record.software.get("residua", "unknown") for record in own}))
        words = " and others".join([f"`{commands[0]}`", ""]) if len(commands) > 1 else f"`{commands[0]}`"
        rows.append((f"records/{folder}" if folder != "." else "records", str(len(own)), versions, words))
    yield "## Where the numbers come from\n"
    yield Table(
        "Folders of records",
        ("Folder", "Records", "Version", "Command"),
        tuple(rows),
        "A record has its settings, seeds, versions, processor and command, and a hash of all of it.",
    ).markdown()
