"""`residua explain`: metrics, methods, measures, their settings, and recipes."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal

import typer

from residua.cli import options as opt
from residua.cli.console import echo, echo_json, show
from residua.errors import InputError
from residua.explanations import Explanation, explained, explanation, explanations
from residua.measure import measures
from residua.report.table import Table
from residua.training.pretraining import Pretraining
from residua.training.recipes import PAPER, UNLEARNING, Scale, pretraining, unlearning
from residua.training.settings import described
from residua.unlearn import find, methods

LINES = {
    "definition": "Definition",
    "formula": "Formula",
    "range": "Range",
    "unit": "Unit",
    "better": "Better",
    "ideal": "Ideal",
    "blind": "Cannot see",
    "elsewhere": "Elsewhere",
    "source": "Source",
}
TOPICS = ("metrics", "methods", "measures", "recipes")
SCENARIOS = ("class", "random")
# A row of recipes, and a name that can be explained, that is not a method's.
PRETRAINING = "pretraining"
only = opt.panel("Recipes")


@dataclasses.dataclass(frozen=True)
class Entry:
    """A method, a measure or the pretraining: label, class, one sentence, docstring, settings and their meaning."""

    label: str
    kind: str
    about: str
    text: str
    settings: dict[str, Any]
    help: dict[str, str]

    @classmethod
    def of(cls, thing: Any, label: str = "") -> Entry:
        kind: Any = type(thing)
        text = inspect.cleandoc(kind.__doc__ or "")
        label = label or thing.label
        return cls(
            label=label,
            kind=kind.__name__,
            about=_sentence(inspect.cleandoc(sys.modules[kind.__module__].__doc__ or ""), text, label),
            text=text,
            settings=dataclasses.asdict(thing),
            help={name: field.setting.help for name, field in described(kind).items()},
        )


def explain(
    name: Annotated[
        str | None,
        typer.Argument(
            help="A metric (UA, IDI, ...), a method (COLA, ...), a measure (information, ...), pretraining, or one of "
            "metrics, methods, measures and recipes for a list. Without it: all lists."
        ),
    ] = None,
    plugin: opt.Plugins = None,
    as_json: opt.AsJson = False,
    scale: Annotated[Scale | None, only("Ours (tiny, small) or the paper's (full).", show_default="full")] = None,
    method: Annotated[list[str] | None, only("Only this method, or pretraining; may be repeated.")] = None,
    dataset: Annotated[str | None, only("Only this data set, such as cifar10.", "--data")] = None,
    network: Annotated[str | None, only("Only this network, such as resnet18.")] = None,
    scenario: Annotated[
        Literal["class", "random"] | None, only("Only forgetting of whole classes, or of random samples.")
    ] = None,
) -> None:
    """Explain a metric, a method, a measure or a setting, or list them all.

    A metric is explained with its definition and with what it cannot see, a method or measure with its settings and their
    defaults. Recipes are the hyperparameters of pretraining and of every method: the paper's, or ours for small networks.
    As JSON they are scenario -> data set -> network -> label -> field -> value; ours serve any data set and network, and
    are listed under `any`.

    Example: residua explain recipes --method COLA --data cifar10
    """
    measures()  # the metrics of plug-ins are known from here on
    filters = {"scale": scale, "method": method, "data": dataset, "network": network, "scenario": scenario}
    given = [option for option, value in filters.items() if value is not None]
    if given and name != "recipes":
        raise InputError(f"--{given[0]} is for recipes; write residua explain recipes --{given[0]} ...")
    if name == "recipes":
        labels = {PRETRAINING if word.lower() == PRETRAINING else find(word).label for word in method or []}
        wanted = (scenario, dataset, network)
        _print_recipes(scale or "full", _recipes(scale or "full", labels, wanted), as_json)
    elif name is None or name in TOPICS:
        _print_lists([name] if name else ["metrics", "methods", "measures"], as_json)
    elif explained(name):
        _print_metric(explanation(name), as_json)
    else:
        _print_entry(_entry(name), as_json)


def _entry(name: str) -> Entry:
    """The method, the measure or the pretraining of this name, ignoring case."""
    known = {label.lower(): Entry.of(method) for label, method in methods().items()}
    known |= {label.lower(): Entry.of(kind()) for label, kind in measures().items() if label.lower() not in known}
    known[PRETRAINING] = Entry.of(Pretraining(), PRETRAINING)
    if name.lower() in known:
        return known[name.lower()]
    if ":" in name or re.fullmatch(r"(eu|cf)-[1-9]\d*", name.lower()):
        return Entry.of(find(name))
    words = [*(entry.name for entry in explanations()), *(entry.label for entry in known.values()), *TOPICS]
    raise InputError(
        f"nothing is called {name!r}; {_nearest(name, words)}residua explain lists metrics, methods and measures"
    )


def _nearest(name: str, words: Iterable[str]) -> str:
    """The words that differ from a name by little."""
    by_lower = {word.lower(): word for word in words}
    near = difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(by_lower[word] for word in near)}? " if near else ""


def _print_metric(entry: Explanation, as_json: bool) -> None:
    of_measures = {label: Entry.of(measures()[label]()) for label in entry.measures}
    if as_json:
        settings = {
            label: {"label": label, "class": measure.kind} | measure.settings for label, measure in of_measures.items()
        }
        echo_json(dataclasses.asdict(entry) | {"settings": settings})
        return
    box = "a cost" if entry.box == "cost" else f"{entry.box}-box"
    echo(f"{entry.name}: {entry.title} ({box})", style="bold")
    for field, word in LINES.items():
        if text := getattr(entry, field):
            echo(f"{word + ':':<12}{text}")
    echo(f"{'Needs:':<12}{_needs(entry)}")
    for label, measure in of_measures.items():
        if measure.settings:
            own = ", ".join(f"{key} {value}" for key, value in measure.settings.items())
            echo(f"{'Settings:':<12}{measure.kind} ({label}): {own}")


def _print_entry(entry: Entry, as_json: bool) -> None:
    if as_json:
        echo_json(dataclasses.asdict(entry))
        return
    echo(f"{entry.label}: {entry.about}", style="bold")
    echo(entry.text)
    rows = tuple((name, _value(value), entry.help[name]) for name, value in entry.settings.items())
    if rows:
        show(Table("Settings", ("Name", "Default", "Meaning"), rows))
    if entry.label in methods():
        recipes = f"residua explain recipes --method {entry.label}"
        echo(f"Run it: residua unlearn {entry.label} --help. The paper's settings: {recipes}.")


def _print_lists(topics: list[str], as_json: bool) -> None:
    entries: dict[str, list[Any]] = {
        "methods": [*methods().values()],
        "measures": [kind() for kind in measures().values()],
    }
    found: dict[str, list[Any]] = {
        topic: [*explanations()] if topic == "metrics" else [Entry.of(thing) for thing in entries[topic]]
        for topic in topics
    }
    if as_json:
        plain = {
            topic: [dataclasses.asdict(e) if topic == "metrics" else _as_data(e) for e in every]
            for topic, every in found.items()
        }
        echo_json(plain if len(topics) > 1 else plain[topics[0]])
        return
    for topic, every in found.items():
        if topic == "metrics":
            columns: tuple[str, ...] = ("Name", "Title", "Box", "Better")
            rows: tuple[tuple[str, ...], ...] = tuple((e.name, e.title, e.box, e.better) for e in every)
        else:
            columns = ("Label", "About", "Settings")
            rows = tuple((e.label, e.about, _settings_line(e.settings)) for e in every)
        show(Table(topic.capitalize(), columns, rows))
    echo("More: residua explain NAME. Hyperparameters: residua explain recipes.")


def _as_data(entry: Entry) -> dict[str, Any]:
    return {"label": entry.label, "class": entry.kind, "about": entry.about, "settings": entry.settings}


def _recipes(scale: Scale, labels: set[str], wanted: tuple[str | None, ...]) -> dict[str, Any]:
    """Settings by scenario, data set, network and label, as far as they are wanted."""
    chosen: dict[str, Any] = {}
    for scenario, data, network, rows in _tables(scale):
        there = (scenario, data, network)
        if any(word and own not in (word, "any") for word, own in zip(wanted, there, strict=True)):
            continue
        kept = {label: fields for label, fields in rows.items() if not labels or label in labels}
        if kept:
            chosen.setdefault(scenario, {}).setdefault(data, {})[network] = kept
    if not chosen:
        raise InputError(
            f"no recipe of the {scale} scale fits; see residua explain recipes --scale {scale} for all, or leave a filter out"
        )
    return chosen


def _tables(scale: Scale) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Scenario, data set, network, and the settings by label."""
    if scale != "full":
        first = {PRETRAINING: dataclasses.asdict(pretraining(scale, "any", "any"))}
        for scenario in SCENARIOS:
            rows = unlearning(scale, scenario, "any", "any")
            # Methods whose only setting is the pretraining have no row: it has one of its own.
            own = {label: fields for label, fields in rows.items() if PRETRAINING not in fields}
            yield scenario, "any", "any", first | own
        return
    for scenario, datasets in UNLEARNING.items():
        for data, networks in datasets.items():
            for network, rows in networks.items():
                before = PAPER.get((data, network))
                first = {PRETRAINING: dataclasses.asdict(before)} if before else {}
                yield scenario, data, network, first | rows


def _print_recipes(scale: Scale, chosen: dict[str, Any], as_json: bool) -> None:
    if as_json:
        echo_json(chosen)
        return
    for scenario, datasets in chosen.items():
        for data, networks in datasets.items():
            for network, rows in networks.items():
                title = f"{scenario} forgetting, {data}, {network}, {scale} scale"
                lines = tuple((label, _settings_line(fields)) for label, fields in rows.items())
                show(Table(title=title, columns=("Method", "Settings"), rows=lines))


def _settings_line(settings: dict[str, Any]) -> str:
    """Names and values; a group of settings by its name only."""
    return ", ".join(name if isinstance(value, dict) else f"{name}={value}" for name, value in settings.items())


def _value(value: Any) -> str:
    return ", ".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else str(value)


def _needs(entry: Explanation) -> str:
    if not entry.measures:
        return "more than a checkpoint: the method that made the model"
    models = f" {'or' if entry.either else 'and'} ".join(f"--{other}" for other in entry.against)
    return f"the model{' with ' + models if models else ''}"


def _sentence(of_file: str, of_class: str, label: str) -> str:
    """The first sentence of the file or, where the file holds several things, of the class; without the label."""
    line = " ".join(of_file.split("\n\n")[0].split())
    if not line or " and " in line.partition(":")[0]:
        paragraph = " ".join(of_class.split("\n\n")[0].split())
        line = re.split(r"\.\s+(?=[A-Z])", paragraph)[0].rstrip(".") + "."
    return re.sub(rf"^({re.escape(label)}|[A-Z]{{2}}-k): ", "", line)
