"""Write requirements/: all packages that CI and the action install, by version and by the SHA-256 of every file.

    python .github/make_lock.py

pip chooses the versions, held to constraints.txt; the index that it is set to says which files there are. PyTorch's wheels
without CUDA are in an index of their own, so theirs are kept here, as that index lists them.
"""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

from pip._internal.models.index import PyPI

ROOT = Path(__file__).resolve().parents[1]
LOCKS = {"action": "data", "ci": "data,tune,dev,models,docs"}
# Wheels for the Pythons and machines that are supported by these versions; all others would triple the files.
WANTED = re.compile(
    r"-(py2\.py3|py3|cp3\d+-abi3|cp31[1-4]-cp31[1-4])-(none-)?(any|(manylinux|macosx|win_a).*(x86_64|aarch64|arm64|amd64|universal2))\.whl$"
)
CPU = {
    "torch": {
        "2.13.0": (
            "84453b69508ec79902f899c5ed9495acb9e2bbe9fda5f1d5d6f19e3c3842e1a7",  # Linux: cp311 aarch64, x86_64
            "6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b",
            "6f307c2c32d764ffc6ff6893b801fad6d4752f3e67966cb8abf1843427c02604",  # cp312
            "4ca4a9394b0c771238a4f73590fdbbc4debad85ed0fa63d026ae1b085da7d6e2",
            "0b8f7d0423027ae8b90c7977c627f3379f325363a08224dffad9b4b2d684a83d",  # cp313
            "3fbf9c9d1f3c10c2d59d04aca426dee9ccc6ceb32d255c61e93acc3b4f75fae6",
            "ca021f9eb2f8345c83fa03e3a04587308afb8df71bd472670b3ece00df58621c",  # cp314
            "d20fa53ee744502fa4c69818a720b05ca0d37abd055d4f6e66cae155114bc691",
        )
    }
}


def chosen(extras: str) -> dict[str, str]:
    """The versions that pip would install beside the package, by name."""
    words = ["install", "--dry-run", "--ignore-installed", "--quiet", "--report", "-", "-c", "constraints.txt"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", *words, f".[{extras}]", "setuptools"],
        cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    found = (each["metadata"] for each in json.loads(done.stdout)["install"])
    names = {re.sub(r"[-_.]+", "-", each["name"]).lower(): each["version"].partition("+")[0] for each in found}
    return {name: version for name, version in sorted(names.items()) if name != "residua"}


def hashes(name: str, version: str) -> list[str]:
    """SHA-256 of the wheels of this version."""
    index = os.environ.get("PIP_INDEX_URL", PyPI.simple_url).rstrip("/")
    with urllib.request.urlopen(f"{index}/{name}/") as answer:
        page = html.unescape(answer.read().decode())
    own = re.compile(rf"[\w.]+-{re.escape(version)}(\.post\d+)?-")
    files = re.findall(r"/([^/\"#]+\.whl)#sha256=([0-9a-f]{64})", page)
    found = {digest for file, digest in files if own.match(file) and WANTED.search(file)}
    if name in CPU:  # those of the index for Linux need CUDA
        linux = {digest for file, digest in files if "manylinux" in file}
        found = found - linux | set(CPU[name][version])
    if not found:
        raise SystemExit(f"{name} {version} has no wheel")
    return sorted(found)


def main() -> None:
    (ROOT / "requirements").mkdir(exist_ok=True)
    for lock, extras in LOCKS.items():
        lines = [f"# Made by .github/make_lock.py: what {lock} installs, Python 3.11 and later."]
        for name, version in chosen(extras).items():
            lines.append(
                " \\\n".join([f"{name}=={version}", *(f"    --hash=sha256:{each}" for each in hashes(name, version))])
            )
        (ROOT / "requirements" / f"{lock}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
