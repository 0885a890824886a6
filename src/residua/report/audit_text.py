"""The report of an audit as plain text, in the order of the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from residua.errors import printable
from residua.readings import Reading
from residua.report.audit_parts import references_in, roles_in
from residua.report.known import known_methods
from residua.report.metrics import metrics_table
from residua.report.plain import facts, resolution, role_name, subject
from residua.report.provenance import hashes, measure_settings, provenance
from residua.report.stress import treatments

if TYPE_CHECKING:
    from residua.report.audit_data import AuditReport

Lines = list[str]
CHECK = (
    "`residua verify DIR`, where DIR is the folder of this file, computes every number again from the records beside it; "
    "with `--rerun` the models themselves are measured again."
)
NOT_CHECKED = "It does not show that the reference never saw the data, or that the rules were chosen before the result was known."
CLOSER = {"reference": "the reference", "original": "Original", None: "not clear"}


def markdown(report: AuditReport) -> str:
    """The verdict and its sentences first; then the evidence; last, how it was made and how to check it."""
    sections = (
        ("", _verdict(report)),
        ("What it keeps", _index(report)),
        ("What each block knows", _curves(report)),
        ("What comes back", _back(report)),
        ("Metrics", _metrics(report)),
        ("Closer to the reference or to Original?", _tests(report)),
        ("Where the residue is", _residue(report)),
        ("Not assessed", [f"- {what}: {why}" for what, why in report.not_assessed.items()]),
        ("What this does not show", [f"- {limit}" for limit in report.limits]),
        ("How it was made", _made(report)),
        ("How to check it", _check(report)),
    )
    lines: Lines = []
    for title, own in sections:
        if own:
            lines += [*([f"## {title}", ""] if title else []), *own, ""]
    return "\n".join(lines[:-1]) + "\n"


def _verdict(report: AuditReport) -> Lines:
    lines = [f"# {report.verdict.replace('_', ' ')}", "", safe(subject(report)), ""]
    lines += ["\n\n".join(report.sentence.split("\n")), ""]
    lines += [f"- {each.question} **{each.answer}.** {each.numbers}" for each in facts(report)]
    lines += ["", resolution(report)]
    return lines + (["", *(f"- {guard}" for guard in report.guards)] if report.guards else [])


def _index(report: AuditReport) -> Lines:
    index = report.idi
    if index is None or index.value is None:
        return []
    shares = ", ".join(f"block {block}: {share:.2f}" for block, share in index.blocks.items())
    positive = "" if index.positive is None else f"; the sum of those above 0 is {index.positive:.2f}"
    zero = "references'" if index.zero == "reference" else "random network's"
    lines = [
        f"Parts of the IDI: {shares}{positive}. 1 is Original's knowledge, 0 the {zero}. "
        f"In nats: {index.id_unlearned:.4f} of {index.id_original:.4f}."
    ]
    known = known_methods(report)
    if known is not None:
        lines += ["", known.sentence]
    inside = report.inside
    if inside is None or not inside.parts:
        return lines
    rows = [
        (name, f"{part.value:.2f}", f"{part.low:.2f} to {part.high:.2f}", f"{part.margin:.2f}", "" if part.inside else "not within")
        for name, part in inside.parts.items()
    ] + [
        (name, f"{each.value:.2f}", f"{each.low:.2f} to {each.high:.2f}", f"{inside.tolerance:.2f} (lower end)", "contradicts" if each.contradicts else "")
        for name, each in report.witnesses.items()
    ]  # fmt: skip
    return [*lines, "", *table(("part", "IDI", "95 % interval", "has to be below", ""), rows)]


def _curves(report: AuditReport) -> Lines:
    if not report.curves:
        return []
    first = next(iter(report.curves.values()))
    rows = []
    for role, curve in report.curves.items():
        cells = []
        for block, value in curve.blocks.items():
            low, high = curve.intervals.get(block, (None, None))
            cells.append(f"{value:.3f}" + (f" ({low:.3f} to {high:.3f})" if low is not None else ""))
        rows.append((role_name(role), *cells))
    columns = ("model", *(f"block {block}" for block in first.blocks))
    return [
        *table(columns, rows),
        "",
        f"Nats that a block tells of what was to be forgotten, with 95 % intervals; at most H(Y) = {first.ceiling:.3f}.",
    ]


def _back(report: AuditReport) -> Lines:
    rows = [
        (
            each.words,
            f"{100 * each.unlearned:.1f}",
            ", ".join(f"{100 * value:.1f}" for value in each.references) or "none",
            "" if each.gap is None else f"{100 * each.gap:+.1f}",
            f"{100 * each.original:.1f}",
        )
        for each in treatments(report.metrics)
    ]
    if not rows:
        return []
    return [
        *table(("after", "Unlearned", "references", "gap", "Original"), rows),
        "",
        "Per cent of the forgotten that are answered correctly; treatments have no vote in the verdict but for the "
        "first two, which can contradict it.",
    ]


def _metrics(report: AuditReport) -> Lines:
    found = {
        role_name(role): Reading(report.metrics[role], notes=report.notes.get(role, {}))
        for role in roles_in(report.metrics)
    }
    made = metrics_table(found, title=safe(subject(report)), reference=report.against != "none")
    return made.markdown().rstrip("\n").split("\n")


def _tests(report: AuditReport) -> Lines:
    rows = [
        (name, f"{test.to_reference:.4f}", f"{test.to_original:.4f}", f"{test.p_reference:.4f}", CLOSER[test.closer_to])
        for name, test in report.tests.items()
    ]  # fmt: skip
    columns = ("on", "MMD^2 to the reference", "MMD^2 to Original", "p (reference)", "closer to")
    return table(columns, rows) if rows else []


def _residue(report: AuditReport) -> Lines:
    found = report.residue
    if found is None:
        return []
    zero = "references" if references_in(report.metrics) else "random network"
    rows = [
        (safe(each.label), str(each.n), *(f"{x:.3f}" for x in (each.unlearned, each.original, each.reference)))
        for each in found.classes
    ]  # fmt: skip
    lines = [
        f"Block {found.block} holds the largest part. Nats that it tells of a sample, in the mean:",
        "",
        *table(("samples", "n", "Unlearned", "Original", zero), rows),
        "",
        f"Of {found.above} of {found.forgotten} forgotten samples it tells more than the {zero}.",
    ]
    if found.samples:
        most = ", ".join(f"{each.index} ({each.unlearned - each.reference:+.2f})" for each in found.samples)
        lines += [
            "",
            f"Most of these, by their place in the training data, with the surplus in nats: {most}.",
        ]
    return lines


def _made(report: AuditReport) -> Lines:
    lines = [f"- {term}: {safe(value)}" for term, value in provenance(report)]
    lines += [f"- record of {name}: {digest[:16]}" for name, _, digest in hashes(report)]
    settings = measure_settings(report)
    return lines + [f"- settings of {safe(label)}: {safe(values)}" for label, values in settings]


def _check(report: AuditReport) -> Lines:
    return [f"{CHECK} {NOT_CHECKED}"]


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Lines:
    return [f"| {' | '.join(row)} |" for row in (columns, ["---"] * len(columns), *rows)]


def safe(text: str) -> str:
    """A name from a file, so that it is text and nothing else in Markdown: no markup, no cells of its own, one line."""
    text = " ".join(printable(text, 400).split())
    for sign in "\\`*_|[]":
        text = text.replace(sign, f"\\{sign}")
    return text.replace("<", "&lt;")
