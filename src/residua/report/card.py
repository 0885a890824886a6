"""A model card's section on an audit: what was asked to be forgotten, what was found, how sure, and how to check it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from residua.compare.verdicts import WORDS
from residua.report.audit_text import safe, table
from residua.report.plain import facts, forgotten, resolution, sentences, task_of

if TYPE_CHECKING:
    from residua.report.audit_data import AuditReport

# Of many classes, the first are named.
MOST_CLASSES = 5


def card(report: AuditReport, digest: str) -> str:
    """Markdown to paste into the card of the unlearned model; `digest` is the SHA-256 of its report.json."""
    typed = report.about.get("typed")
    typed = typed if isinstance(typed, dict) else {}
    software = report.about.get("software")
    version = software.get("residua") if isinstance(software, dict) else None
    rows = [("Verdict", f"**{report.verdict.replace('_', ' ')}**: {WORDS[report.verdict]}")]
    rows += [(each.question, f"{each.answer}. {each.numbers}") for each in facts(report)]
    rows.append(("To be forgotten", _forgotten(report)))
    rows.append(
        ("Data", safe(str(typed.get("data") or task_of(report).dataset or "stayed with their owner")))
    )
    rows.append(("What the audit can tell", resolution(report)))
    if "unlearned" in report.models:
        rows.append(("Hash of the weights", f"`{report.models['unlearned']}`"))
    rows.append(("Hash of report.json", f"`{digest}`"))
    made = " by ".join(safe(str(each)) for each in (typed.get("when"), typed.get("by")) if each)
    rows.append(("Made", ", ".join(filter(None, (made, f"residua {safe(str(version))}" if version else "")))))
    lines = ["## Unlearning audit", "", *table(("", ""), [row for row in rows if row[1]]), ""]
    lines += [f"**{name}.** {line}\n" for name, line in sentences(report) if name != "Not shown"]
    lines += ["What this does not show:", "", *(f"- {limit}" for limit in report.limits)]
    lines += [f"- Not assessed: {safe(what)} ({safe(why)})." for what, why in report.not_assessed.items()]
    lines += [
        "",
        "`residua verify DIR` checks the report against its records, and with `--rerun` against the models.",
    ]
    return "\n".join(lines) + "\n"


def _forgotten(report: AuditReport) -> str:
    parts = forgotten(report)
    more = f"; and {len(parts) - MOST_CLASSES} more classes" if len(parts) > MOST_CLASSES else ""
    return safe("; ".join(parts[:MOST_CLASSES])) + more
