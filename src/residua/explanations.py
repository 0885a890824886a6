"""What each metric means: the one place that says so, for the command line, tables and pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from residua.errors import InputError

Unit = Literal["share", "nats", "number", "mini-batches", "seconds"]
Parts = Literal["none", "attacker", "blocks", "classes", "whole"]

HEAD = "A changed head is enough: head distillation passes it with Original's encoder untouched."


@dataclass(frozen=True)
class Explanation:
    """A metric: what it is, which way is good, what it cannot see.

    `measures` are the labels of the measures it is computed from; `against` the other models that it
    needs, `either` if one of the two is enough. `parts` says what may follow the name behind a dot, and
    `better_of` which parts have another better side.
    """

    name: str
    title: str
    box: Literal["black", "white", "cost"]
    definition: str
    formula: str
    range: str
    better: str
    ideal: str
    blind: str
    elsewhere: str
    source: str
    unit: Unit = "share"
    measures: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    either: bool = False
    parts: Parts = "none"
    aliases: tuple[str, ...] = ()
    better_of: tuple[tuple[str, str], ...] = ()

    def side(self, name: str) -> str:
        """Which side is better, in words, of the metric or of a part of it."""
        parts = name.split(".")[1:]
        return next((words for part, words in self.better_of if part in parts), self.better)


NEARER = "nearer the reference"
QUALITY = tuple(
    (part, "neither: the attacker's skill") for part in ("accuracy", "AUC", "TPR@1e-2", "TPR@1e-3")
)
ATTACKER_PARTS = (
    "Behind a dot: the attacker's own accuracy, AUC and TPR at low FPR on held-out members and others. "
    "Where that accuracy is near 0.5 the value says nothing."
)

EXPLANATIONS: tuple[Explanation, ...] = (
    Explanation(
        "UA", "Unlearning accuracy", "black",
        "Error on the forget set.",
        "1 - accuracy on the forget set",
        "[0, 1]", NEARER,
        "Retrain's: 1 when a class is forgotten; about 1 - TA when samples are.",
        HEAD,
        "Some papers call the accuracy on the forget set UA or FA: the opposite sign.",
        "The paper, appendix on metrics; Liu et al. 2024 (l1-sparse).",
        measures=("accuracy",),
    ),
    Explanation(
        "RA", "Remaining accuracy", "black",
        "Accuracy on the retain set.",
        "accuracy on the retain set",
        "[0, 1]", NEARER,
        "Retrain's. Higher is not better: it may mean overfitting to what is left.",
        "Anything about the forgotten data.",
        "Retain accuracy; 1 - RA in papers that count errors.",
        "The paper, appendix on metrics.",
        measures=("accuracy",),
    ),
    Explanation(
        "TA", "Testing accuracy", "black",
        "Accuracy on the test data, without the forgotten classes.",
        "accuracy on the test set",
        "[0, 1]", NEARER,
        "Retrain's.",
        "Anything about the forgotten data.",
        "Where the forgotten classes are counted too, TA is lower by their share.",
        "The paper, appendix on metrics. That forgotten classes are left out is inferred from its tables.",
        measures=("accuracy",),
    ),
    Explanation(
        "FTA", "Forget test accuracy", "black",
        "Accuracy on the test images of the forgotten classes.",
        "accuracy on the forget test set",
        "[0, 1]", NEARER,
        "Retrain's: 0, since it never says a class that it never saw.",
        HEAD,
        "Forget accuracy, A_f^t; some report 1 minus it.",
        "Cotogni et al. 2023 (DUCK).",
        measures=("class-accuracy",),
    ),
    Explanation(
        "class_accuracy", "Accuracy class by class", "black",
        "Accuracy on the test images of each class; `.worst` is the lowest among retained classes.",
        "accuracy on the test images of class c",
        "[0, 1]", NEARER,
        "Retrain's.",
        "What stands behind the answers.",
        "Per-class accuracy.",
        "Ours.",
        measures=("class-accuracy",), parts="classes",
    ),
    Explanation(
        "class_change", "Change of accuracy class by class", "black",
        "Which neighbours of the forgotten data were damaged; `.worst` is the most damaged retained class.",
        "accuracy_c(model) - accuracy_c(Original)",
        "[-1, 1]", NEARER,
        "Retrain's: about 0 for retained classes.",
        "Damage that does not change answers on the test data.",
        "",
        "Ours.",
        measures=("class-accuracy",), against=("original",), parts="classes",
    ),
    Explanation(
        "gap", "Average gap", "black",
        "How far the answers are from the reference's, over UA, RA, TA and E-MIA (those that were measured).",
        "mean of |value - value(reference)|",
        "[0, 1]", "lower",
        "0.",
        HEAD,
        "Avg. Gap; often in per cent, and with other metrics in the mean.",
        "Liu et al. 2024 (l1-sparse); Fan et al. 2023 (SalUn).",
        measures=("accuracy", "mia"), against=("reference",), aliases=("avg gap", "average gap"),
    ),
    Explanation(
        "E-MIA", "Membership inference from entropy", "black",
        "The share of the forget set that an attacker who sees the entropy of outputs calls member.",
        "1 - TN / |forget set|; H(x) = - sum_c p_c log p_c; fitted on retain against test, equally many",
        "[0, 1]", NEARER,
        "Retrain's.",
        HEAD + " The attacker also judges one scalar: on a model that does not overfit it guesses. " + ATTACKER_PARTS,
        "OPTML's code (SalUn, l1-sparse) reports the share called NON-member: 1 minus this.",
        "The paper, appendix on metrics (headline variant); Shokri et al. 2017. The classifier is ours: the paper names none.",
        measures=("mia",), parts="attacker", aliases=("mia",), better_of=QUALITY,
    ),
    Explanation(
        "C-MIA", "Membership inference from confidence", "black",
        "The share of the forget set that an attacker who sees the true class's probability calls member.",
        "as E-MIA, with p_y instead of H",
        "[0, 1]", NEARER,
        "Retrain's: about 0 when a class is forgotten.",
        HEAD + " When a class is forgotten it repeats UA. " + ATTACKER_PARTS,
        "As E-MIA.",
        "The paper, appendix on metrics; Fan et al. 2023 (SalUn).",
        measures=("mia",), parts="attacker", better_of=QUALITY,
    ),
    Explanation(
        "U-LiRA", "Likelihood ratio attack on unlearning", "black",
        "How well an attack by many shadow models tells examples that were trained on and unlearned (in) from "
        "examples that were never trained on, after the same unlearning (out). Behind a dot: accuracy, TPR at low FPR.",
        "AUC of log N(s; in) - log N(s; out), two Gaussians an example from models that are not the target; "
        "score s = log p_y - log(1 - p_y)",
        "[0.5, 1] up to noise", "lower",
        "0.5: unlearned and never seen cannot be told apart. Retrain has it by construction.",
        "Anything that does not show in outputs. It judges a method, not one model (`residua ulira`). Few shadow "
        "models attack weakly: compare under the same ones.",
        "LiRA without unlearning asks another question; code that fits 0/1 correctness is no LiRA. The paper's "
        "'LiRA MIA' does not say whether it is AUC or accuracy.",
        "Hayes et al. 2024; scores as in Carlini et al. 2022.",
    ),
    Explanation(
        "JSD", "Jensen-Shannon divergence", "black",
        "How far outputs on the forget set are from the reference's, in nats.",
        "mean over x of KL(p || m) / 2 + KL(q || m) / 2,  m = (p + q) / 2",
        "[0, ln 2 = 0.693]", "lower",
        "0, but a second Retrain has more than 0: compare with that.",
        HEAD,
        "In bits its maximum is 1. Some take the square root. The paper's tables have another scale: JSD_paper.",
        "The paper, appendix on metrics; Chundawat et al. 2023 (Bad-T).",
        unit="nats", measures=("outputs",), against=("reference",),
    ),
    Explanation(
        "JSD_paper", "JSD in the scale of the paper's tables", "black",
        "The divergence with the arguments of KL exchanged, as public code computes it.",
        "mean over x of KL(m || p) / 2 + KL(m || q) / 2,  m = (p + q) / 2",
        "[0, infinity)", "lower",
        "0, but a second Retrain has more than 0.",
        HEAD + " One confident disagreement outweighs everything.",
        "Printed as JSD in the paper, whose values above ln 2 the printed formula cannot give.",
        "Inferred from the paper's tables and the public code of Bad-T.",
        unit="nats", measures=("outputs",), against=("reference",),
    ),
    Explanation(
        "ZRF", "Zero retrain forgetting", "black",
        "Does the model talk about the forget set as a network with random weights does?",
        "1 - JSD(model, random network), in bits",
        "[0, 1]", NEARER,
        "The reference's. 1 is no aim: Retrain does not answer at random.",
        HEAD,
        "With JSD in nats it cannot fall below 0.31. The random network is the incompetent teacher.",
        "Chundawat et al. 2023 (Bad-T). Bits, so that it lies in [0, 1], are our choice.",
        unit="number", measures=("outputs",),
    ),
    Explanation(
        "AUS", "Adaptive unlearning score", "black",
        "Kept test accuracy and lost forget accuracy in one number.",
        "(1 - (TA(Original) - TA)) / (1 + D);  D = FTA when classes are forgotten, |A_forget - TA| when samples are",
        "[0, 2], 1 when nothing is lost and all is forgotten", "higher",
        "1; the reference's where its TA differs from Original's.",
        HEAD + " It can hide a loss of utility behind forgetting, and the reverse.",
        "",
        "Cotogni et al. 2023 (DUCK).",
        unit="number", measures=("accuracy", "class-accuracy"), against=("original",),
    ),
    Explanation(
        "RT", "Relearn time", "black",
        "Mini-batches of training on the forget set until its accuracy is within 5 % of Original's.",
        "min { t : accuracy_t >= 0.95 accuracy(Original) }",
        "0, 1, 2, ...", NEARER,
        "The reference's. Fewer: traces are left.",
        "It depends on the learning rate, and a ruined network can be quick: it only has to say one class.",
        "Relearn time in epochs, or up to a loss instead of an accuracy.",
        "Golatkar et al. 2020; Tarun et al. 2023 (UNSIR). Rate and batch are ours.",
        unit="mini-batches", measures=("relearning",), against=("original",), aliases=("relearn time",),
    ),
    Explanation(
        "AIN", "Anamnesis index", "black",
        "Relearn time in units of the reference's.",
        "RT(model) / RT(reference)",
        "[0, infinity)", "nearer 1",
        "1. Below 1: traces are left; far above 1: more was destroyed than forgotten.",
        "As RT; a ratio of two small counts is coarse.",
        "",
        "Chundawat et al. 2023 (zero-shot unlearning).",
        unit="number", measures=("relearning",), against=("original", "reference"),
    ),
    Explanation(
        "relearning", "Accuracy before and after relearning", "black",
        "Accuracy on some of the forget set before (`.before`) and at the end (`.after`) of relearning.",
        "accuracy on the forget samples that are asked",
        "[0, 1]", NEARER,
        "The reference's.",
        "As RT.",
        "",
        "Ours.",
        measures=("relearning",),
    ),
    Explanation(
        "entropy", "Entropy on the forget set", "black",
        "How undecided the model is about forgotten data, in nats.",
        "mean over x of - sum_c p_c log p_c",
        "[0, ln classes]", NEARER,
        "The reference's.",
        HEAD,
        "",
        "Ours.",
        unit="nats", measures=("outputs",),
    ),
    Explanation(
        "confidence", "Confidence on the forget set", "black",
        "The mean probability of the true class of forgotten data.",
        "mean over (x, y) of p_y(x)",
        "[0, 1]", NEARER,
        "The reference's: about 0 when a class is forgotten.",
        HEAD,
        "",
        "Ours.",
        measures=("outputs",),
    ),
    Explanation(
        "RTE", "Run-time efficiency", "cost",
        "Wall-clock time of the whole unlearning, everything that it prepares included.",
        "seconds of the method's call",
        "(0, infinity)", "lower",
        "Well below Retrain's, or one might as well retrain.",
        "How well it forgets; other machines and recipes.",
        "Minutes in the paper; some leave out preparations such as SalUn's mask.",
        "The paper, appendix on metrics. Records keep it as seconds.",
        unit="seconds",
    ),
    Explanation(
        "recovery", "Recovered accuracy", "white",
        "Accuracy on the forget test data of a new head, fitted to the frozen encoder with 2 % of all training data; "
        "`.test` is its accuracy on the other test data.",
        "accuracy on the forget test set of (new head) o encoder, the mean over 5 draws of the 2 %",
        "[0, 1]", NEARER,
        "Retrain's. Original's means: nothing was removed from the encoder.",
        "What a linear head cannot read with so few examples; the early blocks.",
        "Head retraining, linear evaluation.",
        "The paper, section on residual information. How the head is fitted is ours.",
        measures=("recovery",),
    ),
    Explanation(
        "probe", "Linear probe of every block", "white",
        "Accuracy of a linear classifier on the pooled features of block l: on test images of the forgotten classes or, "
        "when samples are forgotten, on the forget set. `probe.test.l`: on the test set.",
        "accuracy of softmax(W z_l + b), fitted on training data (on retained data when samples are forgotten)",
        "[0, 1]", NEARER,
        "The reference's.",
        "What is there but not linear; places, since features are pooled.",
        "Linear separability, linear evaluation.",
        "Alain and Bengio 2016.",
        measures=("probe",), parts="blocks",
    ),
    Explanation(
        "A-MIA", "White-box membership inference from activations", "white",
        "The share of the forget set that an attack network which sees activations calls member.",
        "as E-MIA, with the pooled features of the last two blocks and the logits",
        "[0, 1]", NEARER,
        "Retrain's.",
        "The paper finds it unstable: on a random network it means nothing. " + ATTACKER_PARTS,
        "The column Activation of the paper's table.",
        "The paper, section on white-box MIA; Nasr et al. 2019. Layers and network are ours.",
        measures=("white-box-mia",), parts="attacker", better_of=QUALITY,
    ),
    Explanation(
        "G-MIA", "White-box membership inference from gradients", "white",
        "The share of the forget set that an attack network which sees gradients of the head calls member.",
        "as E-MIA, with a random projection of d CE(x, y) / d head and the logarithm of its length",
        "[0, 1]", NEARER,
        "Retrain's.",
        "The paper finds it unstable: on a random network it means nothing. " + ATTACKER_PARTS,
        "The column Gradient of the paper's table.",
        "The paper, section on white-box MIA; Nasr et al. 2019. The head's gradients only, and the projection, are ours.",
        measures=("white-box-mia",), parts="attacker", better_of=QUALITY,
    ),
    Explanation(
        "CKA", "Likeness of features", "white",
        "Linear centred kernel alignment of block l's pooled features with those of Original or of the reference, on forget "
        "and on retain samples apart: `CKA.original.forget.5`.",
        "|Y^T X|_F^2 / (|X^T X|_F |Y^T Y|_F), X and Y centred",
        "[0, 1]", NEARER,
        "Towards Original: as unlike as the reference is. Towards the reference: as like as a second Retrain is.",
        "Information that lies in directions of little variance.",
        "",
        "Kornblith et al. 2019.",
        unit="number", measures=("representation",), against=("original", "reference"), either=True, parts="blocks",
        better_of=(("reference", "higher"),),
    ),
    Explanation(
        "dimension", "Effective dimension of forgotten features", "white",
        "Over how many directions the forget samples spread in block l: a collapse shows as a fall.",
        "(sum of variances)^2 / (sum of squared variances)",
        "[0, width of the block]", NEARER,
        "The reference's.",
        "Where the samples lie relative to others.",
        "Participation ratio.",
        "Ours.",
        unit="number", measures=("representation",), parts="blocks",
    ),
    Explanation(
        "weight_distance", "Distance of weights", "white",
        "How far the weights are from Original's or the reference's, in all and by part: `weight_distance.original.5`. "
        "From a random projection, right within about 1 %.",
        "|w - w'|_2",
        "[0, infinity)", "neither",
        "None: two Retrains are far apart too. 0 to Original in a part means that this part was not touched.",
        "Equal functions with other weights; that is why it is no measure of forgetting.",
        "l2 distance, activation distance is something else.",
        "Golatkar et al. 2020; Wu et al. 2020.",
        unit="number", measures=("weights",), against=("original", "reference"), either=True, parts="whole",
    ),
    Explanation(
        "weight_norm", "Length of the weights", "white",
        "The length of all weights, and by part.",
        "|w|_2",
        "[0, infinity)", "neither",
        "None; it puts distances into proportion.",
        "Everything else.",
        "",
        "Ours.",
        unit="number", measures=("weights",), parts="whole",
    ),
    Explanation(
        "tsne", "t-SNE of the encoder's features", "white",
        "A picture: coordinates of samples in two dimensions, forgotten ones marked. `.divergence` says how well two "
        "dimensions hold the neighbourhoods.",
        "t-SNE of the encoder's output, PCA start",
        "divergence in [0, infinity)", "neither: look at the picture",
        "A picture like Retrain's, in which forgotten points scatter.",
        "Distances between clusters mean nothing; it is for looking, not for deciding.",
        "",
        "van der Maaten and Hinton 2008; the paper, figure of t-SNE pictures.",
        unit="number", measures=("tsne",), aliases=("t-sne",),
    ),
    Explanation(
        "MI", "Mutual information of block l", "white",
        "How much block l still tells about what was to be forgotten, in nats, read on unseen data.",
        "I(Z_l; Y) >= E[log q(y | z) - log p(y)];  Y: forgotten or not (classes), the class (samples)",
        "[0, H(Y)]", NEARER,
        "The reference's.",
        "What the critic cannot find: it is a lower bound.",
        "Information curve; InfoNCE in the paper.",
        "The paper, section on IDI.",
        unit="nats", measures=("information",), parts="blocks", aliases=("information", "information curve"),
    ),
    Explanation(
        "IDI", "Information difference index", "white",
        "What the last blocks know more than the reference, in units of what Original knows more. `.low` and `.high`: 95 %.",
        "ID(model) / ID(Original);  ID = sum over blocks of I(Z_l; Y) - I_reference(Z_l; Y)",
        "usually [-1, 1], unbounded", "nearer 0",
        "0: the reference. 1: Original. Below 0: over-unlearned.",
        "A ruined model has a low IDI too: look at RA and TA. Undetermined where Original hardly knows more than the reference.",
        "",
        "The paper.",
        unit="number", measures=("information",), against=("original", "reference"),
    ),
)  # fmt: skip


def explanation(word: str) -> Explanation:
    """The explanation of a metric or of a part of it, whatever the case of its letters."""
    found = _names().get(word.lower()) or _names().get(word.partition(".")[0].lower())
    if found is None:
        raise InputError(
            f"there is no metric {word!r}; choose one of {', '.join(entry.name for entry in EXPLANATIONS)}"
        )
    return found


def explained(name: str) -> Explanation | None:
    """The explanation of the value of this name; None for values of measures from elsewhere."""
    return _names().get(name.partition(".")[0].lower())


def _names() -> dict[str, Explanation]:
    return {word.lower(): entry for entry in EXPLANATIONS for word in (entry.name, *entry.aliases)}
