"""Sessions that only a hub has are known in the archive by their prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.cli.main import main
from bygones.errors import ExitCode
from bygones.hub.client import HubClient
from bygones.hub.known_sessions import remember_sessions
from bygones.model.base import SessionId
from bygones.model.query import Flag
from bygones.store.hub_sessions import HUB_SESSIONS_FOLDER
from bygones.team.contract import BlobStore
from bygones.team.stores.base import TeamStore
from tests.build import CWD, Home, prompt, reply, session_id, thread
from tests.hub.hubs import TestHub, run_hub

DESK, LAPTOP, BEAS = map(SessionId, map(session_id, range(1, 4)))


def make_archive(folder: Path, session: str, *texts: str) -> Path:
    home = Home(folder / "home" / ".claude")
    records = [one for text in texts for one in (prompt(text), reply("yes"))]
    home.session(session, thread(*records))
    Archive.ingest(folder / "archive", [home.path])
    return folder / "archive"


@pytest.fixture
def hub(
    make: Callable[[], tuple[TeamStore, BlobStore]], tmp_path: Path
) -> Iterator[TestHub]:
    folders = {
        "ann": make_archive(
            tmp_path / "ann", LAPTOP, "paint the old fence", "and the gate"
        ),
        "bea": make_archive(tmp_path / "bea", BEAS, "mow the lawn"),
    }
    store, _ = make()
    with run_hub(tmp_path, folders, store) as running:
        running.push_all()
        yield running
    store.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the archive of another machine."""
    return make_archive(tmp_path / "desk", DESK, "fix the lamp")


def remember(hub: TestHub, folder: Path, *, is_repeated: bool = False) -> int | None:
    secret, _ = hub.token("ann")
    with HubClient(hub.address, secret) as client:
        return remember_sessions(folder, client, is_repeated=is_repeated)


@pytest.mark.req("GO3")
def test_own_sessions_that_only_the_hub_has_are_listed_and_searched(
    hub: TestHub,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert remember(hub, folder) == 1

    with Archive.open(folder) as archive:
        (known,) = archive.sessions("is:prompts-only")
        assert known.id == LAPTOP
        assert known.title.text.startswith("(on 127.0.0.1:")
        assert known.title.text.endswith(") paint the old fence")
        assert (known.prompt_count, known.flags) == (2, (Flag.PROMPTS_ONLY,))
        assert (known.project or "").endswith(CWD.rpartition("/")[2])
        found = archive.search("is:prompts-only gates").sessions
        assert [one.summary.id for one in found] == [LAPTOP]
        assert [one.id for one in archive.sessions()] == [DESK]
    monkeypatch.setenv("BYGONES_ARCHIVE", str(folder))
    assert main(["show", LAPTOP, "--no-ingest"]) == ExitCode.SUCCESS
    stdout = capsys.readouterr().out
    assert f"bygones show {LAPTOP} --archive {hub.address}" in " ".join(stdout.split())
    assert "and the gate" in stdout
    (stored,) = (folder / HUB_SESSIONS_FOLDER).iterdir()
    assert stored.stat().st_mode & 0o077 == 0


def test_push_says_which_sessions_only_the_hub_has(  # noqa: PLR0917 (fixtures)
    hub: TestHub,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    secret, _ = hub.token("ann")
    settings = tmp_path / "settings.toml"
    lines = ("[push]", f'hub = "{hub.address}"', f'token = "{secret}"')
    settings.write_text("\n".join((*lines, 'projects = ["/nowhere"]')))
    settings.chmod(0o600)
    monkeypatch.setenv("BYGONES_SETTINGS", str(settings))
    monkeypatch.setenv("BYGONES_ARCHIVE", str(folder))

    assert main(["push", "--no-ingest"]) == ExitCode.SUCCESS

    stdout = capsys.readouterr().out
    assert "1 of your sessions is only on the hub" in stdout
    assert "bygones list is:prompts-only" in stdout


def test_a_hub_is_not_asked_again_soon_while_pushes_are_repeated(
    hub: TestHub, folder: Path
) -> None:
    assert remember(hub, folder, is_repeated=True) == 1
    assert remember(hub, folder, is_repeated=True) is None


def test_session_that_is_archived_or_purged_is_not_known_any_more(
    hub: TestHub, folder: Path, tmp_path: Path
) -> None:
    remember(hub, folder)
    Archive.ingest(folder, [tmp_path / "ann" / "home" / ".claude"])
    (stored,) = (folder / HUB_SESSIONS_FOLDER).iterdir()
    assert b"old fence" in stored.read_bytes()

    with Archive.open(folder) as archive:
        assert list(archive.sessions("is:prompts-only")) == []
        sources = archive.sources(sessions=[LAPTOP])
        archive.purge(sources, sessions=[LAPTOP])
        assert list(archive.sessions("is:prompts-only")) == []

    assert b"old fence" not in stored.read_bytes()
    assert remember(hub, folder) == 0
    assert b"old fence" not in stored.read_bytes()
