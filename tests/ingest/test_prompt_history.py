"""Sessions of which only the prompts are known, from the history of Claude Code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.cli.main import main
from bygones.errors import ExitCode, NotInArchive
from bygones.model.base import SessionId
from bygones.model.query import Flag
from tests.build import Home, prompt, reply, session_id, thread

KEPT, LOST, OLD = map(session_id, range(1, 4))
START = 1_760_000_000_000


def line(text: str, session: str | None, minute: int, project: str = "/work/a") -> str:
    fields: dict[str, object] = {"display": text, "project": project}
    fields |= {"timestamp": START + 60_000 * minute}
    return json.dumps(fields | ({"sessionId": session} if session else {})) + "\n"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home" / ".claude")
    home.session(KEPT, thread(prompt("fix the lamp"), reply("done")))
    lines = [
        line("fix the lamp", KEPT, 0),
        line("paint the old fence", LOST, 1),
        line("and the gate", LOST, 2),
        line("and the gate", LOST, 2),
        line("water the garden", OLD, -900, "/work/b"),
        line("without a session", None, 3),
        "[1]\n",
        '{"display": 5, "sessionId": ["x"]}\n',
    ]
    (home.path / "history.jsonl").write_text("".join(lines))
    return home


@pytest.fixture
def folder(home: Home, tmp_path: Path) -> Path:
    Archive.ingest(tmp_path / "archive", [home.path])
    return tmp_path / "archive"


def ids(archive: Archive, query: str, project: str | None = None) -> list[str]:
    return [one.id for one in archive.sessions(query, project=project)]


@pytest.mark.req("GO3")
def test_sessions_that_only_the_history_knows_are_listed_on_request(
    folder: Path,
) -> None:
    with Archive.open(folder) as archive:
        lost, old = archive.sessions("is:prompts-only")

        assert (lost.id, old.id) == (LOST, OLD)
        assert lost.title.text == "(prompts only) paint the old fence"
        assert (lost.prompt_count, lost.flags) == (2, (Flag.PROMPTS_ONLY,))
        assert (lost.project, old.project) == ("/work/a", "/work/b")
        # They are neither counted nor found by default.
        assert ids(archive, "") == [KEPT]
        assert ids(archive, "fence") == []
        assert archive.search("fence").session_count == 0
        assert len(archive.projects()) == 1
        assert [row.key for row in archive.usage("session").rows] == [KEPT]


def test_their_prompts_are_searched(folder: Path) -> None:
    with Archive.open(folder) as archive:
        assert ids(archive, "is:prompts-only gates fence") == [LOST]
        assert ids(archive, "is:prompts-only -fence") == [OLD]
        assert ids(archive, "is:prompts-only project:/work/b") == [OLD]
        assert ids(archive, "is:prompts-only", "/work/b") == [OLD]
        assert ids(archive, 'is:prompts-only "old fence"') == [LOST]
        assert ids(archive, "is:prompts-only tool:Bash") == []
        found = archive.search("is:prompts-only painting gate").sessions
        assert [(one.summary.id, one.hit_count) for one in found] == [(LOST, 2)]
        texts = [one.text for one in archive.prompts("is:prompts-only")]
        assert texts == ["and the gate", "paint the old fence", "water the garden"]


def test_they_are_read_as_a_session_with_a_notice(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Archive.open(folder) as archive:
        session = archive.session(LOST)
        texts = [message.preview for message in session.live_branch.messages]
        assert texts[1:] == ["paint the old fence", "and the gate"]
        assert "Only the prompts of this session are known" in texts[0]
        assert archive.conversation(LOST) is not None
        with pytest.raises(NotInArchive):
            archive.session("5e551000-0000-4000-8000-00000000ffff")
    monkeypatch.setenv("BYGONES_ARCHIVE", str(folder))
    assert main(["show", LOST, "--no-ingest"]) == ExitCode.SUCCESS
    stdout = capsys.readouterr().out
    assert "Only the prompts of this session are known" in stdout
    assert "and the gate" in stdout
    assert main(["search", "is:prompts-only fence", "--no-ingest"]) == ExitCode.SUCCESS
    assert "paint the old «fence»" in capsys.readouterr().out
    assert main(["show", "1", "--no-ingest"]) == ExitCode.SUCCESS
    assert main(["show", "1.1", "--no-ingest"]) == ExitCode.SUCCESS
    for command in (["resume"], ["fork"]):
        assert main([*command, LOST, "--no-ingest"]) != ExitCode.SUCCESS
        assert "prompts" in capsys.readouterr().err


def test_session_that_is_found_or_purged_is_not_listed_any_more(
    home: Home, folder: Path
) -> None:
    home.session(LOST, thread(prompt("paint the old fence"), reply("done")))
    Archive.ingest(folder, [home.path])
    with Archive.open(folder) as archive:
        assert ids(archive, "is:prompts-only") == [OLD]
        archive.purge(
            archive.sources(sessions=[SessionId(LOST)]), sessions=[SessionId(LOST)]
        )
        assert ids(archive, "is:prompts-only") == [OLD]


def test_prompts_that_the_history_has_lost_are_still_known(
    home: Home, folder: Path
) -> None:
    (home.path / "history.jsonl").write_text(line("new", KEPT, 9))
    Archive.ingest(folder, [home.path])

    with Archive.open(folder) as archive:
        assert ids(archive, "is:prompts-only") == [LOST, OLD]
