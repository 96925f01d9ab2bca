"""Lets ``python -m recollect`` stand in for the ``recollect`` command."""

from __future__ import annotations

import sys

from recollect.cli import main

if __name__ == "__main__":
    sys.exit(main())
