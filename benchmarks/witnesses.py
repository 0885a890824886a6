"""Readings of the witnesses without a vote: the AUC of a model's own log-odds, offline LiRA and offline RMIA.

    residua controls --references 5 --seeds 3 --method "Further Retrain" --method FT --method HD --method COLA \
        --method EU-10 --method CF-10 --out controls/
    python benchmarks/witnesses.py controls/evidence/records --out records/witnesses

A row for each method: the reading, and where it lies between the references (0) and Original (1), by seed. Every reference
is also compared with the others, as a model that never saw the data. The half-width is that of a prediction by the
references' spread and of the AUC; a witness that votes has to keep it within the tolerance.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

from residua.compare import Rules, chance, offline_attacks, readings_of
from residua.compare.agreement import PRIOR_WITNESS
from residua.compare.metric_values import auc_interval
from residua.readings import Z95, Reading
from residua.record import Record
from residua.report.table import Table

LEFT_OUT = "References, each left out"
NAMES = ("log_odds", "offline_LiRA", "offline_RMIA")


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=Path, help="folder of the records")
    parser.add_argument("--out", type=Path, help="folder for table.md")
    given = parser.parse_args(words)
    seeds: dict[int, list[Record]] = defaultdict(list)
    for path in sorted(given.records.glob("*.json")):
        record = Record.read(path)
        if "log-odds" in record.readings:
            seeds[record.seeds["training"]].append(record)
    table = witness_table([each for records in seeds.values() for each in placed(records)])
    print(table.markdown())
    if given.out:
        given.out.mkdir(parents=True, exist_ok=True)
        every = [each for records in seeds.values() for each in records]
        labels = sorted({each.method.label for each in every if each.role not in ("original", "reference")})
        chosen = " ".join(f"--method {shlex.quote(each)}" for each in labels)
        number = sum(each.role == "reference" for each in next(iter(seeds.values())))
        made = f"residua controls --references {number} --seeds {len(seeds)} {chosen}"
        commands = f"`{made}`\n`python benchmarks/witnesses.py {given.records}`\n"
        (given.out / "table.md").write_text(f"{table.markdown()}\n{commands}", "utf-8")
    return 0


def placed(records: list[Record]) -> list[tuple[str, str, float, float, float]]:
    """Of one seed: method, witness, reading, place between references and Original, and half-width of the place."""
    read = {record.method.label: readings_of(record)["log-odds"] for record in records}
    references = [record.method.label for record in records if record.role == "reference"]
    size = next(record.setting.task for record in records if record.setting.task)
    sizes = {"log_odds": (size.size("forget_test"), size.size("test"))}
    rows = []
    for label in read:
        others = [read[each] for each in references if each != label]
        for name in NAMES:
            own, original = (value(name, each, others) for each in (read[label], read["Original"]))
            zeros = [value(name, each, [o for o in others if o is not each]) for each in others]
            gain = original - float(np.mean(zeros))
            low, high = auc_interval(own, *sizes.get(name, (size.size("forget"), size.size("forget_test"))))
            spread = chance([(each - np.mean(zeros)) / gain for each in zeros], PRIOR_WITNESS)
            half = spread.quantile(0.975) * spread.error((high - low) / (2 * Z95) / gain)
            method = LEFT_OUT if label in references else label
            rows.append((method, name, own, (own - float(np.mean(zeros))) / gain, abs(half)))
    return rows


def value(name: str, own: Reading, references: list[Reading]) -> float:
    return own.values[name] if name == "log_odds" else offline_attacks(own, references).values[name]


def witness_table(rows: list[tuple[str, str, float, float, float]]) -> Table:
    """A row for each witness and method, over all seeds."""
    by: dict[tuple[str, str], list[tuple[float, float, float]]] = defaultdict(list)
    for method, name, *numbers in rows:
        by[name, method].append((numbers[0], numbers[1], numbers[2]))
    tolerance = Rules().tolerance(5)
    lines = []
    for (name, method), found in sorted(by.items()):
        own, place, half = np.array(found).T
        above = int((place - half > tolerance).sum())
        ends = [f"{each.mean():.2f} ({each.min():.2f} to {each.max():.2f})" for each in (own, place)]
        lines.append((name, method, str(len(own)), *ends, f"{np.median(half):.2f}", str(above)))
    return Table(
        title="Witnesses without a vote",
        columns=("Witness", "Method", "models", "AUC", "place", "half-width", f"above {tolerance:g}"),
        rows=tuple(lines),
        note="Place: 0 is the references' mean, 1 Original. Above: models whose whole interval is above the tolerance.",
    )


if __name__ == "__main__":
    sys.exit(main())
