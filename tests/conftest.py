"""Options, markers and fixtures of all tests."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import settings

from tests.cases.archives import CaseArchives
from tests.session_end import SESSION_END

# Other checks may run on the same machine, so there are no deadlines.
settings.register_profile("default", deadline=None, max_examples=20)
settings.register_profile("full", deadline=None, max_examples=100)
# In the background the shell ignores SIGINT, and so would every command a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Collecting garbage at the usual thresholds takes a twelfth of the time of all tests.
gc.set_threshold(50_000, 20, 50)
# An archive is made thousands of times: without these settings of glibc each returns its
# memory to the system, and takes a third longer. Commands that tests start do not get them.
with suppress(AttributeError, OSError, TypeError):
    ctypes.CDLL(None).mallopt(-3, 2**28)  # M_MMAP_THRESHOLD
    ctypes.CDLL(None).mallopt(-1, 2**29)  # M_TRIM_THRESHOLD


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--golden",
        action="store_true",
        help="rewrite the stored outputs instead of comparing with them",
    )
    parser.addoption(
        "--full",
        action="store_true",
        help="also run tests marked `full`, and property tests with more examples",
    )


def pytest_configure(config: pytest.Config) -> None:
    # The last search of each worker, not that of the user or of the other workers.
    state = SESSION_END.enter_context(tempfile.TemporaryDirectory())
    os.environ["XDG_STATE_HOME"] = state
    for name in ("BYGONES_ARCHIVE", "BYGONES_HOME", "CLAUDE_CONFIG_DIR"):
        os.environ.pop(name, None)
    settings.load_profile("full" if config.getoption("--full") else "default")
    if os.environ.get("CI"):
        settings.register_profile(
            "ci", settings.default, derandomize=True, print_blob=True
        )
        settings.load_profile("ci")


def pytest_sessionfinish() -> None:
    SESSION_END.close()


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Deselect what only a full run needs, unless a test is named on its own."""
    if config.getoption("--full") or any("::" in name for name in config.args):
        return
    if skipped := [item for item in items if _needs_full_run(item)]:
        config.hook.pytest_deselected(items=skipped)
        items[:] = [item for item in items if not _needs_full_run(item)]


def _needs_full_run(item: pytest.Item) -> bool:
    is_long_on_clickhouse = item.get_closest_marker("full_on_clickhouse") is not None
    if is_long_on_clickhouse and isinstance(item, pytest.Function):
        return "clickhouse" in item.callspec.params.values()
    return item.get_closest_marker("full") is not None


@pytest.fixture(scope="module", autouse=True)
def _freeze_shared_objects() -> Iterator[None]:
    """Exclude what lives until the end from garbage collection, which some code calls."""
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture
def step(request: pytest.FixtureRequest) -> int:
    """Return the step for sampling inputs; a full run uses all of them."""
    return 1 if request.config.getoption("--full") else 4


@pytest.fixture(scope="session")
def case_archives(tmp_path_factory: pytest.TempPathFactory) -> CaseArchives:
    """Return archives of the cases, which no test may change."""
    return CaseArchives(tmp_path_factory.mktemp("cases"))


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Return a function that compares a text with the one stored at a path."""
    rewrite = bool(request.config.getoption("--golden"))

    def compare(path: Path, text: str) -> None:
        if rewrite:
            path.write_text(text, "utf-8")
        assert path.read_text("utf-8") == text

    return compare
