"""`residua study`: run a study, plan it, look at it, and keep its folder in order."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import runpy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from residua import plugins
from residua.cli import console
from residua.cli import options as opt
from residua.cli.console import write_text
from residua.cli.inputs import choose_device, device_name, records_in
from residua.compare import Rules
from residua.errors import InputError, first_line
from residua.files import check_place
from residua.measure import InformationCurve, measures
from residua.models.foreign.fitting import starting_weights
from residua.record import Record
from residua.report.controls import compact, control_reports, model_verdicts, verdicts_of
from residua.report.methods import study_tables, summary
from residua.report.pages import PAGE, audits_in, study_page
from residua.report.questions import answers
from residua.report.table import Table
from residua.study import folder as folders
from residua.study import rehearsing, schedule
from residua.study.definition import Row, Study
from residua.study.presets import BUILT_IN, at_scale
from residua.study.store import own_folder
from residua.text import duration, seconds_of, size_of, slug
from residua.training.recipes import Scale
from residua.unlearn import METHODS, find

app = typer.Typer(context_settings={"help_option_names": ["-h", "--help"]})
ALWAYS = ("Original", "Retrain")
VERDICTS = "verdicts"
# Where the features of a curve are.
PLACES = {
    "memory": "in memory",
    "file": "in a temporary file",
    "nowhere": "computed again for each batch, as neither memory nor the temporary folder can hold them",
}


@app.callback()
def study() -> None:
    """Run settings x methods x seeds with one command, and resume after any interruption."""


def _chosen_study(
    out: Path,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|FILE.py[:NAME]",
            help="tiny, small, one of the paper's such as paper-cifar10-resnet18, or a Python file with `study = Study(...)` "
            "or `studies = {NAME: ...}`.",
        ),
    ],
    data: Annotated[
        str | None,
        opt.data(
            "Data set of a built-in study: fashion-sample; one of fashion-mnist, mnist, cifar10, cifar100, "
            "parquet, image-folder, hf-datasets with its folder; npz or csv with its file.",
            "--data",
            metavar="NAME[:PLACE]",
            show_default="the study's own",
        ),
    ] = None,
    forget: Annotated[
        str | None,
        opt.data(
            "Data that a built-in study forgets: class:6, classes:1,2, samples:50 (per class), or indices:FILE.",
            "--forget",
            metavar="WHAT",
            show_default="the study's own",
        ),
    ] = None,
    network: opt.OurNetwork = None,
    init: opt.Init = None,
    method: Annotated[
        list[str] | None, opt.methods("Only this method (and Original, Retrain); may be repeated.")
    ] = None,
    plugin: opt.Plugins = None,
    seeds: Annotated[
        int | None, opt.methods("Number of seeds (0, 1, ...).", min=1, show_default="the study's own")
    ] = None,
    draws: Annotated[
        int | None, opt.methods("Number of unlearning seeds of each Original.", min=1, show_default="the study's own")
    ] = None,
    information: Annotated[bool, opt.critics("Measure the information in blocks, and IDI.")] = True,
    restarts: Annotated[
        int | None, opt.critics("Number of times that each critic is fitted.", min=1, show_default="the study's own")
    ] = None,
    trajectory: Annotated[
        bool,
        opt.output("Also read UA, RA and TA after every epoch of every method; the page shows them.", "--trajectory"),
    ] = False,
    compact: Annotated[
        bool,
        opt.output(
            "Records of a tenth of the size: all values, but of samples only what tables and figures need.", "--compact"
        ),
    ] = False,
) -> Study:
    """A built-in study or that of a file, with the changes that were asked for."""
    named = _named_study(name)
    if isinstance(named, Study) and (data or forget or network or init):
        raise InputError(f"{name} defines its own data and networks; leave --data, --forget, --network and --init out")
    more = {} if init is None else {"init": starting_weights(init, out)}
    study = named if isinstance(named, Study) else named(data, forget, network, console.say, **more)
    changes: dict[str, Any] = {"measures": _measures(study, information, restarts)}
    changes |= {"trajectories": True} if trajectory else {}
    changes |= {"compact": True} if compact else {}
    changes |= {} if seeds is None else {"seeds": range(seeds)}
    changes |= {} if draws is None else {"draws": draws}
    study = dataclasses.replace(study, **changes)
    scale = getattr(named, "scale", None) if named is not study else None
    return _with_methods(study, method, scale) if method else study


def _named_study(name: str) -> Any:
    """A built-in study, the `study` of FILE.py, or for FILE.py:NAME the entry of its `studies`."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    file, _, inside = name.partition(".py:")
    path = Path(f"{file}.py" if inside else name)
    if path.suffix != ".py" or not path.is_file():
        raise InputError(
            f"there is no study {name!r}; give {', '.join(BUILT_IN)}, or a Python file with study = Study(...)"
        )
    try:
        defined = runpy.run_path(str(path), run_name="residua_study")
    except InputError:
        raise
    except Exception as error:  # the code is the user's, and so is what it raises
        raise InputError(f"{path} cannot be run ({type(error).__name__}: {first_line(error)}); correct it") from error
    if not inside:
        if not isinstance(defined.get("study"), Study):
            raise InputError(f"{path} defines no study; write study = Study(...) in it")
        return defined["study"]
    known = defined.get("studies", {})
    if inside not in known:
        raise InputError(f"{path} has no study {inside!r}; choose one of {', '.join(known) or 'none'}")
    return known[inside]


def _measures(study: Study, information: bool, restarts: int | None) -> tuple[Any, ...]:
    """The study's measures as they were asked for, and those of --plugin files."""
    own: list[Any] = [each for each in study.measures if information or not isinstance(each, InformationCurve)]
    if restarts is not None:
        own = [
            dataclasses.replace(each, restarts=restarts) if isinstance(each, InformationCurve) else each for each in own
        ]
    labels = {each.label for each in own}
    plugged = [kind() for kind in measures().values() if kind.__module__.startswith(plugins.PREFIX)]
    return (*own, *(each for each in plugged if each.label not in labels))


def _with_methods(study: Study, words: list[str], scale: Scale | None) -> Study:
    """The study with these methods, and with Original and Retrain, only.

    A study of a scale takes further methods, such as EU-7 or file.py:Class, with the recipes of that scale.
    """
    rows = {row.label for row in study.rows}  # FT* is a row of its own, and comes with FT as well
    wanted = {word if word in rows else find(word).label: word for word in words}
    given = study.methods

    def chosen(task: Any, network: Any) -> list[Any]:
        every = given(task, network) if callable(given) else given
        kept = [
            each
            for each in every
            if {each.label, each.method.label if isinstance(each, Row) else each.label} & {*ALWAYS, *wanted}
        ]
        if scale is not None:
            more = [word for label, word in wanted.items() if label not in {each.label for each in kept}]
            kept += [at_scale(word, scale, task, str(network["network"])) for word in more]
        return kept

    return dataclasses.replace(study, methods=chosen)


def _with_study(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options that choose a study; it gets the function that makes the study as `chosen`."""
    own = dict(inspect.signature(command, eval_str=True).parameters)
    options = dict(inspect.signature(_chosen_study, eval_str=True).parameters)
    del own["chosen"], options["out"]

    @functools.wraps(command)
    def call(**given: Any) -> None:
        asked = {name: given.pop(name) for name in options}
        command(functools.partial(_chosen_study, given["out"], **asked), **given)

    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*options.values(), *own.values())]
    return opt.with_preprocessing(opt.with_parameters(call, parameters))


def _existing(folder: Path) -> Path:
    if not folder.is_dir() or not (folder / "cells").is_dir():
        raise InputError(f"{folder} holds no study; give the folder that `residua study run --out` wrote to")
    return folder


Out = Annotated[Path, opt.output("Folder of the study: cells, models, records.", metavar="DIR")]
Folder = Annotated[
    Path, typer.Argument(metavar="DIR", callback=_existing, help="The folder that `study run --out` wrote to.")
]


@app.command()
@_with_study
def run(
    chosen: Callable[[], Study],
    out: Out,
    jobs: Annotated[int, opt.run("Worker processes, one thread each.", min=1)] = 2,
    engine: Annotated[Literal["local", "ray"], opt.run("Worker processes here, or tasks of a Ray cluster.")] = "local",
    address: Annotated[
        str | None, opt.run("Address of a running Ray cluster, or auto; without it Ray is started here.")
    ] = None,
    device: opt.Device = "auto",
    limit: Annotated[
        str | None, opt.run("Longest time of a worker for one model (10m, 2h); then it is ended.", metavar="TIME")
    ] = None,
    keep: Annotated[str, opt.run("Time between two saved states of a long training.", metavar="TIME")] = "2m",
    rehearse: Annotated[
        bool,
        opt.run(
            "Only try: one batch of every phase of every model and every measure, at full width, with the bytes and, "
            "roughly, the time that the run will take.",
            "--rehearse",
        ),
    ] = False,
) -> None:
    """Make and measure what is missing; the same command resumes.

    Exit code 0: everything is there, 1: some cells failed and are named, 3: bad input, 130: interrupted.

    Example: residua study run tiny --method COLA --method SCRUB --seeds 3 --out study/
    """
    check_place(out / "study.json")
    study = chosen()
    where = choose_device(device)
    if rehearse:
        _rehearse(study, str(where))
        return
    with console.study_progress(where) as reporting:
        finished = schedule.run(
            study,
            out,
            jobs=jobs,
            engine=engine,
            address=address,
            device=str(where),
            limit=None if limit is None else seconds_of(limit, "--limit"),
            keep=seconds_of(keep, "--keep"),
            **reporting,
        )
    if not finished.records:
        console.report_failures(finished.failures)
        raise InputError(f"the study {study.name} has no rows, so there is nothing to show; give it methods")
    rows = summary(finished.records)
    tables = study_tables(finished.records, rows=rows, verdicts=_words(finished.records), own=_own(finished.records))
    for each in tables:
        console.show(each)
    write_text(out / "table.md", "\n".join(each.markdown() for each in tables))
    if finished.computed or not _is_current(out):
        _write_page(out, finished.records, rows)
    console.say(f"Open {out / PAGE} to look at it.")
    console.say(f"{finished.computed} cells computed, {finished.reused} found; records are in {out}/records/.")
    console.report_failures(finished.failures)


def _rehearse(study: Study, device: str) -> None:
    """Print the sizes of the study, every phase that fails, and the time of the whole at the rate of this device."""
    _show_sizes(study)

    def tell(phase: rehearsing.Phase) -> None:
        console.say(f"{phase.name}: {phase.failure or f'{phase.seconds:.1f} s'}")

    done = rehearsing.rehearse(study, device, tell)
    console.echo(
        f"{len(done.phases) - len(done.failures)} of {len(done.phases)} phases passed; at the rate of one step here, "
        f"trainings and unlearnings take about {duration(done.seconds)} on one such device, without measures."
    )
    console.report_failures(done.failures)


def _show_sizes(study: Study) -> None:
    for each in rehearsing.sizes(study):
        console.echo(
            f"{each.name}: {size_of(each.weights)} of weights, {each.models} models in {size_of(each.disk)} of disk; a "
            f"training takes about {size_of(each.training)} of the device's memory (batch {each.batch}, "
            f"{size_of(each.image)} an image, float32)" + (f", images {size_of(each.pixels)}" if each.pixels else "")
        )
        for block, (size, place) in each.features.items():
            console.echo(f"  features of block {block}: {size_of(size)}, {PLACES[place]}")


def _write_page(out: Path, records: Sequence[Record], rows: Any = None) -> None:
    links = audits_in(out, {record.method.label for record in records})
    write_text(out / PAGE, study_page(records, out.absolute().name, rows, links))


def _is_current(folder: Path) -> bool:
    """True if the page is newer than the study's definition and every record; a run that finds all leaves those alone."""
    try:
        drawn = (folder / PAGE).stat().st_mtime_ns
        return all(path.stat().st_mtime_ns < drawn for path in (folder / "study.json", *folder.glob("records/*.json")))
    except OSError:
        return False


@app.command()
@_with_study
def plan(
    chosen: Callable[[], Study],
    out: Out,
    jobs: Annotated[int, opt.run("Worker processes that the time is divided by.", min=1)] = 2,
    device: opt.Device = "auto",
    as_json: opt.AsJson = False,
) -> None:
    """List what `study run` would make, what is there already, and the cost, estimated from what was measured.

    Example: residua study plan tiny --seeds 3 --out study/
    """
    where = device_name(device)
    study = chosen()
    planned = schedule.plan(study, out, where)
    console.say(f"planned for device {where}")
    if as_json:
        sizes = [dataclasses.asdict(each) for each in rehearsing.sizes(study)]
        console.echo_json(dataclasses.asdict(planned) | {"sizes": sizes})
        return
    _show_sizes(study)
    for kind in dict.fromkeys((*planned.there, *planned.missing)):
        here, left = planned.there.get(kind, 0), planned.missing.get(kind, 0)
        console.echo(f"{kind}: {left} to make, {here} there")
    if planned.missing:
        console.echo(_cost(planned, jobs))


def _cost(planned: Any, jobs: int) -> str:
    if planned.unknown == sum(planned.missing.values()):
        return "What they cost is unknown: nothing like them was made here yet."
    unknown = f", and {planned.unknown} cells of unknown cost" if planned.unknown else ""
    return f"About {duration(planned.seconds / jobs)} with {jobs} at a time{unknown}."


@app.command()
def status(folder: Folder, as_json: opt.AsJson = False) -> None:
    """Show the state of the last run: done, running, left, failures.

    Example: residua study status study/
    """
    state = folders.status(folder)
    if as_json:
        console.echo_json(state)
        return
    left = state["total"] - state["done"] - state["failed"]
    over = "finished" if state["finished"] else "running" if state["processes"] else "stopped"
    words = console.time_left(state.get("left", 0.0), state.get("unknown", 0)) if left else ""
    more = f" ({words})" if words else ""
    console.echo(f"{over}: {state['done']} of {state['total']} cells done, {left} left{more}")
    for label, values in (("running", state["running"]), ("damaged and set aside", state["damaged"])):
        if values:
            console.echo(f"{label}: {', '.join(values)}")
    for cell, reason in state["failures"].items():
        console.echo(f"failed: {cell}: {reason}")


@app.command()
def why(
    folder: Folder, cell: Annotated[str, typer.Argument(help="Name of a cell, such as seed0-cola/information.")]
) -> None:
    """Explain why a cell was computed again: which of its inputs changed, old and new.

    Example: residua study why study/ seed0-cola/information
    """
    changes = folders.why(folder, cell)
    for change in changes or [f"{cell} was made once; nothing that it depends on has changed"]:
        console.echo(change)


def _with_records(folder: Path) -> Path:
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; give that of a study, or any folder of records")
    return folder


@app.command()
def table(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", callback=_with_records, help="The folder of a study, or any folder of records."),
    ],
    by: Annotated[
        Literal["reference", "last", "block", "family"] | None,
        typer.Option(help="IDI by reference, number of last blocks or critics; or information by block."),
    ] = None,
    reference: Annotated[
        list[str] | None,
        typer.Option(
            help="Zero of IDI: a method, or all Retrains (all); several with --by reference.", show_default="Retrain"
        ),
    ] = None,
    last: Annotated[
        int | None,
        typer.Option(min=1, help="Number of last blocks that IDI sums.", show_default="all that were measured"),
    ] = None,
    family: Annotated[
        str | None,
        typer.Option(help="Critics: linear, network, nonlinear or stack.", show_default="the first measured"),
    ] = None,
    as_json: opt.AsJson = False,
    as_csv: Annotated[bool, opt.output("Print CSV, one line per model.", "--csv")] = False,
    as_latex: Annotated[bool, opt.output("Print LaTeX.", "--latex")] = False,
    as_markdown: Annotated[bool, opt.output("Print Markdown.", "--markdown")] = False,
) -> None:
    """Compare methods: mean, standard deviation and n; ties with the best are marked together.

    Other references, numbers of blocks and critics are arithmetic on what is stored: nothing is fitted again.

    Example: residua study table study/ --by reference --reference Retrain --reference FT
    """
    if as_json + as_csv + as_latex + as_markdown > 1:
        raise InputError("--json, --csv, --latex and --markdown were given together; choose one")
    records = records_in(folder)
    if by is None and len(reference or []) > 1:
        raise InputError("several references were given; add --by reference to see them side by side")
    rows: list[dict[str, Any]] = []
    tables: list[Table] = []
    if by is not None:
        found = answers(records, by, references=reference or [], last=last, family=family)
        if not found:
            raise InputError(f"{folder} holds no information curves; measure them first")
        rows = [row for each in found for row in each.rows()]
        tables = [each.table() for each in found]
    elif as_json or as_csv:
        rows = summary(records, reference=(reference or ["Retrain"])[0], last=last, family=family)
    else:
        zero = (reference or ["Retrain"])[0]
        tables = study_tables(records, zero, verdicts=_words(records), last=last, family=family, own=_own(records))
    if as_json:
        console.echo_json({"rows": rows})
        return
    if as_csv:
        console.echo(_csv(rows), end="")
        return
    for each in tables:
        if as_latex or as_markdown:
            console.echo(each.latex() if as_latex else each.markdown(), end="")
        else:
            console.show(each)


def _words(records: Sequence[Record]) -> dict[str, str] | None:
    """The verdicts on each method's models in a few words; None where the records cannot be judged."""
    found = verdicts_of(records)
    return {
        label: ", ".join(
            f"{word.replace('_', ' ')}{f' ({n})' if words.total() > 1 else ''}" for word, n in words.items()
        )
        for label, words in found.items()
    } or None


def _own(records: Sequence[Record]) -> set[str]:
    """Labels of methods that are not the package's."""
    known = {type(method).__name__ for method in METHODS}
    return {each.method.label for each in records if each.role == "method" and each.method.kind not in known}


def _csv(rows: list[dict[str, Any]]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = tuple(tuple("" if row.get(name) is None else str(row[name]) for name in names) for row in rows)
    return Table("", tuple(names), cells).csv()


@app.command()
@_with_study
def verdicts(chosen: Callable[[], Study], out: Out, device: opt.Device = "auto") -> None:
    """Give a verdict on every model of a study that has run, against its Original and all its Retrains.

    Nothing is measured: the same options as for `study run` find what is in --out. Reports and a table are written to
    verdicts/ there. The studies of the paper (tiny, small, ...) measure all that a verdict rests on.

    Example: residua study verdicts tiny --out study/
    """
    if not (out / "cells").is_dir():
        raise InputError(f"{out} holds no study; run `residua study run` with the same options first")
    check_place(own_folder(out, VERDICTS) / "table.md")
    study = chosen()
    on = device_name(device)
    reports = control_reports(schedule.whole_records(study, out, on), Rules())
    if not reports:
        raise InputError(
            f"{out} holds no finished Original, Retrain and model of the study {study.name} with these options on "
            f"device {on}; run `residua study run` with them first, or give its --device"
        )
    command = opt.command_line()
    several = len({each.about["setting"] for each in reports}) > 1
    for each in reports:
        numbers = [each.about["seed"], *([each.about["draw"]] if "draw" in each.about else [])]
        where = f"-{slug(each.about['setting'])}" if several else ""
        path = out / VERDICTS / f"seed{'-'.join(map(str, numbers))}-{slug(each.about['control'])}{where}.json"
        signed = each.model_copy(update={"about": each.about | {"command": command}})
        write_text(path, f"{compact(signed)}\n")
    result = model_verdicts(reports)
    write_text(out / VERDICTS / "table.md", f"{result.markdown()}\n`{command}`\n")
    if (out / "records").is_dir():
        _write_page(out, records_in(out))
    console.show(result)
    console.say(f"{len(reports)} reports and the table are in {out / VERDICTS}/.")


@app.command()
def check(
    folder: Folder,
    repair: Annotated[
        bool, typer.Option("--repair", help="Move what is damaged to damaged/, so that a run makes it again.")
    ] = False,
) -> None:
    """Compare every file of the study with its hash. Exit code 1: some were damaged, and are named.

    Example: residua study check study/
    """
    sentences = folders.check(folder, repair=repair)
    for sentence in sentences or ["Every file is what was written."]:
        console.echo(sentence)
    if sentences:
        raise typer.Exit(1)


@app.command()
def prune(
    folder: Folder,
    models: Annotated[
        bool, typer.Option("--models", help="Also remove weights; they are made again where they are needed.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report what would be removed.")] = False,
) -> None:
    """Remove what the last run did not need: results of old settings, and what was damaged.

    Example: residua study prune study/ --dry-run
    """
    files, size = folders.prune(folder, models=models, dry=dry_run)
    verb = "would be removed" if dry_run else "removed"
    console.echo(f"{files} files with {size / 1e6:.1f} MB {verb}.")
