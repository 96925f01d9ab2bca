"""Run the command line: ``python -m bygones``."""

from __future__ import annotations

from bygones.cli.main import entry_point

if __name__ == "__main__":
    entry_point()
