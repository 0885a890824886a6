"""Guards: did an unlearning run do nothing, or ruin the model?"""

from __future__ import annotations

import math
from collections.abc import Mapping

# Class-wise the aim is a UA of 1; a run that went less than this share of the way did nothing.
WAY = 0.1
# An Original whose UA is within this of 1 knew nothing that could be forgotten.
NEAR_ONE = 0.02
# A model that lost more than this on what it should keep is not worth auditing.
LOST = 0.10


def guards(
    unlearned: Mapping[str, float],
    original: Mapping[str, float],
    *,
    scenario: str,
    samples: int,
    settings: Mapping[str, str] | None = None,
) -> list[str]:
    """What is wrong with a run at first sight, and what to change; empty if nothing is.

    Looks at UA, RA and TA of the unlearned model and of Original. "Nothing happened": UA did not rise by a
    tenth of the way to 1 (`scenario` class) or, where good methods move it by a few per cent (random), by the
    standard error that Original's UA has on so many forget `samples`. "Collapsed": RA or TA fell far below
    Original's. `settings` names, for the advice, the method's settings of which "more" or "less" unlearns more
    (`training.settings.directions`); None where they are not known.
    """
    warnings = []
    least = WAY * (1 - original["UA"]) if scenario == "class" else _standard_error(original["UA"], samples)
    if unlearned["UA"] - original["UA"] < least and original["UA"] < 1 - NEAR_ONE:
        warnings.append(
            f"nothing happened: UA is {unlearned['UA']:.1%}, Original's {original['UA']:.1%}; "
            + _advice(settings, more=True)
        )
    lost = {name: original[name] - unlearned[name] for name in ("RA", "TA")}
    if max(lost.values()) > LOST:
        worst = max(lost, key=lambda name: lost[name])
        warnings.append(
            f"the model collapsed: {worst} is {unlearned[worst]:.1%}, Original's {original[worst]:.1%}; "
            + _advice(settings, more=False)
        )
    return warnings


def _standard_error(share: float, n: int) -> float:
    """Of a share of n; one success and one failure are added, so that none of n is not certainty."""
    p = (share * n + 1) / (n + 2)
    return math.sqrt(p * (1 - p) / n)


def _advice(settings: Mapping[str, str] | None, *, more: bool) -> str:
    raised, lowered = ("raise", "lower") if more else ("lower", "raise")
    if settings is None:
        return f"{raised} the learning rate or the epochs"
    for verb, stronger in ((raised, "more"), (lowered, "less")):
        own = [name for name, way in settings.items() if way == stronger]
        if own:
            return f"{verb} {' or '.join([', '.join(own[:-1]), own[-1]] if own[:-1] else own)}"
    return "change its settings"
