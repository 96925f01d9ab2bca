"""Sessions that were resumed, forked, cleared or handed over."""

from __future__ import annotations

from tests.build import (
    SESSION,
    Home,
    Written,
    meta,
    moment,
    prompt,
    queue,
    reply,
    session,
    session_id,
    summary,
    system,
    title,
)
from tests.forms import command

FIRST, SECOND, THIRD = session_id(1), session_id(2), session_id(3)


def resumed_by_copy(home: Home) -> None:
    """Up to 1.0.123 a new file contained the whole history, partly with the old id."""
    first = _said(FIRST, "1.0.80", "p1", "a1<p1", "p2<a1", "a2<p2")
    copied = [first[0], first[1], *(_of(SECOND, first[2:]))]
    more = _said(SECOND, "1.0.90", "p3<a2:user", "a3<p3", start=60)
    home.session(FIRST, first)
    home.session(SECOND, [summary("The first things", "a2"), *copied, *more])


def resumed_by_copy_of_the_end(home: Home) -> None:
    """The new file starts with the last records of the old one, and has its id."""
    first = _said(FIRST, "2.0.20", "p1", "a1<p1", "p2<a1", "a2<p2")
    more = _said(FIRST, "2.0.20", "p3<a2:user", "a3<p3", start=60)
    home.session(FIRST, first)
    home.session(SECOND, [*first[2:], *more])


def copied_to_smaller_id(home: Home) -> None:
    """The copy's id sorts before the original's, but its own records are newer."""
    first = _said(SECOND, "1.0.80", "p1", "a1<p1")
    more = _said(FIRST, "1.0.80", "p2<a1:user", "a2<p2", start=60)
    home.session(SECOND, first)
    home.session(FIRST, [*_of(FIRST, first), *more])


def resumed_by_append(home: Home) -> None:
    """From 1.0.124 the same file grows; the version and the directory change."""
    first = _said(SESSION, "2.0.10", "p1", "a1<p1")
    more = _said(SESSION, "2.1.5", "p2<a1:user", "a2<p2", start=3600)
    moved = [record | {"cwd": "/work/demo/docs"} for record in more]
    home.session(SESSION, [*first, *moved])


def forked_session(home: Home) -> None:
    """``--fork-session`` copies all records with their ids; both sessions continue."""
    first = _said(FIRST, "2.1.5", "p1", "a1<p1", "p2<a1", "a2<p2")
    own = _said(SECOND, "2.1.5", "p3<a1:user", "a3<p3", start=60)
    home.session(FIRST, first)
    home.session(SECOND, [*_of(SECOND, first[:2]), *own])


def forked_at_the_end(home: Home) -> None:
    """``--fork-session`` copies the whole session, and only the copy continues."""
    first = _said(FIRST, "2.1.5", "p1", "a1<p1")
    own = _said(SECOND, "2.1.5", "p2<a1:user", "a2<p2", start=60)
    home.session(FIRST, first)
    home.session(SECOND, [*_of(SECOND, first), *own])


def branched_session(home: Home) -> None:
    """``/branch`` copies records with their ids and their origin; the title has a suffix."""
    first = _said(FIRST, "2.1.90", "p1", "a1<p1", "p2<a1", "a2<p2")
    own = _said(SECOND, "2.1.90", "p3<a2:user", "a3<p3", start=60)
    named = title("The work (Branch)", custom=True) | {"sessionId": SECOND}
    home.session(FIRST, first)
    home.session(SECOND, [*_forked(first, fresh=False), named, *own])


def forked_by_sdk(home: Home) -> None:
    """The SDK forks with new ids and the origin of each record."""
    first = _said(FIRST, "2.1.90", "p1", "a1<p1", "p2<a1", "a2<p2")
    own = _said(SECOND, "2.1.90", "p3<f-a2:user", "a3<p3", start=60)
    home.session(FIRST, first)
    home.session(SECOND, [*_forked(first, fresh=True), *own])


def handed_over(home: Home) -> None:
    """A session continues in the background, in a copy that it names."""
    first = _said(FIRST, "2.1.280", "p1", "a1<p1")
    copied = _of(SECOND, first) + _said(SECOND, "2.1.280", "p2<a1:user", "a2<p2")
    ended = {"type": "continued-in", "sessionId": FIRST}
    home.session(FIRST, [*first, ended | {"continuedInSessionId": SECOND}])
    home.session(SECOND, [record | {"sessionKind": "bg"} for record in copied])


def cleared(home: Home) -> None:
    """``/clear`` starts a new file; the two sessions only share their project."""
    told = system(
        "local_command", "<command-name>/clear</command-name>", uuid="n1", parent=None
    )
    home.session(FIRST, _said(FIRST, "2.1.90", "p1", "a1<p1"))
    again = [told | {"sessionId": SECOND, "timestamp": moment(50)}]
    again += _said(SECOND, "2.1.90", "p2<n1:user", "a2<p2", start=60)
    home.session(SECOND, again)


def resumed_thrice(home: Home) -> None:
    """Each resume copied everything before it: one prompt is in three files."""
    first = _said(FIRST, "1.0.80", "p1", "a1<p1")
    second = _of(SECOND, first) + _said(
        SECOND, "1.0.80", "p2<a1:user", "a2<p2", start=60
    )
    third = _of(THIRD, second) + _said(
        THIRD, "1.0.80", "p3<a2:user", "a3<p3", start=120
    )
    home.session(FIRST, first)
    home.session(SECOND, second)
    home.session(THIRD, third)


def nothing_said(home: Home) -> None:
    """A stub, a file of titles and a session with only commands have no messages."""
    home.session(FIRST, [])
    home.session(SECOND, [summary("Of another time", "gone")])
    home.session(
        THIRD,
        [
            meta("mode", mode="normal"),
            queue("popAll"),
            command("/exit", uuid="k1", parent=None),
        ],
    )


def moved_session(home: Home) -> None:
    """One session has a file in the repository's folder and one in a worktree's."""
    first = _said(SESSION, "2.1.90", "p1", "a1<p1")
    more = _said(SESSION, "2.1.90", "p2<a1:user", "a2<p2", start=60)
    place = "/work/demo/.claude/worktrees/fix"
    home.session(SESSION, first)
    home.session(
        SESSION,
        [record | {"cwd": place} for record in more],
        project="-work-demo--claude-worktrees-fix",
    )


def mixed_sessions(home: Home) -> None:
    """One file contains interleaved records of two sessions; its name is one of their ids."""
    records = [
        prompt("Mine", uuid="p1"),
        prompt("Theirs", uuid="t1") | {"sessionId": SECOND, "timestamp": moment(1)},
        reply("Yours.", uuid="a1", parent="p1") | {"timestamp": moment(2)},
        reply("Not yours.", uuid="t2", parent="t1")
        | {"sessionId": SECOND, "timestamp": moment(3)},
        prompt("More of mine", uuid="p2", parent="a1") | {"timestamp": moment(4)},
    ]
    home.session(SESSION, records)


def _said(
    session_name: str, version: str, *words: str, start: float = 0
) -> list[Written]:
    """Return a session of one version that starts after a number of seconds."""
    records = session(*words, version=version, sessionId=session_name)
    return [
        record | {"timestamp": moment(start + number)}
        for number, record in enumerate(records)
    ]


def _of(session_name: str, records: list[Written]) -> list[Written]:
    return [record | {"sessionId": session_name} for record in records]


def _forked(records: list[Written], *, fresh: bool) -> list[Written]:
    """Return records as a fork contains them, with new ids or the same."""
    prefix = "f-" if fresh else ""
    return [
        record
        | {
            "sessionId": SECOND,
            "uuid": f"{prefix}{record['uuid']}",
            "parentUuid": record["parentUuid"] and f"{prefix}{record['parentUuid']}",
            "forkedFrom": {"sessionId": FIRST, "messageUuid": record["uuid"]},
        }
        for record in records
    ]
