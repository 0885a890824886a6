"""The page of a saved audit: written from its report and records, with thumbnails if its maker gave some."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from residua.errors import InputError
from residua.files import write_atomically
from residua.npz import read_npz, write_npz
from residua.record import Record
from residua.report.audit import AuditReport
from residua.text import slug

if TYPE_CHECKING:
    from residua.data.task import ForgetTask

MOST_BYTES = 20_000_000
PAGE, THUMBNAILS = "report.html", "thumbnails.npz"


def write_page(folder: Path, report: AuditReport, records: Mapping[str, Record]) -> Path:
    """Write `report.html` from what is in the folder; the same folder gives the same bytes."""
    from residua.report.pages import audit_page

    text = audit_page(report, records, read_thumbnails(folder))
    write_atomically(folder / PAGE, lambda part: part.write_text(text, "utf-8"))
    return folder / PAGE


def audits_in(folder: Path, labels: Iterable[str]) -> dict[str, str]:
    """By method, the first of its audits that `residua study verdicts` wrote there, as seen from the folder."""
    found = ((label, next(iter(sorted(folder.glob(f"verdicts/seed*-{slug(label)}.json"))), None)) for label in labels)
    return {label: path.relative_to(folder).as_posix() for label, path in found if path is not None}


def write_thumbnails(folder: Path, report: AuditReport, task: ForgetTask) -> None:
    """Keep the images of the samples that the report names; nothing else of an audit holds raw data."""
    import torch

    wanted = [] if report.residue is None else [each.index for each in report.residue.samples]
    places = {int(index): place for place, index in enumerate(task.forget.index.tolist())}
    wanted = [index for index in wanted if index in places]
    if not wanted or task.forget.images.shape[0] not in (1, 3):
        return
    where = task.forget.index[torch.tensor([places[index] for index in wanted])]
    images = next(iter(task.forget.images.stream([where], torch.device("cpu"))))
    pixels = images.permute(0, 2, 3, 1).contiguous().numpy()
    step = max(1, max(pixels.shape[1:3]) // 72)
    kept = {"index": np.array(wanted), "images": pixels[:, ::step, ::step]}
    write_atomically(folder / THUMBNAILS, lambda part: write_npz(part, kept))


def read_thumbnails(folder: Path) -> dict[int, np.ndarray]:
    """Images by their place in the training data; none where the audit was made without."""
    path = folder / THUMBNAILS
    if not path.exists():
        return {}
    arrays = read_npz(path, lambda member: member.filename.removesuffix(".npy"), budget=MOST_BYTES)
    index, images = arrays.get("index"), arrays.get("images")
    fits = (
        index is not None and images is not None and images.dtype == np.uint8 and images.ndim == 4
        and index.dtype.kind == "i" and index.shape == images.shape[:1] and images.shape[3] in (1, 3)
        and len(index) <= 100 and max(images.shape[1:3]) <= 256
    )  # fmt: skip
    if not fits or index is None or images is None:
        raise InputError(f"{path} does not hold thumbnails; remove it, or make the audit again")
    return {int(place): image for place, image in zip(index, images, strict=True)}
