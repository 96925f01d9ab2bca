"""Lets ``python -m bygones`` stand in for the ``bygones`` command."""

from __future__ import annotations

from bygones.cli import program

if __name__ == "__main__":
    program()
