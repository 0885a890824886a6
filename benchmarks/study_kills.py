"""Does a study that is killed over and over end with the numbers of one that is left alone?

    python benchmarks/study_kills.py --work kills/ [--out records/study-kills] [--kills 20] [--minutes 20] [--method HD ...]

The built-in study `tiny` runs once undisturbed. Then it runs again while the whole process group is killed (SIGKILL) at
random moments, and once more while single workers are. Trainings keep their state every epoch, so that they get
somewhere. A run that was killed is started again with the same command,
and one that ends before all kills were dealt is compared, and begun anew. The same command as this goes on where it was
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

METHODS = ("HD", "FT", "GA", "SCRUB", "COLA", "Random")
# Seconds from when a run begins to work (imports are over), or from the last kill, to the next.
GROUP, WORKER = (3.0, 45.0), (2.0, 20.0)
TIMES = ("RTE",)


class TimeIsUp(Exception):
    pass


class Trial:
    """What was dealt so far, on disk after every kill."""

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

    def dealt(self, kind: str) -> int:
        return sum(kill["kind"] == kind for kill in self.state["kills"])

    def command(self, folder: Path) -> list[str]:
        chosen = [word for label in self.methods for word in ("--method", label)]
        return [
            "residua",
            "study",
            "run",
            "tiny",
            "--out",
            str(folder),
            "--jobs",
            "2",
            "--keep",
            "1s",
            *chosen,
        ]

    @contextlib.contextmanager
    def running(self, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
        """The study in a process group of its own, which is gone afterwards."""
        if time.monotonic() > self.deadline:
            raise TimeIsUp
        code = "from residua.cli import run; run()"
        command = [sys.executable, "-c", code, *self.command(folder)[1:]]
        with (self.work / "log.txt").open("ab") as log:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log, start_new_session=True)
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def finish(self, folder: Path) -> list[dict[str, Any]]:
        """Run to the end, and the table without run times."""
        for _ in range(
            3
        ):  # a cell whose worker was killed twice is reported, and the same command tries it again
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
            self.state["unequal"].append(folder.name)
        self.keep()
        shutil.rmtree(folder)

    def deal(self, kind: str, count: int, expected: list[dict[str, Any]]) -> None:
        """So many kills, over as many runs of the study as it takes; every one that ends is compared."""
        folder = self.work / kind
        while (dealt := self.dealt(kind)) < count:
            chance = random.Random(f"{kind} {dealt}")
            began = time.time()
            with self.running(folder) as process:
                while process.poll() is None and not works(folder, began):
                    time.sleep(0.05)
                while process.poll() is None and self.dealt(kind) < count:
                    after = chance.uniform(*(GROUP if kind == "group" else WORKER))
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(after)
                        break  # it was quicker
                    self.hit(kind, folder, process, after)
            if process.returncode == 0:
                self.compare(folder, expected)
        if folder.exists():  # what the last kill left
            self.compare(folder, expected)

    def hit(self, kind: str, folder: Path, process: subprocess.Popen[bytes], after: float) -> None:
        there = {"done": len(list((folder / "cells").glob("[!.]*.json"))), "running": at_work(folder)}
        victims = [process.pid] if kind == "group" else workers(process.pid)
        if not victims:
            return
        if kind == "group":
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        else:
            os.kill(random.Random(f"worker {self.dealt(kind)}").choice(victims), signal.SIGKILL)
        self.state["kills"].append({"kind": kind, "after": round(after, 2), **there})
        self.keep()


def table(folder: Path) -> list[dict[str, Any]]:
    code = "from residua.cli import run; run()"
    command = [sys.executable, "-c", code, "study", "table", str(folder), "--json"]
    rows = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["rows"]
    return [{name: value for name, value in row.items() if name not in TIMES} for row in rows]


def works(folder: Path, since: float) -> bool:
    """Whether a run has said since then where it is."""
    with contextlib.suppress(OSError):
        return (folder / "status.json").stat().st_mtime >= since
    return False


def at_work(folder: Path) -> list[str]:
    """What the run last said that it was at."""
    with contextlib.suppress(OSError, ValueError):
        return list(json.loads((folder / "status.json").read_text("utf-8"))["running"])
    return []


def workers(parent: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, above, *_ = stat.read_text().rpartition(")")[2].split()
            if int(above) == parent and state != "Z":
                found.append(int(stat.parent.name))
    return sorted(found)


def markdown(record: dict[str, Any]) -> str:
    lines = ["# Kills of the study `tiny`", "", f"`{record['study']}`", ""]
    lines += [
        "| killed | times | runs to the end | tables equal to the undisturbed one |",
        "|---|---|---|---|",
    ]
    kinds = {kind: sum(kill["kind"] == kind for kill in record["kills"]) for kind in ("group", "worker")}
    equal = "all" if record["equal"] else f"all but {len(record['unequal'])}"
    lines.append(
        f"| the whole process group, single workers | {kinds['group']}, {kinds['worker']} | {record['compared']} | {equal} |"
    )
    lines += [
        "",
        "| killed | s after the start or the last kill | cells done | at work |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {kill['kind']} | {kill['after']:.1f} | {kill['done']} | {', '.join(kill['running']) or 'starting'} |"
        for kill in record["kills"]
    ]
    return "\n".join(lines) + "\n"


def write(out: Path, trial: Trial, rows: list[dict[str, Any]]) -> bool:
    state = trial.state
    record = {
        "command": shlex.join(["python", "benchmarks/study_kills.py", *sys.argv[1:]]),
        "study": shlex.join(trial.command(Path("DIR"))),
        "equal": not state["unequal"],
        "unequal": state["unequal"],
        "compared": state["compared"],
        "kills": state["kills"],
        "rows": rows,
        "software": software(),
    }
    out.mkdir(parents=True, exist_ok=True)
    for name, text in (
        ("kills.json", json.dumps(record, indent=1) + "\n"),
        ("table.md", markdown(record)),
    ):
        (out / name).write_text(text, encoding="utf-8")
    return bool(record["equal"])


def main(words: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--work", type=Path, required=True, help="folder for the runs, and where it goes on")
    options.add_argument("--out", type=Path, help="folder for kills.json and table.md")
    options.add_argument("--kills", type=int, default=20, help="of the group, and as many of workers")
    options.add_argument("--minutes", type=float, default=20.0)
    options.add_argument("--method", action="append", help="of the study tiny; may be repeated")
    chosen = options.parse_args(words)
    trial = Trial(chosen.work.absolute(), chosen.method or METHODS, 60 * chosen.minutes)
    try:
        expected = trial.finish(trial.work / "undisturbed")
        for kind in ("group", "worker"):
            if not trial.state.get(f"{kind} is over"):
                trial.deal(kind, chosen.kills, expected)
                trial.state[f"{kind} is over"] = True
                trial.keep()
    except TimeIsUp:
        print(f"{len(trial.state['kills'])} kills so far, and the time is up; the same command goes on")
        return 2
    equal = not trial.state["unequal"] if chosen.out is None else write(chosen.out, trial, expected)
    print(f"{len(trial.state['kills'])} kills, {trial.state['compared']} tables compared, equal: {equal}")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
