"""Pages as text: what they say, in which order, that they are the same each time, and that names stay names."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from planted_pages import HOSTILE, audit_report, record, study_records

from residua.cli import main
from residua.report import methods
from residua.report.audit import AuditReport
from residua.report.methods import study_tables, summary
from residua.report.pages import audit_page, audits_in, controls_page, generator, same_page, study_page
from residua.report.text import facts, resolution

RECORDS = Path(__file__).parents[2] / "records"
ORDER = (
    "SHALLOW", "How much of it is left", "How sure, and", "Sensitivity", "IDI by block", "What each block", "What comes back", "Metrics",
    "Where the residue", "How the encoders", "What was not assessed", "What this does not show", "How it was made",
    "How to check",
)  # fmt: skip


def test_an_audit_page_has_its_parts_in_order_and_is_small():
    page = audit_page(audit_report(), {role: record("m", 0, 1.0, tsne=True) for role in ("unlearned", "original")})
    places = [page.index(f">{part}") for part in ORDER]
    assert places == sorted(places)
    assert len(page.encode()) < 1_500_000
    assert "class 1, cat: 81 images" in page


def test_pages_of_many_models_stay_small():
    study = study_page(study_records([f"Method {i}" for i in range(20)], seeds=5, tsne=True, points=2000, epochs=30))
    assert study.count("<use") > 22 * 200  # the pictures are there
    assert len(study.encode()) < 3_000_000
    roles = ("unlearned", "original", "reference", "reference2", "reference3", "reference4", "reference5")
    audit = audit_page(audit_report(), {role: record("m", 0, 1.0, tsne=True, points=2000) for role in roles})
    assert audit.count("<use") > 7 * 500
    assert len(audit.encode()) < 1_500_000


def test_a_study_page_shows_the_way_of_methods_that_were_followed():
    page = study_page(study_records(epochs=4))
    assert "The way there, epoch by epoch" in page
    assert page.count('data-series="2"') >= 3  # curves, and both panels of the way
    assert "The way there" not in study_page(study_records())


def test_a_study_page_begins_with_what_is_left_inside_from_the_least():
    page = study_page(study_records(("HD", "Random", "COLA", "FT")))
    rows = re.findall(r'<tr><th scope="row" dir="auto">(.*?)</th>', page.split("</table>")[0])
    assert rows == ["Retrain", "Original", "Random", "FT", "COLA", "HD"]
    assert "FT comes nearest to 0 (0.42), and HD leaves most (0.90)" in page
    assert page.index(">IDI</th>") < page.index(">UA %</th>")


def test_rows_that_are_given_are_not_computed_again(monkeypatch):
    records = study_records()
    rows = summary(records)
    monkeypatch.setattr(methods, "summary", None)
    assert [table.rows for table in study_tables(records, rows=rows)]
    assert "COLA" in study_page(records, rows=rows)


def test_known_methods_stand_beside_an_audit_of_their_kind_alone():
    for report, shown in (
        (audit_report(), "COLA+ 0.02"),
        (of_classes(), "random weights -1.28"),
        (audit_report(reference=False), None),
    ):
        for text in (audit_page(report), report.markdown()):
            assert ("In the paper, " in text) == (shown is not None)
            assert shown is None or shown in text
            assert shown is None or "for orientation only" in text


def of_classes() -> AuditReport:
    report = audit_report()
    return report.model_copy(update={"about": report.about | {"task": report.about["task"] | {"scenario": "class"}}})


def test_the_same_numbers_give_the_same_page():
    assert audit_page(audit_report()) == audit_page(audit_report())


def test_a_page_of_another_version_is_compared_without_its_figures():
    ours = audit_page(audit_report())
    other = ours.replace(generator(), "residua 9.9, matplotlib 1.0")
    drawn = re.sub(r'd="M [^"]+"', 'd="M 0 0"', other)
    assert drawn != other
    assert same_page(ours, ours) == same_page(drawn, ours) == ""
    assert "not the page" in same_page(ours.replace("SHALLOW", "FORGOTTEN"), ours)
    assert "not the page" in same_page(drawn.replace("SHALLOW", "FORGOTTEN"), ours)


def test_without_a_reference_nothing_is_said_to_be_nearer_it():
    report = audit_report(reference=False)
    for text in (audit_page(report), report.markdown()):
        assert "nearer the reference" not in text.split("What is this?")[0]
        assert "unknown without a reference" in text
    assert "nearer the reference" in audit_report().markdown()


def test_the_plain_report_has_the_order_of_the_page():
    lines = audit_report().markdown().splitlines()
    titles = [line.removeprefix("## ") for line in lines if line.startswith("## ")]
    assert titles == [
        "What it keeps", "What each block knows", "What comes back", "Metrics", "Where the residue is", "Not assessed",
        "What this does not show", "How it was made", "How to check it",
    ]  # fmt: skip


def test_hostile_names_are_text_everywhere():
    page = audit_page(audit_report(HOSTILE[:3])) + study_page(study_records(HOSTILE))
    assert "<script>alert" not in page
    assert "<b>tags" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert page.count("<script>") == 2
    assert "<script>" not in audit_report(HOSTILE[:3]).markdown()


def test_the_page_of_saved_controls_is_written_by_a_command(tmp_path, capsys):
    shutil.copytree(
        RECORDS / "controls", tmp_path / "controls", ignore=lambda _, names: [n for n in names if "seed1" in n]
    )
    assert main(["export", str(tmp_path / "controls")]) == 0
    page = (tmp_path / "controls/report.html").read_text()
    assert "checks passed" in page
    assert "Further Retrain" in page
    assert "report.html" in capsys.readouterr().out
    assert main(["export", str(tmp_path)]) == 3
    assert main(["export", str(tmp_path / "nothing")]) == 3


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["methods-class", "methods-random", "cifar10-invariance"])
def test_older_studies_give_pages(tmp_path, folder):
    shutil.copytree(RECORDS / folder, tmp_path / folder)
    assert main(["export", str(tmp_path / folder)]) == 0
    page = (tmp_path / folder / "report.html").read_text()
    assert "COLA" in page or "Retrain" in page
    assert len(page) < 1_500_000


def test_reports_of_the_first_version_give_audit_pages():
    path = next((RECORDS / "controls").glob("seed0-hd.json"))
    page = audit_page(AuditReport.model_validate_json(path.read_text()))
    assert "It no longer says it but still knows it" in page


@pytest.mark.parametrize(("knows", "answer"), [("within", "No, like a retrained model"), (None, "It is not clear")])
def test_the_findings_of_the_verdict_are_put_into_words(knows, answer):
    report = audit_report(findings={"says": "like", "knows": knows, "keeps": "kept"})
    assert [each.answer for each in facts(report)] == ["No, like a retrained model", answer, "Yes"]


def test_the_first_card_answers_the_literal_question_first():
    metrics = audit_report().metrics | {"unlearned": {"UA": 1.0, "TA": 0.9}, "original": {"UA": 0.1, "TA": 0.9}}
    found = audit_report(findings={"says": "unlike", "knows": "more", "keeps": "kept"}, metrics=metrics)
    assert facts(found)[0].answer == "No, but not like a retrained model"
    assert "0 % of the forgotten images" in facts(found)[0].numbers


def test_each_kind_of_reference_has_one_noun():
    found = audit_report(against="proxy", findings={"says": "like", "knows": "within", "keeps": "kept"})
    text = " ".join(f"{each.answer} {each.numbers}" for each in facts(found)) + resolution(found)
    assert "a proxy" in text
    assert "2 proxies are the references" in text
    assert "retrained" not in text
    assert "never saw" not in text


def test_page_and_plain_report_show_the_files_hash_normalisation_and_why_intervals_hang():
    about = audit_report().about
    about["task"] |= {"shape": [1, 28, 28], "mean": [0.286], "std": [0.354]}
    found = audit_report(about=about, files={"unlearned": "12" * 32})
    for text in (audit_page(found), found.markdown()):
        assert "12" * 32 in text
        assert "1 x 28 x 28, normalised by mean 0.286 and standard deviation 0.354" in text
        assert "it can lie above the reading itself" in text


def test_an_audit_page_leads_with_its_picture_the_cards_and_one_paragraph():
    page = audit_page(audit_report())
    places = [
        page.index(part)
        for part in ("<h1>SHALLOW", "line-narrow", 'class="facts"', "It no longer says it: IDI.", "How sure, and")
    ]
    assert places == sorted(places)
    assert 'class="sign"' in page


def test_a_study_page_has_idi_as_a_bar_and_controls_say_how_they_were_made():
    assert study_page(study_records()).count('class="bar"') == 5
    reports = [
        AuditReport.model_validate_json(path.read_text())
        for path in sorted((RECORDS / "controls").glob("seed0-*.json"))
    ]
    page = controls_page(
        [each.model_copy(update={"about": each.about | {"command": "residua controls"}}) for each in reports]
    )
    assert "How it was made" in page
    assert "residua controls" in page


def test_how_sure_is_one_clause_a_line():
    sentence = "A: b.\nHow sure: the interval is above; accuracy +2 points (95 % bound -0.3; limit -10).\nNot shown: c."
    text = audit_report(sentence=sentence).markdown()
    assert "- The interval is above.\n- Accuracy +2 points (95 % bound -0.3; limit -10).\n" in text
    assert "<li>Accuracy +2 points (95 % bound -0.3; limit -10).</li>" in audit_page(audit_report(sentence=sentence))


def test_pages_of_studies_and_controls_lead_to_single_audits(tmp_path):
    (tmp_path / "verdicts").mkdir()
    (tmp_path / "verdicts/seed0-hd.json").write_text("{}")
    links = audits_in(tmp_path, ["HD", "COLA"])
    assert links == {"HD": "verdicts/seed0-hd.json"}
    assert '<a href="verdicts/seed0-hd.json">HD</a>' in study_page(study_records(), links=links)
    reports = [
        AuditReport.model_validate_json(path.read_text())
        for path in sorted((RECORDS / "controls").glob("seed0-*.json"))
    ]
    linked = re.findall(r'<a href="(seed0-[^"]+)"', controls_page(reports))
    assert len(linked) >= 18
    assert all((RECORDS / "controls" / name).exists() for name in linked)
