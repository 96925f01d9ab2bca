"""Prompts and answers in print mode: continued, resumed, forked, and failed ones."""

from __future__ import annotations

from tests.client.driver import ClaudeCode
from tests.client.messages_api import Answer, say, text_block, thinking
from tests.client.scenario import scenario

INSTRUCTIONS = "The codeword of this project is marmalade-lighthouse.\n"


@scenario(
    is_quick=True,
    script={
        "color of the door": [
            Answer(blocks=[thinking("Doors vary."), text_block("The door is green.")])
        ],
        "color of the roof": [say("The roof is red.")],
        "color of the wall": [say("The wall is white.")],
    },
    tree="""
        What is the color of the door?
        ● What is the color of the door?
        ● And the color of the roof?
        ● And the color of the wall?
    """,
    show="""
        > What is the color of the door?
        < The door is green.
        > And the color of the roof?
        < The roof is red.
        > And the color of the wall?
        < The wall is white.
    """,
)
def conversation(client: ClaudeCode) -> None:
    """Three prompts: a new session, continued with -c, resumed by its id."""
    (client.work / "CLAUDE.md").write_text(INSTRUCTIONS)
    first = client.ask("What is the color of the door?")
    client.ask("And the color of the roof?", "-c")
    client.ask("And the color of the wall?", "--resume", first["session_id"])


@scenario(
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


@scenario(
    script={
        "busy twice": [say("It went through.", statuses=(529, 500))],
        "bad request": [say("This is never said.", statuses=(400,) * 9)],
        "long answer": [
            say("Cut at the limit", stop_reason="max_tokens"),
            say("and the rest."),
        ],
        "hang up": [
            Answer(
                blocks=[text_block("Half of it."), text_block("This is never sent.")],
                block_limit=1,
            )
        ],
        "rate limit": [say("This is never said.", statuses=(429,) * 30)],
        "pause": [say("A pause.", stop_reason="pause_turn"), say("After the pause.")],
    },
    tree="""
        The server is busy twice.
        ● The server is busy twice.
        ● Make a bad request.
        ● Give a long answer.
        ● Please hang up.
        ● Reach the rate limit.
        ● Make a pause.
    """,
    show="""
        > The server is busy twice.
        ! 529 · scripted overloaded_error
        ! 500 · scripted api_error
        < It went through.
        > Make a bad request.
        ! API Error: 400 scripted invalid_request_error
        > Give a long answer.
        < Cut at the limit
        < and the rest.
        > Please hang up.
        < Half of it.
        < Half of it.
        < Half of it.
        < Half of it.
        ! API Error: Connection lost mid-response. The response above may be incomplete.
        > Reach the rate limit.
        ! 429 · scripted rate_limit_error
        ! 429 · scripted rate_limit_error
        ! API Error: Request rejected (429) · scripted rate_limit_error
        > Make a pause.
        < A pause.
    """,
    is_cut_off=True,
)
def failures(client: ClaudeCode) -> None:
    """Failed requests: retried with success, given up, cut off, and stopped early."""
    client.environ["CLAUDE_CODE_MAX_RETRIES"] = "2"
    client.ask("The server is busy twice.")
    for prompt in (
        "Make a bad request.",
        "Give a long answer.",
        "Please hang up.",
        "Reach the rate limit.",
        "Make a pause.",
    ):
        client.ask(prompt, "-c")
