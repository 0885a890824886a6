"""Guards: did an unlearning run do nothing, or ruin the model?"""

from __future__ import annotations

from collections.abc import Mapping

# Shares. A run that moved UA by less than this did nothing that a user could see.
MOVED = 0.02
# A model that lost more than this on what it should keep is not worth auditing.
LOST = 0.10


def guards(unlearned: Mapping[str, float], original: Mapping[str, float]) -> list[str]:
    """What is wrong with a run at first sight, and what to change; empty if nothing is.

    Looks at UA, RA and TA of the unlearned model and of Original. "Nothing happened": UA stayed near
    Original's although there was something to forget. "Collapsed": RA or TA fell far below Original's.
    """
    found = []
    if unlearned["UA"] - original["UA"] < MOVED and original["UA"] < 1 - MOVED:
        found.append(
            f"nothing happened: UA is {unlearned['UA']:.1%}, Original's {original['UA']:.1%}; "
            "raise the learning rate or the epochs"
        )
    lost = {name: original[name] - unlearned[name] for name in ("RA", "TA")}
    if max(lost.values()) > LOST:
        worst = max(lost, key=lambda name: lost[name])
        found.append(
            f"the model collapsed: {worst} is {unlearned[worst]:.1%}, Original's {original[worst]:.1%}; "
            "lower the learning rate or the epochs"
        )
    return found
