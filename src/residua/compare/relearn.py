"""Relearn time and AIN, from the courses that `measure.Relearning` keeps."""

from __future__ import annotations

from residua.reading import Reading

WITHIN = 0.05


def relearn_time(unlearned: Reading, original: Reading, *, within: float = WITHIN) -> Reading:
    """RT: mini-batches until the forget accuracy is at least (1 - within) of Original's; 0: it is already.

    If the course ends before, there is no value, and the note says how long it was.
    """
    goal = (1 - within) * original.values["relearning.before"]
    course = unlearned.arrays["course"]
    reached = (course >= goal).nonzero()[0]
    if len(reached):
        return Reading({"RT": float(reached[0])})
    return Reading({}, notes={"RT": f"not relearned within {len(course) - 1} mini-batches"})


def ain(unlearned: Reading, *, original: Reading, reference: Reading, within: float = WITHIN) -> Reading:
    """Anamnesis index, RT(unlearned) / RT(reference): 1 is ideal, below 1 traces are left."""
    times = {
        name: relearn_time(course, original, within=within)
        for name, course in (("the model", unlearned), ("the reference", reference))
    }
    for name, found in times.items():
        if found.notes:
            return Reading({}, notes={"AIN": f"{name} was {found.notes['RT']}"})
    below = times["the reference"].values["RT"]
    if not below:
        return Reading({}, notes={"AIN": "the reference knows the forgotten data before any relearning"})
    return Reading({"AIN": times["the model"].values["RT"] / below})
