"""The paper's numbers beside ours: found by content, computed from stored terms, and never compared silently."""

from __future__ import annotations

import csv
import dataclasses
import io
import json

import pytest
from made_records import KEPT, make_record, records

from reproduction import numbers_of, table_labels
from reproduction.__main__ import main
from reproduction.cases import SCALES, case_of, chosen_group
from reproduction.figure_list import FIGURES
from reproduction.labels import SETTINGS
from reproduction.quantities import Reader
from reproduction.record_index import indexed, open_records
from reproduction.reproducing import all_labels, listing, reproduce
from reproduction.tables import Question, notes, sentence, shown
from residua.compare import curve_of, idi
from residua.compare.information import idi_value, ranks, spearman
from residua.errors import InputError

KEYS = {"table", "setting", "method", "quantity", "paper", "paper_std", "ours", "ours_std", "n", "scale"}


@pytest.fixture(scope="module")
def index(records):
    return open_records(records)


def rows(made, **where):
    return [row for row in made.rows if all(getattr(row, name) == value for name, value in where.items())]


def test_records_are_found_by_what_they_say(index):
    (group,) = index.groups
    assert group.dataset == "cifar10"
    assert group.seeds == [0, 1]
    assert {model.label for model in group.models} == {*KEPT, "Retrain 2"}
    assert len(group.references_of(group.labelled("FT")[0])) == 2


def test_every_number_of_the_paper_is_in_its_table_as_printed(index):
    for label in table_labels():
        theirs = [(n.setting, n.method, n.quantity, n.mean, n.std) for n in numbers_of(label)]
        ours = [(r.setting, r.method, r.quantity, r.paper, r.paper_std) for r in reproduce(label, index).rows]
        assert set(theirs) <= set(ours), label


def test_ours_is_the_idi_of_the_records(index):
    made = reproduce("main_baseline", index)
    (row,) = rows(made, setting="CIFAR-10 (single class)", method="FT", quantity="IDI")
    assert (row.paper, row.paper_std) == (0.671, 0.008)
    assert row.ours == pytest.approx(0.67, abs=0.02)
    assert row.ours_std is not None
    assert (row.n, row.scale) == (2, "small")
    assert row.difference == pytest.approx(row.ours - 0.671)
    (hd,) = rows(made, setting="CIFAR-10 (single class)", method="HD", quantity="IDI")
    assert (hd.paper, hd.ours) == (1.0, 1.0), "exactly"
    (ua,) = rows(made, setting="CIFAR-10 (single class)", method="FT", quantity="UA")
    assert ua.ours == 100.0


def test_what_differs_is_said(index):
    (part,) = [p for p in reproduce("single_class_cifar10", index).parts if p.setting == "CIFAR-10 - ResNet-18"]
    text = " ".join(part.differs)
    for words in ("JPEG copy", "width 16", "22 epochs", "2 Originals", "2 Retrains", "unseen data"):
        assert words in text
    (part,) = [p for p in reproduce("single_class_cifar100", index).parts if p.setting == "CIFAR-100 - ResNet-18"]
    assert "cifar10-jpeg stands in for CIFAR-100" in " ".join(part.differs)


def test_where_nothing_is_there_a_command_is_named_and_nothing_is_made_up(index):
    made = reproduce("single_class_cifar10", index)
    (vit,) = [part for part in made.parts if part.setting == "CIFAR-10 - ViT"]
    assert not vit.there
    assert all(row.ours is None for row in vit.rows)
    assert vit.commands == ("residua study run tiny --network vit --seeds 3 --out runs/",)
    none = reproduce("single_class_cifar10", index, "full")
    assert not any(part.there for part in none.parts)
    assert none.parts[0].commands == ("residua study run paper-cifar10-resnet18 --data cifar10:DIR --out runs/",)


def test_a_network_is_never_taken_for_another(index):
    for setting in ("CIFAR-10 - ResNet-50", "CIFAR-10 - ViT"):
        assert chosen_group(index, case_of("tab:single_class_cifar10", setting)) is None


def test_the_first_reference_is_retrain_itself_in_whatever_order_records_are_read():
    made = [make_record(label) for label in ("Retrain 3", "Retrain 2", "Retrain", "Original")]
    (group,) = indexed(made).groups
    (original,) = group.labelled("Original")
    assert [each.label for each in group.references_of(original)] == ["Retrain", "Retrain 2", "Retrain 3"]


def test_the_first_model_of_a_method_is_the_first_unlearning_in_whatever_order_records_are_read():
    unlearnings = [make_record("FT", draw=draw) for draw in (1, 0)]
    (group,) = indexed([*unlearnings, make_record("Original"), make_record("Retrain")]).groups
    assert [model.draw for model in group.labelled("FT")] == [0, 1]


def test_a_few_methods_of_a_larger_scale_do_not_hide_all_of_a_smaller_one():
    few = [make_record(label, scale="small") for label in ("Original", "Retrain", "COLA")]
    many = [make_record(label, scale="small-verbatim") for label in KEPT]
    case = case_of("tab:main_baseline", "CIFAR-10 (single class)")
    assert chosen_group(indexed([*few, *many]), case).scale == "small-verbatim"
    assert chosen_group(indexed([*few, *many]), case, "small").scale == "small"
    assert chosen_group(indexed(few), case).scale == "small"
    for scale, there in (("small-verbatim", [*few, *many]), ("small", few)):
        part = reproduce("tab:main_baseline", indexed(there)).parts[0]
        assert part.scale == scale, "and so in the table"


def test_records_of_the_estimator_that_could_be_fooled_stand_for_nothing():
    old = [make_record(label) for label in KEPT]
    old = [record.model_copy(update={"software": {"residua": "0.1.0"}}) for record in old]
    case = case_of("tab:main_baseline", "CIFAR-10 (single class)")
    assert chosen_group(indexed(old), case) is None


def test_how_many_of_the_training_images_were_used_is_named():
    part = reproduce("tab:main_baseline", indexed([make_record(label) for label in KEPT])).parts[0]
    made = sum(make_record("FT").setting.task.size(name) for name in ("retain", "forget"))
    assert made != 50_000
    assert f"training images: {made:,} of 50,000" in part.differs


def test_blocks_references_and_families_need_no_fitting(index):
    made = reproduce("diverse_idi_model", index)
    for n in ("IDI full", "IDI n=1", "IDI n=4"):
        (row,) = rows(made, method="RL", quantity=n)
        assert row.ours == pytest.approx(0.83, abs=0.02)
    of_references = reproduce("diverse_base_model", index)
    (other,) = rows(of_references, setting="CIFAR-10", method="FT", quantity="IDI ref=EU-10")
    assert other.ours == pytest.approx((0.67 + 0.35) / 1.35, abs=0.02)
    (order,) = rows(of_references, setting="CIFAR-10", method="EU-10", quantity="order")
    assert order.ours == 1, "the least of all"
    same = reproduce("main_baseline", index, question=Question(family="linear"))
    (row,) = rows(same, setting="CIFAR-10 (single class)", method="FT", quantity="IDI")
    assert row.ours == pytest.approx(0.67, abs=0.02)
    mean_of_two = reproduce("main_baseline", index, question=Question(reference="all"))
    (row,) = rows(mean_of_two, setting="CIFAR-10 (single class)", method="FT", quantity="IDI")
    assert row.ours is not None


def test_curves_of_other_settings_are_not_compared(index):
    unlike = [make_record("Original"), make_record("Retrain"), make_record("FT", ratio="1:5")]
    (group,) = indexed(unlike).groups
    found = Reader(group, case_of("tab:single_class_cifar10", "CIFAR-10 - ResNet-18"))("FT", "IDI")
    assert found.mean is None
    assert "cannot be compared" in found.why


def test_the_main_curve_counts_wherever_it_has_the_blocks():
    def both(label: str, kept: float, other: float):
        """Two records of one model: the main curve of two blocks, and one of five on fewer samples, read first."""
        more = make_record(label, ratio="10%", kept=other)
        body = more.model_dump() | {"name": f"a-{more.name}"}
        name = "information-10-percent-5-blocks"
        body["measures"] = {name: more.measures["information"].model_copy(update={"label": name})}
        body["readings"] = {name: more.readings["information"]}
        arrays = {key.replace("information", name, 1): value for key, value in more.arrays.items()}
        return [type(more)(**body | {"arrays": arrays}), make_record(label, blocks=(4, 5), kept=kept)]

    made = [*both("Original", 1, 1), *both("Retrain", 0, 0), *both("FT", 0.6, 0.4)]
    (group,) = indexed(made).groups
    reader = Reader(group, case_of("tab:single_class_cifar10", "CIFAR-10 - ResNet-18"))
    assert len(group.models) == 3
    assert reader("FT", "IDI").mean == pytest.approx(0.6, abs=0.01)
    assert reader("FT", "IDI n=1").mean == pytest.approx(0.6, abs=0.01)
    assert reader("FT", "IDI full").mean == pytest.approx(0.4, abs=0.01), "no other has all blocks"
    assert reader("FT", "IDI ratio=10%").mean == pytest.approx(0.4, abs=0.01)


def test_records_of_two_versions_are_never_mixed():
    old = make_record("FT")
    old = type(old)(**{**old.model_dump(), "software": {"residua": "0.1.0"}, "arrays": old.arrays})
    new = [make_record("Original"), make_record("Retrain")]
    assert [group.version for group in indexed([old, *new]).groups] == ["0.2.0", "0.1.0"]


def test_the_quick_value_is_that_of_idi():
    u, o, r = (curve_of(make_record(label)) for label in ("GA", "Original", "Retrain"))
    for last in (None, 1, 2):
        whole = idi(u, original=o, reference=r, last=last).value
        assert idi_value(u, original=o, reference=r, last=last) == pytest.approx(whole, abs=1e-9)
    assert idi_value(u, original=r, reference=r) is None, "no scale to measure on"
    with pytest.raises(InputError, match="5: so many blocks"):
        idi_value(u, original=o, reference=r, last=9)


def test_rank_correlation():
    assert spearman({"a": 1, "b": 2, "c": 3}, {"a": 10, "b": 20, "c": 30, "d": 0}) == (pytest.approx(1.0), 3)
    assert spearman({"a": 1, "b": 2}, {"a": 1, "b": 2}) is None
    assert spearman({"a": 1, "b": 1, "c": 1}, {"a": 1, "b": 2, "c": 3}) is None
    assert ranks({"a": 3.0, "b": 1.0}) == {"b": 1, "a": 2}


def test_a_cell_does_not_break_the_table_it_stands_in(index):
    for label in table_labels():
        for part in reproduce(label, index).parts:
            lines = [line for line in shown(part, spread=True).markdown().splitlines() if line.startswith("|")]
            assert len({line.count("|") for line in lines}) == 1, label


@pytest.mark.parametrize("label", SETTINGS)
def test_settings_tables_have_the_papers_values_and_ours(label, index):
    made = reproduce(label, index)
    assert made.rows
    assert all(row.paper is not None and row.ours is not None for row in made.rows)
    full = reproduce(label, index, "full")
    assert all(row.difference == 0 for row in full.rows), "at full scale ours are the paper's"


def test_a_known_setting_is_as_printed(index):
    made = reproduce("hyperparam_class", index)
    (row,) = rows(made, setting="CIFAR-10 - ResNet-18", method="FT", quantity="lr")
    assert row.paper == 1e-5
    table = shown(made.parts[0])
    (line,) = [line for line in table.rows if line[0] == "FT"]
    place = table.columns.index("lr")
    assert line[place].startswith("1e-05 → "), "not as 0.00"
    assert "n" not in table.columns, "no models are behind it"


def test_every_label_is_listed_with_what_it_needs(index):
    entries = {entry.label: entry for entry in listing(index)}
    assert set(entries) == set(all_labels())
    assert {*table_labels(), *SETTINGS, *(figure.label for figure in FIGURES)} == set(entries)
    assert all(entry.needs and entry.about for entry in entries.values())
    assert entries["tab:main_baseline"].own == "1 of 2 settings (small)"
    assert entries["fig:representation_tsne"].own == "no"


def test_nothing_is_told_across_data_sets_or_where_chance_rules(index):
    part = reproduce("tab:main_baseline", index).parts[0]
    assert part.own
    assert sentence(part).startswith("The paper's order of methods: seen (Spearman of IDI 1.00 over ")
    assert "95 % interval 1.00 to 1.00" in sentence(part)
    assert notes(part).endswith(sentence(part)), "every table ends in it"
    chance = dataclasses.replace(part, apart=1.2)
    assert "cannot be told. Retrains differ as much as Original and Retrain: chance" in sentence(chance)
    others = [make_record(label, scale="tiny", dataset="fashion-sample") for label in KEPT]
    stand_in = reproduce("tab:main_baseline", indexed(others)).parts[0]
    assert not stand_in.own
    assert any(row.ours is not None for row in stand_in.rows)
    assert all(row.difference is None for row in stand_in.rows)
    assert "the data are not the paper's" in sentence(stand_in)
    entry = next(each for each in listing(indexed(others)) if each.label == "tab:main_baseline")
    assert (entry.own, entry.stand_in) == ("no", "1 of 2 settings (tiny)")


def test_an_unknown_label_or_scale_is_one_sentence(index):
    with pytest.raises(InputError, match="--list names all"):
        reproduce("tab:nothing", index)
    with pytest.raises(InputError, match=SCALES[0]):
        reproduce("tab:main_baseline", index, "huge")


def test_json_csv_and_latex_on_the_command_line(records, capsys):
    where = ["--records", str(records)]
    assert main(["tab:main_baseline", *where, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["rows"]
    assert set(found[0]) == KEYS
    assert main(["main_baseline", *where, "--csv"]) == 0
    lines = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(lines) == len(found)
    assert {*KEYS, "difference"} == set(lines[0])
    assert main(["main_baseline", *where, "--latex"]) == 0
    assert r"\begin{tabular}" in capsys.readouterr().out
    assert main(["--list", *where]) == 0
    assert "fig:exp__recovery" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "name one table or figure"),
        (["tab:main_baseline", "--list"], "name one table or figure"),
        (["tab:main_baseline", "--json", "--csv"], "choose one"),
        (["fig:exp__recovery", "--out", "x.gif"], "name a file .pdf, .svg or .png"),
        (["tab:main_baseline", "--out", "x.svg"], "is a table"),
        (["tab:main_baseline", "--records", "nowhere"], "is not a folder"),
        (["fig:exp__ratio", "--out", "x.svg"], "python -m reproduction run small-curves"),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(words, sentence, records, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    where = [] if "--records" in words else ["--records", str(records)]
    assert main([*words, *where]) == 3
    assert sentence in " ".join(capsys.readouterr().err.split())
    assert list(tmp_path.iterdir()) == []
