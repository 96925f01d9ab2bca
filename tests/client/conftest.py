"""Recordings of scenarios, each played once per test run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.cli.main import main
from bygones.errors import ExitCode
from tests.client.install import ClientUnavailable, hold_lock, install_client
from tests.client.recording import Recording, play_apart
from tests.client.scenario import Scenario, load_scenarios

Bygones = Callable[..., str]


@pytest.fixture(scope="session")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of recordings, which all workers of a test run share.

    With BYGONES_CLIENT_RECORDINGS it is that folder, and recordings in it are used again.
    """
    chosen = os.environ.get("BYGONES_CLIENT_RECORDINGS")
    if chosen:
        return Path(chosen).absolute()
    base = tmp_path_factory.getbasetemp()
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    return (base.parent if is_worker else base) / "recordings"


@pytest.fixture(scope="session")
def unavailable() -> str:
    """Return why the client cannot be used; empty if it can."""
    try:
        install_client()
    except ClientUnavailable as error:
        return f"Claude Code is not available: {error}"
    return ""


@pytest.fixture
def scenario(request: pytest.FixtureRequest) -> Scenario:
    """Return the scenario that the test is parametrized with."""
    return load_scenarios()[request.param]


@pytest.fixture
def recording(scenario: Scenario, recordings: Path, unavailable: str) -> Recording:
    """Return the recording of the scenario; it must not be changed."""
    if unavailable:
        pytest.skip(unavailable)
    if scenario.needs_terminal and shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    recording = Recording(recordings / scenario.name)
    with hold_lock(recordings / f"{scenario.name}.lock"):
        if not recording.is_complete():
            play_apart(scenario.name, recording.folder)
    return recording


@pytest.fixture
def bygones(
    recording: Recording,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Bygones:
    """Return a function that runs a command on an archive of the recording."""
    monkeypatch.setenv("BYGONES_ARCHIVE", str(tmp_path / "archive"))
    monkeypatch.setenv("BYGONES_HOME", str(recording.home))
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("COLUMNS", "200")
    Archive.ingest(tmp_path / "archive", [recording.home])

    def run(*arguments: str) -> str:
        capsys.readouterr()
        assert main(list(arguments)) == ExitCode.SUCCESS
        return capsys.readouterr().out

    return run
