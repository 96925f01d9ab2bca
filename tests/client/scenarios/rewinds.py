"""Rewinds in a terminal, of conversation and code."""

from __future__ import annotations

from collections.abc import Sequence

from tests.client.driver import ClaudeCode
from tests.client.messages_api import Answer, Script, call, say, tool
from tests.client.scenario import scenario

ACCEPT_EDITS = ("--permission-mode", "acceptEdits")
SUMMARY = "<summary>What was counted so far.</summary>"


def counting(last: int) -> Script:
    """Return a script in which each number is a prompt with an answer of its own."""
    return {f"number {n}.": [say(f"That was {n}!")] for n in range(1, last + 1)}


def count(number: int) -> tuple[str, str]:
    return f"This is number {number}.", f"That was {number}!"


def setting(number: int) -> Sequence[Answer]:
    content = f"{number}\n"
    return (
        call(tool("Write", file_path="{work}/counter.txt", content=content)),
        say(f"It is {number} now!"),
    )


@scenario(
    needs_terminal=True,
    script={f"counter to {n}.": setting(n) for n in range(1, 8)},
    tree="""
        Set the counter to 1.
        ● Set the counter to 1.
        ├╮abandoned branch 2: 2 prompts
        │ ○ Set the counter to 2.
        │ ○ Set the counter to 3.
        ● Set the counter to 4.
        ├╮abandoned branch 3: 2 prompts
        │ ○ Set the counter to 5.
        │ ○ Set the counter to 6.
        ● Set the counter to 7.
    """,
    show="""
        > Set the counter to 1.
          Write done: {work}/counter.txt
        < It is 1 now!
        > Set the counter to 4.
          Write done: {work}/counter.txt
        < It is 4 now!
        > Set the counter to 7.
          Write done: {work}/counter.txt
        < It is 7 now!
    """,
)
def rewind(client: ClaudeCode) -> None:
    """Rewinds of the conversation, of the code, and of both."""
    counter = client.work / "counter.txt"

    def read_counter() -> int:
        return int(counter.read_text())

    with client.terminal(*ACCEPT_EDITS) as terminal:

        def set_counter(number: int) -> None:
            terminal.say(f"Set the counter to {number}.", f"It is {number} now!")

        for number in (1, 2, 3):
            set_counter(number)
        terminal.rewind(2, "Restore conversation")
        terminal.clear_input()
        assert read_counter() == 3
        set_counter(4)
        set_counter(5)
        terminal.rewind(1, "Restore code")
        terminal.clear_input()
        assert read_counter() == 4
        set_counter(6)
        terminal.rewind(2, "Restore code and conversation")
        terminal.clear_input()
        assert read_counter() == 4
        set_counter(7)


@scenario(
    needs_terminal=True,
    script=counting(3),
    tree="""
        This is number 3.
        ├╮abandoned branch 2: 2 prompts
        │ ○ This is number 1.
        │ ○ This is number 2.
        ● This is number 3.
    """,
    show="""
        > This is number 3.
        < That was 3!
    """,
)
def rewind_to_start(client: ClaudeCode) -> None:
    """A rewind to before the first prompt."""
    with client.terminal(*ACCEPT_EDITS) as terminal:
        terminal.say(*count(1))
        terminal.say(*count(2))
        terminal.rewind(2, "Restore conversation")
        terminal.clear_input()
        terminal.say(*count(3))


@scenario(
    needs_terminal=True,
    script=counting(3),
    tree="""
        This is number 3.
        ├╮abandoned branch 2: 2 prompts
        │ ○ This is number 1.
        │ ○ This is number 2.
        ● This is number 3.
    """,
    show="""
        > This is number 3.
        < That was 3!
    """,
)
def rewind_to_start_after_notice(client: ClaudeCode) -> None:
    """A rewind to before the first prompt, where the new root is a notice."""
    with client.terminal() as terminal:
        terminal.say(*count(1))
    with client.terminal("-c", "--permission-mode", "bypassPermissions") as terminal:
        terminal.say(*count(2))
        terminal.rewind(2, "Restore conversation")
        terminal.clear_input()
        terminal.say(*count(3))


@scenario(
    needs_terminal=True,
    script={**counting(4), "detailed summary": [say(SUMMARY)]},
    unrecorded=1,
    tree="""
        This is number 1.
        ● This is number 1.
        ├╮abandoned branch 2: 2 prompts
        │ ○ This is number 2.
        │ ≡ compacted, manual
        │ ○ This is number 3.
        ● This is number 4.
    """,
    show="""
        > This is number 1.
        < That was 1!
        > This is number 4.
        < That was 4!
    """,
)
def rewind_before_compaction(client: ClaudeCode) -> None:
    """A rewind to a prompt from before a compaction."""
    with client.terminal(*ACCEPT_EDITS) as terminal:
        terminal.say(*count(1))
        terminal.say(*count(2))
        terminal.type("/compact")
        terminal.wait_for("Compacted")
        terminal.say(*count(3))
        terminal.rewind(3, "Restore conversation")
        terminal.clear_input()
        terminal.say(*count(4))


@scenario(
    needs_terminal=True,
    script=counting(2),
    tree="""
        This is number 1.
        ● This is number 1.
        ● This is number 2.
    """,
    show="""
        > This is number 1.
        < That was 1!
        > This is number 2.
        < That was 2!
    """,
)
def rewind_without_prompt(client: ClaudeCode) -> None:
    """A rewind that no prompt follows, which leaves no trace."""
    with client.terminal(*ACCEPT_EDITS) as terminal:
        terminal.say(*count(1))
        terminal.say(*count(2))
        terminal.rewind(1, "Restore conversation")
        terminal.clear_input()
