"""Forks of forks, hooks that block, and a client that is killed."""

from __future__ import annotations

import json

from tests.client.driver import ClaudeCode
from tests.client.messages_api import call, say, tool
from tests.client.scenario import scenario
from tests.client.scenarios.calls import ALLOW_ALL, shell
from tests.client.scenarios.compactions import SUMMARY_REQUEST
from tests.client.scenarios.rewinds import ACCEPT_EDITS, SUMMARY, count, counting


@scenario(
    needs_terminal=True,
    script={**counting(9), SUMMARY_REQUEST: [say(SUMMARY)]},
    unrecorded=1,
    tree=(
        """
        This is number 1.
        ● This is number 1.
        ● This is number 2.
        ● This is number 8.
        """,
        """
        This is number 1. (forked from session 1)
        ● This is number 1.
        ● This is number 2.
        ├╮abandoned branch 2: 2 prompts
        │ ○ This is number 3.
        │ ○ This is number 4.
        ● This is number 5.
        """,
        """
        side (forked from session 2)
        ● This is number 1.
        ● This is number 2.
        ● This is number 5.
        ● This is number 6.
        ≡ compacted, manual
        ● This is number 7.
        """,
    ),
    show=(
        """
        > This is number 1.
        < That was 1!
        > This is number 2.
        < That was 2!
        > This is number 8.
        < That was 8!
        """,
        """
        > This is number 1.
        < That was 1!
        > This is number 2.
        < That was 2!
        > This is number 5.
        < That was 5!
        """,
        """
        > This is number 1.
        < That was 1!
        > This is number 2.
        < That was 2!
        > This is number 5.
        < That was 5!
        % /branch side
        > This is number 6.
        < That was 6!
        = Conversation compacted
        % /compact
        > This is number 7.
        < That was 7!
        """,
    ),
)
def fork_of_a_fork(client: ClaudeCode) -> None:
    """A fork with a rewind, a branch of it, and a compaction in that."""
    first = client.ask(count(1)[0])["session_id"]
    client.ask(count(2)[0], "--resume", first)
    options = ("--resume", first, "--fork-session", *ACCEPT_EDITS)
    with client.terminal(*options) as terminal:
        terminal.pause(1)
        terminal.say(*count(3))
        terminal.say(*count(4))
        terminal.rewind(2, "Restore conversation")
        terminal.clear_input()
        terminal.say(*count(5))
        terminal.type("/branch side")
        terminal.pause(2.5)
        terminal.say(*count(6))
        terminal.type("/compact")
        terminal.wait_for("Compacted")
        terminal.pause(0.5)
        terminal.say(*count(7))
    client.ask(count(8)[0], "--resume", first)


def hook(command: str, matcher: str = "") -> list[dict[str, object]]:
    return [{"matcher": matcher, "hooks": [{"type": "command", "command": command}]}]


@scenario(
    needs_terminal=True,
    script={
        "Run a command": [
            call(shell("echo forbidden")),
            say("It was blocked."),
        ],
        "Write it": [
            call(tool("Write", file_path="{work}/a.txt", content="one\n")),
            say("Written."),
        ],
        "Stop at once": [say("I stop."), say("I did what the hook wants.")],
        **counting(2),
    },
    tree="""
        This is number 1.
        ● This is number 1.
        ● Run a command.
        ● Write it.
        ● Stop at once.
        ● This is number 2.
    """,
    show="""
        > This is number 1.
        < That was 1!
        > Run a command.
          Bash denied: echo forbidden
        < It was blocked.
        > Write it.
          Write done: {work}/a.txt
        < Written.
        > Stop at once.
        < I stop.
        < I did what the hook wants.
        > This is number 2.
        < That was 2!
    """,
)
def blocking_hooks(client: ClaudeCode) -> None:
    """Hooks that block a prompt, a call, and the end of a turn."""
    folder = client.work / ".claude"
    folder.mkdir()
    block_prompt = (
        'grep -q "secret plan" && { echo no such prompts >&2; exit 2; }; true'
    )
    block_stop = (
        'grep -q "\\"stop_hook_active\\":true" && exit 0;'
        " test -e stop && { rm stop; echo not yet >&2; exit 2; }; true"
    )
    hooks = {
        "UserPromptSubmit": hook(block_prompt),
        "PreToolUse": hook("echo commands are forbidden >&2; exit 2", "Bash"),
        "Stop": hook(block_stop),
    }
    (folder / "settings.json").write_text(json.dumps({"hooks": hooks}))
    with client.terminal(*ALLOW_ALL) as terminal:
        terminal.say(*count(1))
        terminal.type("Tell me the secret plan.")
        terminal.pause(2)
        terminal.press("C-u")
        terminal.say("Run a command.", "It was blocked.")
        terminal.say("Write it.", "Written.")
        (client.work / "stop").touch()
        terminal.type("Stop at once.")
        terminal.wait_for("I did what the hook wants.")
        terminal.pause(1)
        terminal.say(*count(2))


@scenario(
    script={
        "Work for long": [
            call(shell("touch started; sleep 60; echo finished")),
            say("This is never said."),
        ],
        **counting(2),
    },
    tree="""
        This is number 1.
        ● This is number 1.
        ● Work for long.
        ● This is number 2.
    """,
    show="""
        > This is number 1.
        < That was 1!
        > Work for long.
          Bash interrupted: touch started; sleep 60; echo finished
        > This is number 2.
        < That was 2!
    """,
)
def killed(client: ClaudeCode) -> None:
    """A client that is killed while a command runs, and continued."""
    client.ask(count(1)[0])
    path = client.work / "started"
    client.ask_and_kill("Work for long.", path, "-c", *ALLOW_ALL)
    client.ask(count(2)[0], "-c")
