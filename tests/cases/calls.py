"""Tool calls, their results, and the edits they make."""

from __future__ import annotations

from tests.build import (
    CWD,
    SESSION,
    Home,
    Written,
    delta,
    prompt,
    reply,
    snapshot,
    text,
    thinking,
    thread,
    tool_result,
    tool_use,
)
from tests.forms import INTERRUPT, queued

_FILE = f"{CWD}/a.py"


def results_missing_and_double(home: Home) -> None:
    """A call has no result, one has two, and a result has no call."""
    records = thread(
        prompt("Try", uuid="p1"),
        reply([tool_use("Bash", id="toolu_1", command="one")], uuid="a1"),
        reply([tool_use("Bash", id="toolu_2", command="two")], uuid="a2"),
        tool_result("toolu_2", "first", uuid="r1"),
        tool_result("toolu_2", "second", uuid="r2"),
        tool_result("toolu_9", "nobody asked", uuid="r3"),
        reply("Hm.", uuid="a3"),
    )
    home.session(SESSION, records)


def results_together(home: Home) -> None:
    """One record contains two results; its structured outcome belongs to neither."""
    blocks = [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": "one"},
        {
            "type": "tool_result",
            "tool_use_id": "toolu_2",
            "content": [text("two")],
            "is_error": True,
        },
    ]
    records = thread(
        prompt("Edit both", uuid="p1"),
        reply(
            [
                tool_use("Edit", id="toolu_1", file_path=_FILE),
                tool_use("Edit", id="toolu_2", file_path=f"{CWD}/b.py"),
            ],
            uuid="a1",
        ),
        prompt(blocks, uuid="r1", toolUseResult={"filePath": f"{CWD}/other.py"}),
        reply("Half done.", uuid="a2"),
    )
    home.session(SESSION, records)


def cumulative_pieces(home: Home) -> None:
    """Each record of the reply repeats the previous blocks and adds one."""
    call = tool_use("Bash", command="ls")
    small = {"input_tokens": 10, "output_tokens": 1}
    large = {"input_tokens": 10, "output_tokens": 90}
    records = thread(
        prompt("List", uuid="p1"),
        reply([thinking("Hm")], uuid="a1", message_id="msg_1", usage=small),
        reply(
            [thinking("Hm"), text("I look.")],
            uuid="a2",
            message_id="msg_1",
            usage=large,
        ),
        reply(
            [thinking("Hm"), text("I look."), call],
            uuid="a3",
            message_id="msg_1",
            usage=small,
        ),
        tool_result("toolu_1", "files", uuid="r1"),
        reply([text("Same."), text("Same.")], uuid="a4", message_id="msg_2"),
    )
    home.session(SESSION, records)


def interleaved_answers(home: Home) -> None:
    """Records of one reply are interleaved with results and a queued prompt."""
    records = thread(
        prompt("Both", uuid="p1"),
        reply("First one.", uuid="a1", message_id="msg_1"),
        reply([_bash("1")], uuid="a2", message_id="msg_1"),
        tool_result("toolu_1", "one", uuid="r1"),
        queued("Hurry", uuid="x1"),
        reply([_bash("2")], uuid="a3", message_id="msg_1", parent="a2"),
        tool_result("toolu_2", "two", uuid="r2"),
        reply("Done.", uuid="a4", message_id="msg_2"),
        prompt("Again", uuid="p2"),
        # A gateway that gives the same id to every answer.
        reply("Done again.", uuid="a5", message_id="msg_2", requestId="req_other"),
    )
    home.session(SESSION, records)


def superseded_and_retracted(home: Home) -> None:
    """Replies that a later record replaces, or that another model gave instead."""
    records = thread(
        prompt("Write", uuid="p1"),
        reply("A draft", uuid="a1", message_id="msg_1"),
        reply("The text", uuid="a2", message_id="msg_2", supersedesUuids=["a1"]),
        prompt("More", uuid="p2"),
        reply("I may not", uuid="a3", message_id="msg_3"),
        {
            **reply("x", uuid="n1"),
            "type": "system",
            "subtype": "model_refusal_fallback",
            "content": "Another model answers",
            "retractedMessageUuids": ["a3"],
        },
        reply("Here is more", uuid="a4", message_id="msg_4"),
    )
    del records[5]["message"]
    home.session(SESSION, records)


def interrupted(home: Home) -> None:
    """Stopped while answering, while a tool ran, and by refusing a tool."""
    refusal = "The user doesn't want to proceed with this tool use."
    records = thread(
        prompt("Count", uuid="p1"),
        reply("One, two", uuid="a1", isAbortedMidStream=True),
        prompt([text(INTERRUPT)], uuid="i1"),
        prompt("Run it", uuid="p2"),
        reply([_bash("1")], uuid="a2"),
        tool_result("toolu_1", refusal, is_error=True, uuid="r1"),
        prompt([text("[Request interrupted by user for tool use]")], uuid="i2"),
        prompt("Run the other", uuid="p3"),
        reply([_bash("2")], uuid="a3"),
        tool_result("toolu_2", "exit code 1", is_error=True, uuid="r2"),
        reply("It failed.", uuid="a4"),
    )
    home.session(SESSION, records)


def stopped_refused_or_denied(home: Home) -> None:
    """A command stopped while it ran, a call refused, one denied, and one cut off."""
    refusal = "The user doesn't want to proceed with this tool use."
    asked = "touch needs approval."
    for_tool_use = "[Request interrupted by user for tool use]"
    denied: Written = {"toolDenialKind": "user-rejected"}
    rejected: Written = {"permissionDecision": {"decision": "reject"}}
    records = thread(
        prompt("Run it", uuid="p1"),
        reply([_bash("1")], uuid="a1", message_id="msg_1"),
        tool_result("toolu_1", refusal, is_error=True, uuid="r1", **denied),
        prompt([text(for_tool_use)], uuid="i1", interruptedMessageId="msg_1"),
        prompt("Run the other", uuid="p2"),
        reply([_bash("2")], uuid="a2", message_id="msg_2"),
        tool_result("toolu_2", refusal, is_error=True, uuid="r2", **denied),
        prompt([text(for_tool_use)], uuid="i2"),
        prompt("Touch it", uuid="p3"),
        reply([_bash("3")], uuid="a3", message_id="msg_3"),
        tool_result("toolu_3", asked, is_error=True, uuid="r3", **denied, **rejected),
        reply("I may not.", uuid="a4", message_id="msg_4"),
        prompt("Run it at last", uuid="p4"),
        reply([_bash("4")], uuid="a5", message_id="msg_5"),
        tool_result(
            "toolu_4",
            "[Tool call interrupted: the session ended before its result.]",
            is_error=True,
            uuid="r4",
            toolDenialKind="interrupted",
        ),
    )
    home.session(SESSION, records)


def skill_body(home: Home) -> None:
    """The body of a skill follows as a system text and belongs to its call."""
    records = thread(
        prompt("Use the skill", uuid="p1"),
        reply([tool_use("Skill", skill="tidy")], uuid="a1"),
        tool_result(
            "toolu_1",
            "Launching skill: tidy",
            outcome={"success": True, "commandName": "tidy"},
            uuid="r1",
        ),
        prompt("# Tidy\nBe tidy.", uuid="m1", isMeta=True, sourceToolUseID="toolu_1"),
        prompt("# Lost", uuid="m2", isMeta=True, sourceToolUseID="toolu_8"),
        reply("All tidy.", uuid="a2"),
    )
    home.session(SESSION, records)


def persisted_output(home: Home) -> None:
    """Long outputs are stored in the session's folder; other paths are not read."""
    place = f"/home/me/.claude/projects/-work-demo/{SESSION}/tool-results"
    records = thread(
        prompt("Print much", uuid="p1"),
        *_long("1", f"{place}/toolu_1.txt"),
        *_long("2", "/etc/passwd"),
        *_long("3", f"{place}/../../secret.txt"),
        *_long("4", "C:\\Users\\me\\.claude\\tool-results\\toolu_1.txt"),
        # Tools other than the shell name the path only in their text.
        reply([tool_use("Grep", id="toolu_5", pattern="x")], uuid="a5"),
        tool_result("toolu_5", _stands_for(f"{place}/toolu_5.txt"), uuid="r5"),
        reply("Much.", uuid="a9"),
    )
    home.session(SESSION, records)
    home.tool_result(SESSION, "toolu_5.txt", "all that was found")
    home.tool_result(SESSION, "toolu_1.txt", "all of it\nto the end")
    secret = home.path / "projects" / "-work-demo" / "secret.txt"
    secret.write_text("nobody may read this", "utf-8")


def file_edits(home: Home) -> None:
    """Writes and edits with their patches, one that failed, and one that was rewound."""
    patch = [{"oldStart": 1, "lines": [" a", "-b", "+c", "+d"]}]
    create = {"type": "create", "filePath": _FILE, "content": "a\nb\n"}
    edit = {"filePath": _FILE, "oldString": "b", "structuredPatch": patch}
    records = thread(
        snapshot("p1", {"a.py": None}),
        prompt("Write", uuid="p1"),
        reply([tool_use("Write", id="toolu_1", file_path=_FILE)], uuid="a1"),
        tool_result("toolu_1", "ok", outcome=create, uuid="r1"),
        reply("Written.", uuid="a2"),
        snapshot("p2", {"a.py": "0f1e2d3c4b5a6978@v2"}),
        prompt("Edit", uuid="p2"),
        reply([tool_use("Edit", id="toolu_2", file_path=_FILE)], uuid="a3"),
        tool_result("toolu_2", "ok", outcome=edit, uuid="r2"),
        delta("p2", "p2", "a.py", "0f1e2d3c4b5a6978@v3"),
        prompt("Edit otherwise", uuid="p3", parent="a2"),
        reply([tool_use("Edit", id="toolu_3", file_path=_FILE)], uuid="a4"),
        tool_result("toolu_3", "no such text", is_error=True, uuid="r3"),
        reply(
            [tool_use("NotebookEdit", id="toolu_4", notebook_path=f"{CWD}/n.ipynb")],
            uuid="a5",
        ),
        tool_result("toolu_4", "ok", uuid="r4"),
        reply([tool_use("Edit", id="toolu_5", file_path=_FILE)], uuid="a6"),
        # No patch is recorded, only the old and the new text.
        tool_result(
            "toolu_5",
            "ok",
            outcome={"filePath": _FILE, "oldString": "c", "newString": "d\ne"},
            uuid="r5",
        ),
    )
    home.session(SESSION, records)


def shell_edits(home: Home) -> None:
    """Commands that change files in a git tree: one, several, one without lines, none."""
    paths = [f"{CWD}/many{number}.txt" for number in range(1, 8)]
    patch = [{"oldStart": 1, "lines": [" one", "-two", "+2"]}]
    many: list[Written] = [
        {"filePath": path, "created": True, "hunks": [{"lines": ["+x"]}]}
        for path in paths[:5]
    ]
    moved: list[Written] = [
        {"filePath": f"{CWD}/before", "deleted": True, "hunks": [{"lines": ["-x"]}]},
        {"filePath": f"{CWD}/after", "created": True, "hunks": [{"lines": ["+x"]}]},
    ]
    edits: dict[str, tuple[list[Written], list[str]]] = {
        "sed -i s/two/2/ a.py": ([{"filePath": _FILE, "hunks": patch}], [_FILE]),
        "touch many": (many, paths),
        "mv before after": (moved, [f"{CWD}/before", f"{CWD}/after"]),
        "seq 20000 > big": ([], [f"{CWD}/big"]),
    }
    records = [prompt("Change files", uuid="p1")]
    for number, (command, (files, changed)) in enumerate(edits.items(), 1):
        diff = {
            "files": files,
            "moreFiles": len(changed) - len(files),
            "changedFiles": changed,
        }
        outcome = {"stdout": "", "stderr": "", "bashEditDiff": diff}
        call = tool_use("Bash", id=f"toolu_{number}", command=command)
        records += [
            reply([call], uuid=f"a{number}"),
            tool_result(f"toolu_{number}", "", outcome=outcome, uuid=f"r{number}"),
        ]
    records += [
        reply([tool_use("Bash", id="toolu_9", command="exit 3")], uuid="a9"),
        tool_result("toolu_9", "Exit code 3", is_error=True, uuid="r9"),
    ]
    home.session(SESSION, thread(*records))


def _long(number: str, path: str) -> list[dict[str, object]]:
    said = (
        f"<persisted-output>\nOutput too large. Saved to: {path}\n</persisted-output>"
    )
    outcome = {"stdout": "", "persistedOutputPath": path, "persistedOutputSize": 20}
    return [
        reply([_bash(number)], uuid=f"a{number}"),
        tool_result(f"toolu_{number}", said, outcome=outcome, uuid=f"r{number}"),
    ]


def _stands_for(path: str) -> str:
    told = f"Output too large (178.2KB). Full output saved to: {path}"
    return f"<persisted-output>\n{told}\n\nPreview:\n…\n</persisted-output>"


def _bash(number: str) -> dict[str, object]:
    return tool_use("Bash", id=f"toolu_{number}", command=f"run {number}")
