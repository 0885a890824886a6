"""Style of figures: one colour per role, and SVG that a page can show in light and dark.

A figure is drawn once, by matplotlib. Saved as PDF or PNG it is a figure of a paper; `svg` turns it into markup for a
page, where the colours become CSS variables, so that the page's scheme decides, and names become text that is read aloud.
"""

from __future__ import annotations

import contextlib
import html
import io
import re
import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which stay apart for most kinds of colour blindness; each is drawn with its own marker too.
COLOURS = {
    "ink": "#1b1f24",
    "muted": "#5b6470",
    "faint": "#d0d7de",
    "paper": "#fefefe",
    "unlearned": "#d55e00",
    "original": "#3d4451",
    "reference": "#0072b2",
    "random": "#8a5fb5",
    "start": "#8c6d1f",
    "other": "#009e73",
    "s1": "#d55e01", "s2": "#0072b3", "s3": "#009e74", "s4": "#cc79a7", "s5": "#b8860b", "s6": "#56b4e9",
    "s7": "#7f3c8d", "s8": "#a14a2a",
}  # fmt: skip
SERIES = ("s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8")
DASHES = ("-", "--", "-.", ":")
MARKERS = {"unlearned": "o", "original": "s", "reference": "|", "random": "D", "start": "P", "other": "^"}
_NAMES = {colour: name for name, colour in COLOURS.items()}
LONGEST = 22


@contextlib.contextmanager
def drawing(**others: Any) -> Iterator[None]:
    """matplotlib with our settings, whatever the user's are. Names are never read as mathematics.

    `others` are further settings of matplotlib, with two underscores for a dot.
    """
    import matplotlib

    settings: dict[Any, Any] = {
        "font.family": "sans-serif", "font.size": 10.0, "text.parse_math": False, "svg.fonttype": "none",
        "svg.hashsalt": "residua", "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.8,
        "axes.edgecolor": COLOURS["muted"], "axes.labelcolor": COLOURS["muted"], "text.color": COLOURS["ink"],
        "xtick.color": COLOURS["muted"], "ytick.color": COLOURS["muted"], "axes.facecolor": "none",
        "axes.titlelocation": "left", "axes.titlesize": 10.5, "axes.titlecolor": COLOURS["ink"],
        "figure.facecolor": "none", "savefig.facecolor": "none", "lines.linewidth": 1.8, "axes.axisbelow": True,
        "grid.color": COLOURS["faint"], "grid.linewidth": 0.6, "path.simplify": True, "legend.frameon": False,
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # the reader's fonts draw it, not matplotlib's
        with matplotlib.rc_context():
            matplotlib.rcdefaults()
            matplotlib.rcParams.update(settings | {name.replace("__", "."): value for name, value in others.items()})
            yield


def canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure of so many points with one pair of axes. 72 points are an inch, and about 72 pixels of a page."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width / 72, height / 72), layout="constrained")
    return figure, figure.subplots()


def colour_of(number: int, role: str | None) -> str:
    """The name of the colour of a series: its role's, or one of eight in turn."""
    return role or SERIES[number % len(SERIES)]


def dash_of(number: int) -> str:
    """Another dash where the colours begin again."""
    return DASHES[number // len(SERIES) % len(DASHES)]


def short(name: str, most: int = LONGEST) -> str:
    """A name that fits into a figure; the page has it in full."""
    name = " ".join(name.split())
    return name if len(name) <= most else f"{name[: most - 1]}…"


def svg(figure: Figure, name: str, text: str) -> str:
    """The figure as markup with the text alternative `text`; `name` keeps ids of figures on one page apart.

    Coordinates have two decimals: enough for the eye, and no machine's last digits. An artist whose gid is `series:3`
    becomes an element with `data-series="3"`.
    """
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    drawn = file.getvalue()
    start, end = drawn.index("<svg"), drawn.index(">", drawn.index("<svg"))
    box = re.search(r'viewBox="([^"]+)"', drawn[start:end])
    body = drawn[end + 1 : drawn.rindex("</svg>")]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r"<style.*?</style>", "", body, flags=re.DOTALL)  # it would hold for the whole page
    used = set(re.findall(r'(?:url\(#|xlink:href="#)([^)"]+)', body))
    pieces = re.split(r"(<text.*?</text>)", body, flags=re.DOTALL)
    for i, piece in enumerate(pieces):
        if i % 2:  # a text element: its content stays untouched, and its font is the page's
            end = piece.index(">")
            head = re.sub(r"font: ([\d.]+)px [^;\"]+", r"font-size: \1px", piece[:end])
            pieces[i] = _finished(head) + piece[end:]
            continue
        piece = re.sub(r'id="series:(\w+)"', r'data-series="\1"', piece)
        # Ids of this figure only where something refers to them.
        piece = re.sub(r' id="([^"]+)"', lambda found: f' id="{name}-{found[1]}"' if found[1] in used else "", piece)
        piece = re.sub(r"url\(#", f"url(#{name}-", piece)
        piece = re.sub(r'xlink:href="#', f'href="#{name}-', piece)
        piece = re.sub(r"<!--.*?-->", "", piece, flags=re.DOTALL)
        pieces[i] = _finished(re.sub(r"\n\s*", " ", piece))
    body = "".join(pieces)
    label = html.escape(text)
    return (
        f'<svg viewBox="{_finished(box[1]) if box else ""}" role="img" aria-label="{label}" '
        f'xmlns="http://www.w3.org/2000/svg">{body}</svg>'
    )


def _finished(markup: str) -> str:
    """Numbers with two decimals, and colours as variables."""
    markup = re.sub(r"(?<![\w#.])-?\d+\.\d{3,}(?:e-?\d+)?", lambda n: f"{float(n[0]):.2f}", markup)
    return re.sub(
        r"#[0-9a-f]{6}\b", lambda found: f"var(--{_NAMES[found[0]]})" if found[0] in _NAMES else found[0], markup
    )


def variables(scheme: Mapping[str, str] | None = None) -> str:
    """The colours as CSS variables, with what another scheme changes."""
    return " ".join(f"--{name}: {(scheme or {}).get(name, colour)};" for name, colour in COLOURS.items())


# Lighter on dark paper, with the same hues.
DARK = {
    "ink": "#e9edf1", "muted": "#a3adb8", "faint": "#39424d", "paper": "#14181d", "unlearned": "#ff9248",
    "original": "#c3cad3", "reference": "#5cb8f0", "random": "#c39bea", "start": "#d9b65c", "other": "#3fd1a5", "s1": "#ff9248",
    "s2": "#5cb8f0", "s3": "#3fd1a5", "s4": "#f0a6cf", "s5": "#e6be5a", "s6": "#9bdcff", "s7": "#d9a3e6", "s8": "#f0a58a",
}  # fmt: skip
