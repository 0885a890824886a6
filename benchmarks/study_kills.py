"""Does a study that is killed over and over end with the numbers of one that is left alone?

    python benchmarks/study_kills.py --work kills/ [--out records/study-kills] [--kills 50] [--ray 5] [--minutes 20]

The built-in study `tiny`, on a tenth of its data and without information curves, runs once undisturbed. Then it runs again
while the whole process group is killed (SIGKILL) at random moments, and once more while single workers are; some of both
with the Ray engine, where the group is in turn all of Ray or its node alone. Trainings keep their state every
epoch, so that they get somewhere. A run that was killed is started again with the same command, and one that ends before
all kills were dealt is compared, and begun anew. The same command as this goes on where it was
stopped. Exit code 0: every table equals the undisturbed one in every number but run times; 1: one does not; 2: the time
was up first.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from residua.files import write_atomically
from residua.record import software

METHODS = ("HD", "FT", "GA", "SCRUB")
STUDY = ("tiny", "--data", "fashion-sample?part=0.1", "--no-information", "--jobs", "2", "--keep", "1s")
# Between two kills so many cells are finished, at most, and then so many seconds pass: the moments are spread over the work,
# however fast the machine is. A run in which nothing is finished for a minute is killed all the same.
CELLS, SECONDS, PATIENCE = 4, 2.0, 60.0
TIMES = "RTE"  # and RTE.cpu, RTE.load


class TimeIsUp(Exception):
    pass


class Trial:
    """The kills dealt so far, on disk after every kill."""

    def __init__(self, work: Path, methods: Sequence[str], seconds: float) -> None:
        self.work, self.methods = work, list(methods)
        self.deadline = time.monotonic() + seconds
        self.path = work / "kills.json"
        work.mkdir(parents=True, exist_ok=True)
        self.state: dict[str, Any] = {"methods": self.methods, "kills": [], "compared": 0, "unequal": []}
        if self.path.exists():
            self.state = json.loads(self.path.read_text("utf-8"))
            if self.state["methods"] != self.methods:
                raise SystemExit(f"{work} holds a trial of {self.state['methods']}; give another --work")

    def keep(self) -> None:
        text = json.dumps(self.state, indent=1) + "\n"
        write_atomically(self.path, lambda part: part.write_text(text, encoding="utf-8"))

    def dealt(self, kind: str, engine: str) -> int:
        return sum((kill["kind"], kill["engine"]) == (kind, engine) for kill in self.state["kills"])

    def command(self, folder: Path, engine: str = "local") -> list[str]:
        chosen = [word for label in self.methods for word in ("--method", label)]
        chosen += ["--engine", engine] if engine != "local" else []
        return ["residua", "study", "run", *STUDY, "--out", str(folder), *chosen]

    @contextlib.contextmanager
    def running(self, folder: Path, engine: str = "local") -> Iterator[subprocess.Popen[bytes]]:
        """The study in a process group of its own, which is gone afterwards, with all that it started."""
        if time.monotonic() > self.deadline:
            raise TimeIsUp
        code = "from residua.cli import run; run()"
        command = [sys.executable, "-c", code, *self.command(folder, engine)[1:]]
        with (self.work / "log.txt").open("ab") as log:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log, start_new_session=True)
        try:
            yield process
        finally:
            end(process)

    def finish(self, folder: Path) -> list[dict[str, Any]]:
        """Run to the end, and the table without run times."""
        for _ in range(3):  # a cell whose worker was killed twice is reported, and the same command tries it again
            with self.running(folder) as process:
                while process.poll() is None:
                    if time.monotonic() > self.deadline:
                        raise TimeIsUp
                    time.sleep(0.1)
            if process.returncode == 0:
                return table(folder)
        raise SystemExit(f"the study in {folder} does not end; see {self.work}/log.txt")

    def compare(self, folder: Path, expected: list[dict[str, Any]]) -> None:
        found = self.finish(folder)
        self.state["compared"] += 1
        if found != expected:
            shown = folder.with_name(f"unequal-{len(self.state['unequal'])}-{folder.name}")
            shutil.copytree(folder, shown)
            self.state["unequal"].append(shown.name)
        self.keep()
        shutil.rmtree(folder)

    def deal(self, kind: str, engine: str, count: int, expected: list[dict[str, Any]]) -> None:
        """So many kills, over as many runs of the study as it takes; every one that ends is compared."""
        folder = self.work / f"{kind}-{engine}"
        while (dealt := self.dealt(kind, engine)) < count:
            chance = random.Random(f"{kind} {engine} {dealt}")
            began = time.time()
            with self.running(folder, engine) as process:
                while process.poll() is None and not works(folder, began):
                    time.sleep(0.05)
                while process.poll() is None and self.dealt(kind, engine) < count:
                    since, target = time.monotonic(), done(folder) + chance.randint(0, CELLS)
                    while process.poll() is None and done(folder) < target and time.monotonic() < since + PATIENCE:
                        time.sleep(0.02)
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(chance.uniform(0, SECONDS))
                        break  # it was quicker
                    self.hit(kind, engine, folder, process, time.monotonic() - since)
            if process.returncode == 0:
                self.compare(folder, expected)
        if folder.exists():  # what the last kill left
            self.compare(folder, expected)

    def hit(self, kind: str, engine: str, folder: Path, process: subprocess.Popen[bytes], after: float) -> None:
        there = {"done": done(folder), "running": at_work(folder)}
        number = self.dealt(kind, engine)
        node = kind == "group" and engine == "ray" and number % 2 == 1
        below = [
            one
            for one in descendants(process.pid)
            if engine == "local" or named(one, "raylet/raylet" if node else "ray::")
        ]
        if kind == "worker" or node:
            if not below:
                return
            with contextlib.suppress(ProcessLookupError):
                os.kill(random.Random(f"worker {number}").choice(below), signal.SIGKILL)
        else:
            end(process)
        if node:  # the run must notice by itself that its cluster is gone
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(60)
            there["said"] = process.returncode
        self.state["kills"].append({"kind": kind, "engine": engine, "node": node, "after": round(after, 2), **there})
        self.keep()


def table(folder: Path) -> list[dict[str, Any]]:
    code = "from residua.cli import run; run()"
    command = [sys.executable, "-c", code, "study", "table", str(folder), "--json"]
    rows = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["rows"]
    return [{name: value for name, value in row.items() if name.split(".")[0] != TIMES} for row in rows]


def done(folder: Path) -> int:
    """Cells that are finished."""
    return len(list((folder / "cells").glob("[!.]*.json")))


def works(folder: Path, since: float) -> bool:
    """True if a run has said since then where it is."""
    with contextlib.suppress(OSError):
        return (folder / "status.json").stat().st_mtime >= since
    return False


def at_work(folder: Path) -> list[str]:
    """The last report of the run on its own progress."""
    with contextlib.suppress(OSError, ValueError):
        return list(json.loads((folder / "status.json").read_text("utf-8"))["running"])
    return []


def descendants(parent: int) -> list[int]:
    """The processes below this one; dead ones that nobody has waited for do not count."""
    above: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, by, *_ = stat.read_text().rpartition(")")[2].split()
            if state != "Z":
                above[int(stat.parent.name)] = int(by)
    found = [parent]
    for each in found:
        found += sorted(one for one, by in above.items() if by == each)
    return found[1:]


def named(process: int, words: str) -> bool:
    with contextlib.suppress(OSError):
        return words in Path(f"/proc/{process}/cmdline").read_text(errors="replace").partition("\0")[0]
    return False


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a run and all that it started."""
    below = descendants(process.pid)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for each in below:
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
    process.wait()


def markdown(record: dict[str, Any]) -> str:
    lines = ["# Kills of the study `tiny`", "", f"`{record['study']}`", ""]
    lines += ["| killed | engine | times | between the first and the last cell |", "|---|---|---|---|"]
    kills = record["kills"]
    for kind, engine in dict.fromkeys((kill["kind"], kill["engine"]) for kill in kills):
        own = [kill for kill in kills if (kill["kind"], kill["engine"]) == (kind, engine)]
        nodes = (
            f", {sum(kill['node'] for kill in own)} of them Ray's node alone"
            if engine == "ray" and kind == "group"
            else ""
        )
        lines.append(f"| {kind}{nodes} | {engine} | {len(own)} | {sum(between(kill, record) for kill in own)} |")
    equal = "all are equal" if record["equal"] else f"all but {len(record['unequal'])} are equal"
    lines += ["", f"{len(kills)} kills, {sum(between(kill, record) for kill in kills)} between the first and the last of "
              f"{record['cells']} cells; {record['compared']} runs went to their end, and {equal} to the undisturbed one in every "
              f"number but run times. `{record['command']}`", ""]  # fmt: skip
    lines += [
        "| killed | engine | s after the start or the last kill | cells done | at work |",
        "|---|---|---|---|---|",
    ]
    for kill in kills:
        work = ", ".join(kill["running"][:2]) + (" ..." if len(kill["running"]) > 2 else "") or "starting"
        what = "node" if kill["node"] else kill["kind"]
        lines.append(f"| {what} | {kill['engine']} | {kill['after']:.1f} | {kill['done']} | {work} |")
    return "\n".join(lines) + "\n"


def between(kill: dict[str, Any], record: dict[str, Any]) -> bool:
    return bool(0 < kill["done"] < record["cells"])


def write(out: Path, trial: Trial, rows: list[dict[str, Any]]) -> bool:
    state = trial.state
    record = {
        "command": shlex.join(["python", "benchmarks/study_kills.py", *sys.argv[1:]]),
        "study": shlex.join(trial.command(Path("DIR"))),
        "equal": not state["unequal"],
        "unequal": state["unequal"],
        "compared": state["compared"],
        "cells": len(list((trial.work / "undisturbed" / "cells").glob("[!.]*.json"))),
        "kills": state["kills"],
        "rows": rows,
        "software": software(),
    }
    out.mkdir(parents=True, exist_ok=True)
    for name, text in (("kills.json", json.dumps(record, indent=1) + "\n"), ("table.md", markdown(record))):
        (out / name).write_text(text, encoding="utf-8")
    return bool(record["equal"])


def main(words: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--work", type=Path, required=True, help="folder for the runs, and where it goes on")
    options.add_argument("--out", type=Path, help="folder for kills.json and table.md")
    options.add_argument("--kills", type=int, default=50, help="of the group, and as many of workers")
    options.add_argument("--ray", type=int, default=5, help="of both, so many with the Ray engine")
    options.add_argument("--minutes", type=float, default=20.0)
    options.add_argument("--method", action="append", help="of the study tiny; may be repeated")
    chosen = options.parse_args(words)
    trial = Trial(chosen.work.absolute(), chosen.method or METHODS, 60 * chosen.minutes)
    try:
        expected = trial.finish(trial.work / "undisturbed")
        for kind in ("group", "worker"):
            for engine, count in (("local", chosen.kills - chosen.ray), ("ray", chosen.ray)):
                if count and not trial.state.get(f"{kind} {engine} is over"):
                    trial.deal(kind, engine, count, expected)
                    trial.state[f"{kind} {engine} is over"] = True
                    trial.keep()
    except TimeIsUp:
        print(f"{len(trial.state['kills'])} kills so far, and the time is up; the same command goes on")
        return 2
    equal = not trial.state["unequal"] if chosen.out is None else write(chosen.out, trial, expected)
    print(f"{len(trial.state['kills'])} kills, {trial.state['compared']} tables compared, equal: {equal}")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
