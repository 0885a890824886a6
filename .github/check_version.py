"""Checks that a tag, the built wheel, CITATION.cff and CHANGELOG.md name the version of `residua.__version__`.

    python .github/check_version.py v0.2.0 [dist/]

It imports nothing of the package, so it needs no PyTorch.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def version() -> str:
    """The one place where the version is written."""
    return _found(r'^__version__ = "(.+)"$', "src/residua/__init__.py")


def faults(tag: str, dist: Path) -> list[str]:
    """Every disagreement with the version, as a sentence; none means that the release may go out."""
    expected = version()
    cited = _found(r"^version: (.+)$", "CITATION.cff")
    heading = _found(r"^## (\S+)", "CHANGELOG.md")
    wheels = sorted(path.name for path in dist.glob("*.whl"))
    found = []
    if tag != f"v{expected}":
        found.append(f"the tag is {tag}, the package is {expected}")
    if "dev" in expected:
        found.append(f"{expected} is a development version")
    if cited != expected:
        found.append(f"CITATION.cff names {cited}, the package is {expected}")
    if heading != expected:
        found.append(f"CHANGELOG.md begins with {heading}, the package is {expected}")
    if not wheels or not all(name.startswith(f"residua-{expected}-") for name in wheels):
        found.append(f"{dist} has {', '.join(wheels) or 'no wheel'}, expected residua-{expected}")
    return found


def _found(pattern: str, file: str) -> str:
    match = re.search(pattern, (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
    if match is None:
        sys.exit(f"{file} names no version")
    return match[1].strip('"')


if __name__ == "__main__":
    problems = faults(sys.argv[1], Path(sys.argv[2] if len(sys.argv) > 2 else "dist"))
    sys.exit("\n".join(problems) or None)
