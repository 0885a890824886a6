"""Pages in a real browser: Debian's Chromium, driven by playwright. Skipped where one of them is missing."""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from planted_pages import HOSTILE, audit_report, control_reports, full_study, record, study_records

from residua.report.audit import AuditReport
from residua.report.pages import audit_page, controls_page, study_page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="pages are tested in Chromium: apt-get install chromium"),
    pytest.mark.skipif(
        importlib.util.find_spec("playwright") is None, reason="playwright is missing: pip install residua[dev]"
    ),
]
RECORDS = Path(__file__).parents[2] / "records"
KINDS = ("audit", "study", "controls")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A page of each kind, and one of each kind with hostile names."""
    place = tmp_path_factory.mktemp("pages")
    reports = [
        AuditReport.model_validate_json(path.read_text())
        for path in sorted((RECORDS / "controls").glob("seed[0-2]-*.json"))
    ]
    models = {role: record("m", 0, 1.0, tsne=True) for role in ("unlearned", "original", "reference")}
    texts = {
        "audit": audit_page(audit_report(), models),
        "study": study_page(study_records(tsne=True, epochs=3), "Study"),
        "controls": controls_page(reports),
        "full": full_study(),
        "many": study_page(study_records([f"Method {i}" for i in range(20)]), "Many"),
        "hostile-audit": audit_page(audit_report(HOSTILE[:3])),
        "hostile-study": study_page(study_records(HOSTILE, tsne=True, epochs=3), HOSTILE[0]),
        "hostile-controls": controls_page(control_reports(reports)),
    }
    for name, text in texts.items():
        (place / f"{name}.html").write_text(text, "utf-8")
    return place


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        made = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield made
        made.close()


@pytest.fixture
def opened(browser, folder):
    """A function that opens a page, and afterwards holds it to have asked for nothing and said nothing."""
    heard: list[str] = []
    with contextlib.ExitStack() as stack:

        @contextlib.contextmanager
        def context(**how) -> Iterator:
            made = browser.new_context(**how)
            yield made
            made.close()

        def open_page(name: str, **how):
            page = stack.enter_context(context(**how)).new_page()
            page.on("console", lambda said: heard.append(f"console: {said.text}"))
            page.on("pageerror", lambda error: heard.append(f"error: {error}"))
            page.on("dialog", lambda dialog: (heard.append("dialog"), dialog.dismiss()))
            page.on("request", lambda asked: None if asked.url.startswith("file:") else heard.append(asked.url))
            page.goto((folder / f"{name}.html").as_uri())
            return page

        yield open_page
    assert heard == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_opens_from_a_file_with_its_charts(opened, kind):
    page = opened(kind)
    drawn = page.evaluate(
        "[...document.querySelectorAll('figure svg')].map(e => e.getBoundingClientRect()).filter(b => b.width > 200 && b.height > 60).length"
    )
    assert drawn >= {"audit": 4, "study": 6, "controls": 1}[kind]
    assert page.evaluate("performance.getEntriesByType('navigation')[0].domInteractive") < 10_000
    unnamed = "[...document.querySelectorAll('figure svg')].filter(e => !e.getAttribute('aria-label')).length"
    assert page.evaluate(unnamed) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_phone_does_not_scroll_sideways(opened, kind):
    page = opened(kind, viewport={"width": 390, "height": 800})
    page.evaluate("document.querySelectorAll('details').forEach(e => { e.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_long_names_do_not_widen_a_phone(opened):
    for name in ("hostile-audit", "hostile-study", "hostile-controls"):
        page = opened(name, viewport={"width": 390, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_hostile_names_are_shown_and_nothing_runs(opened):
    assert HOSTILE[0] in opened("hostile-audit").inner_text("body")
    for name in ("hostile-study", "hostile-controls"):
        page = opened(name)
        text = page.inner_text("body")
        assert [each for each in HOSTILE if each not in text] == []
        assert page.evaluate("document.scripts.length") == 1
        assert page.evaluate("document.querySelectorAll('b, iframe, img').length") == 0


def test_a_heading_sorts_and_sorts_back(opened):
    page = opened("study")
    column = "[...document.querySelector('table.sortable').tBodies[0].rows].map(r => r.cells[0].innerText)"
    place = page.evaluate(
        "[...document.querySelector('table.sortable').tHead.rows[0].cells].findIndex(c => c.innerText.startsWith('IDI'))"
    )
    head = page.locator("table.sortable").first.locator("thead th").nth(place)
    head.locator("button").focus()
    page.keyboard.press("Enter")
    assert page.evaluate(column) == ["Retrain", "FT", "COLA", "HD", "Original"]
    assert head.get_attribute("aria-sort") == "ascending"
    page.keyboard.press("Enter")
    assert page.evaluate(column)[0] == "Original"


def test_the_picker_shows_and_hides_curves(opened):
    page = opened("study")
    shown = "[...document.querySelectorAll('#curves-of-0 [data-series]')].filter(e => getComputedStyle(e).display !== 'none').length"
    assert page.evaluate(shown) == 5
    page.locator(".picker input").first.uncheck()
    assert page.evaluate(shown) == 4
    page.get_by_role("button", name="None").first.click()
    assert page.evaluate(shown) == 0
    assert page.evaluate(shown.replace("curves", "courses")) == 10  # a picker is for its own figure


def test_the_dark_scheme_applies_to_paper_and_figures(opened):
    colours = """() => [getComputedStyle(document.documentElement).backgroundColor,
        getComputedStyle(document.querySelector('figure svg text')).fill]"""
    light, dark = (opened("audit", color_scheme=scheme).evaluate(colours) for scheme in ("light", "dark"))
    assert light[0] == "rgb(254, 254, 254)"
    assert dark[0] == "rgb(20, 24, 29)"
    assert light[1] != dark[1]


def test_details_open_by_keyboard_and_for_print(opened):
    page = opened("audit")
    page.locator("summary").first.focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.querySelector('details').open")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("document.querySelectorAll('details:not([open])').length") == 0
    assert page.pdf().startswith(b"%PDF")


AXE = [(kind, scheme) for kind in KINDS for scheme in ("light", "dark")]


@pytest.mark.parametrize(
    ("kind", "scheme"), [AXE[0], *(pytest.param(*each, marks=pytest.mark.slow) for each in AXE[1:])]
)
def test_axe_finds_nothing_serious(opened, kind, scheme):
    found = importlib.util.find_spec("axe_playwright_python")
    if found is None or found.origin is None:
        pytest.skip("axe-core is missing: pip install residua[dev]")
    page = opened(kind, color_scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(e => { e.open = true; })")
    page.evaluate((Path(found.origin).parent / "axe.min.js").read_text())
    violations = page.evaluate(
        "axe.run().then(r => r.violations.map(v => [v.impact, v.id, v.nodes.slice(0, 3).map(n => n.html)]))"
    )
    assert [each for each in violations if each[0] in ("serious", "critical")] == []


@pytest.mark.parametrize("width", [390, 1280])
def test_names_of_twenty_methods_do_not_overlap(opened, width):
    page = opened("many", viewport={"width": width, "height": 900})
    apart = """() => [...document.querySelectorAll('figure svg')].flatMap((svg) => {
        const boxes = [...svg.querySelectorAll('text')].filter((t) => /^Method|^Original|^Retrain/.test(t.textContent))
            .map((t) => [t.textContent, t.getBoundingClientRect()]).filter(([, b]) => b.width);
        return boxes.flatMap(([a, x], i) => boxes.slice(i + 1).filter(([, y]) =>
            x.left < y.right - 1 && y.left < x.right - 1 && x.top < y.bottom - 1 && y.top < x.bottom - 1).map(([b]) => `${a} / ${b}`));
    })"""
    assert page.locator("figure svg text", has_text="Method").count() > 10
    assert page.evaluate(apart) == []


@pytest.mark.parametrize("width", [390, 768, 1280])
@pytest.mark.parametrize("kind", [*KINDS, "many", "full"])
def test_no_table_is_cut(opened, kind, width):
    """A table that is wider than the screen scrolls in its own region; at 1,280 pixels none has to."""
    page = opened(kind, viewport={"width": width, "height": 900})
    cut = """() => [...document.querySelectorAll('table')].filter((t) => t.getBoundingClientRect().width
        && t.scrollWidth > t.parentElement.clientWidth + 1
        && (innerWidth >= 1280 || !t.parentElement.classList.contains('scroll'))).map((t) => t.textContent.slice(0, 60))"""
    assert page.evaluate(cut) == []


def test_the_summary_of_an_audit_prints_on_one_page_with_a_block_to_sign(opened):
    page = opened("audit", viewport={"width": 673, "height": 1000})  # A4 less its margins, at 96 pixels an inch
    page.emulate_media(media="print")
    assert page.locator(".sign").is_visible()
    box = page.locator(".summary").bounding_box()
    assert box["y"] + box["height"] < 985
    page.emulate_media(media="screen")
    assert not page.locator(".sign").is_visible()


@pytest.mark.parametrize("width", [390, 1280])
def test_long_commands_of_the_documentation_are_not_clipped(browser, width):
    style = (Path(__file__).parents[2] / "docs/static/site.css").read_text("utf-8")
    command = "residua audit --original original.safetensors --data fashion-sample --forget class:6 " * 4
    page = browser.new_page(viewport={"width": width, "height": 400})
    clipped = "() => (({scrollWidth, clientWidth}) => scrollWidth > clientWidth + 1)(document.querySelector('pre'))"
    found = []
    for rules in ("", style):
        page.set_content(
            f"<style>pre {{ overflow: auto }} {rules}</style><div class='highlight'><pre>{command}</pre></div>"
        )
        found.append(page.evaluate(clipped))
    page.close()
    assert found == [True, False]
