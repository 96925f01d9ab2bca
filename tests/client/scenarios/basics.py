"""Prompts and answers in print mode: continued, resumed, forked, and failed ones."""

from __future__ import annotations

from tests.client.driver import ClaudeCode
from tests.client.messages_api import Answer, say, text_block, thinking
from tests.client.scenario import scenario

INSTRUCTIONS = "The codeword of this project is marmalade-lighthouse.\n"


@scenario(
    is_quick=True,
    script={
        "colour of the door": [
            Answer(blocks=[thinking("Doors vary."), text_block("The door is green.")])
        ],
        "colour of the roof": [say("The roof is red.")],
        "colour of the wall": [say("The wall is white.")],
    },
    tree="""
        What is the colour of the door?
        ● What is the colour of the door?
        ● And the colour of the roof?
        ● And the colour of the wall?
    """,
    show="""
        > What is the colour of the door?
        < The door is green.
        > And the colour of the roof?
        < The roof is red.
        > And the colour of the wall?
        < The wall is white.
    """,
)
def conversation(client: ClaudeCode) -> None:
    """Three prompts: a new session, continued with -c, resumed by its id."""
    (client.work / "CLAUDE.md").write_text(INSTRUCTIONS)
    first = client.ask("What is the colour of the door?")
    client.ask("And the colour of the roof?", "-c")
    client.ask("And the colour of the wall?", "--resume", first["session_id"])


@scenario(
    is_quick=True,
    script={f"count {n}.": [say(f"Counted {n}.")] for n in range(1, 6)},
    tree=(
        """
        Please count 1.
        ● Please count 1.
        ● Please count 2.
        """,
        """
        Please count 1. (forked from session 1)
        ● Please count 1.
        ● Please count 2.
        ● Please count 3.
        ● Please count 4.
        """,
        """
        A chosen name
        ● Please count 5.
        """,
    ),
    show=(
        """
        > Please count 1.
        < Counted 1.
        > Please count 2.
        < Counted 2.
        """,
        """
        > Please count 1.
        < Counted 1.
        > Please count 2.
        < Counted 2.
        > Please count 3.
        < Counted 3.
        > Please count 4.
        < Counted 4.
        """,
        """
        > Please count 5.
        < Counted 5.
        """,
    ),
    wrong={
        "cost": "the reported cost of a fork starts with that of its parent",
    },
)
def forks(client: ClaudeCode) -> None:
    """A session forked with --fork-session, and one with a chosen id and name."""
    first = client.ask("Please count 1.")["session_id"]
    client.ask("Please count 2.", "--resume", first)
    fork = client.ask("Please count 3.", "--resume", first, "--fork-session")
    client.ask("Please count 4.", "--resume", fork["session_id"])
    chosen = ("--session-id", "0b0b0b0b-1111-4222-8333-444444444444")
    client.ask("Please count 5.", *chosen, "--name", "A chosen name")


MODELS = ("claude-sonnet-5-5", "claude-haiku-4-5", "claude-fable-5-2")


@scenario(
    is_quick=True,
    script={"Which model": [say("The one that was asked for.")]},
    tree="""
        Which model is claude-sonnet-5-5?
        ● Which model is claude-sonnet-5-5?
        ● Which model is claude-haiku-4-5?
        ● Which model is claude-fable-5-2?
    """,
    show="""
        > Which model is claude-sonnet-5-5?
        < The one that was asked for.
        > Which model is claude-haiku-4-5?
        < The one that was asked for.
        > Which model is claude-fable-5-2?
        < The one that was asked for.
    """,
)
def models(client: ClaudeCode) -> None:
    """One session in which three models answer."""
    for number, model in enumerate(MODELS):
        options = ("-c",) if number else ()
        client.ask(f"Which model is {model}?", "--model", model, *options)
