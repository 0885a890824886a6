"""Writes docs/numbers.md, "Which number should a paper print?", from records/ and the explanations of metrics.

    PYTHONPATH=. python docs/make_numbers.py

Audits of the studies of reproduction/inside.py are taken from records/inside and records/tribunal; as long as there are none
of the tribunal, detectors are those of records/controls.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reproduction.inside import SHOWN, inside_table, knows, plain, tribunal_table
from residua.audits.verifying import reports_in
from residua.explanations import explained, explanation
from residua.report.controls import Detector, detector_table, detectors
from residua.report.table import Table

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/numbers.md"
# Others that papers print, beside those of the table of methods.
FURTHER = ("E-MIA", "JSD", "ZRF", "AUS", "RT", "AIN", "U-LiRA", "KLoM", "CKA", "weight_distance", "stress")
NO_METRIC = "weight_distance"
HEAD = """# Which number should a paper print?

Written by `PYTHONPATH=. python docs/make_numbers.py` from `records/`; a test compares. {answer}

Whatever is printed: print the same number of Retrain, from several retrainings, because the ideal of nearly every metric is Retrain's value and not 0; print intervals; and choose no setting by the number that is printed.

## As detectors of kept knowledge

{about}

{detectors}
## Which methods reach the blocks

{methods}
## What each number does not show

`residua explain NAME` prints the whole explanation.

{blind}"""
STAND_IN = """The tribunal of metrics has no records here yet (`python -m reproduction.inside tribunal --out DIR` makes them). Until then these are the [controls](verdict.md#models-built-to-deceive), twenty seeds of them, which were audited before several of the metrics below existed."""
TRIBUNAL = """The pool: models that were trained without the data, in networks of two widths and with varied trainings, and models that keep Original's knowledge, made by `python -m reproduction.inside tribunal --out DIR`."""
NO_METHODS = "There are no records of the study yet: `python -m reproduction.inside inside --out DIR` makes them.\n"


def page(records: Path = ROOT / "records") -> str:
    """The whole page."""
    methods, pool = (reports_in(records / name) for name in ("inside", "tribunal"))
    found = detectors(plain(pool), knows) if pool else detectors(reports_in(records / "controls"))
    table = tribunal_table(pool) if pool else detector_table(reports_in(records / "controls"))
    return HEAD.format(
        answer=answer(found),
        about=TRIBUNAL if pool else STAND_IN,
        detectors=table.markdown(),
        methods=inside_table(methods).markdown() if methods else NO_METHODS,
        blind=_blind_spots().markdown().split("\n\n", 1)[1],
    )


def answer(found: Sequence[Detector]) -> str:
    """The best detector of each kind, and how far the usual numbers are from it."""
    best: dict[str, Detector] = {}
    judged = [each for each in found if not each.name.startswith(NO_METRIC)]
    for each in judged:
        if (entry := explained(each.name)) is not None:
            best.setdefault(entry.box, each)
    parts = [f"{box} box: {_named(best[box])}" for box in ("white", "black") if box in best]
    usual = [_named(each) for each in judged if each.name in ("IDI", "UA", "TA", "recovery")]
    fooled = sum(bool(each.fooled_by) for each in judged)
    return (
        "The number that tells best whether models whose truth is known kept the knowledge, by AUC with its 95 % interval, is, "
        f"{'; '.join(parts)}. The usual ones: {', '.join(usual)}. Some model below fools {fooled} of {len(judged)} numbers, so "
        "a paper prints IDI with its interval and references beside UA and TA, and the [verdict](verdict.md), which needs all "
        "of them to agree. The distance of weights from Original is left out here: it tells which models were trained from "
        "scratch."
    )


def _named(each: Detector) -> str:
    return f"{each.name} {each.auc:.2f} ({each.low:.2f} to {each.high:.2f})"


def _blind_spots() -> Table:
    rows = []
    for name in dict.fromkeys((*SHOWN, *FURTHER)):
        entry = explanation(name)
        rows.append((f"{name}: {entry.title}", entry.box, entry.ideal, entry.blind))
    return Table("Blind spots", ("Number", "box", "of a model that forgot", "blind to"), tuple(rows))


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
