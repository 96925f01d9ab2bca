"""Compactions: by command, automatic, and from the rewind menu; /clear."""

from __future__ import annotations

from tests.client.driver import ClaudeCode
from tests.client.messages_api import say
from tests.client.scenario import scenario
from tests.client.scenarios.rewinds import ACCEPT_EDITS, SUMMARY, count, counting

SUMMARY_REQUEST = "detailed summary"
WITH_SUMMARY = {**counting(6), SUMMARY_REQUEST: [say(SUMMARY)]}


@scenario(
    is_quick=True,
    script=WITH_SUMMARY,
    unrecorded=1,
    tree="""
        This is number 1.
        ● This is number 1.
        ● This is number 2.
        ≡ compacted, manual
        ● This is number 3.
    """,
    show="""
        > This is number 1.
        < That was 1!
        > This is number 2.
        < That was 2!
        = Conversation compacted
        % /compact keep the numbers
        > This is number 3.
        < That was 3!
    """,
)
def compact(client: ClaudeCode) -> None:
    """/compact with instructions, in print mode, and a prompt after it."""
    client.ask(count(1)[0])
    client.ask(count(2)[0], "-c")
    client.ask("/compact keep the numbers", "-c")
    client.ask(count(3)[0], "-c")


@scenario(
    script={
        **counting(1),
        "number 2.": [
            say(
                "That was 2!",
                usage={"input_tokens": 990_000},
            )
        ],
        "number 3.": [say("That was 3!")],
        SUMMARY_REQUEST: [say(SUMMARY)],
    },
    unrecorded=1,
    tree="""
        This is number 1.
        ● This is number 1.
        ● This is number 2.
        ● This is number 3.
        ≡ compacted, auto
    """,
    show="""
        > This is number 1.
        < That was 1!
        > This is number 2.
        < That was 2!
        > This is number 3.
        = Conversation compacted
        < That was 3!
    """,
)
def automatic_compaction(client: ClaudeCode) -> None:
    """A full context, which the client compacts before the next prompt."""
    client.ask(count(1)[0])
    client.ask(count(2)[0], "-c")
    client.ask(count(3)[0], "-c")


@scenario(
    needs_terminal=True,
    script=WITH_SUMMARY,
    unrecorded=1,
    tree="""
        This is number 1.
        ● This is number 1.
        ● This is number 2.
        ● This is number 3.
        ● This is number 4.
        ≡ compacted, manual
        ● This is number 5.
    """,
    show="""
        > This is number 1.
        < That was 1!
        > This is number 2.
        < That was 2!
        > This is number 3.
        < That was 3!
        > This is number 4.
        < That was 4!
        = Conversation compacted
        > This is number 5.
        < That was 5!
    """,
)
def summarize_from(client: ClaudeCode) -> None:
    """ "Summarize from here": two prompts become a summary, those before stay."""
    with client.terminal(*ACCEPT_EDITS) as terminal:
        for number in (1, 2, 3, 4):
            terminal.say(*count(number))
        terminal.rewind(2, "Summarize from here")
        terminal.press("Escape", "C-u", pause=1.5)
        terminal.say(*count(5))


@scenario(
    needs_terminal=True,
    script=WITH_SUMMARY,
    unrecorded=1,
    tree="""
        This is number 1.
        ● This is number 1.
        ● This is number 2.
        ● This is number 3.
        ● This is number 4.
        ≡ compacted, manual
        ● This is number 5.
    """,
    show="""
        > This is number 1.
        < That was 1!
        > This is number 2.
        < That was 2!
        > This is number 3.
        < That was 3!
        > This is number 4.
        < That was 4!
        = Conversation compacted
        > This is number 5.
        < That was 5!
    """,
)
def summarize_up_to(client: ClaudeCode) -> None:
    """ "Summarize up to here": the first prompts become a summary, the last ones stay."""
    with client.terminal(*ACCEPT_EDITS) as terminal:
        for number in (1, 2, 3, 4):
            terminal.say(*count(number))
        terminal.rewind(2, "Summarize up to here")
        terminal.press("Escape", "C-u", pause=1.5)
        terminal.say(*count(5))


@scenario(
    needs_terminal=True,
    script=counting(2),
    tree=(
        """
        This is number 1.
        ● This is number 1.
        """,
        """
        This is number 2.
        ● /clear
        ● This is number 2.
        """,
    ),
    show=(
        """
        > This is number 1.
        < That was 1!
        """,
        """
        % /clear
        > This is number 2.
        < That was 2!
        """,
    ),
)
def clear(client: ClaudeCode) -> None:
    """/clear, after which a second session starts."""
    with client.terminal(*ACCEPT_EDITS) as terminal:
        terminal.say(*count(1))
        terminal.type("/clear")
        terminal.pause(2)
        terminal.say(*count(2))
