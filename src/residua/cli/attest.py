"""`residua attest`: an audit as an in-toto statement, to be signed by whoever answers for it."""

from __future__ import annotations

import json

from residua.audits.attesting import statement
from residua.cli.card import SavedAudit, ToFile, give
from residua.files import check_place


def attest(folder: SavedAudit, out: ToFile = None) -> None:
    """Print an audit as an unsigned in-toto statement (version 1): the audited file by its hash, and the verdict on it.

    The report is checked first: one that does not follow from its records is refused. Signing is left to cosign and the
    like.
    """
    if out is not None:
        check_place(out)
    give(json.dumps(statement(folder), indent=1, ensure_ascii=False) + "\n", out)
