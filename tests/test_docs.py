"""Generated pages of the documentation are what the tree gives."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

import residua as rs

ROOT = Path(__file__).resolve().parents[1]


def script(name: str):
    """A script of docs/, as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_file_says_what_it_is():
    silent = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "src/residua").rglob("*.py")
        if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert silent == []


def defined(tree: ast.AST) -> set[str]:
    """The names that a module or a class defines, with those of its classes behind a dot."""
    names: set[str] = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
            if isinstance(node, ast.ClassDef):
                names |= {f"{node.name}.{inner}" for inner in defined(node)}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def test_where_to_find_what_names_files_and_symbols_that_are_there():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    part = text.split("\n## Where to find what\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (.+\?) \| `(\S+)` \| `(\S+)` \|$", part, re.MULTILINE)
    assert len(rows) == part.count("\n| ") - 1 >= 30
    wrong = []
    for question, file, symbol in rows:
        found = [place / file for place in (ROOT / "src/residua", ROOT) if (place / file).is_file()]
        if not found or symbol not in defined(ast.parse(found[0].read_text(encoding="utf-8"))):
            wrong.append((question, file, symbol))
    assert wrong == []


def test_the_table_of_packages_is_the_tree():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    part = text.split("\n## Packages\n")[1].split("\n## ")[0]
    named = re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE)
    assert set(named) == {path.parent.name for path in (ROOT / "src/residua").glob("*/__init__.py")}


def test_the_lines_of_each_package_are_what_the_architecture_says():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    part = text.split("\n## Where the lines are\n")[1].split("\n## ")[0]
    whole = re.search(r"^([\d,]+) lines", part, re.MULTILINE)
    said = {"**": whole[1], **dict(re.findall(r"^\| `(\S+)` \| ([\d,]+) \|", part, re.MULTILINE))}
    files = {path: path.read_text("utf-8").count("\n") for path in (ROOT / "src/residua").rglob("*.py")}
    lines = {"**": sum(files.values()), "src/residua/*.py": 0}
    for path, count in files.items():
        package = path.relative_to(ROOT / "src/residua").parts[0]
        name = "src/residua/*.py" if package.endswith(".py") else package
        lines[name] = lines.get(name, 0) + count
    assert said.keys() == lines.keys()
    wrong = {name: (said[name], there) for name, there in lines.items()
             if abs(int(said[name].replace(",", "")) - there) > 0.05 * there}  # fmt: skip
    assert wrong == {}, "correct the table in ARCHITECTURE.md"


def test_the_departures_are_what_the_tree_gives():
    made = script("make_departures")
    assert (ROOT / "docs/departures.md").read_text(encoding="utf-8") == made.page(), (
        "run: python docs/make_departures.py"
    )
    assert made.page().count("\n- ") >= 18


def test_a_departure_is_read_to_the_end_of_its_comment():
    made = script("make_departures")
    text = (
        "x = 1\n    # Differs from the paper: one,\n    # two.\n    y = 2  # no\n# Differs from the reference: three."
    )
    assert made.marks(text) == [(2, "paper", "one, two."), (5, "reference", "three.")]


def test_no_departure_is_marked_in_words_that_the_page_would_miss():
    made = script("make_departures")
    for path in made.SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert len(made.marks(text)) == text.lower().count("differs from the paper:") + text.lower().count(
            "differs from the reference:"
        ), path


def test_the_commands_are_what_the_program_has():
    assert (ROOT / "docs/commands.md").read_text(encoding="utf-8") == script("make_commands").page(), (
        "run: python docs/make_commands.py"
    )


def test_the_operating_characteristics_are_those_of_the_records():
    made = script("make_characteristics")
    assert made.PAGE.read_text(encoding="utf-8") == made.page(), "run: python docs/make_characteristics.py"
    spread, sampling, audits = made.scatter(made.DATA["embedded, class 6"])
    assert audits == 20
    covered, passes, _, at, beyond, resolution = made.characteristics(spread, sampling, 5, 0.25)
    assert 0.93 <= covered <= 0.97
    assert passes >= 0.85
    assert max(at, beyond) <= 0.05
    assert resolution <= 0.25


def test_the_picture_shows_what_its_records_say(tmp_path):
    made = script("make_picture")
    made.draw(made.RECORDS, tmp_path / "picture.svg")
    texts = [
        re.findall(r"<text[^>]*>([^<]+)</text>", path.read_text(encoding="utf-8"))
        for path in (tmp_path / "picture.svg", made.PICTURE)
    ]
    assert {"Original", "Retrain", "HD", "COLA"} <= set(texts[0])
    assert texts[0] == texts[1], "run: python docs/make_picture.py"


def test_the_schemas_are_what_the_program_writes():
    made = script("make_schemas")
    found = {path.name: path.read_text(encoding="utf-8") for path in made.FOLDER.glob("*.json")}
    assert found == {name: made.text(schema) for name, schema in made.schemas().items()}, (
        "run: python docs/make_schemas.py"
    )


def test_committed_reports_and_records_are_what_the_schemas_say():
    schemas = {
        name: jsonschema.Draft202012Validator(schema) for name, schema in script("make_schemas").schemas().items()
    }
    for validator in schemas.values():
        validator.check_schema(validator.schema)
    seen = 0
    for path in (ROOT / "records").rglob("*.json"):
        body = json.loads(path.read_text(encoding="utf-8"))
        kind = "report-1.json" if "verdict" in body else "record-2.json" if body.get("schema_version") == 2 else None
        if kind:
            seen += 1
            assert [(list(e.path), e.message) for e in schemas[kind].iter_errors(body)] == [], path
    assert seen > 50


def test_the_schemas_refuse_what_they_do_not_know():
    schema = script("make_schemas").schemas()["report-1.json"]
    body = json.loads(next((ROOT / "records/controls").glob("*.json")).read_text(encoding="utf-8"))
    for wrong in (body | {"verdict": "CERTIFIED"}, body | {"more": 1}, body | {"schema_version": 2}):
        assert not jsonschema.Draft202012Validator(schema).is_valid(wrong)


def test_the_citation_names_this_version_and_the_paper_of_the_readme():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == rs.__version__
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    paper = cited["preferred-citation"]
    assert paper["title"] in readme
    names = " and ".join(f"{each['family-names']}, {each['given-names']}" for each in paper["authors"])
    assert f"{{{names}}}" in readme


def test_a_release_names_one_version(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("check_version", ROOT / ".github/check_version.py")
    check = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(check)
    assert check.version() == rs.__version__
    written = {
        "src/residua/__init__.py": '__version__ = "1.2.3"',
        "CITATION.cff": "version: 1.2.3",
        "CHANGELOG.md": "# Changelog\n\n## 1.2.3",
        "dist/residua-1.2.3-py3-none-any.whl": "",
    }
    for name, text in written.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(check, "ROOT", tmp_path)
    assert check.faults("v1.2.3", tmp_path / "dist") == []
    (tmp_path / "CITATION.cff").write_text("version: 1.2.2")
    assert len(check.faults("v1.2.4", tmp_path / "dist")) == 2
    assert "no wheel" in check.faults("v1.2.3", tmp_path)[-1]


def test_workflows_and_templates_are_yaml():
    files = [*(ROOT / ".github").rglob("*.yml"), ROOT / ".pre-commit-config.yaml"]
    assert len(files) >= 6
    for file in files:
        assert isinstance(yaml.safe_load(file.read_text(encoding="utf-8")), dict), file


def test_the_comparison_is_what_the_records_give():
    for path, text in script("make_comparison").pages():
        assert path.read_text(encoding="utf-8") == text, f"run docs/make_comparison.py: {path.name}"
    (row,) = (
        row for row in (ROOT / "docs/index.md").read_text("utf-8").splitlines() if "three-sample" in row and "|" in row
    )
    kept, drawn = re.findall(r"(\d+) of (\d+)", row)[:2]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"of {kept[1]} audited models" in readme
    assert f"{kept[0]} pass a relative three-sample test" in readme
    assert f"{drawn[0]} times of {drawn[1]}" in readme


def test_which_number_to_print_follows_from_the_records():
    made = script("make_numbers")
    assert made.PAGE.read_text(encoding="utf-8") == made.page(), "run docs/make_numbers.py"
    found = made.detectors(made.reports_in(ROOT / "records/controls"))
    text = made.answer(found)
    assert "weight_distance" not in text
    for name in ("IDI", "UA"):
        each = next(one for one in found if one.name == name)
        assert f"{name} {each.auc:.2f} ({each.low:.2f} to {each.high:.2f})" in text


def test_the_wheels_description_has_no_relative_links_and_urls():
    tomllib = pytest.importorskip("tomllib")
    about = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    links = re.findall(r"\]\(([^)]+)\)", about["readme"]["text"])
    assert links
    assert all(link.startswith("https://") for link in [*links, *about["urls"].values()])
