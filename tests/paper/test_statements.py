"""What the paper concludes is asked of records, and answered by what they say."""

from __future__ import annotations

import pytest
from made_records import KEPT, make_record, records

from residua.paper.cases import Case
from residua.paper.quantities import Reader
from residua.paper.results import results_page
from residua.paper.shelf import open_shelf, shelved
from residua.paper.statements import PAPERS, agreement, paper_idi, statements


def answers(records) -> dict[str, str]:
    (group,) = shelved(records).groups
    return {each.claim: each.answer for each in statements(Reader(group, Case("cifar10", "resnet18")))}


def named(found: dict[str, str], word: str) -> str:
    (answer,) = [answer for claim, answer in found.items() if word in claim]
    return answer


def every(**changed: float):
    kept = KEPT | {name.replace("_", "-"): value for name, value in changed.items()}
    # As in the paper, EU-10 loses more than two points of TA.
    return [
        make_record(label, kept=value, ta=0.84 if label == "EU-10" else 0.87) for label, value in kept.items()
    ]


def test_records_like_the_papers_bear_out_all_that_it_says():
    found = answers([*every(), make_record("Retrain 2", kept=0.02)])
    assert len(found) == 8
    assert set(found.values()) == {"yes"}, found


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
    assert named(answers(every(**changed)), word) == "no"


def test_what_records_do_not_say_is_not_known():
    found = answers([make_record("Original"), make_record("Retrain")])
    assert set(found.values()) == {"not known"}


def test_few_methods_conclude_nothing():
    few = [each for each in every() if each.method.label in ("Original", "Retrain", "HD", "RL", "COLA", "FT")]
    found = answers(few)
    for word in ("COLA among", "recovery and IDI", "our IDI and the paper's"):
        assert named(found, word) == "not known"
    assert named(found, "HD has") == "yes"


def test_a_useless_cola_is_not_among_the_lowest():
    records = [each for each in every() if each.method.label != "COLA"] + [make_record("COLA", ta=0.7)]
    assert named(answers(records), "COLA among") == "no"


def test_the_accuracy_of_one_lucky_retrain_decides_nothing():
    lucky = [each for each in every() if each.method.label != "Retrain"] + [make_record("Retrain", ta=0.9)]
    assert named(answers(lucky), "COLA among") == "no"
    more = [make_record(f"Retrain {n}", ta=0.86, kept=0.0) for n in (2, 3)]
    assert named(answers([*lucky, *more]), "COLA among") == "yes"


def test_recovery_that_disagrees_is_said():
    records = []
    for each in every():
        back = 1 - each.readings["recovery"]["recovery"]
        body = each.model_dump() | {"readings": each.readings | {"recovery": {"recovery": back}}}
        records.append(type(each)(**body | {"arrays": each.arrays}))
    assert named(answers(records), "recovery and IDI") == "no"


def test_the_order_is_asked_of_each_reference_by_itself():
    (group,) = shelved([*every(), make_record("Retrain 2", kept=0.02)]).groups
    found = statements(Reader(group, Case("cifar10", "resnet18")))
    (order,) = [each for each in found if "every reference" in each.claim]
    for label in ("Retrain", "Retrain 2", "COLA", "EU-10"):
        assert label in order.evidence
    (one,) = [each for each in statements(Reader(shelved([make_record("Original"), make_record("Retrain")]).groups[0],
                                                 Case("cifar10", "resnet18"))) if "every reference" in each.claim]  # fmt: skip
    assert one.evidence == "one reference only"


def test_rank_correlation_is_of_thirteen_methods_and_by_family(records):
    assert len(paper_idi()) == 13
    (group,) = open_shelf(records).groups
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
    (group,) = shelved([*every(), *theirs]).groups
    found = agreement(Reader(group, Case("cifar10", "resnet18")))
    assert list(found) == ["stack", "linear", PAPERS]
    assert found["stack"][0] == pytest.approx(1.0, abs=0.05)
    assert found[PAPERS] == (pytest.approx(-1.0, abs=0.1), 13)


def test_the_page_has_every_table_with_its_scale_seeds_and_command(records):
    page = results_page(open_shelf(records), "## Why we think so\n\nBecause.", {"fig:exp__recovery": "f.svg"})
    for words in ("tab:main_baseline", "tab:diverse_base_model", "seeds 0, 1", "width 16", "Because.", "(f.svg)",
                  "residua study run small", "JPEG copy", "**yes**", "Spearman"):  # fmt: skip
        assert words in page
    assert page == results_page(
        open_shelf(records), "## Why we think so\n\nBecause.", {"fig:exp__recovery": "f.svg"}
    )
    assert "/tmp" not in page
