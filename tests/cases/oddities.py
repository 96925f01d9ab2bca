"""Damaged and unusual files."""

from __future__ import annotations

from tests.build import (
    SESSION,
    Home,
    attachment,
    line,
    moment,
    prompt,
    reply,
    session,
    thread,
)


def clashing_ids(home: Home) -> None:
    """Two different records have the same id: the longer one is used, with a problem."""
    records = session("p1", "a1<p1", "p2<a1")
    other = prompt("quite another text, and longer", uuid="p2", parent="a1")
    shorter = reply("a", uuid="a1", parent="p1")
    home.session(SESSION, [*records, other, shorter, records[0]])


def without_ids(home: Home) -> None:
    """Records without ids follow the record before them."""
    records = session("p1", "a1<p1", "p2<a1", "a2<p2", "p3<a2")
    for record in records[1:4]:
        del record["uuid"], record["parentUuid"]
    home.session(SESSION, [*records[:4], records[4] | {"parentUuid": None}])


def circles(home: Home) -> None:
    """Records name themselves, or each other, as parents."""
    records = session("p1<p1:user", "a1<p1", "p2<a2:user", "a2<p2", "p3<a3", "a3<p3")
    home.session(SESSION, records)


def parents_later(home: Home) -> None:
    """A child comes before its parent; timestamps are descending."""
    records = session("p1", "a1<p1", "p2<a1", "a2<p2")
    order = [records[0], records[2], records[1], records[3]]
    told = [r | {"timestamp": moment(9 - at)} for at, r in enumerate(order)]
    home.session(SESSION, told)


def damaged_lines(home: Home) -> None:
    """Damaged lines are reported, the rest is read, and unknown records are kept."""
    records = session("p1", "a1<p1", "p2<a1", "a2<p2")
    torn = line(records[1])[:40] + line(records[1])
    unknown = {"type": "from-tomorrow", "uuid": "u1", "parentUuid": "a1"}
    odd = prompt("x", uuid="o1", parent="a1") | {"message": None}
    told = [
        records[0],
        b"not json at all",
        torn,
        unknown,
        records[2] | {"parentUuid": "u1"},
        b"[1, 2]",
        odd,
        records[3],
        line(records[3])[:50],
    ]
    home.session(SESSION, told)


def malformed_attachments(home: Home) -> None:
    """Attachments that are missing, or whose text is in blocks."""
    bare = attachment("file", uuid="x1")
    bare["attachment"] = None
    blocks = attachment(
        "queued_command", prompt=[{"type": "text", "text": "In blocks"}], uuid="x2"
    )
    records = thread(
        prompt("Hello", uuid="p1"),
        bare,
        blocks,
        attachment("hook_blocking_error", blockingError="no", uuid="x3"),
        attachment("structured_output", content={"a": 1}, uuid="x4"),
        reply("Hello.", uuid="a1"),
    )
    home.session(SESSION, records)
