"""Lets ``python -m recollect`` stand in for the ``recollect`` command."""

from __future__ import annotations

from recollect.cli import program

if __name__ == "__main__":
    program()
