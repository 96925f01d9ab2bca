"""What every test can ask for."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# A machine that also runs the other gates is slow at times: no deadlines.
settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")
# Who starts the tests in the background has them ignore interruptions, and with them
# every command that a test starts and interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--golden",
        action="store_true",
        help="rewrite the stored outputs instead of comparing with them",
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Return a function that compares a text with the one stored at a path."""
    rewrite = bool(request.config.getoption("--golden"))

    def compare(path: Path, text: str) -> None:
        if rewrite:
            path.write_text(text, "utf-8")
        assert path.read_text("utf-8") == text

    return compare
