"""Compactions: previous messages are replaced by a summary."""

from __future__ import annotations

from tests.build import SESSION, Home, Written, attachment, compact, moment, session
from tests.forms import command, digest, printed


def compaction(home: Home) -> None:
    """A manual compaction: the typed command, a boundary, a summary, and the command."""
    records = [
        *session("p1", "a1<p1", "p2<a1", "a2<p2"),
        *_at(4, session("/compact<a2:user")),
        _boundary(5, "a2", trigger="manual"),
        # The summary was started shortly before the boundary was written.
        _digest(4.9),
        *_at(
            6,
            [
                command("/compact", uuid="k1", parent="s1"),
                printed("Compacted", uuid="o1", parent="k1"),
            ],
        ),
        *_at(8, session("p3<o1:user", "a3<p3")),
    ]
    home.session(SESSION, records)


def compaction_relinks(home: Home) -> None:
    """Kept records are written again, with the same ids and another parent."""
    first = session("p1", "a1<p1", "p2<a1", "a2<p2")
    records = [
        *first,
        _boundary(4, "a2", preservedMessages={"anchorUuid": "s1", "uuids": ["p2"]}),
        _digest(5),
        first[2] | {"parentUuid": "s1"},
        first[3],
        *_at(6, session("p3<a2:user", "a3<p3")),
    ]
    home.session(SESSION, records)


def compaction_lists(home: Home) -> None:
    """Kept records are only listed; the next prompt is a child of the last one."""
    kept = {"anchorUuid": "s1", "uuids": ["p2", "a2"]}
    records = [
        *session("p1", "a1<p1", "p2<a1", "a2<p2"),
        _boundary(4, "a2", preservedMessages=kept),
        _digest(5),
        *_at(6, session("p3<a2:user", "a3<p3")),
    ]
    home.session(SESSION, records)


def compaction_replays(home: Home) -> None:
    """Kept records are written again with new ids and their old timestamps."""
    first = session("p1", "a1<p1", "p2<a1", "a2<p2")
    records = [
        *first,
        _boundary(4, "a2"),
        _digest(5),
        first[2] | {"uuid": "q2", "parentUuid": "s1"},
        first[3] | {"uuid": "c2", "parentUuid": "q2"},
        *_at(6, session("p3<c2:user", "a3<p3")),
    ]
    home.session(SESSION, records)


def compaction_dangling(home: Home) -> None:
    """The logical parent of the boundary does not exist."""
    records = [
        *session("p1", "a1<p1"),
        _boundary(2, "gone"),
        _digest(3),
        *_at(4, session("p2<s1:user", "a2<p2")),
    ]
    home.session(SESSION, records)


def compaction_cyclic(home: Home) -> None:
    """The logical parent of the boundary comes after it."""
    records = [
        *session("p1", "a1<p1"),
        _boundary(2, "a2"),
        _digest(3),
        *_at(4, session("p2<s1:user", "a2<p2")),
    ]
    home.session(SESSION, records)


def compaction_twice(home: Home) -> None:
    """The logical parent of the second boundary comes before the first boundary."""
    records = [
        *session("p1", "a1<p1"),
        _boundary(2, "a1"),
        _digest(3),
        *_at(4, session("p2<s1:user", "a2<p2")),
        _boundary(6, "a1", uuid="b2"),
        _digest(7, uuid="s2", parent="b2"),
        *_at(8, session("p3<s2:user", "a3<p3")),
    ]
    home.session(SESSION, records)


def summarized_from_here(home: Home) -> None:
    """The user had the turns from p2 on summarized; nothing was taken back."""
    kept = {"anchorUuid": "b1", "uuids": ["p1", "a1"], "allUuids": ["p1", "a1"]}
    records = [
        *session("p1", "a1<p1", "p2<a1", "a2<p2"),
        _boundary(4, "a1", trigger="manual", preservedMessages=kept),
        _digest(5) | {"summarizeMetadata": {"direction": "from"}},
        *_at(6, session("p3<s1:user", "a3<p3")),
    ]
    home.session(SESSION, records)


def summarized_up_to_here(home: Home) -> None:
    """The user had the turns before p2 summarized; p2 and its answer stay."""
    kept = {"anchorUuid": "s1", "uuids": ["p2", "a2"], "allUuids": ["p2", "a2"]}
    records = [
        *session("p1", "a1<p1", "p2<a1", "a2<p2"),
        _boundary(4, "a1", trigger="manual", preservedMessages=kept),
        _digest(5) | {"summarizeMetadata": {"direction": "up_to"}},
        *_at(6, session("p3<s1:user", "a3<p3")),
    ]
    home.session(SESSION, records)


def compaction_before_attachments(home: Home) -> None:
    """The summary of an automatic compaction follows attachments."""
    records = [
        *session("p1", "a1<p1", "p2<a1"),
        _boundary(3, "p2", trigger="auto"),
        *_at(4, [attachment("date", uuid="x1", parent="b1", date="2026-01-05")]),
        _digest(5, parent="x1"),
        *_at(6, session("a2<s1:assistant")),
    ]
    home.session(SESSION, records)


def compaction_unmarked(home: Home) -> None:
    """Old versions continued in a new file with a summary that has no flag."""
    flags = {"isCompactSummary": False, "isVisibleInTranscriptOnly": False}
    records = [
        digest(uuid="s1", parent=None) | flags,
        *_at(1, session("a1<s1:assistant", "p1<a1", "a2<p1")),
    ]
    home.session(SESSION, [record | {"version": "1.0.44"} for record in records])


def compaction_small(home: Home) -> None:
    """A microcompaction clears old results and does not interrupt the branch."""
    records = [
        *session("p1", "a1<p1"),
        *_at(2, session("n1<a1:system")),
        *_at(3, session("p2<n1:user", "a2<p2")),
    ]
    records[2]["subtype"] = "microcompact_boundary"
    home.session(SESSION, records)


def _boundary(
    seconds: float, follows: str, uuid: str = "b1", **facts: object
) -> Written:
    record = compact(follows, uuid=uuid)
    record["compactMetadata"] |= {"postTokens": 9_000} | facts
    return record | {"timestamp": moment(seconds)}


def _digest(seconds: float, uuid: str = "s1", parent: str = "b1") -> Written:
    return digest(uuid=uuid, parent=parent, timestamp=moment(seconds))


def _at(seconds: int, records: list[Written]) -> list[Written]:
    return [
        record | {"timestamp": moment(seconds + number)}
        for number, record in enumerate(records)
    ]
