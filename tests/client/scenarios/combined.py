"""Several features in one session: rewinds, compactions, agents, hooks, plans."""

from __future__ import annotations

import json
import struct
import zlib

from tests.client.driver import ClaudeCode
from tests.client.messages_api import call, say, tool
from tests.client.scenario import scenario
from tests.client.scenarios.calls import ALLOW_ALL, agent, shell
from tests.client.scenarios.compactions import SUMMARY_REQUEST
from tests.client.scenarios.interface import command_hook
from tests.client.scenarios.rewinds import (
    ACCEPT_EDITS,
    SUMMARY,
    count,
    counting,
    setting,
)


@scenario(
    needs_terminal=True,
    script={
        **{f"counter to {n}.": setting(n) for n in range(1, 9)},
        SUMMARY_REQUEST: [say(SUMMARY)],
    },
    unrecorded=2,
    tree="""
        Set the counter to 1.
        ● Set the counter to 1.
        ├╮abandoned branch 2: 3 prompts
        │ ○ Set the counter to 2.
        │ ≡ compacted, manual
        │ ○ Set the counter to 3.
        │ ├╮abandoned branch 3: 1 prompt
        │ │ ○ Set the counter to 4.
        │ ○ Set the counter to 5.
        ● Set the counter to 6.
        ≡ compacted, manual
        ├╮abandoned branch 4: 1 prompt
        │ ○ Set the counter to 7.
        ● Set the counter to 8.
    """,
    show="""
        > Set the counter to 1.
          Write done: {work}/counter.txt
        < It is 1 now!
        > Set the counter to 6.
          Write done: {work}/counter.txt
        < It is 6 now!
        = Conversation compacted
        % /compact
        > Set the counter to 8.
          Write done: {work}/counter.txt
        < It is 8 now!
    """,
)
def rewinds_around_compactions(client: ClaudeCode) -> None:
    """Rewinds after a compaction, across it, and a second compaction."""
    counter = client.work / "counter.txt"
    with client.terminal(*ACCEPT_EDITS) as terminal:

        def set_counter(number: int) -> None:
            terminal.say(f"Set the counter to {number}.", f"It is {number} now!")

        def compact() -> None:
            terminal.type("/compact")
            terminal.wait_for("Compacted")
            terminal.pause(0.5)

        set_counter(1)
        set_counter(2)
        compact()
        set_counter(3)
        set_counter(4)
        terminal.rewind(1, "Restore code and conversation")
        terminal.clear_input()
        assert counter.read_text() == "3\n"
        set_counter(5)
        terminal.rewind(4, "Restore conversation")
        terminal.clear_input()
        set_counter(6)
        terminal.press("C-l", pause=1)
        compact()
        set_counter(7)
        terminal.rewind(1, "Restore conversation")
        terminal.clear_input()
        set_counter(8)


@scenario(
    needs_terminal=True,
    script={
        "Send an agent": [
            call(agent("long", "WORK FOR LONG")),
            say("It works."),
            say("It was stopped."),
        ],
        "WORK FOR LONG": [
            call(shell("echo agent at work; sleep 60")),
            say("This is never said."),
        ],
        "Ask me": [
            call(tool("Write", file_path="{work}/asked.txt", content="yes\n")),
            say("You said no."),
        ],
        **counting(3),
    },
    tree="""
        Send an agent.
        ● Send an agent.
        │ ◆ general-purpose: long
        ● This is number 1.
        ● Ask me.
        ├╮abandoned branch 2: 1 prompt
        │ ○ This is number 2.
        ● This is number 3.
    """,
    show="""
        > Send an agent.
          Agent done: long
        < It works.
        ! Background agent "long" was stopped by the user.
        < It was stopped.
        > This is number 1.
        < That was 1!
        > Ask me.
          Write refused: {work}/asked.txt
        ! [Request interrupted by user for tool use]
        > This is number 3.
        < That was 3!
    """,
)
def stopped_agent(client: ClaudeCode) -> None:
    """A background agent that is stopped, a refusal, and a rewind to after it."""
    options = ("--permission-mode", "default", "--allowedTools", "Bash", "Agent")
    with client.terminal(*options, ready="? for shortcuts") as terminal:
        terminal.type("Send an agent.")
        terminal.wait_for("It works.")
        terminal.pause(2)
        terminal.press("C-x", "C-k", pause=0.5)
        terminal.press("C-x", "C-k", pause=2)
        terminal.say(*count(1))
        terminal.type("Ask me.")
        terminal.wait_for("Do you want")
        terminal.pause(1)
        terminal.press("Escape", pause=1.5)
        terminal.say(*count(2))
        terminal.rewind(1, "Restore conversation")
        terminal.clear_input()
        terminal.say(*count(3))


def picture() -> bytes:
    """Return a PNG of 8 by 8 red pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checksum = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + checksum

    rows = zlib.compress((b"\0" + b"\xff\0\0" * 8) * 8)
    header = struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)
    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


@scenario(
    needs_terminal=True,
    script={
        "See the picture": [
            call(tool("Read", file_path="{work}/dot.png")),
            say("A red square."),
        ],
        "Run it later": [
            call(
                tool(
                    "Bash",
                    command="sleep 2; echo ready",
                    description="Wait",
                    run_in_background=True,
                )
            ),
            say("It was started."),
            say("It has finished."),
        ],
        "Plan this": [
            call(tool("ExitPlanMode", plan="# Plan\n1. Begin.\n")),
            say("The plan was carried out."),
        ],
        **counting(4),
    },
    tree=(
        """
        See the picture.
        ● See the picture.
        ● Run it later.
        """,
        """
        This is number 1.
        ● /clear
        ● This is number 1.
        ● Plan this.
        ● This is number 2.
        ● This is number 3.
        """,
    ),
    show=(
        """
        > See the picture.
          Read done: {work}/dot.png
        ! Failed with non-blocking status code: noise
        < A red square.
        > Run it later.
          Bash done: sleep 2; echo ready
        ! Failed with non-blocking status code: noise
        < It was started.
        # Background command "Wait" completed (exit code 0)
        < It has finished.
        """,
        """
        % /clear
        > This is number 1.
        < That was 1!
        > Plan this.
          ExitPlanMode done: # Plan
        ! Failed with non-blocking status code: noise
        < The plan was carried out.
        > This is number 2.
        < That was 2!
        > This is number 3.
        < That was 3!
        """,
    ),
)
def hooks_and_plans(client: ClaudeCode) -> None:
    """Failing hooks, an image, a background command, /clear, a plan, and --continue."""
    folder = client.work / ".claude"
    folder.mkdir()
    hooks = {
        "PostToolUse": command_hook("echo noise >&2; exit 1"),
        "UserPromptSubmit": command_hook("echo a note from a hook"),
        "Stop": command_hook("true"),
    }
    (folder / "settings.json").write_text(json.dumps({"hooks": hooks}))
    (client.work / "dot.png").write_bytes(picture())
    with client.terminal(*ALLOW_ALL) as terminal:
        terminal.say("See the picture.", "A red square.")
        terminal.type("Run it later.")
        terminal.wait_for("It has finished.")
        terminal.pause(0.5)
        terminal.type("/clear")
        terminal.pause(2)
        terminal.say(*count(1))
    with client.terminal("--continue", "--permission-mode", "plan") as terminal:
        terminal.type("Plan this.")
        terminal.wait_for("Exit plan mode?")
        terminal.pause(1)
        terminal.press("1", pause=1)
        terminal.wait_for("The plan was carried out.")
        terminal.say(*count(2))
    client.ask(count(3)[0], "-c", "--model", "claude-haiku-4-5")
