"""Lets ``python -m bygones`` stand in for the ``bygones`` command."""

from __future__ import annotations

from bygones.cli.main import entry_point

if __name__ == "__main__":
    entry_point()
