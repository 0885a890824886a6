"""`residua study verdicts`: every model of a study audited against its Retrains, from what the study has measured."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated

import typer

from residua.cli.console import say, show
from residua.cli.preparing import with_preprocessing
from residua.cli.study_choice import Data, Draws, Forget, Method, Name, Out, Seeds, chosen_study
from residua.cli.words import OurNetwork, PluginOption, command_line
from residua.errors import InputError
from residua.files import check_place, write_atomically

FOLDER = "verdicts"


@with_preprocessing
def verdicts(
    name: Name,
    out: Out,
    method: Method = None,
    seeds: Seeds = None,
    draws: Draws = None,
    data: Data = None,
    forget: Forget = None,
    network: OurNetwork = None,
    plugin: PluginOption = None,
    device: Annotated[str, typer.Option(help="Kind of device that the study ran on.")] = "cpu",
) -> None:
    """The verdict on every model of a study that has run, against its Original and all its Retrains.

    Nothing is measured: the same options as for `study run` find what is in --out. Reports and a table are written to
    verdicts/ there. The studies of the paper (tiny, small, ...) measure all that a verdict rests on.
    """
    from residua.cli.options import choose_device
    from residua.compare import Rules
    from residua.report import compact, control_reports
    from residua.report.verdicts import model_verdicts
    from residua.study.conducting import whole_records
    from residua.texts import slug

    if not (out / "cells").is_dir():
        raise InputError(f"{out} holds no study; run `residua study run` with the same options first")
    check_place(out / FOLDER / "table.md")
    study = chosen_study(name, method, seeds, draws, data, forget, network)
    records = whole_records(study, out, str(choose_device(device)))
    reports = control_reports(records, Rules())
    if not reports:
        raise InputError(
            f"{out} holds no finished Original, Retrain and model of the study {study.name} with these options; "
            "run `residua study run` with them first"
        )
    command = command_line()
    for report in reports:
        numbers = [report.about["seed"], *([report.about["draw"]] if "draw" in report.about else [])]
        path = out / FOLDER / f"seed{'-'.join(map(str, numbers))}-{slug(report.about['control'])}.json"
        text = compact(report.model_copy(update={"about": report.about | {"command": command}})) + "\n"
        write_atomically(path, functools.partial(Path.write_text, data=text, encoding="utf-8"))
    table = model_verdicts(reports)
    markdown = f"{table.markdown()}\n`{command}`\n"
    write_atomically(out / FOLDER / "table.md", lambda part: part.write_text(markdown, encoding="utf-8"))
    show(table)
    say(f"{len(reports)} reports and the table are in {out / FOLDER}/.")
