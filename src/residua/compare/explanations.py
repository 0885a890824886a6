"""Which metrics there are: the explanations that the files of measures and comparisons carry, found without running them.

A measure's file stands in `measure/`, a comparison's here; each has a constant `EXPLANATIONS`. Plug-ins have one too.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from residua import plugins
from residua.errors import InputError
from residua.explaining import Explanation
from residua.source import ROOT, Source, source

BOXES = ("black", "cost", "white")
# The one metric that no file computes: the clock gives it.
RTE = Explanation(
    name="RTE",
    title="Run-time efficiency",
    box="cost",
    unit="seconds",
    definition="Wall-clock time of the whole unlearning, everything that it prepares included.",
    formula="seconds of the method's call",
    range="(0, infinity)",
    better="lower",
    ideal="Well below Retrain's, or one might as well retrain.",
    blind="How well it forgets; other machines and recipes.",
    elsewhere="Minutes in the paper; some leave out preparations such as SalUn's mask.",
    source="The paper, appendix on metrics. Records keep it as seconds.",
)


def measure_files() -> dict[str, Source]:
    """The file of every measure of ours by the name of its class, in the order of `MEASURES`."""
    room = source(ROOT / "measure" / "__init__.py")
    return {name.id: room.home(name.id) for name in room.nodes["MEASURES"].elts}  # type: ignore[attr-defined]


@functools.cache
def ours() -> tuple[Explanation, ...]:
    """Every metric of ours: what needs outputs, costs, what needs the inside; measures before comparisons."""
    entries = [*_of_measures(), *_of_comparisons(), RTE]
    return tuple(sorted(entries, key=lambda entry: BOXES.index(entry.box)))


def explanations() -> tuple[Explanation, ...]:
    """Every metric: ours, and those of the plug-ins that were loaded so far."""
    theirs = itertools.chain.from_iterable(
        _with_measure(entries, label) for label, entries in plugins.explanations().items()
    )
    return (*ours(), *theirs)


def explanation(word: str) -> Explanation:
    """The explanation of a metric or of a part of it, ignoring case."""
    entry = _names().get(word.lower()) or _names().get(word.partition(".")[0].lower())
    if entry is None:
        known = ", ".join(entry.name for entry in explanations())
        raise InputError(f"there is no metric {word!r}; choose one of {known}")
    return entry


def explained(name: str) -> Explanation | None:
    """The explanation of the value of this name; None for values that nothing explains."""
    return _names().get(name.partition(".")[0].lower())


def _names() -> dict[str, Explanation]:
    return {word.lower(): entry for entry in explanations() for word in (entry.name, *entry.aliases)}


def _of_measures() -> Iterator[Explanation]:
    for name, file in measure_files().items():
        if "EXPLANATIONS" in file.nodes:
            yield from _with_measure(file.constant("EXPLANATIONS"), _label(file, name))


def _of_comparisons() -> Iterator[Explanation]:
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if "EXPLANATIONS" in source(path).nodes:
            yield from source(path).constant("EXPLANATIONS")


def _with_measure(entries: Sequence[Explanation], label: str) -> Iterator[Explanation]:
    """In a measure's own file the measure goes without saying."""
    for entry in entries:
        yield entry if entry.measures else dataclasses.replace(entry, measures=(label,))


def _label(file: Source, name: str) -> str:
    return str(file.value(file.attributes(name)["label"]))
