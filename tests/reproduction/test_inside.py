"""The studies of methods that claim the inside, and the tribunal of metrics."""

from __future__ import annotations

import pytest
import torch

import residua as rs
from reproduction.inside import HONEST, TREATMENTS, after, inside_table, knows, one_line, studies, tribunal_table
from reproduction.treated import Treated
from residua.compare import Findings, Rules
from residua.compare.information import IDI
from residua.compare.references import Inside
from residua.controls.cheats import CHEATS
from residua.report.audit import AuditReport
from residua.unlearn import METHODS


def test_inside_has_every_method_five_references_and_three_seeds():
    study = studies["inside"]()
    labels = {row.label for row in study.rows}
    assert {method.label for method in METHODS} <= labels
    assert {f"Retrain {n}" for n in range(2, 6)} <= labels
    assert len({row.name for row in study.rows if row.label == "ESC"}) == 3
    assert {"stress", "log-odds", "probe", "representation"} <= {measure.label for measure in study.measures}


def test_the_tribunal_has_thirty_models_of_either_kind_and_honest_ones_are_trained_apart():
    study = studies["tribunal"]()
    own = [row for row in study.rows if row.role != "reference" and not row.label.endswith(TREATMENTS)]
    honest = [row for row in own if knows(row.label) is False]
    knowing = [row for row in own if knows(row.label)]
    assert len(honest) >= 30
    assert len(knowing) >= 30
    assert len({str(row.made.method.pretraining) for row in honest}) >= 8
    assert {"HD", "ESC", "Masking", "Scrambled", "Faint copy"} <= {row.label for row in knowing}
    seeds = [row.made.seed for row in study.rows if type(row.made.method).__name__ == "Retrain"]
    assert len(set(seeds)) == 2 * 5, "references, the further Retrain and honest models draw their own seeds"


def test_every_model_of_the_first_width_is_treated_too_and_so_are_original_and_retrain():
    rows = studies["tribunal"]().rows
    first = {row.label for row in rows if "width-16" in row.name and row.role != "reference"} | {"Retrain"}
    for by in TREATMENTS:
        treated = {label.removesuffix(f", {by}") for label in first if label.endswith(by)}
        assert treated == {label for label in first if not label.endswith(TREATMENTS)}


@pytest.mark.parametrize("by", TREATMENTS)
def test_treatments_change_a_copy_of_the_given_or_of_the_made_model(by, net, task):
    before = {name: value.clone() for name, value in net.state_dict().items()}
    given = Treated(by)(net, task, retrained=net)
    made = Treated(by, CHEATS["Masking"])(net, task)
    for model in (given, made):
        weight = next(p for p in model.parameters() if p.ndim > 1)
        assert not torch.equal(weight, next(p for p in net.parameters() if p.ndim > 1))
        if by == "4 bits":
            assert len(weight.unique()) <= 15
    for name, value in net.state_dict().items():
        assert torch.equal(value, before[name])


def audit(control: str, seed: int, recovery: float, ua: float, **more: float) -> AuditReport:
    """Two seeds with other anchors; metrics are fractions of the way from Retrain to Original."""
    retrain, original = ((0.0, 1.0), (10.0, 6.0))[seed]

    def at(share: float) -> float:
        return retrain + share * (original - retrain)

    metrics = {
        "unlearned": {"recovery": at(recovery), "UA": 1 - ua, "probe.4": 0.5, "probe.5": recovery, **more},
        "original": {"recovery": original, "UA": 0.0},
        "reference": {"recovery": retrain, "UA": 1.0},
    }
    return AuditReport(
        verdict="SHALLOW", sentence="", limits=[], tier="weights", against="model", rules=Rules(), inside=None,
        findings=Findings(), loss=None, tests={}, guards=[], notes={}, not_assessed={}, models={}, records={},
        metrics=metrics, about={"control": control, "seed": seed, "setting": "planted"},
    )  # fmt: skip


def pool(good: float, blind: float, rounded: float) -> list[AuditReport]:
    """`good` and `blind` are what models that know have of Original's excess, `rounded` what the good metric has after that."""
    made = []
    for seed in (0, 1):
        made += [audit("Original", seed, 1, 1), audit("HD", seed, good, blind)]
        made += [audit(f"{HONEST}{n}", seed, 0.1 * n, 0.1 * n) for n in range(4)]
        made += [audit(f"{label}, 4 bits", seed, share, share) for label, share in (("Original", 1), ("Retrain", 0))]
        made += [audit(f"{HONEST}{n}, 4 bits", seed, 0.1 * n, 0.1 * n) for n in range(4)]
        made += [audit("HD, 4 bits", seed, rounded, blind)]
    return made


def test_a_metric_that_separates_has_auc_one_and_a_blind_one_is_named_with_what_fools_it():
    table = tribunal_table(pool(good=0.9, blind=0.0, rounded=0.15))
    lines = {line[0]: line for line in table.rows}
    assert list(lines)[:1] == ["recovery"], "the best first"
    assert lines["recovery"][1:4] == ("1.00 (1.00 to 1.00)", "2", "8")
    assert lines["recovery"][4].startswith("0.50"), "after rounding it separates no longer"
    assert lines["recovery"][5] == "none", "nothing was relearned"
    assert lines["UA"][1].startswith("0.12")  # HD ties with one of four and loses to three
    assert (lines["recovery"][6], lines["UA"][6]) == ("", "HD")
    assert "UA 0.12" in one_line("tribunal", pool(0.9, 0.0, 0.15))


def test_treated_models_are_compared_with_treated_ends():
    found = after(pool(0.9, 0.0, 0.15), "4 bits")
    assert {report.about["control"] for report in found} == {"Original", "HD", *(f"{HONEST}{n}" for n in range(4))}
    hd = next(r for r in found if r.about["control"] == "HD" and r.about["seed"] == 1)
    assert hd.metrics["reference"]["recovery"] == 10
    assert hd.metrics["original"]["recovery"] == 6


def test_the_table_of_methods_has_the_references_first_and_then_the_least_idi():
    def method(label: str, value: float) -> AuditReport:
        idi = IDI(
            value=value, interval=(value - 0.1, value + 0.1), id_unlearned=value, id_original=1.0,
            id_original_interval=(0.9, 1.1), blocks={5: value}, samples=0.0, restarts=None,
        )  # fmt: skip
        made = audit(label, 0, 0.5, 1.0, IDI=value)
        return made.model_copy(update={"inside": Inside(idi)})

    reports = [method("ESC", 1.0), method("COLA", 0.2)]
    table = inside_table(reports)
    assert [line[0] for line in table.rows] == ["Retrain", "COLA", "ESC"]
    cells = dict(zip(table.columns, table.rows[2], strict=True))
    assert cells["IDI"] == "1.00 (0.90 to 1.10)"
    assert cells["Verdicts"] == "SHALLOW 1"
    assert one_line("inside", reports) == "of 2 methods 1 have a mean IDI below 0.5 (COLA); verdicts: SHALLOW 2."


def test_records_without_either_kind_are_refused():
    with pytest.raises(rs.InputError, match="run the study tribunal first"):
        tribunal_table([audit("HD", 0, 1, 1)])
    with pytest.raises(rs.InputError, match="run the study inside first"):
        inside_table([])
