"""Trimming a session to the turns around a record."""

from __future__ import annotations

from pathlib import Path

from bygones import read_sessions
from bygones.model.sessions import Session
from bygones.render.walk import trim_around_record
from tests.build import Home, session, session_id

WORDS = (
    "a",
    "b<a",
    "c<b",
    "d<c",
    "e<d",
    "f<e",
    "g<f",
    "h<g",
    "i<h",
    "j<i",
    "k<d",
    "l<k",
)


def make_session(tmp_path: Path) -> Session:
    Home(tmp_path).session(session_id(1), session(*WORDS))
    (loaded,) = read_sessions(tmp_path)
    return loaded


def heads(loaded: Session, number: int) -> list[str]:
    branch = next(b for b in loaded.branches if b.number == number)
    return [turn.messages[0].preview for turn in branch.turns]


def test_turn_of_a_record_and_its_neighbors_are_kept(tmp_path: Path) -> None:
    loaded = make_session(tmp_path)
    rewound = loaded.find_branch("h")
    assert rewound is not None

    part = trim_around_record(loaded, rewound.number, "h")

    assert heads(part, rewound.number) == ["e", "g", "i"]
    assert heads(part, 0) == heads(loaded, 0)


def test_first_turn_has_no_turn_before(tmp_path: Path) -> None:
    assert heads(trim_around_record(make_session(tmp_path), 0, "a"), 0) == ["a", "c"]
    assert (
        trim_around_record(make_session(tmp_path), 0, "a")
        .live_branch.turns[0]
        .messages[0]
        .preview
        == "a"
    )


def test_unknown_record_leaves_the_session_unchanged(tmp_path: Path) -> None:
    loaded = make_session(tmp_path)

    assert trim_around_record(loaded, 0, "nowhere") is loaded
