"""Relearn time and AIN, from the courses that `measure.Relearning` keeps."""

from __future__ import annotations

from residua.explaining import NEARER, Explanation
from residua.readings import Reading

WITHIN = 0.05


EXPLANATIONS = (
    Explanation(
        name="RT",
        title="Relearn time",
        aliases=("relearn time",),
        box="black",
        unit="mini-batches",
        definition=(
            "Mini-batches of training on the forget set until its accuracy is within 5 % of Original's."
        ),
        formula="min { t : accuracy_t >= 0.95 accuracy(Original) }",
        range="0, 1, 2, ...",
        better=NEARER,
        ideal="The reference's. Fewer: traces are left.",
        blind=(
            "It depends on the learning rate, and a ruined network can be quick: it only has to answer"
            " with one class."
        ),
        elsewhere="Relearn time in epochs, or up to a loss instead of an accuracy.",
        source="Golatkar et al. 2020; Tarun et al. 2023 (UNSIR). Rate and batch are ours.",
        measures=("relearning",),
        against=("original",),
    ),
    Explanation(
        name="AIN",
        title="Anamnesis index",
        box="black",
        unit="number",
        definition="Relearn time in units of the reference's.",
        formula="RT(model) / RT(reference)",
        range="[0, infinity)",
        better="nearer 1",
        ideal="1. Below 1: traces are left; far above 1: more was destroyed than forgotten.",
        blind="As RT; a ratio of two small counts is coarse.",
        source="Chundawat et al. 2023 (zero-shot unlearning).",
        measures=("relearning",),
        against=("original", "reference"),
    ),
)


def relearn_time(unlearned: Reading, original: Reading, *, within: float = WITHIN) -> Reading:
    """RT: mini-batches until the forget accuracy is at least (1 - within) of Original's; 0: it is already.

    If the course ends earlier, there is no value, and the note says how long it was.
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
    for name, time in times.items():
        if time.notes:
            return Reading({}, notes={"AIN": f"{name} was {time.notes['RT']}"})
    below = times["the reference"].values["RT"]
    if not below:
        return Reading({}, notes={"AIN": "the reference knows the forgotten data before any relearning"})
    return Reading({"AIN": times["the model"].values["RT"] / below})
