"""Summaries: where they are found, how they are shown, and how they are searched."""

from __future__ import annotations

from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.cli.main import main
from bygones.model.base import RecordId, SessionId
from bygones.model.summary import EmptyReason, LeafSummary
from bygones.reader import read_sessions
from bygones.render.session_tree import TreeLineKind, iter_tree_lines
from bygones.render.walk import SessionView, SummaryStep, walk_session
from tests.build import (
    Home,
    meta,
    prompt,
    reply,
    session_id,
    snapshot,
    summary,
    system,
    thread,
    title,
)
from tests.search.searching import open_archive

CHAIN = thread(
    prompt("p1", uuid="p1"),
    reply("a1", uuid="a1"),
    prompt("p2", uuid="p2"),
    reply("a2", uuid="a2"),
    prompt("p3", uuid="p3"),
    reply("a3", uuid="a3"),
)


def make_summary(leaf: str, text: str) -> LeafSummary:
    return LeafSummary(RecordId(leaf), text)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Return a home with a titled session, and its summaries in other folders."""
    made = Home(tmp_path / "home")
    made.session(session_id(1), [*CHAIN, title("Feeding", custom=True)])
    made.session(session_id(2), [summary("Halfway to the walrus", "a2")], project="-b")
    made.session(session_id(3), [summary("All about a sea lion", "a3")], project="-c")
    made.session(session_id(4), [summary("Of a lost dugong", "gone")], project="-c")
    return made


@pytest.mark.req("N2")
def test_summaries_of_other_projects_are_found_without_an_archive(
    home: Home, tmp_path: Path
) -> None:
    Archive.ingest(tmp_path / "archive", [home.path])
    read = {session.id: session for session in read_sessions(home.path)}

    first = read[SessionId(session_id(1))]
    assert first.live_branch.title == "All about a sea lion"
    assert first.summaries == (
        make_summary("a2", "Halfway to the walrus"),
        make_summary("a3", "All about a sea lion"),
    )
    assert "a2" in first.endpoint_ids
    with Archive.open(tmp_path / "archive") as archive:
        assert {id_: archive.session(id_) for id_ in read} == read


@pytest.mark.req("N2")
def test_error_is_not_the_summary_of_a_branch(tmp_path: Path) -> None:
    made = Home(tmp_path / "home")
    made.session(session_id(1), [*CHAIN, summary("API Error: 529", "a3")])

    (session,) = read_sessions(made.path)
    assert (session.live_branch.title, session.summaries) == (None, ())
    assert "a3" in session.endpoint_ids


@pytest.mark.req("N2", "T4")
def test_summary_of_a_branch_is_shown_after_its_last_message(home: Home) -> None:
    session = next(s for s in read_sessions(home.path) if s.id == session_id(1))

    steps = list(walk_session(session, SessionView()))
    assert steps[-1] == SummaryStep(make_summary("a3", "All about a sea lion"))
    assert sum(isinstance(step, SummaryStep) for step in steps) == 1
    lines = list(iter_tree_lines(session))
    assert [line.text for line in lines if line.kind is TreeLineKind.SUMMARY] == [
        "All about a sea lion"
    ]


@pytest.mark.req("T4")
def test_conversation_can_be_shown_up_to_a_summary(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", str(home.path), session_id(1), "--branch", "a2"]) == 0

    stdout = capsys.readouterr().out
    assert stdout.endswith("a2\n\nSummary up to a2: Halfway to the walrus\n")
    assert "p3" not in stdout


@pytest.mark.req("N2", "X2")
def test_all_summaries_are_searched(home: Home, tmp_path: Path) -> None:
    with open_archive(home, tmp_path / "archive") as archive:
        for query in ("walrus", "sea lion", "walrus project:/work/demo"):
            (one,) = archive.search(query).sessions
            assert one.summary.id == session_id(1)
        assert archive.excerpts("walrus") == ["Halfway to the [walrus]"]
        assert archive.excerpts("sea lion") == ["All about a [sea] [lion]"]
        (lost,) = archive.search("dugong").sessions
        assert lost.summary.id == session_id(4)


EMPTY_SESSIONS = [
    ([], EmptyReason.EMPTY_FILE),
    ([summary("Of a lost dugong", "gone")], EmptyReason.SUMMARIES),
    ([snapshot("m1", {})], EmptyReason.FILE_HISTORY),
    ([meta("mode", mode="normal")], EmptyReason.METADATA),
    ([system("informational", "Nothing new")], EmptyReason.NOTICES),
    ([prompt("<command-name>/clear</command-name>")], EmptyReason.COMMANDS),
]


@pytest.mark.req("F6")
@pytest.mark.parametrize(("records", "reason"), EMPTY_SESSIONS)
def test_empty_session_says_what_it_consists_of(
    records: list[object], reason: EmptyReason, tmp_path: Path
) -> None:
    made = Home(tmp_path / "home")
    made.session(session_id(1), records)

    (session,) = read_sessions(made.path)
    assert (session.is_empty, session.empty_reason) == (True, reason)


@pytest.mark.req("F6")
@pytest.mark.parametrize(
    ("agent", "reason"),
    [("a1", EmptyReason.WARM_UPS), ("acompact-1", EmptyReason.REPLAYS)],
)
def test_session_of_hidden_agents_says_so(
    agent: str, reason: EmptyReason, tmp_path: Path
) -> None:
    made = Home(tmp_path / "home")
    made.agent(session_id(1), agent, thread(prompt("Warmup"), reply("Ready")))

    (session,) = read_sessions(made.path)
    assert session.empty_reason is reason


@pytest.mark.req("F6")
def test_summary_only_file_is_listed_and_shown(
    home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = ["--archive", str(tmp_path / "archive"), "--home", str(home.path)]
    Archive.ingest(tmp_path / "archive", [home.path])

    assert main([*archive, "list", "--all"]) == 0
    stdout = capsys.readouterr().out
    assert f"{session_id(4)} (only summaries)" in stdout
    assert main([*archive, "search", "dugong"]) == 0
    assert main([*archive, "show", "1"]) == 0
    assert "summary up to gone: Of a lost dugong" in capsys.readouterr().out
