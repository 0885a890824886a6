"""The paper's tables and figures beside ours, from records alone: `python -m reproduction tab:main_baseline`.

Exit codes: 0 done, 3 bad input (one sentence on standard error), 130 interrupted. Nothing is trained or fitted; where
records are missing, the command that makes them is named.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from reproduction.arms import ARMS, arm_points, arm_table, chosen_factor, draw_arm
from reproduction.cases import SCALES
from reproduction.committed import keep, pack, place
from reproduction.drawings import checked_format, save
from reproduction.record_index import RecordIndex, open_records
from reproduction.reproducing import Reproduction, listing, reproduce
from reproduction.results import write_results
from reproduction.tables import Question, notes, rows_csv, shown
from residua.cli.console import complain, say, show
from residua.cli.console import out as console
from residua.errors import InputError
from residua.report.table import Table

CHECKOUT = Path(__file__).resolve().parents[1]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m reproduction", description=__doc__, allow_abbrev=False)
    add = parser.add_argument
    add(
        "label",
        nargs="?",
        metavar="LABEL",
        help="table or figure; `results` writes RESULTS.md, `run NAME` runs a study, `gauge` and `dose` show theirs",
    )
    add("--list", action="store_true", help="list every label, with its needs and the records that are there")
    add("--records", type=Path, metavar="DIR", help="folder of records (default: that of the checkout)")
    add("--scale", choices=SCALES, help="scale of the records (default: the largest that has much of it)")
    add("--reference", default="Retrain", help="zero of IDI: Retrain, all (mean of all Retrains), COLA, ...")
    add("--last", type=_positive, help="number of last blocks that IDI sums (default: the paper's)")
    add("--family", help="critics: linear, network, nonlinear or stack (default: the first of the records)")
    add("--out", type=Path, metavar="FILE", help="draw a figure into this file: .pdf, .svg or .png")
    for form in ("json", "csv", "latex", "markdown"):
        add(f"--{form}", action="append_const", dest="forms", const=form, help=f"print {form}")
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if words[:1] == ["run"]:
            return _run_study(words[1:])
        if words[:1] == ["keep"] and len(words) == 2:
            say(f"{keep(Path(words[1]))} cells were copied to reproduction/models.")
        elif words[:1] == ["pack"] and len(words) == 3:
            say(f"{pack(Path(words[1]), Path(words[2]))} reports are in {words[2]}.")
        else:
            _run(_parser().parse_args(words))
    except InputError as error:
        complain(str(error))
        return InputError.exit_code
    except OSError as error:
        complain(f"{error.filename or 'a file'} cannot be used ({error.strerror or error})")
        return InputError.exit_code
    except KeyboardInterrupt:
        complain("interrupted; nothing was left half-written")
        return 130
    return 0


def _run(given: argparse.Namespace) -> None:
    forms = given.forms or []
    if len(forms) > 1:
        raise InputError("--json, --csv, --latex and --markdown were given together; choose one")
    if given.list == (given.label is not None):
        raise InputError("name one table or figure, such as tab:main_baseline, or give --list for all")
    if given.out is not None:
        checked_format(given.out)
    index = open_records(given.records or _folder())
    form = forms[0] if forms else ""
    if given.list:
        _list(index, given.scale, form == "json")
    elif given.label == "results":
        write_results(index, CHECKOUT)
    elif given.label in ARMS:
        _arm(given.label, index, form, given.out)
    else:
        _one(given, index, form)


def _run_study(words: Sequence[str]) -> int:
    """`run NAME ...` is `residua study run reproduction/studies.py:NAME ...`; records name that command."""
    from residua.cli import main as residua

    file = os.path.relpath(CHECKOUT / "reproduction/studies.py")
    out = next((Path(after) for word, after in itertools.pairwise(words) if word == "--out"), None)
    if out is not None and words[0].startswith("small-") and "--data" in words and (number := place(out)):
        say(f"{number} finished cells in reproduction/models were copied to {out}.")
    given = ["study", "run", *(f"{file}:{word}" if i == 0 else word for i, word in enumerate(words))]
    sys.argv = ["residua", *given]
    return residua(given)


def _folder() -> Path:
    found = CHECKOUT / "records"
    if not found.is_dir():
        raise InputError(
            f"this needs a checkout of residua, and there is no {found}; run it from one, or give --records DIR"
        )
    return found


def _one(given: argparse.Namespace, index: RecordIndex, form: str) -> None:
    made = reproduce(given.label, index, given.scale, Question(given.reference, given.last, given.family))
    if given.out is not None:
        if made.spec is None:
            raise InputError(f"{made.label} is a table; --out is for figures, use --csv, --latex or --markdown")
        say(f"{save(made.spec, made.panels, given.out)} is drawn.")
    if form == "json":
        console.print_json(json.dumps(made.as_json()))
    elif form == "csv":
        console.print(rows_csv(made.rows), end="", markup=False)
    else:
        _show(made, form)


def _arm(arm: str, index: RecordIndex, form: str, out: Path | None) -> None:
    """The table of the gauge or of the doses, and its figure."""
    if form in ("json", "csv"):
        raise InputError(f"{arm} is printed as text, --markdown or --latex; its records hold the numbers")
    found = arm_points(index, arm)
    if not found:
        raise InputError(
            f"{index.folder} has no records of the {arm}; make them with: python -m reproduction run {arm} "
            f"--out runs/{arm}, and give --records runs/{arm}/records"
        )
    for scale, points in found.items():
        table = arm_table(points, arm, scale)
        if form:
            console.print(table.latex() if form == "latex" else table.markdown(), end="", markup=False)
        else:
            show(table)
        if out is not None:
            say(f"{draw_arm(points, arm, out)} is drawn.")
    if arm == "gauge" and (rule := chosen_factor(index)):
        console.print(rule, markup=False)


def _show(made: Reproduction, form: str) -> None:
    for part in made.parts:
        if not part.rows:
            console.print(f"{made.label}, {part.setting}\n{notes(part)}", markup=False)
            continue
        table = shown(part, spread=bool(form))
        if form:
            console.print(table.latex() if form == "latex" else table.markdown(), end="", markup=False)
        else:
            show(table)


def _list(index: RecordIndex, scale: str | None, as_json: bool) -> None:
    entries = listing(index, scale)
    if as_json:
        console.print_json(json.dumps({"labels": [vars(entry) for entry in entries]}))
        return
    show(
        Table(
            title="Tables and figures of the paper",
            columns=("Label", "Shows", "Needs of records", "Own data", "Stand-in"),
            rows=tuple((entry.label, entry.about, entry.needs, entry.own, entry.stand_in) for entry in entries),
            note=f"Records are those of {index.folder}. python -m reproduction LABEL says what makes what is missing.",
        )
    )


if __name__ == "__main__":
    sys.exit(main())
