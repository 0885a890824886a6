"""`residua demo`: unlearning and audits on the embedded data."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import Annotated

from residua.cli import options as opt
from residua.cli.console import echo, report_failures, say, show, study_progress, write_text
from residua.cli.inputs import choose_device, open_task
from residua.compare import Rules
from residua.files import check_place, write_atomically
from residua.report.controls import control_reports, found_table
from residua.report.methods import study_tables
from residua.report.pages import PAGE, study_page
from residua.study.presets import complete, demonstration
from residua.text import slug


def demo(
    out: Annotated[Path, opt.output("Folder for models, records and the table.", metavar="DIR")] = Path("demo"),
    seed: opt.Seed = 0,
    network: opt.OurNetwork = None,
    jobs: opt.Jobs = 2,
    device: opt.Device = "auto",
) -> None:
    """Forget class 6 (shirt) of the embedded Fashion-MNIST sample: what models say, what they know, the verdicts.

    What is already in --out is not made again, so the same command resumes where it was stopped.

    Example: residua demo --out demo/
    """
    check_place(out / "table.md")
    where = choose_device(device)
    say(
        "Forgetting class 6 (shirt) of 6,000 embedded images of clothes. This takes about two minutes on two "
        "AVX-512 cores, longer on others."
    )
    task = open_task("fashion-sample", "class:6")
    with study_progress(where) as reporting:
        study = demonstration(task, seed=seed, network=network)
        finished = complete(study, out / "study", jobs=jobs, device=str(where), **reporting)
    reports = {report.about["control"]: report for report in control_reports(finished.records, Rules())}
    verdicts = {label: report.verdict.replace("_", " ") for label, report in reports.items()}
    (table,) = study_tables(finished.records, verdicts=verdicts)
    write_text(out / "table.md", table.markdown())
    write_text(out / "table.csv", table.csv())
    write_text(out / PAGE, study_page(finished.records, out.absolute().name))
    for record in finished.records:
        name = f"{slug(record.method.label)}.safetensors"
        weights = (out / "study" / "models" / f"{record.method.weights}.safetensors").read_bytes()
        write_atomically(out / "models" / name, partial(Path.write_bytes, data=weights))
    show(found_table(list(reports.values())))
    say(f"Open {out / PAGE}. The models are in {out / 'models'}/. Audit one of them:")
    models = {role: str(out / "models" / f"{name}.safetensors")
              for role, name in (("original", "original"), ("unlearned", "cola"), ("reference", "retrain"))}  # fmt: skip
    words = [word for role, file in models.items() for word in (f"--{role}", file)]
    echo(shlex.join(["residua", "audit", *words, "--data", "fashion-sample", "--forget", "class:6", "--out", str(out / "audit")]))  # fmt: skip
    report_failures(finished.failures)
