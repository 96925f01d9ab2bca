"""Rewinds, and records that only look like one."""

from __future__ import annotations

from tests.build import (
    SESSION,
    Home,
    Written,
    attachment,
    compact,
    image,
    meta,
    moment,
    prompt,
    queue,
    reply,
    session,
    system,
    text,
    thread,
    tool_result,
    tool_use,
)
from tests.forms import INTERRUPT, command, digest, printed


def rewind_plain(home: Home) -> None:
    """The third prompt has the same parent as the second, and continues there."""
    records = session(
        "p1", "a1<p1", "p2<a1", "a2<p2", "p3<a1", "a3<p3", "p4<a3", "a4<p4"
    )
    home.session(SESSION, records)


def rewind_twice(home: Home) -> None:
    """Two rewinds to the same record, and one within an abandoned branch."""
    records = session(
        *("p1", "a1<p1", "p2<a1", "a2<p2", "p3<a2", "a3<p3"),
        *("p4<a2", "a4<p4", "p5<a1", "a5<p5", "p6<a1", "a6<p6"),
    )
    home.session(SESSION, records)


def rewind_parallel(home: Home) -> None:
    """A rewind to before a reply with parallel calls, whose results fan out."""
    records = thread(
        prompt("Look at both", uuid="p1"),
        reply([_read("1")], uuid="a1", message_id="msg_1"),
        reply([_read("2")], uuid="a2", message_id="msg_1"),
        tool_result("toolu_1", "one", uuid="r1", parent="a1"),
        tool_result("toolu_2", "two", uuid="r2", parent="a2"),
        reply("Both read.", uuid="a3", message_id="msg_2", parent="r1"),
        prompt("Delete them", uuid="p2"),
        reply([_read("3")], uuid="a4", message_id="msg_3"),
        reply([_read("4")], uuid="a5", message_id="msg_3"),
        tool_result("toolu_3", "three", uuid="r3", parent="a4"),
        tool_result("toolu_4", "four", uuid="r4", parent="a5"),
        reply("Deleted.", uuid="a6", message_id="msg_4"),
        prompt("Keep them", uuid="p3", parent="a3"),
        reply("Kept.", uuid="a7", message_id="msg_5"),
    )
    home.session(SESSION, records)


def rewind_to_start(home: Home) -> None:
    """A prompt in the middle of the file has no parent: a rewind to the start."""
    records = session("p1", "a1<p1", "p2<a1", "a2<p2", "p3", "a3<p3")
    told = meta("last-prompt", lastPrompt="p3", leafUuid=None, explicit=True)
    home.session(SESSION, [*records, told])


def rewind_to_start_with_hooks(home: Home) -> None:
    """A rewind to the start, where the first prompt is a child of a hook's output."""
    records = [
        attachment("hook_additional_context", uuid="x1"),
        *_later(1, session("p1<x1:user", "a1<p1", "p2<a1", "a2<p2", "p3", "a3<p3")),
    ]
    home.session(SESSION, records)


def rewind_to_start_below_a_notice(home: Home) -> None:
    """A rewind to the start, where the new first prompt is a child of a notice."""
    records = [
        *session("p1", "a1<p1", "p2<a1", "a2<p2"),
        *_later(4, [system("informational", "Auto mode is on", uuid="n1")]),
        *_later(5, session("p3<n1:user")),
        _mark(),
        *_later(6, session("a3<p3:assistant")),
    ]
    home.session(SESSION, records)


def notice_without_a_parent(home: Home) -> None:
    """A notice without a parent is not a rewind: the client would have marked it."""
    records = [
        *session("p1", "a1<p1"),
        *_later(2, [system("informational", "A new version is out", uuid="n1")]),
        *_later(3, session("p2<n1:user", "a2<p2")),
    ]
    home.session(SESSION, records)


def went_back_to_the_first_branch(home: Home) -> None:
    """The last leaf that the client noted is on the older branch: that one is live."""
    records = [
        *session("p1", "a1<p1", "p2<a1", "a2<p2", "p3<a1:user", "a3<p3"),
        meta("last-prompt", lastPrompt="p2", leafUuid="a2"),
    ]
    home.session(SESSION, records)


def _mark() -> Written:
    """Return the record that the client writes with the first prompt after a rewind."""
    nil = "00000000-0000-0000-0000-000000000000"
    return meta("last-prompt", leafUuid=nil, explicit=True)


def rewind_behind_compaction(home: Home) -> None:
    """A rewind to a record from before a compaction."""
    records = [
        *session("p1", "a1<p1", "p2<a1", "a2<p2"),
        compact("a2", uuid="b1") | {"timestamp": moment(4)},
        digest(uuid="s1", parent="b1", timestamp=moment(5)),
        *_later(6, session("p3<s1:user", "a3<p3", "p4<a1:user", "a4<p4")),
    ]
    home.session(SESSION, records)


def rewind_behind_relinks(home: Home) -> None:
    """A rewind to before records that a compaction kept and gave another parent."""
    first = session("p1", "a1<p1", "p2<a1", "a2<p2")
    records = [
        *first,
        compact("a2", uuid="b1") | {"timestamp": moment(4)},
        digest(uuid="s1", parent="b1", timestamp=moment(5)),
        first[2] | {"parentUuid": "s1"},
        first[3],
        *_later(6, session("p3<a2:user", "a3<p3", "p4<a1:user", "a4<p4")),
    ]
    home.session(SESSION, records)


def rewind_before_compaction(home: Home) -> None:
    """A branch is abandoned, and the other one compacted: the first stays abandoned."""
    records = [
        *session("p1", "a1<p1", "p2<a1", "a2<p2", "p3<a1", "a3<p3"),
        compact("a3", uuid="b1") | {"timestamp": moment(6)},
        digest(uuid="s1", parent="b1", timestamp=moment(7)),
        *_later(8, session("p4<s1:user", "a4<p4")),
    ]
    home.session(SESSION, records)


def first_prompt_edited(home: Home) -> None:
    """The first prompt is edited, below the records that the client wrote before it."""
    records = [
        attachment("session_context", uuid="x0"),
        *_later(1, session("p1<x0:user", "a1<p1", "p2<x0:user", "a2<p2", "p3<a2")),
    ]
    home.session(SESSION, records)


def prompt_pulled_back(home: Home) -> None:
    """A prompt was taken back into the editor before Claude answered."""
    records = [
        *session("p1", "a1<p1", "p2<a1", "p3<a1", "a3<p3"),
        *_later(5, session("p4<a3:user", "p5<a3:user", "a5<p5")),
    ]
    records[5]["message"]["content"] = "the same words"
    records[6]["message"]["content"] = "the same words"
    home.session(SESSION, records)


def rewind_after_interrupt(home: Home) -> None:
    """Claude was interrupted, and the user rewound to before the prompt."""
    records = thread(
        prompt("Hello", uuid="p1"),
        reply("Hello.", uuid="a1"),
        prompt("Count to a million", uuid="p2"),
        reply("One, two", uuid="a2"),
        prompt([text(INTERRUPT)], uuid="i1"),
        prompt("Count to ten", uuid="p3", parent="a1"),
        reply("One to ten.", uuid="a3"),
    )
    home.session(SESSION, records)


def rewind_to_command(home: Home) -> None:
    """The abandoned branch starts with a command that Claude answered."""
    records = thread(
        prompt("Hello", uuid="p1"),
        reply("Hello.", uuid="a1"),
        command("/review", "all of it", uuid="k1"),
        prompt("Review all of it, please.", uuid="m1", isMeta=True),
        reply("It is fine.", uuid="a2"),
        prompt("Never mind", uuid="p2", parent="a1"),
        reply("As you like.", uuid="a3"),
    )
    home.session(SESSION, records)


def command_in_passing(home: Home) -> None:
    """A command without a reply is a sibling of the prompt: nothing was abandoned."""
    records = thread(
        prompt("Hello", uuid="p1"),
        reply("Hello.", uuid="a1"),
        command("/cost", uuid="k1"),
        printed("Little", uuid="o1"),
        prompt("Go on", uuid="p2", parent="a1"),
        reply("Gladly.", uuid="a2"),
        command("/cost", uuid="k2", parent="a1"),
        printed("More", uuid="o2"),
    )
    home.session(SESSION, records)


def steering_left_behind(home: Home) -> None:
    """A prompt that was typed while Claude worked stays on the abandoned branch."""
    records = thread(
        prompt("Hello", uuid="p1"),
        reply("Hello.", uuid="a1"),
        prompt("Work", uuid="p2"),
        reply([_read("1")], uuid="a2"),
        queue("enqueue", "Hurry"),
        queue("remove"),
        tool_result("toolu_1", "one", uuid="r1"),
        reply("Done.", uuid="a3"),
        prompt("Rest", uuid="p3", parent="a1"),
        reply("I rest.", uuid="a4"),
    )
    home.session(SESSION, records)


def queued_prompt_on_stale_parent(home: Home) -> None:
    """The parent of a queued prompt is the record that was last when it was typed."""
    records = thread(
        prompt("Hello", uuid="p1"),
        reply("Hello.", uuid="a1"),
        queue("enqueue", "First this"),
        queue("enqueue", "Then that"),
        queue("dequeue"),
        prompt("First this", uuid="p2", parent="a1"),
        reply("This is done.", uuid="a2"),
        queue("dequeue"),
        prompt("Then that", uuid="p3", parent="a1"),
        reply("That is done.", uuid="a3"),
        prompt("Good", uuid="p4"),
        reply("Yes.", uuid="a4"),
    )
    home.session(SESSION, records)


def rewind_to_queued_prompt(home: Home) -> None:
    """The same prompt was queued before; typed again after a rewind it is a branch."""
    records = thread(
        prompt("Hello", uuid="p1"),
        reply("Hello.", uuid="a1"),
        queue("enqueue", "Go on"),
        queue("dequeue"),
        prompt("Go on", uuid="p2", parent="a1"),
        reply("I went on.", uuid="a2"),
        prompt("Stop", uuid="p3"),
        reply("Stopped.", uuid="a3"),
        prompt("Go on", uuid="p4", parent="a2"),
        reply("I went on again.", uuid="a4"),
    )
    home.session(SESSION, records)


def replayed_history(home: Home) -> None:
    """An editor resumed and wrote the history again, with new ids and old timestamps."""
    first = thread(
        prompt([text("See this"), image(), text("and that")], uuid="p1"),
        reply("I see.", uuid="a1", message_id="msg_1"),
        reply([_read("1")], uuid="a2", message_id="msg_1"),
        tool_result("toolu_1", "one", uuid="r1"),
        reply("Read.", uuid="a3", message_id="msg_2"),
    )
    again = [
        prompt([text("See this")], uuid="q1", timestamp=moment(0)),
        prompt([image()], uuid="q2", parent="q1", timestamp=moment(0)),
        prompt([text("and that")], uuid="q3", parent="q2", timestamp=moment(0)),
        *(
            record | {"uuid": uuid, "parentUuid": parent}
            for record, uuid, parent in (
                (first[1], "c1", "q3"),
                (first[2], "c2", "c1"),
                (first[3], "s1", "c2"),
                (first[4], "c3", "s1"),
            )
        ),
    ]
    more = thread(
        prompt("Go on", uuid="p2", parent="c3"),
        reply("Gladly.", uuid="a4", message_id="msg_3"),
        start=60,
    )
    home.session(SESSION, [*first, *again, *more])


def _later(seconds: int, records: list[Written]) -> list[Written]:
    """Return records with timestamps shifted by a number of seconds."""
    return [
        record | {"timestamp": moment(seconds + number)}
        for number, record in enumerate(records)
    ]


def _read(number: str) -> Written:
    return tool_use("Read", id=f"toolu_{number}", file_path=f"/work/demo/{number}.txt")
