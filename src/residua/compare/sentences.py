"""The sentences of a verdict: what was found, how sure, what it does not show; and what would decide it."""

from __future__ import annotations

from residua.compare.rules import Evidence, Loss, Word
from residua.compare.three_samples import ThreeSample

WORDS: dict[Word, str] = {
    "FORGOTTEN": "Like a retrained model, inside and outside",
    "SHALLOW": "It no longer says it but still knows it",
    "NOT_FORGOTTEN": "It still knows what was to be forgotten",
    "OVER_UNLEARNED": "It knows less than a model that never saw the data",
    "UTILITY_LOST": "It has lost what it should have kept",
    "UNDETERMINED": "The evidence does not decide",
}

MORE_REFERENCES = (
    "more references: repeat --reference FILE for three to five retrained models, or --reference proxy:0.15x3"
)


def three_lines(word: Word, evidence: Evidence, remedies: tuple[str, ...]) -> str:
    """Three lines that somebody who is not an engineer can read."""
    sure = [_margin(evidence), _outputs(evidence), _attacks(evidence), _loss(evidence.loss, evidence)]
    lines = [
        f"{WORDS[word]}: {_inside(evidence)}.",
        f"How sure: {'; '.join(part for part in sure if part)}.",
        f"Not shown: {limits(evidence)[0]}",
    ]
    if remedies:
        lines[1] += f" What would decide it: {'; or '.join(remedies)}."
    return "\n".join(lines)


def _inside(evidence: Evidence) -> str:
    inside = evidence.inside
    if inside is None:
        return "white-box: not assessed"
    index = inside.idi
    if index.value is None or index.interval is None:
        return f"there is no IDI ({index.reason})"
    low, high = index.interval
    interval = f"95 % interval {low:.2f} to {high:.2f}"
    if evidence.against == "none":
        return (
            f"of what Original knows beyond a random network it keeps {index.value:.2f}, {interval}; there is no "
            "reference, so the claim is weak"
        )
    kind = "retrained" if evidence.against == "model" else "proxy"
    if inside.resolution is None:
        return (
            f"IDI {index.value:.2f}, {interval}, where 0 is what one {kind} model knows and 1 what Original knows; "
            "the variation between retrainings is unknown"
        )
    return (
        f"IDI {index.value:.2f}, {interval}, where 0 is what {inside.references} {kind} models know and 1 what Original "
        f"knows; this audit tells an IDI of {inside.resolution:.2f} or more from a retrained model with probability 0.95"
    )


def _margin(evidence: Evidence) -> str:
    """What the interval is to the margin, and which parts are not within it."""
    inside, rules = evidence.inside, evidence.rules
    if inside is None or inside.idi.value is None:
        return ""
    if evidence.against == "none":
        line = rules.floor_margin
        return {
            "more": f"the interval is above {1 - line:g}",
            "less": f"the interval is below {line:g}",
        }.get(
            evidence.where or "",
            f"the interval is not clearly above {1 - line:g} or below {line:g}, and between them a model that never "
            "saw the data may be too",
        )
    text = {
        "more": f"the interval is above the tolerance of {inside.tolerance:g}",
        "less": f"the interval is below minus the tolerance of {inside.tolerance:g}",
        "within": f"the interval is within the margin of {inside.margin:.2g}",
    }.get(evidence.where or "", f"the interval is not within the margin of {inside.margin:.2g}")
    if evidence.where is None and inside.outside:
        parts = (f"{name} {inside.parts[name].value:.2f}" for name in inside.outside)
        text = f"not within the margin of {inside.margin:.2g}: {', '.join(parts)}"
    if evidence.where == "more" and (inside.low or 0.0) <= inside.tolerance:
        text = (
            f"the IDI of single blocks, or of unseen images, is above the tolerance of {inside.tolerance:g}"
        )
    if inside.chance is not None and inside.p is not None:
        text += (
            f"; retrained models differ by {inside.chance.measured:.2f} (standard deviation of {inside.references}); it is "
            f"number {inside.place} of {inside.references + 1} by what it knows (p = {inside.p:.2f} if it were one of them)"
        )
    if evidence.against == "proxy":
        text += "; a proxy is trained on a part of the retained data, so the claim is weaker"
    return text


def _outputs(evidence: Evidence) -> str:
    outputs, side, rules = evidence.outputs, evidence.side, evidence.rules
    if evidence.against == "none":
        if outputs is None:
            return "accuracy on the forget set: not assessed"
        if side is None:
            return "accuracy on the forget set is inconclusive"
        whose = "Original's" if side == "original" else "that of a model that never saw it"
        return f"accuracy on the forget set is nearer {whose}"
    texts = []
    if isinstance(outputs, ThreeSample):
        p = outputs.p_original if side == "original" else outputs.p_reference
        near = "not clearly closer to the references' than to Original's"
        if side:
            near = "closer to the references'" if side == "reference" else "closer to Original's"
        test = f"three-sample test on {outputs.n} forgotten samples, p {_p(p)} at the level {rules.level:g}"
        texts.append(f"outputs are {near} ({test})")
    like = evidence.likeness
    if like is not None:
        wrong = f"{100 * like.ua:.1f} % of its answers on the forget set are wrong, {100 * like.expected:.1f} % of a retrained model's"
        verb = "which is like them" if like.like else "which is not like them"
        divergence = (
            "" if like.jsd is None else f", JSD {like.jsd:.3f} where {like.jsd_allowed:.3f} is allowed"
        )
        texts.append(f"{wrong}{divergence}, {verb}")
        if like.perturbed is not None and not like.perturbed.like:
            texts.append(
                f"with a little noise on the images {100 * like.perturbed.ua:.1f} % are wrong, "
                f"{100 * like.perturbed.expected:.1f} % of a retrained model's"
            )
    return "; ".join(texts) or "outputs: not assessed"


def _attacks(evidence: Evidence) -> str:
    """What attacks on the encoder regain, where that is clearly more than from a retrained model."""
    return "; ".join(
        f"{_attack(each.name)} regains {each.value:.2f} of what it regains from Original ({each.low:.2f} to {each.high:.2f})"
        for each in evidence.contradicted
    )


def _attack(name: str) -> str:
    kind, _, block = name.partition(".")
    return f"a {kind} of block {block}" if block else f"an attack by {kind}"


def _loss(loss: Loss | None, evidence: Evidence) -> str:
    if loss is None:
        return "test accuracy: not assessed"
    points = 100 * abs(loss.value)
    change = "did not change"
    if points >= 0.05:
        change = f"{'fell' if loss.value > 0 else 'rose'} by {points:.1f} points"
    worst = f"at most {100 * loss.high:.1f} points lost, 95 %" if loss.high > 0 else "nothing lost, 95 %"
    return f"test accuracy {change} ({worst}; {100 * evidence.rules.utility:g} are allowed)"


def limits(evidence: Evidence) -> tuple[str, ...]:
    """What the evidence does not show; the first is the third line."""
    texts = [
        "Only these models, samples and critics were tested; another attack may find what they did not, and copies or "
        "backups were not looked at."
    ]
    inside = evidence.inside
    if inside is None:
        texts.append("Outputs alone cannot tell a model that forgot from one that only keeps silent.")
    elif inside.chance is not None:
        texts.append(
            "The interval covers samples"
            + (", critics" if inside.idi.restarts is not None else "")
            + f" and the variation between retrainings, from {inside.references} references and what is known of others."
        )
    elif evidence.against != "none":
        texts.append(
            "The interval covers samples"
            + (" and critics" if inside.idi.restarts is not None else ", not critics (one restart)")
            + "; one reference does not show the variation between retrainings, which the margin has to cover."
        )
    if evidence.against == "none":
        texts.append(
            "Without a reference, FORGOTTEN is never returned: there is no baseline for what a model that never saw "
            "the data would know."
        )
    return (*texts, *(() if inside is None else inside.notes))


def remedies(evidence: Evidence) -> tuple[str, ...]:
    """What would decide it, with what to type."""
    inside, likeness, loss = evidence.inside, evidence.likeness, evidence.loss
    if evidence.against == "none":
        return (
            "a reference: --reference FILE of a model that never saw the data, or --reference proxy:0.15x3",
        )
    texts = []
    if inside is None:
        texts.append(
            "the weights: residua audit --original FILE --unlearned FILE --reference FILE --data NAME --forget WHAT"
        )
    elif inside.idi.value is None:
        texts.append("more data, or --restarts 3: Original does not clearly know more than the references")
    elif evidence.where != "within" and inside.references < 5:
        texts.append(MORE_REFERENCES)
    elif not inside.margin < 1:
        texts.append(
            "references that were trained longer: these differ from each other as much as from Original"
        )
    elif evidence.where != "within":
        texts.append("more data of what was to be forgotten, or --margin if more may be kept")
    if inside is not None and likeness is None:
        texts.append("outputs with their labels: --outputs")
    elif likeness is not None and not likeness.like:
        texts.append(
            "nothing that could be measured more: what it answers is not what a retrained model answers"
        )
    if inside is not None and loss is None:
        texts.append("test data with labels")
    elif loss is not None and loss.high >= evidence.rules.utility >= loss.low:
        texts.append("more test data")
    return tuple(texts) or ("a closer look at what contradicts: residua measure",)


def _p(p: float) -> str:
    return "< 0.0001" if p < 1e-4 else f"= {p:.4f}"
