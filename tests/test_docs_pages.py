"""The pages of docs/: every block runs or is parsed, options exist, fields are named, every page has its place in the site."""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

import residua as rs
from documented import (
    DOCS,
    ROOT,
    blocks_of,
    check_other,
    commands_in,
    hurry,
    lines_of,
    name_of,
    parse,
    prepare,
    run_page,
)
from residua.cli import COMMANDS, _CommandLineError, loaded
from residua.record import Record
from residua.report.audit import AuditReport

PAGES = sorted(DOCS.glob("*.md"))
TEXTS = [*PAGES, *(ROOT / f"{name}.md" for name in ("README", "ARCHITECTURE", "CONTRIBUTING", "SECURITY"))]
LANGUAGES = {"python", "sh", "text", "toml", "json", "yaml"}
# Made by quickstart.md, and used by others.
FIRST = "quickstart.md"
SLOW = {"models.md": "imports timm and transformers", "study.md": "runs two studies and a search"}
RUN = [page for page in PAGES if page.name != FIRST and {b.language for b in blocks_of(page)} & {"python", "sh"}]


@pytest.fixture(scope="module")
def begun(tmp_path_factory) -> Path:
    """The folder in which somebody followed the quick start."""
    return tmp_path_factory.mktemp("begun")


def test_the_quick_start_leads_to_a_verdict(begun, monkeypatch, capsys, one_thread):
    prepare(begun, monkeypatch)
    hurry(monkeypatch)
    run_page(DOCS / FIRST, begun, capsys)
    assert {"original.safetensors", "unlearned.safetensors", "references", "audit"} <= {
        path.name for path in begun.iterdir()
    }
    assert (begun / "audit/report.html").exists()


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.slow] if page.name in SLOW else [], id=page.name) for page in RUN]
)
def test_every_block_of_a_page_runs(
    page, begun, tmp_path, monkeypatch, capsys, one_thread, as_if_in_processes, quick_stack, request
):
    if not (begun / "audit/report.json").exists():  # this test was asked for alone
        test_the_quick_start_leads_to_a_verdict(begun, monkeypatch, capsys, None)
    if page.name == "models.md":
        for library in ("timm", "transformers"):
            request.getfixturevalue(library)
    place = tmp_path / "place"
    shutil.copytree(begun, place)
    prepare(place, monkeypatch)
    hurry(monkeypatch)
    run_page(page, place, capsys)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_does_not_run_here_is_parsed(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("runs/cells", "catalogue/cells"):  # commands look whether a study is there
        (tmp_path / folder).mkdir(parents=True)
    blocks = blocks_of(page)
    for block in blocks:
        if block.file:
            (tmp_path / block.file).write_text(block.code, encoding="utf-8")
    for block in blocks:
        assert block.language in LANGUAGES, f"a block of {page.name} does not say its language: {block.code[:60]}"
        if block.language == "python":
            compile(block.code, page.name, "exec")
        elif block.language == "sh":
            for words in commands_in(block.code):
                parse(words)
            if not block.not_run:
                for line in lines_of(block.code):
                    if not line.startswith("residua "):
                        check_other(line)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("residua audit --original a --unlearned b --critic-restarts 3", _CommandLineError),
        ("residua audit --unlearned a", _CommandLineError),
        ("residua study run x --out y --engine steam", _CommandLineError),
        ("residua study walk", KeyError),
        ("residua audited", AssertionError),
    ],
)
def test_a_command_that_is_not_one_is_noticed(line, error):
    with pytest.raises(error):
        parse(shlex.split(line))


def test_a_command_over_several_lines_is_one():
    code = "residua audit --original a \\\n    --unlearned b  # why\nmake docs\n"
    assert list(commands_in(code)) == [["residua", "audit", "--original", "a", "--unlearned", "b"]]
    assert lines_of(code)[1] == "make docs"


def test_a_command_of_others_is_tested_or_refused():
    check_other("make docs  # the site")
    with pytest.raises(AssertionError):
        check_other("make haste")
    with pytest.raises(AssertionError, match="nobody tests"):
        check_other("rm -rf runs/")


def test_options_in_running_text_exist():
    wrong = []
    for page in TEXTS:
        text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
        for span in re.findall(r"`(residua [^`]+)`", text):
            words = span.split()
            if words[1].isupper() or words[1].startswith("-"):  # `residua COMMAND --help`
                continue
            wrong += [f"{page.name}: {span}"] if not _understood(words) else []
    assert wrong == []


def _understood(words: list[str]) -> bool:
    """True if there are such a command and such options; what they are given does not count."""
    if words[1] not in COMMANDS:
        return False
    command = loaded(words[1], ["COLA"] if words[1] == "unlearn" else [])
    if hasattr(command, "commands"):
        if len(words) < 3:
            return True
        if words[2] not in command.commands:
            return False
        command = command.commands[words[2]]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    given = {word.partition("=")[0].rstrip(".,;") for word in words if word.startswith("--")}
    return given <= known | {"--help"} or "--plugin" in given  # a method of somebody's has options of its own


def test_commands_are_named_as_the_program_names_them():
    assert name_of(shlex.split("residua study run tiny --out runs/")) == "study run"
    assert name_of(shlex.split("residua audit --original a")) == "audit"


def first_column(page: str, heading: str) -> set[str]:
    """The names in the first column of the table below a heading."""
    part = (DOCS / page).read_text("utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.+?) \|", part, re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def test_the_formats_name_every_field():
    curve = {"terms", "blocks", "labels", "index", "test_terms", "test_labels", "course"}
    assert first_column("formats.md", "A record") == (set(Record.model_fields) - {"arrays"}) | curve
    assert first_column("formats.md", "A report") == set(AuditReport.model_fields)


def site_settings():
    spec = importlib.util.spec_from_file_location("site_settings", DOCS / "conf.py")
    settings = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(settings)
    return settings


def test_every_page_has_its_place_in_the_site(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    sections = dict(site_settings().contents((DOCS / "index.md").read_text("utf-8")))
    listed = [page for pages in sections.values() for page in pages if not page.startswith(("api/", "../"))]
    assert sorted([*listed, "index"]) == [page.stem for page in PAGES]
    assert all(sections.values())


def test_links_to_folders_become_text_in_the_site(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    shown = site_settings().without_folders
    text = "[Twenty seeds](../records/controls) of [controls](../records/controls/table.md), ![a](pages)"
    assert shown(text, DOCS) == (
        "Twenty seeds (`records/controls`) of [controls](../records/controls/table.md), ![a](pages)"
    )


def test_docstrings_become_what_the_site_shows(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    api = importlib.import_module("make_api")
    lines = api.converted(["A `name`, *not* a_ * b.", "", "    x = y", "    z", "", "More `code_`."])
    assert lines == [
        "A ``name``, *not* a\\_ \\* b.", "", "::", "", "    x = y", "    z", "", "More ``code_``.", "",
    ]  # fmt: skip
    assert any("``epochs``" in line for line in api.fields(rs.unlearn.FineTune))
    assert "Classifier" not in api.names("residua.models")
    assert "resnet18" in api.names("residua.models")
    sys.modules.pop("make_api")


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_asks_nobody(tmp_path):
    pytest.importorskip("sphinx", reason="Sphinx is not installed; `make docs` installs it")
    pytest.importorskip("furo", reason="furo is not installed; `make docs` installs it")
    words = ["-W", "-q", "-b", "html", "-d", str(tmp_path / "doctrees"), "-c", "docs", ".", str(tmp_path / "site")]
    done = subprocess.run([sys.executable, "-m", "sphinx", *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    site = tmp_path / "site"
    for page in PAGES:
        assert (site / "docs" / f"{page.stem}.html").exists(), page.name
    asks = re.compile(r"""(?:src|href)=["'](?:https?:)?//|@import|url\(["']?(?:https?:)?//""")
    for file in [*site.rglob("*.html"), *site.rglob("*.css")]:
        text = re.sub(r"<a [^>]*>", "", file.read_text("utf-8"))  # a link is not a request
        assert not asks.search(text), file
    inventory = zlib.decompress((site / "objects.inv").read_bytes().split(b"zlib.\n", 1)[1]).decode()
    shown = {line.split()[0] for line in inventory.splitlines()}
    rooms = {name for name in rs.__all__ if type(getattr(rs, name)).__name__ == "module"}
    assert {f"residua.{name}" for name in rs.__all__ if name not in rooms} <= shown
    assert {f"residua.measure.{name}" for name in rs.measure.__all__} <= shown
