"""Openings: how a short session begins is what the whole session has there."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from bygones.archive import Archive
from bygones.errors import NotArchived
from bygones.ingest import tasks
from bygones.ingest.windows import Begun, Cut, Reeled
from bygones.model.blocks import Text
from bygones.model.ids import SessionId
from bygones.model.rest import summed
from bygones.model.windows import OPENING
from bygones.store import openings
from bygones.store.derived import Derived
from tests.build import Home, prompt, reply, session_id, thread, tool_result, tool_use
from tests.cases.make import CASES, copied, stories
from tests.properties.archives import LONGER, kept_in, lay, layouts

every_case = pytest.mark.parametrize("name", sorted(stories()))


def check(archive: Archive) -> list[type]:
    """Compare how all sessions begin; return how each is read."""
    return [_checked(archive, listed.id) for listed in archive.sessions(empty=True)]


def _checked(archive: Archive, name: SessionId) -> type:
    talk, cut = archive.conversation(name), Cut(archive.session(name))
    assert talk.facts == cut.facts
    if not isinstance(talk, Begun):
        return type(talk)
    (live,) = (branch for branch in cut.facts.branches if branch.is_live)
    count = min(OPENING, live.total)
    for start in range(count + 1):
        for stop in range(start, count + 1):
            asked = (live.number, start, stop)
            assert talk.window(*asked) == cut.window(*asked)
    begun = talk.window(live.number, 0, count)
    rest = cut.rest(begun, bool)
    assert talk.rest(begun, bool) == summed(rest)
    assert not talk.is_whole
    assert talk.rest(begun, lambda _: not rest.paid) == rest
    assert talk.window(live.number, 0, 99) == cut.window(live.number, 0, 99)
    return Begun


@every_case
def test_every_session_of_a_case_begins_as_the_whole_does(
    name: str, tmp_path: Path
) -> None:
    Archive.ingest(tmp_path / "archive", [copied(CASES / name, tmp_path)])

    with Archive.open(tmp_path / "archive") as archive:
        assert set(check(archive)) <= {Begun, Cut}


def test_nearly_all_sessions_need_not_be_assembled_to_be_begun(tmp_path: Path) -> None:
    kinds = []
    for name in sorted(stories()):
        folder = tmp_path / name
        Archive.ingest(folder / "archive", [copied(CASES / name, folder)])
        with Archive.open(folder / "archive") as archive:
            kinds += [type(archive.conversation(one.id)) for one in archive.sessions()]

    assert kinds.count(Begun) > 0.9 * len(kinds)


@settings(
    max_examples=25 * LONGER,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(layouts())
def test_every_session_of_any_home_begins_as_the_whole_does(
    layout: dict[str, bytes],
) -> None:
    with kept_in() as keeping:
        lay(keeping, layout)
        keeping.ingest()

        with Archive.open(keeping.archive) as archive:
            check(archive)


def test_it_begins_anew_when_its_session_grows(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    said = [one for at in range(9) for one in (prompt(f"Ask {at}"), reply(f"Say {at}"))]
    records = thread(*said)
    for count in (1, 2, 7, 18):
        home.session(session_id(1), records[:count])
        Archive.ingest(tmp_path / "archive", [home.path])

        with Archive.open(tmp_path / "archive") as archive:
            assert check(archive) == [Begun]
            talk = archive.conversation(session_id(1))
            assert talk.facts.branches[0].total == count


def test_agents_of_its_calls_are_told_without_their_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "home")
    task = tool_use("Task", id="toolu_1", description="Look around")
    done = tool_result("toolu_1", "Done", toolUseResult={"agentId": "a1"})
    home.session(session_id(1), thread(prompt("Look"), reply([task]), done))
    home.agent(session_id(1), "a1", thread(prompt("Look"), reply("Seen")))
    Archive.ingest(tmp_path / "archive", [home.path])

    with Archive.open(tmp_path / "archive") as archive:
        assert check(archive) == [Begun]
        monkeypatch.setattr(archive, "_session", None)
        talk = archive.conversation(session_id(1))
        (call,) = talk.window(0, 0, 2).messages[1].calls
        assert [run.id for run in call.agents] == ["a1"]
        assert talk.facts.agents == 1


def test_whoever_reads_it_need_not_look_for_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "home")
    home.session(session_id(1), thread(prompt("Ask"), reply("Say")))
    Archive.ingest(tmp_path / "archive", [home.path])

    with Archive.open(tmp_path / "archive") as archive:
        talk = archive.conversation(session_id(1))
        monkeypatch.setattr(type(archive._vault.chunks), "named", None)
        said, answered = talk.window(0, 0, 2).messages
        assert said.blocks == (Text(text="Ask"),)
        assert answered.blocks == (Text(text="Say"),)


def test_what_does_not_begin_as_it_is_told_is_assembled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "home")
    home.session(session_id(1), thread(prompt("Ask"), reply("Say")))
    with monkeypatch.context() as patched:
        patched.setattr(openings, "sign_of", lambda _: b"wrong")
        Archive.ingest(tmp_path / "archive", [home.path])

    with Archive.open(tmp_path / "archive") as archive:
        assert isinstance(archive.conversation(session_id(1)), Cut)
        assert check(archive) == [Cut]


def test_what_stands_in_several_files_is_assembled(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    records = thread(prompt("Ask"), reply("Say"), prompt("More"), reply("Said"))
    home.session(session_id(1), records[:2])
    home.session(session_id(1), records[2:], project="-elsewhere")
    Archive.ingest(tmp_path / "archive", [home.path])

    with Archive.open(tmp_path / "archive") as archive:
        assert check(archive) == [Cut]


def test_a_branch_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.session(session_id(1), thread(prompt("Ask"), reply("Say")))
    Archive.ingest(tmp_path / "archive", [home.path])

    with Archive.open(tmp_path / "archive") as archive:
        talk = archive.conversation(session_id(1))
        assert isinstance(talk, Begun)
        with pytest.raises(NotArchived):
            talk.window(3, 0, 1)
        with pytest.raises(NotArchived):
            list(talk.messages(3))
        with pytest.raises(NotArchived):
            archive.conversation(session_id(1), "nobody")


def test_what_has_become_long_is_begun_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "LONG", 3)
    home = Home(tmp_path / "home")
    records = thread(prompt("Ask"), reply("Say"), prompt("More"), reply("Said"))
    for count, wanted in ((2, Begun), (4, Reeled)):
        home.session(session_id(1), records[:count])
        Archive.ingest(tmp_path / "archive", [home.path])

        with Archive.open(tmp_path / "archive") as archive:
            assert type(archive.conversation(session_id(1))) is wanted
            rows = archive._shelf.derived
            number = rows.number_of(SessionId(session_id(1)))
            assert isinstance(rows, Derived)
            assert number is not None
            assert (rows.openings.of(number) is None) is (wanted is Reeled)
