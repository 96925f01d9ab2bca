"""Trees with branches or gaps that are not rewinds."""

from __future__ import annotations

from tests.build import (
    SESSION,
    Home,
    attachment,
    moment,
    progress,
    prompt,
    reply,
    session,
    system,
    text,
    thread,
    tool_result,
    tool_use,
)
from tests.forms import api_error, caveat, command, filler, notification, printed


def linear(home: Home) -> None:
    """One prompt after another."""
    home.session(SESSION, session("p1", "a1<p1", "p2<a1", "a2<p2"))


def parallel_linear(home: Home) -> None:
    """Up to 2.0, parallel calls and their results are in one line."""
    records = thread(
        prompt("Look at three files", uuid="p1"),
        reply("I look.", uuid="a1", message_id="msg_1"),
        reply([_read("1")], uuid="a2", message_id="msg_1"),
        reply([_read("2")], uuid="a3", message_id="msg_1"),
        reply([_read("3")], uuid="a4", message_id="msg_1"),
        tool_result("toolu_1", "one", uuid="r1"),
        tool_result("toolu_2", "two", uuid="r2"),
        tool_result("toolu_3", "three", uuid="r3"),
        reply("They count.", uuid="a5", message_id="msg_2"),
        prompt("Thanks", uuid="p2"),
        reply("Any time.", uuid="a6", message_id="msg_3"),
    )
    home.session(SESSION, [record | {"version": "2.0.74"} for record in records])


def parallel_fan_out(home: Home) -> None:
    """From 2.1 each result is a child of its call; the last one is continued."""
    records = thread(
        prompt("Look at three files", uuid="p1"),
        reply([_read("1")], uuid="a1", message_id="msg_1"),
        reply([_read("2")], uuid="a2", message_id="msg_1"),
        reply([_read("3")], uuid="a3", message_id="msg_1"),
        tool_result("toolu_2", "two", uuid="r2", parent="a2"),
        tool_result("toolu_3", "three", uuid="r3", parent="a3"),
        tool_result("toolu_1", "one", uuid="r1", parent="a1"),
        reply("They count.", uuid="a4", message_id="msg_2"),
        prompt("Two more", uuid="p2"),
        reply([_read("4")], uuid="a5", message_id="msg_3"),
        reply([_read("5")], uuid="a6", message_id="msg_3"),
        tool_result("toolu_5", "five", uuid="r5", parent="a6"),
        tool_result("toolu_4", "four", uuid="r4", parent="a5"),
        reply("Five in all.", uuid="a7", message_id="msg_4", parent="r5"),
        prompt("Thanks", uuid="p3"),
        reply("Any time.", uuid="a8", message_id="msg_5"),
    )
    home.session(SESSION, records)


def side_nodes(home: Home) -> None:
    """Progress, attachments and notices are siblings of the live path."""
    records = thread(
        attachment("skill_listing", content="many", uuid="x0"),
        prompt("Build it", uuid="p1"),
        attachment("todo_reminder", content="", uuid="x1"),
        reply([tool_use("Bash", command="make")], uuid="a1", parent="p1"),
        progress("bash_progress", output="cc", uuid="g1"),
        progress("hook_progress", hookName="Stop", uuid="g2", parent="a1"),
        tool_result("toolu_1", "built", uuid="r1", parent="a1"),
        attachment("hook_success", hookName="PostToolUse", uuid="x2", parent="r1"),
        reply("It is built.", uuid="a2", parent="r1"),
        system("stop_hook_summary", hookCount=1, uuid="n1", parent="a2"),
        system("turn_duration", durationMs=7500, uuid="n2", parent="n1"),
        prompt("Run it", uuid="p2", parent="a2"),
        reply("It runs.", uuid="a3"),
        system("away_summary", "It was built and runs.", uuid="n3"),
        prompt("Good", uuid="p3", parent="a3"),
        reply("Yes.", uuid="a4"),
    )
    home.session(SESSION, records)


def retry_after_error(home: Home) -> None:
    """A prompt is sent again after an API error, and is a sibling of the first one."""
    records = thread(
        prompt("Hello", uuid="p1"),
        reply("Hello.", uuid="a1"),
        prompt("Count to three", uuid="p2"),
        system("api_error", "overloaded", retryAttempt=1, uuid="n1"),
        api_error("API Error: 529 overloaded", uuid="e1"),
        prompt("Count to three", uuid="p3", parent="a1"),
        reply("One, two, three.", uuid="a2"),
        prompt("And four", uuid="p4"),
        reply("Four.", uuid="a3"),
    )
    home.session(SESSION, records)


def answer_tried_again(home: Home) -> None:
    """Two replies have the same prompt: the first was cut off and requested again."""
    records = thread(
        prompt("Tell me a story", uuid="p1"),
        reply("Once", uuid="a1", message_id="msg_1", isAbortedMidStream=True),
        reply("Once upon a time.", uuid="a2", message_id="msg_2", parent="p1"),
        prompt("Go on", uuid="p2"),
        reply("They lived.", uuid="a3", message_id="msg_3"),
    )
    home.session(SESSION, records)


def late_notification(home: Home) -> None:
    """The notification of a task's end is a child of the record that started it."""
    launched = {"status": "async_launched", "backgroundTaskId": "b1"}
    records = thread(
        prompt("Start the server", uuid="p1"),
        reply([tool_use("Bash", command="serve")], uuid="a1"),
        tool_result("toolu_1", "started", outcome=launched, uuid="r1"),
        reply("It is starting.", uuid="a2"),
        prompt("Meanwhile, count", uuid="p2"),
        reply("One, two.", uuid="a3"),
        notification("b1", "completed", "toolu_1", uuid="n1", parent="a2"),
        reply("The server has ended.", uuid="a4"),
        prompt("Start it again", uuid="p3"),
        reply("Done.", uuid="a5"),
    )
    home.session(SESSION, records)


def dangling_parents(home: Home) -> None:
    """Some records were never written; their children continue in file order."""
    records = session(
        "p1", "a1<p1", "p2<gone", "a2<p2", "a3<lost:assistant", "p3<a3", "a4<p3"
    )
    home.session(SESSION, records)


def caveat_as_parent(home: Home) -> None:
    """1.0.35 to 1.0.57 attached every later command to the first caveat."""
    records = thread(
        prompt("Hello", uuid="p1"),
        reply("Hello.", uuid="a1"),
        caveat(uuid="c1"),
        command("/model", "opus", uuid="k1"),
        printed("Set model to opus", uuid="o1"),
        prompt("Which model are you?", uuid="p2"),
        reply("Opus.", uuid="a2"),
        command("/cost", uuid="k2", parent="c1"),
        printed("Little", uuid="o2"),
        prompt("Good", uuid="p3"),
        reply("Yes.", uuid="a3"),
        command("/model", "sonnet", uuid="k3", parent="c1"),
        printed("Set model to sonnet", uuid="o3"),
        prompt("And now?", uuid="p4"),
        reply("Sonnet.", uuid="a4"),
        prompt("<bash-input>ls</bash-input>", uuid="b1", parent="c1"),
        prompt("<bash-stdout>a.py</bash-stdout><bash-stderr></bash-stderr>", uuid="b2"),
        prompt("What is in it?", uuid="p5"),
        reply("Code.", uuid="a5"),
    )
    home.session(SESSION, [record | {"version": "1.0.51"} for record in records])


def interrupted_at_one_time(home: Home) -> None:
    """Old versions gave all copied records of a resumed file the same time."""
    stop = "[Request interrupted by user]"
    records = thread(
        prompt("Hello", uuid="p1"),
        prompt([text(stop)], uuid="i1"),
        prompt("Hello again", uuid="p2"),
        prompt([text(stop)], uuid="i2"),
        prompt("And again", uuid="p3"),
        reply("Yes.", uuid="a3"),
    )
    home.session(
        SESSION, [record | {"timestamp": records[0]["timestamp"]} for record in records]
    )


def exit_beside_filler(home: Home) -> None:
    """``/exit`` is a sibling of the empty reply that the resumed session continues."""
    records = thread(
        prompt("Hello", uuid="p1"),
        reply("Hello.", uuid="a1"),
        caveat(uuid="c1"),
        command("/exit", uuid="k1"),
        printed("Bye!", uuid="o1"),
        filler(uuid="s1", parent="a1"),
        prompt("I am back", uuid="p2"),
        reply("Welcome.", uuid="a2"),
    )
    home.session(SESSION, records)


def two_writers(home: Home) -> None:
    """Two terminals resumed one session; both branches continue."""
    records = thread(
        prompt("Hello", uuid="p1"),
        reply("Hello.", uuid="a1"),
        prompt("Left", uuid="p2"),
        prompt("Right", uuid="p3", parent="a1"),
        reply("Left it is.", uuid="a2", parent="p2"),
        reply("Right it is.", uuid="a3", parent="p3"),
        prompt("More left", uuid="p4", parent="a2"),
        prompt("More right", uuid="p5", parent="a3"),
        reply("More of the left.", uuid="a4", parent="p4"),
        reply("More of the right.", uuid="a5", parent="p5"),
    )
    home.session(SESSION, records)


def pieces_apart(home: Home) -> None:
    """Results are written between the calls of one reply."""
    records = thread(
        prompt("Two things", uuid="p1"),
        reply([text("Both.")], uuid="a1", message_id="msg_1"),
        reply([_read("1")], uuid="a2", message_id="msg_1"),
        tool_result("toolu_1", "one", uuid="r1"),
        reply([_read("2")], uuid="a3", message_id="msg_1", parent="a2"),
        tool_result("toolu_2", "two", uuid="r2", timestamp=moment(3)),
        reply("Done.", uuid="a4", message_id="msg_2"),
    )
    home.session(SESSION, records)


def _read(number: str) -> dict[str, object]:
    return tool_use("Read", id=f"toolu_{number}", file_path=f"/work/demo/{number}.txt")
