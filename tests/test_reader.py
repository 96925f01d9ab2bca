"""Reading sessions without an archive."""

from __future__ import annotations

import doctest
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bygones import Archive, reader
from bygones.errors import NoTranscriptsFound, PathNotFound
from bygones.ingest.loading import archived_versions
from bygones.model.base import Position, Problem, SessionId
from bygones.model.records import TextBlock
from bygones.model.sessions import ToolCall
from bygones.model.summary import LineageKind
from bygones.reader import read_sessions
from bygones.sources.lines import read_at
from tests.build import (
    SESSION,
    Home,
    attachment,
    compact,
    prompt,
    queue,
    reply,
    session,
    session_id,
    snapshot,
    system,
    thread,
    tool_result,
    tool_use,
)
from tests.cases.make import CASES
from tests.forms import queued

ROOT = Path(__file__).resolve().parent.parent


def stored(home: Home, path: str) -> str | None:
    """Return the stored output of a result that names a path."""
    records = thread(
        prompt("Hi"),
        reply([tool_use("Bash", id="t")]),
        tool_result("t", "long", outcome={"persistedOutputPath": path}),
    )
    home.session(SESSION, records)
    (call,) = calls(home)
    return call.stored_output


def calls(home: Home) -> list[ToolCall]:
    return [
        call
        for item in read_sessions(home.path)
        for t in item.live_branch.turns
        for call in t.tool_calls
    ]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def test_docstring_examples_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)

    assert doctest.testmod(reader) == doctest.TestResults(failed=0, attempted=4)


def test_home_folder_and_file_are_read_alike(home: Home) -> None:
    path = home.session(SESSION, session("a", "b<a"))

    whole = [
        [m.preview for m in item.live_branch.messages]
        for item in read_sessions(home.path)
    ]
    folder = [
        [m.preview for m in item.live_branch.messages]
        for item in read_sessions(path.parent)
    ]
    alone = [
        [m.preview for m in item.live_branch.messages]
        for item in read_sessions(str(path))
    ]

    assert whole == folder == alone == [["a", "b"]]


def test_missing_path_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PathNotFound):
        read_sessions(tmp_path / "nowhere")


def test_folder_without_transcripts_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("hello", "utf-8")

    with pytest.raises(NoTranscriptsFound):
        list(read_sessions(tmp_path))


def test_unreadable_file_is_a_problem_of_the_reader(home: Home) -> None:
    path = home.session(SESSION, session("a"))
    (path.parent / f"{session_id(1)}.jsonl").mkdir()
    found = read_sessions(home.path)

    for _ in range(2):
        assert len(list(found)) == 1
        assert [problem.kind for problem in found.problems] == ["not-a-file"]


def test_vanished_file_is_a_problem_of_its_session(home: Home) -> None:
    home.session(SESSION, session("a"))
    path = home.session(session_id(1), session("b"))
    found = iter(read_sessions(home.path)._discover())
    sources = list(found)
    path.unlink()

    problems = [
        p.kind for item in sources for p in reader.load_transcript(item).problems
    ]

    assert problems == ["vanished"]


def test_content_is_loaded_from_the_file(home: Home) -> None:
    long = "word " * 200
    home.session(SESSION, thread(prompt(long), reply(long)))
    (item,) = read_sessions(home.path)

    assert [m.blocks for m in item.live_branch.messages] == [
        (TextBlock(text=long),)
    ] * 2
    assert len(item.live_branch.messages[0].preview) < len(long)


@pytest.mark.parametrize(
    "record",
    [
        system("informational", "Hm"),
        queued("Hm"),
        attachment("queued_command", prompt=[{"type": "text", "text": "Hm"}]),
        attachment("hook_blocking_error", blockingError={"blockingError": "Hm"}),
        attachment("structured_output", content="Hm"),
    ],
    ids=["notice", "queued", "queued blocks", "hook", "output"],
)
def test_records_of_any_type_are_loaded(record: dict[str, object], home: Home) -> None:
    home.session(SESSION, [record])
    (item,) = read_sessions(home.path)

    assert [m.blocks for m in item.live_branch.messages] == [(TextBlock(text="Hm"),)]


def test_delivered_queued_text_is_loaded(home: Home) -> None:
    home.session(SESSION, [prompt("Hi"), queue("enqueue", "Hurry"), queue("remove")])
    (item,) = read_sessions(home.path)

    assert item.live_branch.messages[-1].blocks == (TextBlock(text="Hurry"),)


def test_records_without_text_are_loaded_as_empty(home: Home) -> None:
    notice = system(None, None)
    output = attachment("structured_output")
    home.session(SESSION, [notice, output, compact("gone") | {"content": None}])
    (item,) = read_sessions(home.path)

    assert [m.blocks for m in item.live_branch.messages] == [()] * 3


def test_call_result_and_outcome_are_loaded(home: Home) -> None:
    records = thread(
        prompt("Hi"),
        reply([tool_use("Bash", id="t", command="ls")]),
        tool_result("t", "a.py", outcome={"stdout": "a.py", "stderr": ""}),
    )
    home.session(SESSION, records)
    (call,) = calls(home)

    assert bytes(call.raw_input) == b'{"command":"ls"}'
    assert call.tool_use is not None
    assert call.result is not None
    assert call.result.tool_use_id == "t"
    assert call.outcome is not None


def test_small_file_is_opened_once(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    # Near the end of the file there are fewer bytes than the read-ahead.
    home.session(SESSION, thread(*(prompt(f"{number}") for number in range(20))))
    (session,) = read_sessions(home.path)
    requested = []

    def counted(position: Position, *, read_ahead: int) -> bytes | Problem:
        requested.append(position)
        return read_at(position, read_ahead=read_ahead)

    monkeypatch.setattr(reader, "read_at", counted)

    blocks = [message.blocks for message in session.live_branch.messages]

    assert blocks == [(TextBlock(text=f"{number}"),) for number in range(20)]
    assert len(requested) == 1


def test_removed_file_is_loaded_as_empty(home: Home) -> None:
    records = thread(
        prompt("Hi"), reply([tool_use("Bash", id="t")]), tool_result("t", "x")
    )
    path = home.session(SESSION, records)
    (item,) = read_sessions(home.path)
    path.unlink()
    (call,) = item.live_branch.turns[0].tool_calls

    assert item.live_branch.messages[0].blocks == ()
    assert (call.tool_use, call.result, call.outcome) == (None, None, None)
    assert bytes(call.raw_input) == b""


@pytest.mark.req("H1")
def test_file_versions_are_the_same_read_or_archived(
    tmp_path: Path,
) -> None:
    folder = CASES / "file_edits" / "input"
    (item,) = read_sessions(folder)
    Archive.ingest(tmp_path, [folder])
    with Archive.open(tmp_path) as archive:
        again = archive.session(item.id).file_versions
        archived = [v.version for v in archived_versions(archive._archive_dir, item)]

    found = item.file_versions
    assert again == found
    assert archived == list(found["a.py"])
    assert [(v.version, v.message_id, v.backup_name) for v in found["a.py"]] == [
        (1, "p1", None),
        (2, "p2", "0f1e2d3c4b5a6978@v2"),
        (3, "p2", "0f1e2d3c4b5a6978@v3"),
    ]
    assert all(v.saved_at == datetime(2026, 1, 5, 9, tzinfo=UTC) for v in found["a.py"])


@pytest.mark.req("H1")
def test_file_versions_are_loaded_from_the_file(home: Home) -> None:
    path = home.session(SESSION, [prompt("Hi"), snapshot("p", {"a.py": None})])
    (item,), (gone,) = read_sessions(home.path), read_sessions(home.path)

    assert [v.is_new for v in item.file_versions["a.py"]] == [True]

    path.unlink()
    assert gone.file_versions == {}


@pytest.mark.req("R6")
@pytest.mark.parametrize(
    "path",
    [
        f"/home/me/.claude/projects/-work-demo/{SESSION}/tool-results/t.txt",
        "C:\\Users\\me\\.claude\\projects\\x\\tool-results\\t.txt",
        "t.txt",
    ],
)
def test_long_output_is_loaded_from_the_session_folder(path: str, home: Home) -> None:
    home.tool_result(SESSION, "t.txt", "all\nof it")

    assert stored(home, path) == "all\nof it"


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "../../secret.txt", "/work/..", "", "/work/", ".hidden", "no.txt"],
)
def test_other_paths_are_not_followed(path: str, home: Home) -> None:
    home.tool_result(SESSION, ".hidden", "secret")
    (home.path / "projects" / "-work-demo" / "secret.txt").write_text("no", "utf-8")

    assert stored(home, path) is None


def test_too_long_output_is_truncated_at_a_line(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_MAX_TOOL_RESULT_SIZE", 10)
    home.tool_result(SESSION, "t.txt", "12345\n123\n1234567")

    assert stored(home, "t.txt") == "12345\n123"


def test_long_output_of_an_agent_is_in_the_session_folder() -> None:
    home = Home(CASES / "persisted_output" / "input")
    found = [call.stored_output for call in calls(home)]

    whole = "all of it\nto the end"
    assert found == [whole, None, None, whole, "all that was found"]


@pytest.mark.req("A1")
def test_sidecar_is_read_with_its_agent(home: Home) -> None:
    home.session(SESSION, thread(prompt("Hi"), reply([tool_use("Task", id="t")])))
    home.agent(SESSION, "a1", [prompt("Do it")], meta={"toolUseId": "t"})
    (item,) = read_sessions(home.path)

    assert [(run.id, run.linked_by) for run in item.agents] == [("a1", "sidecar")]


@pytest.mark.req("A1")
def test_unreadable_sidecar_is_ignored(home: Home) -> None:
    path = home.agent(SESSION, "a1", [prompt("Do it")], meta={"toolUseId": "t"})
    sources = list(read_sessions(home.path)._discover())
    path.with_name("agent-a1.meta.json").unlink()

    (item,) = reader._load_transcripts(sources)

    assert item.sidecar is None


@pytest.mark.req("T6", "F5")
def test_folders_with_parts_of_one_session_are_read_together(home: Home) -> None:
    first = session("a", "b<a")
    more = session("c<b:user", "d<c", timestamp="2026-01-05T10:00:00.000Z")
    home.session(SESSION, first, project="-work-demo")
    home.session(session_id(1), session("x"), project="-work-tree")
    home.session(SESSION, more, project="-work-tree")
    home.session(session_id(2), session("y"), project="-work-else")

    found = {
        item.id: len(item.live_branch.messages) for item in read_sessions(home.path)
    }

    assert found == {SESSION: 4, session_id(1): 1, session_id(2): 1}


def test_loose_files_are_grouped_by_folder(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        path = tmp_path / folder / "talk.jsonl"
        path.parent.mkdir()
        home = Home(tmp_path / "x")
        home.session(SESSION, session("a", "b<a")).rename(path)

    sizes = [len(item.live_branch.messages) for item in read_sessions(tmp_path)]

    assert sum(sizes) == 4 or sizes == [2]


@pytest.mark.req("T6")
def test_copy_of_the_end_of_a_session_continues_it(home: Home, tmp_path: Path) -> None:
    chain = session("p1", "a1<p1", "p2<a1", "a2<p2")
    later = session("p3<a2", "a3<p3")
    home.session(session_id(1), chain)
    home.session(session_id(2), [*chain[3:], *later])
    home.session(session_id(3), session("x2<gone", "y2<x2"))
    Archive.ingest(tmp_path / "archive", [home.path])

    read = {one.id: one for one in read_sessions(home.path)}
    second = read[SessionId(session_id(2))]
    assert [message.id for message in second.live_branch.messages] == [
        *("p1", "a1", "p2", "a2"),
        *("p3", "a3"),
    ]
    assert [problem.kind for problem in second.problems] == []
    assert [(one.kind, one.session_id) for one in second.lineage] == [
        (LineageKind.CONTINUES, session_id(1))
    ]
    # A parent that no file has is still a problem.
    third = read[SessionId(session_id(3))]
    assert [problem.kind for problem in third.problems] == ["ghost"]
    with Archive.open(tmp_path / "archive") as archive:
        assert {id_: archive.session(id_) for id_ in read} == read
