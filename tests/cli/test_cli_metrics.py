"""`residua measure --metrics ...` and `residua explain`."""

from __future__ import annotations

import csv
import io
import json
import struct
from dataclasses import dataclass
from importlib.metadata import EntryPoint, EntryPoints

import numpy as np
import pytest

import residua as rs
from residua.cli import main
from residua.compare import metrics, readings_of
from residua.explanations import METRICS, explained
from residua.measure import MEASURES, measures
from residua.readings import Reading
from residua.report.table import better_side, metrics_table

pytestmark = pytest.mark.usefixtures("one_thread")
QUICK = [
    "--set",
    "relearning.steps=2",
    "--set",
    "recovery.repeats=2",
    "--set",
    "information.steps=5",
    "--set",
    "information.rounds=1",
    "--set",
    "tsne.most=20",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """MNIST's four files with 24 training and 12 test images a class, and three networks for them."""
    folder = tmp_path_factory.mktemp("metrics")
    random = np.random.default_rng(0)
    for stem, per_class in (("train", 24), ("t10k", 12)):
        labels = np.repeat(np.arange(10, dtype=np.uint8), per_class)
        images = (labels[:, None, None] * 22 + random.integers(0, 40, (len(labels), 12, 12))).astype(np.uint8)
        for name, array in (("images", images), ("labels", labels)):
            head = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
            (folder / f"{stem}-{name}-idx{array.ndim}-ubyte").write_bytes(head + array.tobytes())
    for seed, name in enumerate(("one", "two", "three")):
        with rs.seeded(seed):
            rs.save(rs.models.resnet18(classes=10, channels=1, width=2), folder / f"{name}.safetensors")
    return folder


@pytest.fixture
def run(capsys, folder):
    def call(*words: str, forget: str = "class:6", models: tuple[str, ...] = ("three",)) -> tuple[int, str, str]:
        capsys.readouterr()
        paths = [str(folder / f"{model}.safetensors") for model in models]
        code = main(["measure", *paths, "--data", f"mnist:{folder}", "--forget", forget, *words])
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def against(folder) -> list[str]:
    return ["--original", str(folder / "one.safetensors"), "--reference", str(folder / "two.safetensors")]


def test_all_metrics_as_json_and_again_from_records(run, against, tmp_path):
    code, printed, err = run("--metrics", "all", *against, *QUICK, "--json", "--out", str(tmp_path))
    assert code == 0
    assert err.startswith("reference: accuracy\n")
    by_name = {row.pop("model"): row for row in json.loads(printed)}
    assert list(by_name) == ["Reference", "Original", "three"]

    records = {path.stem: rs.Record.read(path) for path in tmp_path.glob("*.json")}
    assert set(records) == {"reference", "original", "three"}
    assert records["three"].measures["mia"].fields["classifier"] == "logistic"
    stored = {name: readings_of(record) for name, record in records.items()}
    again = {
        name: metrics(readings, original=stored["original"], reference=stored["reference"])
        for name, readings in stored.items()
    }
    notes = by_name["three"].pop("notes")
    assert by_name["three"] == pytest.approx(dict(again["three"].values))
    assert notes == again["three"].notes

    names = {explained(name).name for name in (*by_name["three"], *notes)}
    assert names == {entry.name for entry in METRICS if entry.measures}
    for name, value in by_name["three"].items():
        if explained(name).unit == "share" and explained(name).name != "class_change":
            assert 0 <= value <= 1, name
    assert by_name["Reference"]["JSD"] == by_name["Reference"]["gap"] == 0
    assert by_name["Original"]["CKA.original.forget.5"] == pytest.approx(1)
    assert by_name["Original"]["weight_distance.original"] == 0

    table = metrics_table(again, title="all")
    assert sorted(table.columns[1:-1]) == ["original", "reference", "three"]
    shown = {row[0].split(" ")[0].split(".")[0] for row in table.rows}
    assert shown == names
    assert len(table.rows) < 75
    assert all(row[-1] for row in table.rows)


def test_table_and_csv_say_the_same(run, against):
    words = ["--metrics", "UA,E-MIA,JSD,AUS,class_change", *against]
    _, shown, _ = run(*words)
    _, printed, _ = run(*words, "--csv")
    rows = {row["metric"]: row for row in csv.DictReader(io.StringIO(printed))}
    assert set(next(iter(rows.values()))) == {"metric", "Reference", "Original", "three", "unit", "better"}
    cells = {
        line.split("│")[1].strip(): [cell.strip() for cell in line.split("│")[2:-1]]
        for line in shown.splitlines()
        if line.startswith("│")
    }
    for name, row in rows.items():
        share = row["unit"] == "share"
        for cell, model in zip(cells[f"{name} %" if share else name], ("Reference", "Original", "three"), strict=False):
            if row[model]:
                assert float(cell) == pytest.approx(float(row[model]) * (100 if share else 1), abs=0.06)
            else:
                assert cell == "none"
        assert cells[f"{name} %" if share else name][-1] == row["better"]
    assert "E-MIA.TPR@1e-2: it needs 100 held-out images" in shown


def test_only_what_is_asked_for_is_measured(run, monkeypatch):
    called = []
    for measure in MEASURES:
        monkeypatch.setattr(
            measure,
            "__call__",
            lambda self, model, task, real=measure.__call__: called.append(self.label) or real(self, model, task),
        )
    code, out, err = run("--metrics", "recovery", "--json")
    assert (code, err) == (0, "")
    assert called == ["recovery"]
    assert json.loads(out)[0].keys() == {"model", "recovery", "recovery.low", "recovery.high", "recovery.test"}
    called.clear()
    run("--metrics", "mia,TA", "--json")
    assert called == ["accuracy", "mia"]


def test_parts_are_shown_when_a_metric_is_asked_for_by_name(run):
    _, out, err = run("--metrics", "probe")
    assert err == ""
    assert all(f"probe.{block} %" in out for block in range(1, 6))


def test_settings_can_be_set_and_wrong_ones_are_refused(run):
    values = [
        json.loads(run("--metrics", "E-MIA", "--set", f"mia.classifier={kind}", "--json")[1])[0]
        for kind in ("logistic", "svc")
    ]
    assert values[0] != values[1]
    for words, sentence in {
        "mia.classifier=forest": "choose logistic or svc",
        "mia.seed=x": "cannot be a value of seed",
        "mia.nothing=1": "it has classifier",
        "nothing.seed=1": "write MEASURE.FIELD=VALUE",
        "mia.classifier": "write MEASURE.FIELD=VALUE",
        "information.blocks=3": "set it in Python",
    }.items():
        code, out, err = run("--metrics", "E-MIA", "--set", words)
        assert (code, out) == (3, "")
        assert sentence in err
        assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--metrics", "accuracies"], "there is no metric 'accuracies'"),
        (["--metrics", " , "], "names nothing"),
        (["--metrics", "JSD"], "JSD compares with another model; give --reference"),
        (["--metrics", "IDI"], "give --original and --reference"),
        (["--metrics", "CKA"], "give --original or --reference"),
        (["--metrics", "RTE"], "cannot be measured on a checkpoint"),
        (["--metrics", "u-lira"], "cannot be measured on a checkpoint"),
        (["--json", "--csv"], "choose one"),
        (["--out", "/dev/null/x"], "cannot be written"),
    ],
)
def test_what_cannot_be_measured_is_refused(run, words, sentence):
    code, out, err = run(*words)
    assert (code, out) == (3, "")
    assert sentence in err
    assert len(err.splitlines()) == 1


def test_a_metric_that_fails_says_why_and_the_others_stay(run):
    """One forgotten sample: information has only one label to tell."""
    code, out, _ = run("--metrics", "UA,MI", "--json", forget="indices:/dev/null")
    assert code == 3
    code, out, _ = run("--metrics", "UA,MI", "--json", forget="samples:1")
    assert code == 0
    row = json.loads(out)[0]
    assert set(row) == {"model", "UA", "notes"}
    assert "MI" in row["notes"]
    code, out, _ = run("--metrics", "MI", forget="samples:1")
    assert (code, out) == (3, "")


def test_equal_names_and_equal_models(run, folder, against):
    _, out, err = run("--metrics", "UA,recovery", *against, "--json", models=("one", "one", "three"))
    rows = json.loads(out)
    assert [row["model"] for row in rows] == ["Reference", "Original", "one", "one 2", "three"]
    assert rows[1]["UA"] == rows[2]["UA"] == rows[3]["UA"]
    assert {line.split(":")[0] for line in err.splitlines()} == {"reference", "original", "three"}  # each once


@dataclass(frozen=True)
class Brightness:
    """Brightness of the forget set: a measure from elsewhere."""

    label = "brightness"

    def __call__(self, model, task):
        return Reading({"brightness": float(next(iter(task.forget.batches(50)))[0].mean())})


class Nameless:
    pass


class Plain:
    label = "plain"

    def __call__(self, model, task):
        return Reading({})


@dataclass(frozen=True)
class Shouted(Brightness):
    label = "Accuracy"


def entries(monkeypatch, *values: str) -> None:
    found = EntryPoints(EntryPoint(f"x{i}", value, "residua.measures") for i, value in enumerate(values))
    monkeypatch.setattr("residua.plugins.entry_points", lambda group: found.select(group=group))


def test_a_measure_of_another_package_is_found_and_used(run, monkeypatch):
    entries(monkeypatch, f"{__name__}:Brightness")
    assert measures()["brightness"] is Brightness
    _, out, _ = run("--metrics", "brightness,UA", "--json")
    assert set(json.loads(out)[0]) == {"model", "brightness", "UA"}
    code, out, _ = run("--metrics", "brightness")
    assert code == 0
    assert "brightness" in out


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("no_such_package:Thing", "cannot be used"),
        (f"{__name__}:Missing", "cannot be used"),
        (f"{__name__}:Nameless", "names no measure; make it a frozen dataclass with a label"),
        (f"{__name__}:Plain", "names no measure; make it a frozen dataclass"),
        (f"{__name__}:Shouted", "brings a measure named Accuracy, which is taken"),
        ("residua.measure:Accuracy", "brings a measure named accuracy, which is taken"),
    ],
)
def test_measures_that_cannot_be_used_are_refused_by_name(run, monkeypatch, value, sentence):
    entries(monkeypatch, value)
    code, out, err = run()
    assert (code, out) == (3, "")
    assert sentence in err
    assert value.split(":")[0] in err


# --- explain --------------------------------------------------------------------------------------


def test_every_metric_is_explained(capsys):
    for entry in METRICS:
        assert main(["explain", entry.name]) == 0
        said = capsys.readouterr().out
        for text in (
            entry.title,
            entry.definition,
            entry.formula,
            entry.range,
            entry.better,
            entry.ideal,
            entry.blind,
            entry.source,
        ):
            assert text
            assert text in said
    assert main(["explain"]) == 0
    said = capsys.readouterr().out
    assert all(entry.name in said for entry in METRICS)
    assert main(["explain", "idi", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["name"], found["settings"]["information"]["folds"]) == ("IDI", 4)
    assert main(["explain", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["metrics"]) == len(METRICS)


def test_metrics_are_found_by_other_names_and_by_their_parts(capsys):
    for word, name in {
        "mia": "E-MIA",
        "t-SNE": "tsne",
        "ua": "UA",
        "probe.test.5": "probe",
        "CKA.original.forget.1": "CKA",
    }.items():
        assert main(["explain", word]) == 0
        assert capsys.readouterr().out.startswith(f"{name}:")
    assert main(["explain", "nonsense"]) == 3
    assert "nothing is called 'nonsense'" in capsys.readouterr().err


def test_names_are_unique_and_measures_exist():
    words = [word.lower() for entry in METRICS for word in (entry.name, *entry.aliases)]
    assert len(set(words)) == len(words)
    used = {label for entry in METRICS for label in entry.measures}
    assert used == {measure.label for measure in MEASURES}


def test_parts_have_their_own_better_side():
    assert better_side("E-MIA") == "nearer the reference"
    assert better_side("E-MIA.accuracy") == "neither: the attacker's skill"
    assert better_side("CKA.original.forget.5") == "nearer the reference"
    assert better_side("CKA.reference.forget.5") == "higher"
