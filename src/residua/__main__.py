"""`python -m residua` is the `residua` command."""

from residua.cli import run

run()
