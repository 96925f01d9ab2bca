"""The archive: its contents equal those of the files."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from msgspec import structs

from bygones import Archive, read_sessions
from bygones.assemble.summary import group_into_projects, summarize_session
from bygones.errors import (
    AmbiguousSelector,
    ArchiveNotFound,
    IndexNotFound,
    InvalidSelector,
    NotInArchive,
)
from bygones.inspection import inspect_transcripts
from bygones.model.base import SourceFile
from bygones.model.sessions import Session
from bygones.sources.walk import discover_sources
from tests.build import (
    Home,
    attachment,
    line,
    moment,
    prompt,
    reply,
    session,
    session_id,
    thread,
    tool_result,
    tool_use,
)
from tests.cases.archives import CaseArchives
from tests.cases.make import stories
from tests.forms import api_error

CORPUS = Path(__file__).resolve().parent.parent / ".." / "shared" / "corpus"
on_the_corpus = pytest.mark.skipif(
    not CORPUS.is_dir(), reason=f"no transcripts at {CORPUS}: not part of the project"
)
A = "aaaa1111-0000-4000-8000-000000000001"
B = "aaaa2222-0000-4000-8000-000000000002"
C = "cccc3333-0000-4000-8000-000000000003"


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Archive]:
    """Return an archive of a session that was rewound, resumed, and had an agent."""
    home = Home(tmp_path / "home")
    records = [
        prompt("First", uuid=A),
        reply("Answer", uuid=B, parent=A),
        prompt("Second try", uuid=C, parent=B),
        prompt("Third try", uuid="dddd", parent=B),
        reply("Last", uuid="eeee", parent="dddd"),
    ]
    for number, record in enumerate(records):
        record["timestamp"] = f"2026-01-05T09:00:{number:02}.000Z"
    home.session(session_id(1), records)
    later = "2026-02-01T09:00:00.000Z"
    more = [*records, prompt("Later", uuid="ffff", parent="eeee", timestamp=later)]
    home.session(session_id(2), more)
    home.agent(session_id(1), "a1", [prompt("Look", uuid="inside")], meta={})
    Archive.ingest(tmp_path / "archive", [home.path])
    with Archive.open(tmp_path / "archive") as archive:
        yield archive


@pytest.mark.req("T7")
def test_record_is_found_by_its_uuid(opened: Archive) -> None:
    found = opened.record(A)

    assert (found.id, found.kind, found.session_id) == (A, "user", session_id(1))
    assert (found.branch_number, found.agent_id) == (0, None)
    assert b'"First"' in found.raw
    assert found.raw == opened_line(found.position.source_id, found.position.offset)
    assert [copy.source_id.rpartition("/")[2] for copy in found.copy_positions] == [
        f"{session_id(2)}.jsonl"
    ]


def opened_line(source: str, offset: int) -> bytes:
    return Path(source).read_bytes()[offset:].partition(b"\n")[0]


@pytest.mark.req("T7")
def test_record_is_found_by_a_unique_prefix(opened: Archive) -> None:
    assert opened.record("aaaa1").id == A
    assert opened.record("aaaa2222-0000").id == B
    assert opened.record("c").id == C


@pytest.mark.req("T7")
def test_ambiguous_prefix_names_the_candidates(opened: Archive) -> None:
    with pytest.raises(AmbiguousSelector) as error:
        opened.record("aaaa")

    assert set(error.value.candidates) == {A, B}


@pytest.mark.parametrize("name", ["\ud800", "5e55\udcff"])
def test_invalid_text_is_not_a_selector(opened: Archive, name: str) -> None:
    for method in (opened.session, opened.record):
        with pytest.raises(InvalidSelector):
            method(name)


@pytest.mark.parametrize("name", ["", "9", "aaaa1111-0000-4000-8000-000000000009", "%"])
def test_unknown_record_raises(opened: Archive, name: str) -> None:
    with pytest.raises(NotInArchive):
        opened.record(name)


def test_record_has_its_branch_and_agent(
    opened: Archive,
) -> None:
    assert opened.record(C).branch_number == 1
    assert opened.record("eeee").branch_number == 0
    assert opened.record("inside").agent_id == "a1"
    assert opened.record("inside").session_id == session_id(1)
    assert opened.record("ffff").session_id == session_id(2)


def test_session_is_found_by_its_id_or_a_prefix(opened: Archive) -> None:
    assert opened.session(session_id(2)).id == session_id(2)
    assert opened.session(session_id(1)[:-1] + "1").id == session_id(1)
    with pytest.raises(AmbiguousSelector):
        opened.session("5e55")
    with pytest.raises(NotInArchive) as error:
        opened.session("5e551001")
    assert error.value.suggestions
    with pytest.raises(NotInArchive):
        opened.session("")


def test_sessions_are_listed_newest_first(opened: Archive) -> None:
    found = list(opened.sessions())

    assert [one.id for one in found] == [session_id(2), session_id(1)]
    assert found == [summarize_session(opened.session(one.id)) for one in found]
    assert list(opened.sessions(project="/work")) == found
    assert list(opened.sessions(project="/work/dem")) == []


def test_related_sessions_are_symmetric(opened: Archive) -> None:
    one, two = (opened.session_summary(session_id(number)).id for number in (1, 2))

    assert opened.related_sessions([one]) == {two}
    assert opened.related_sessions([two]) == {one}
    assert opened.related_sessions([one, two]) == set()


def test_open_archive_sees_new_sessions(opened: Archive, tmp_path: Path) -> None:
    Home(tmp_path / "home").session(session_id(3), [prompt("New", uuid="new")])
    Archive.ingest(opened.folder, [tmp_path / "home"])

    assert opened.session(session_id(3)).title.text == "New"
    assert opened.record("new").session_id == session_id(3)

    Archive.rebuild(opened.folder)
    opened.refresh()
    assert opened.record("new").session_id == session_id(3)


def test_missing_archive_or_index_raises(tmp_path: Path) -> None:
    with pytest.raises(ArchiveNotFound):
        Archive.open(tmp_path)
    home = Home(tmp_path / "home")
    home.session(session_id(1), [prompt("Hello")])
    Archive.ingest(tmp_path / "archive", [home.path])
    with Archive.open(tmp_path / "archive") as archive:
        archive.backup(tmp_path / "copy")
    with Archive.open(tmp_path / "copy") as copy, pytest.raises(IndexNotFound):
        list(copy.sessions())


def test_content_of_messages_is_loaded_from_the_archive(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    note = "Output too large. Full output saved to: /x/tool-results/toolu_1.txt"
    records = thread(
        prompt("Run it"),
        reply([tool_use("Bash", command="make")]),
        tool_result("toolu_1", f"<persisted-output>\n{note}\n</persisted-output>"),
        attachment("diagnostics", files=[]),
    )
    path = home.session(session_id(1), records)
    with path.open("ab") as file:
        file.write(line(reply("Unfinished but whole", parent=records[-1]["uuid"])))
    home.tool_result(session_id(1), "toolu_1.txt", "all of it\n")
    Archive.ingest(tmp_path / "archive", [home.path])
    (from_files,) = read_sessions(home.path)

    with Archive.open(tmp_path / "archive") as archive:
        session = archive.session(session_id(1))
        assert session == from_files
        mine, theirs = session.live_branch.messages, from_files.live_branch.messages
        assert [m.blocks for m in mine] == [m.blocks for m in theirs]
        calls = [call for message in mine for call in message.tool_calls]
        assert [call.result for call in calls] == [
            call.result for message in theirs for call in message.tool_calls
        ]
        assert [call.stored_output for call in calls] == [
            call.stored_output for message in theirs for call in message.tool_calls
        ]


@pytest.mark.parametrize("name", sorted(stories()))
def test_archive_equals_the_files(name: str, case_archives: CaseArchives) -> None:
    assert_equal(case_archives.sessions(name), case_archives.archive(name))


def assert_equal(sessions: Iterable[Session], folder: Path) -> None:
    """Compare all summaries, sessions and projects."""
    theirs = {session.id: session for session in sessions}
    with Archive.open(folder) as archive:
        # Which paths are one project is known from all sessions, not from one.
        lines = {
            one.id: structs.replace(one, project_paths=())
            for one in archive.sessions(include_empty=True)
        }
        assert lines == {
            id_: summarize_session(session) for id_, session in theirs.items()
        }
        for id_, session in theirs.items():
            assert archive.session(id_) == session
        # An archive knows which directories are clones or worktrees of one repository.
        projects = [{*p.session_ids} for p in archive.projects(include_empty=True)]
        assert sorted(id_ for ids in projects for id_ in ids) == sorted(theirs)
        for one in group_into_projects(theirs.values()):
            assert any(ids.issuperset(one.session_ids) for ids in projects)
        found = sorted(archive.problems(), key=repr)
        assert found == sorted(
            ((s.id, problem) for s in theirs.values() for problem in s.problems),
            key=repr,
        )


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an archive of all transcripts of the corpus."""
    folder = tmp_path_factory.mktemp("corpus") / "archive"
    Archive.ingest(folder, [CORPUS.resolve()])
    return folder


@on_the_corpus
def test_archive_equals_real_files(corpus: Path) -> None:
    assert_equal(read_sessions(CORPUS.resolve()), corpus)


@on_the_corpus
def test_drift_equals_an_inspection_of_the_files(corpus: Path) -> None:
    kinds = {"record", "system", "attachment", "block"}
    found = inspect_transcripts([CORPUS.resolve()]).drift

    with Archive.open(corpus) as archive:
        mine = {(r.kind, r.name, r.version): r.records for r in archive.drift()}

    theirs = {
        (row.kind, row.name, row.version): row.records
        for row in found
        if row.kind in kinds
    }
    assert set(mine) == set(theirs)


@on_the_corpus
@pytest.mark.req("F7")
def test_restored_real_files_have_the_same_hash(corpus: Path, tmp_path: Path) -> None:
    with Archive.open(corpus) as archive:
        plans = archive.plan_restore(archive.sources(), target=tmp_path)
        done = archive.restore(plans)

    sources = [
        s for s in discover_sources(CORPUS.resolve()) if isinstance(s, SourceFile)
    ]
    transcripts = {*CORPUS.rglob("*.jsonl"), *CORPUS.rglob("*.meta.json")}
    assert done.written == len(sources) == len(transcripts)
    for source in sources:
        restored = tmp_path / source.relative_path
        assert digest(restored) == digest(Path(source.id))
        assert restored.stat().st_mtime_ns == source.mtime_ns


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_importing_the_library_imports_no_heavy_modules() -> None:
    code = (
        "import sys, bygones\n"
        "heavy = {'apsw', 'click', 'msgspec', 'tantivy', 'watchfiles'}\n"
        "assert not heavy & set(sys.modules)\n"
        "assert bygones.Archive and bygones.read_sessions\n"
    )

    done = subprocess.run([sys.executable, "-c", code], check=False)

    assert done.returncode == 0


def test_unknown_public_name_raises_attribute_error() -> None:
    import bygones

    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = bygones.nothing


@pytest.mark.req("F5")
def test_session_inside_a_file_of_another_is_found_by_its_id(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    own, other = session_id(1), session_id(2)
    theirs = [*session("t1", "t2<t1", "t3<t2")]
    for number, record in enumerate(theirs, 5):
        record |= {"sessionId": other, "timestamp": moment(number)}
    home.session(own, [*session("p1", "a1<p1"), *theirs])
    Archive.ingest(tmp_path / "archive", [home.path])

    with Archive.open(tmp_path / "archive") as archive:
        found = archive.session(other)
        selected = [one.id for one in archive.sessions(f"session:{other}")]
        abandoned = list(archive.sessions("is:abandoned"))
        prompts = {str(one.id): one for one in archive.prompts()}
        live = {one.id for one in archive.prompts("branch:live")}
        sql = "SELECT count(*) FROM {} WHERE is_abandoned"
        counts = [
            archive.sql(sql.format(view)).rows[0][0]
            for view in ("messages", "prompts", "usage")
        ]

    assert live == {"p1", "t1", "t3"}
    assert prompts["p1"].other_session_id is None
    assert (prompts["t3"].session_id, prompts["t3"].other_session_id) == (own, other)
    assert counts == [0, 0, 0]
    assert (found.id, selected, abandoned) == (own, [own], [])
    assert found.contained_ids == (other,)
    assert [(branch.is_live, branch.session_id) for branch in found.branches] == [
        (True, None),
        (False, other),
    ]


@pytest.mark.req("F5")
def test_search_in_a_contained_session_leaves_out_its_neighbors(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    own, other = session_id(2), session_id(9)
    theirs = session("t1", "t2<t1", sessionId=other)
    for number in (1, 2, 3):
        ours = thread(prompt("Hello"), reply("Hi."))
        records = [*ours, *theirs] if number == 2 else ours
        home.session(session_id(number), records)
    Archive.ingest(tmp_path / "archive", [home.path])

    with Archive.open(tmp_path / "archive") as archive:
        for query in (f"session:{other}", f"hello session:{other}"):
            found = archive.search(query).sessions
            assert [one.summary.id for one in found] == [own]


@pytest.mark.req("F5")
def test_session_that_exists_only_in_a_resumed_file_leads_there(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    gone, resumed = session_id(1), session_id(2)
    copies = session("p1", "a1<p1", "p2", "a2<p2", sessionId=gone)
    home.session(resumed, [*copies, *session("p3<a2:user", "a3<p3")])
    Archive.ingest(tmp_path / "archive", [home.path])

    with Archive.open(tmp_path / "archive") as archive:
        found = archive.session(gone)

    assert found.id == resumed
    assert [branch.session_id for branch in found.branches] == [None, None]
    home.session(gone, copies)
    Archive.ingest(tmp_path / "archive", [home.path])
    with Archive.open(tmp_path / "archive") as archive:
        assert archive.session(gone).id == gone
        assert archive.session(resumed).contained_ids == ()


@pytest.mark.req("X2")
def test_api_errors_are_found_as_errors(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    message = "API Error: overloaded"
    home.session(session_id(1), thread(prompt("Hello"), api_error(message, uuid="e1")))
    home.session(session_id(2), thread(prompt("Is it overloaded?"), reply("No.")))
    Archive.ingest(tmp_path / "archive", [home.path])

    with Archive.open(tmp_path / "archive") as archive:
        (found,) = archive.search("is:error overloaded").sessions

    assert [hit.record_id for hit in found.hits] == ["e1"]


def test_files_that_commands_changed_are_found(case_archives: CaseArchives) -> None:
    with Archive.open(case_archives.archive("shell_edits")) as archive:
        (found,) = archive.search("file:many7.txt tool:Bash").sessions
        edits = archive.edits(path="/work/demo/many7.txt")

    assert [hit.record_id for hit in found.hits] == ["r2"]
    assert [(edit.tool_name, edit.has_diff) for edit in edits] == [("Bash", False)]


@pytest.mark.req("R10")
def test_unknown_version_counts_as_drift(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    records = [
        *session("p1", "a1<p1", version="2.1.325"),
        *session("p2<a1:user", version="99.0.1"),
    ]
    home.session(session_id(1), records)
    Archive.ingest(tmp_path / "archive", [home.path])

    with Archive.open(tmp_path / "archive") as archive:
        (row,) = archive.drift()

    assert (row.kind, row.name, row.records) == ("version", "99.0.1", 1)
    assert inspect_transcripts([home.path]).drift == (row,)


@pytest.mark.req("R6")
def test_outcome_inside_the_block_is_used_if_the_record_has_none(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path / "home")
    result = tool_result("t1", "Done", uuid="r1")
    result.pop("toolUseResult", None)
    result["message"]["content"][0]["toolUseResult"] = {
        "filePath": "/work/demo/new.py",
        "type": "create",
        "content": "one\ntwo\n",
        "structuredPatch": [],
    }
    call = tool_use("Write", id="t1", file_path="/work/demo/new.py")
    home.session(
        session_id(1), thread(prompt("Write it"), reply([call]), result, reply("Ok."))
    )
    Archive.ingest(tmp_path / "archive", [home.path])

    with Archive.open(tmp_path / "archive") as archive:
        (edit,) = archive.session(session_id(1)).edits
        outcome = edit.tool_call.outcome

    assert edit.is_new_file
    assert outcome is not None
