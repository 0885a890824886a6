"""Arrow inputs under AddressSanitizer: python tests/fuzz/sanitised.py --count 500 --out records/fuzz

gcc's sanitiser is loaded before everything else, and Arrow takes its memory from it: a copy or a comparison beyond what was
allocated ends the process and is a finding, also where no crash would show it. Inputs are those of the target `arrow`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--out", type=Path, help="folder for sanitised.json")
    options = parser.parse_args()
    if "libasan" not in os.environ.get("LD_PRELOAD", ""):
        found = subprocess.run(["gcc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True)
        asked = {"ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
        os.environ |= {"LD_PRELOAD": found.stdout.strip(), "OMP_NUM_THREADS": "1"} | asked
        os.execv(sys.executable, [sys.executable, *sys.argv])
    sys.path[:0] = [str(HERE)]
    from targets import TARGETS

    outcomes: Counter[str] = Counter()
    findings = []
    for number in range(options.count + 1):
        code, said = tried(TARGETS["arrow"].mutated(number))
        kind = {0: "read", 3: "refused"}.get(code, "finding")
        kind = "finding" if "AddressSanitizer" in said else kind
        outcomes[kind] += 1
        if kind == "finding":
            findings.append({"number": number, "code": code, "said": said[:2000]})
    record = {
        "command": f"python tests/fuzz/sanitised.py --count {options.count} --out records/fuzz",
        "software": {name: version(name) for name in ("residua", "pyarrow", "numpy")},
        "outcomes": dict(outcomes),
        "findings": findings,
    }
    text = json.dumps(record, indent=1) + "\n"
    print(text)  # noqa: T201
    if options.out:
        (options.out / "sanitised.json").write_text(text, encoding="utf-8")
    return 1 if findings else 0


def tried(files: dict[str, bytes]) -> tuple[int, str]:
    """The exit code of a process that reads these files, and what it and its children wrote."""
    from targets import read_arrow

    from residua.errors import InputError

    with tempfile.TemporaryDirectory() as place, tempfile.TemporaryFile() as said:
        for name, content in files.items():
            path = Path(place, "files", name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        child = os.fork()
        if child == 0:
            os.dup2(said.fileno(), 2)
            code = 70
            try:
                read_arrow(str(Path(place, "files")))
                code = 0
            except InputError:
                code = 3
            finally:
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said.seek(0)
        return code, said.read().decode(errors="replace")


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # the sanitiser takes minutes to end a process that imported PyTorch
