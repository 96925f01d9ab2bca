"""A hub read over HTTP gives the same answers as its store."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from bygones.archive import Archive
from bygones.archive.remote import READER_PATH, RemoteCall
from bygones.cli.main import main
from bygones.errors import HubRejected, HubTokenExposed, HubTokenMissing
from bygones.team.connection import VERSION
from bygones.team.contract import AccessScope, BlobStore
from bygones.team.stores.base import TeamStore
from tests.hub.hubs import TestHub, run_hub
from tests.web.archives import EDITED_PATH, build_archive

StoreAndBlobs = tuple[TeamStore, BlobStore]
NOW = datetime(2026, 11, 15, tzinfo=UTC)
WRONG = {"Authorization": "Bearer byg_wrong"}
QUERIES = ("hello", "the", '"first prompt"', "tool:Bash", "is:error", "hel*", "/h.llo/")


@pytest.fixture(scope="module")
def hub(
    make: Callable[[], StoreAndBlobs], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TestHub]:
    folder = tmp_path_factory.mktemp("remote")
    folders = {
        person: build_archive(folder / person).folder for person in ("ann", "bea")
    }
    store, _ = make()
    with run_hub(folder, folders, store) as running:
        running.push_all()
        yield running
    store.close()


@pytest.fixture
def token(hub: TestHub, monkeypatch: pytest.MonkeyPatch) -> str:
    secret, _ = hub.token("ann")
    monkeypatch.setenv("BYGONES_HUB_TOKEN", secret)
    return secret


@pytest.fixture
def both(hub: TestHub, token: str) -> Iterator[tuple[Archive, Archive]]:
    assert token
    with (
        Archive.open(hub.address) as remote,
        Archive.from_store(hub.open_reader(AccessScope(person="ann"))) as direct,
    ):
        yield remote, direct


def test_lists_sessions_and_usage_are_the_same(both: tuple[Archive, Archive]) -> None:
    remote, direct = both
    listed = list(direct.sessions(include_empty=True))

    assert len(listed) > 1
    assert list(remote.sessions(include_empty=True)) == listed
    assert list(remote.sessions("model:opus")) == list(direct.sessions("model:opus"))
    for by in ("day", "model", "project", "session", "person", "tool", "branch"):
        ours = remote.usage(by, now=NOW)
        assert ours == direct.usage(by, now=NOW), by
    query = "model:opus after:2020-01-01"
    assert remote.usage("day", query=query, now=NOW) == direct.usage(
        "day", query=query, now=NOW
    )
    assert list(remote.prompts()) == list(direct.prompts())
    assert remote.projects() == direct.projects()
    assert remote.drift() == direct.drift()


def test_sessions_have_the_same_messages(both: tuple[Archive, Archive]) -> None:
    remote, direct = both

    for listed in direct.sessions():
        ours, theirs = remote.session(listed.id), direct.session(listed.id)
        assert [m.blocks for m in ours.live_branch.messages] == [
            m.blocks for m in theirs.live_branch.messages
        ]
        assert [a.id for a in ours.all_agents] == [a.id for a in theirs.all_agents]
        assert ours.problems == theirs.problems
        assert remote.edits(session=listed.id) == direct.edits(session=listed.id)
    paths = {
        edit.path for one in direct.sessions() for edit in direct.edits(session=one.id)
    }
    for path in sorted(paths)[:5]:
        assert remote.file(path).versions == direct.file(path).versions


@pytest.mark.parametrize("query", QUERIES)
def test_searches_are_the_same(both: tuple[Archive, Archive], query: str) -> None:
    remote, direct = both

    assert remote.search(query, now=NOW) == direct.search(query, now=NOW)
    assert remote.select(query, now=NOW) == direct.select(query, now=NOW)


@pytest.mark.parametrize(
    "arguments",
    [
        ["list"],
        ["search", "%"],
        ["usage", "--by", "person"],
        ["show", "@"],
        ["export", "--to", "-", "--format", "md", "@"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_commands_read_from_a_hub(
    hub: TestHub, token: str, arguments: list[str]
) -> None:
    with Archive.open(hub.address) as archive:
        assert repr(archive) == f"<Archive '{hub.address}'>"
        newest = next(iter(archive.sessions()))
        replacements = {"@": newest.id, "%": newest.title.text.split()[0]}
    command = [replacements.get(argument, argument) for argument in arguments]
    result = subprocess.run(
        [sys.executable, "-m", "bygones", *command, "--archive", hub.address],
        env={**os.environ, "BYGONES_HUB_TOKEN": token},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert "Traceback" not in result.stderr
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip()


def test_files_have_the_same_history_as_in_the_archive(
    hub: TestHub, token: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with Archive.open(hub.folders["ann"]) as archive:
        session = archive.file(EDITED_PATH).versions[-1].place.session_id

    def run(*words: str, archive: str) -> tuple[int, str]:
        code = main([*words, "--archive", archive, "--no-ingest"])
        return code, capsys.readouterr().out

    for words in (
        ("blame", EDITED_PATH),
        ("blame", f"{EDITED_PATH}:1"),
        ("cat", f"{EDITED_PATH}@{session}"),
        ("cat", session),
        ("diff", f"{session}:1"),
        ("commits", session),
        ("files", session),
    ):
        here = run(*words, archive=str(hub.folders["ann"]))
        assert run(*words, archive=hub.address) == here, words
    headers = {"Authorization": f"Bearer {token}"}
    page = hub.ask("GET", f"/file?path={EDITED_PATH}", headers)
    assert page.status == 200
    assert b"Version " in page.body


def test_other_people_cannot_be_read(hub: TestHub, token: str) -> None:
    assert token
    stranger = hub.store.open_reader(AccessScope(person="bea"), hub.objects)
    with Archive.from_store(stranger) as theirs, Archive.open(hub.address) as archive:
        numbers = [
            number
            for one in theirs.sessions(include_empty=True)
            if (number := theirs._reader.sessions.session_number(one.id)) is not None
        ]
        sources = [one.number for one in theirs._reader.byte_store.sources()]
        assert numbers
        assert sources
        reader = archive._reader
        own = {one.number for one in reader.byte_store.sources()}
        for number in set(sources) - own:
            assert reader.byte_store.source(number) is None
            assert reader.byte_store.read_bytes(number, 0, 0, 100) == b""
        for number in numbers:
            assert reader.lookup.load_summary(number) is None


@pytest.mark.parametrize(
    "call",
    [
        RemoteCall(VERSION, "close", msgspec.Raw(b"\x90")),
        RemoteCall(VERSION, "session_number", msgspec.Raw(b"\x91\x01")),
        RemoteCall(VERSION, "session_number", msgspec.Raw(b"\x90")),
        RemoteCall("0.0.1", "session_ids", msgspec.Raw(b"\x90")),
        RemoteCall(VERSION, "session_ids", msgspec.Raw(b"\x91" * 60_000 + b"\xc0")),
        RemoteCall(
            VERSION,
            "sum_tool_context",
            msgspec.Raw(
                msgspec.msgpack.encode(
                    [
                        {"type": "fact", "field": "is", "value": "x"},
                        [
                            [
                                {"type": "fact", "field": "is", "value": "x"},
                                "1 OR 1=1; --",
                                ["1"],
                            ]
                        ],
                    ]
                )
            ),
        ),
    ],
)
def test_invalid_calls_are_rejected(hub: TestHub, token: str, call: RemoteCall) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    answer = hub.ask("POST", READER_PATH, headers, msgspec.msgpack.encode(call))

    assert answer.status == 400
    assert hub.ask("POST", READER_PATH, WRONG, b"x").status == 401


def test_missing_or_exposed_tokens_are_explained(
    hub: TestHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BYGONES_HUB_TOKEN", raising=False)
    settings = tmp_path / "settings.toml"
    monkeypatch.setenv("BYGONES_SETTINGS", str(settings))
    settings.write_text("")
    with pytest.raises(HubTokenMissing):
        Archive.open(hub.address)
    secret, _ = hub.token("ann")
    settings.write_text(f'[push]\nhub = "{hub.address}"\ntoken = "{secret}"\n')
    settings.chmod(0o644)
    with pytest.raises(HubTokenExposed):
        Archive.open(hub.address)
    settings.chmod(0o600)
    with Archive.open(hub.address) as archive:
        assert list(archive.sessions())
    monkeypatch.setenv("BYGONES_HUB_TOKEN", "byg_wrong")
    with (
        Archive.open(hub.address) as archive,
        pytest.raises(HubRejected, match="token"),
    ):
        list(archive.sessions())


def test_page_instead_of_an_answer_is_reported_by_its_status(
    hub: TestHub, token: str
) -> None:
    with (
        pytest.raises(HubRejected, match=r"request: HTTP status 404$"),
        Archive.open(f"{hub.address}/elsewhere") as archive,
    ):
        list(archive.sessions())
    assert token
