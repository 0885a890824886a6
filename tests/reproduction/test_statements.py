"""The paper's conclusions, asked of records and answered by what they say."""

from __future__ import annotations

import pytest
from made_records import KEPT, make_record, records

from reproduction.cases import Case
from reproduction.quantities import Reader
from reproduction.record_index import indexed, open_records
from reproduction.results import results_page
from reproduction.statements import PAPERS, agreement, paper_idi, statements


def answers(records) -> dict[str, str]:
    (group,) = indexed(records).groups
    return {each.claim: each.answer for each in statements(Reader(group, Case("cifar10", "resnet18")))}


def named(found: dict[str, str], word: str) -> str:
    (answer,) = [answer for claim, answer in found.items() if word in claim]
    return answer


def every(**changed: float):
    kept = KEPT | {name.replace("_", "-"): value for name, value in changed.items()}
    # As in the paper, EU-10 loses more than two points of TA.
    return [make_record(label, kept=value, ta=0.84 if label == "EU-10" else 0.87) for label, value in kept.items()]


def test_records_like_the_papers_bear_out_all_that_it_says():
    found = answers([*every(), make_record("Retrain 2", kept=0.02)])
    assert len(found) == 8
    assert set(found.values()) == {"seen"}, found


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"HD": 0.999}, "HD has"),
        ({"EU_10": 0.6}, "EU-10 below"),
        ({"CF_10": 0.7}, "CF-10 below"),
        ({"SALUN": 0.59}, "RL, SALUN and Bad-T"),
        ({"COLA": 0.5}, "COLA among"),
    ],
)
def test_each_can_fail(changed, word):
    assert named(answers(every(**changed)), word) == "not seen"


def test_what_records_do_not_say_is_not_known():
    found = answers([make_record("Original"), make_record("Retrain")])
    assert set(found.values()) == {"cannot be told"}


def test_few_methods_conclude_nothing():
    few = [each for each in every() if each.method.label in ("Original", "Retrain", "HD", "RL", "COLA", "FT")]
    found = answers(few)
    for word in ("COLA among", "recovery and IDI", "our IDI and the paper's"):
        assert named(found, word) == "cannot be told"
    assert named(found, "HD has") == "seen"


def test_a_useless_cola_is_not_among_the_lowest():
    records = [each for each in every() if each.method.label != "COLA"] + [make_record("COLA", ta=0.7)]
    assert named(answers(records), "COLA among") == "not seen"


def test_the_accuracy_of_one_lucky_retrain_decides_nothing():
    lucky = [each for each in every() if each.method.label != "Retrain"] + [make_record("Retrain", ta=0.9)]
    assert named(answers(lucky), "COLA among") == "not seen"
    more = [make_record(f"Retrain {n}", ta=0.86, kept=0.0) for n in (2, 3)]
    assert named(answers([*lucky, *more]), "COLA among") == "seen"


def test_recovery_that_disagrees_is_said():
    records = []
    for each in every():
        back = 1 - each.readings["recovery"]["recovery"]
        body = each.model_dump() | {"readings": each.readings | {"recovery": {"recovery": back}}}
        records.append(type(each)(**body | {"arrays": each.arrays}))
    assert named(answers(records), "recovery and IDI") == "not seen"


def test_the_order_is_asked_of_each_reference_by_itself():
    (group,) = indexed([*every(), make_record("Retrain 2", kept=0.02)]).groups
    found = statements(Reader(group, Case("cifar10", "resnet18")))
    (order,) = [each for each in found if "every reference" in each.claim]
    assert order.evidence == "4 references, Spearman 1.00", "two Retrains, COLA and EU-10"
    (one,) = [each for each in statements(Reader(indexed([make_record("Original"), make_record("Retrain")]).groups[0],
                                                 Case("cifar10", "resnet18"))) if "every reference" in each.claim]  # fmt: skip
    assert one.evidence == "one reference only"


def test_rank_correlation_is_of_thirteen_methods_and_by_family(records):
    assert len(paper_idi()) == 13
    (group,) = open_records(records).groups
    found = agreement(Reader(group, Case("cifar10", "resnet18")))
    assert list(found) == ["stack", "linear"]
    assert all(each == (pytest.approx(1.0, abs=0.05), 13) for each in found.values())


def by_the_papers_critics(record):
    """The same model, read by the paper's protocol: a record of its own that stands beside the first."""
    about = record.measures["information"].about
    facts = record.measures["information"].model_copy(
        update={"about": about | {"measure": about["measure"] | {"protocol": "paper"}, "families": ["paper"]}}
    )
    return record.model_copy(
        update={
            "name": f"paper-{record.name}",
            "measures": {"information-paper": facts},
            "readings": {"information-paper": record.readings["information"]},
            "arrays": {
                name.replace("information", "information-paper"): array[:1] if "terms" in name else array
                for name, array in record.arrays.items()
            },
        }
    )


def test_the_papers_critics_are_a_row_of_their_own():
    backwards = {label: 1 - value for label, value in KEPT.items()} | {"Original": 1.0, "Retrain": 0.0}
    theirs = [by_the_papers_critics(make_record(label, kept=value)) for label, value in backwards.items()]
    (group,) = indexed([*every(), *theirs]).groups
    found = agreement(Reader(group, Case("cifar10", "resnet18")))
    assert list(found) == ["stack", "linear", PAPERS]
    assert found["stack"][0] == pytest.approx(1.0, abs=0.05)
    assert found[PAPERS] == (pytest.approx(-1.0, abs=0.1), 13)


def test_the_page_has_claims_caveats_and_a_table_per_scale(records):
    page = results_page(open_records(records))
    for words in ("## Claims", "## Caveats", "paper's IDI", "width 16", "**seen**", "Spearman"):
        assert words in page
    assert page == results_page(open_records(records)), "the same records give the same page"
    assert "## Claims" in results_page(indexed([])), "a page without records says so"


def test_a_difference_within_that_of_retrains_cannot_be_told():
    apart = [*every(), make_record("Retrain 2", kept=0.3)]
    assert named(answers(apart), "CF-10 below") == "seen"
    near = [*every(CF_10=0.6), make_record("Retrain 2", kept=0.3)]
    assert named(answers(near), "CF-10 below") == "cannot be told"
