"""NamedCurve: a further information curve in one record, under a name that says how it was read."""

from __future__ import annotations

from dataclasses import dataclass

from residua.measure import InformationCurve
from residua.texts import slug


@dataclass(frozen=True)
class NamedCurve(InformationCurve):
    """An `InformationCurve` whose label names what is special about it: `information-1-5`, `information-10-percent-all-blocks`.

    A record keeps one reading for each label, so a study that reads curves at several ratios, of more blocks or by the
    paper's protocol needs several labels. Settings and numbers are those of `InformationCurve`.
    """

    # mypy: a property stands where InformationCurve has a constant
    @property
    def label(self) -> str:  # type: ignore[override]
        ratio = "" if self.ratio == "all" else slug(self.ratio.replace("%", " percent").replace(":", "-"))
        blocks = "" if self.last is None else f"{self.last}-blocks"
        protocol = "paper" if self.protocol == "paper" else ""
        return "-".join(["information", *([part for part in (protocol, ratio, blocks) if part] or ["all"])])
