"""What a person does in the terminal besides prompts."""

from __future__ import annotations

import json
import subprocess

from tests.client.driver import ClaudeCode
from tests.client.messages_api import Answer, Json, call, say, text_block, tool
from tests.client.scenario import scenario
from tests.client.scenarios.calls import ALLOW_ALL, shell
from tests.client.scenarios.rewinds import ACCEPT_EDITS, count, counting


@scenario(
    needs_terminal=True,
    script={
        "Speak slowly": [
            Answer(
                blocks=[text_block("The first half."), text_block("The second half.")],
                block_delay=20,
            )
        ],
        "Work slowly": [
            call(shell("echo started; sleep 30; echo finished")),
            say("This is never said."),
        ],
        **counting(2),
    },
    tree="""
        Speak slowly.
        ● Speak slowly.
        ● This is number 1.
        ● Work slowly.
        ● This is number 2.
    """,
    show="""
        > Speak slowly.
        < The first half.
        ! [Request interrupted by user]
        > This is number 1.
        < That was 1!
        > Work slowly.
          Bash interrupted: echo started; sleep 30; echo finished
        ! [Request interrupted by user for tool use]
        > This is number 2.
        < That was 2!
    """,
    is_cut_off=True,
)
def interrupts(client: ClaudeCode) -> None:
    """Escape while an answer arrives, and while a command runs."""
    with client.terminal(*ALLOW_ALL) as terminal:
        terminal.type("Speak slowly.")
        terminal.wait_for("The first half.")
        terminal.press("Escape", pause=1)
        terminal.say(*count(1))
        terminal.type("Work slowly.")
        terminal.wait_for("started")
        terminal.pause(1)
        terminal.press("Escape", pause=1)
        terminal.say(*count(2))


@scenario(
    needs_terminal=True,
    script={
        "Work for a while": [
            call(shell("sleep 4; echo worked")),
            say("Both notes were read."),
        ],
    },
    tree="""
        Work for a while.
        ● Work for a while.
    """,
    show="""
        > Work for a while.
          Bash done: sleep 4; echo worked
        > a first note
        > a second note
        < Both notes were read.
    """,
)
def queued_prompts(client: ClaudeCode) -> None:
    """Two prompts typed while a command runs, which the turn absorbs."""
    with client.terminal(*ALLOW_ALL) as terminal:
        terminal.type("Work for a while.")
        terminal.wait_for("sleep 4")
        terminal.type("a first note")
        terminal.type("a second note")
        terminal.wait_for("Both notes were read.")
        terminal.pause(1)


@scenario(
    needs_terminal=True,
    script={
        "Write a file": [
            call(tool("Write", file_path="{work}/asked.txt", content="yes\n")),
            say("This is never said."),
        ],
        **counting(1),
    },
    tree="""
        Write a file.
        ● Write a file.
        ● This is number 1.
    """,
    show="""
        > Write a file.
          Write refused: {work}/asked.txt
        ! [Request interrupted by user for tool use]
        > This is number 1.
        < That was 1!
    """,
)
def refusals(client: ClaudeCode) -> None:
    """A call that the person refuses with Escape."""
    options = ("--permission-mode", "default")
    with client.terminal(*options, ready="? for shortcuts") as terminal:
        terminal.type("Write a file.")
        terminal.wait_for("Do you want")
        # The dialog ignores keys for a moment.
        terminal.pause(1)
        terminal.press("Escape", pause=1.5)
        terminal.say(*count(1))


@scenario(
    needs_terminal=True,
    script=counting(2),
    unrecorded=1,
    tree="""
        A title by the stub
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
def titles(client: ClaudeCode) -> None:
    """The title that the client asks for by itself."""
    client.environ["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] = None
    with client.terminal(*ACCEPT_EDITS) as terminal:
        terminal.say(*count(1))
        terminal.pause(3)
        terminal.say(*count(2))
        terminal.pause(2)


@scenario(
    needs_terminal=True,
    script=counting(3),
    tree=(
        """
        This is number 1.
        ● This is number 1.
        """,
        """
        side (forked from session 1)
        ● This is number 1.
        ● This is number 2.
        """,
    ),
    show=(
        """
        > This is number 1.
        < That was 1!
        """,
        """
        > This is number 1.
        < That was 1!
        % /branch side
        > This is number 2.
        < That was 2!
        """,
    ),
)
def branch_command(client: ClaudeCode) -> None:
    """/branch, which continues a copy of the session under a name."""
    with client.terminal(*ACCEPT_EDITS) as terminal:
        terminal.say(*count(1))
        terminal.type("/branch side")
        terminal.pause(2.5)
        terminal.say(*count(2))


def command_hook(command: str) -> list[Json]:
    return [{"hooks": [{"type": "command", "command": command}]}]


def write_extensions(client: ClaudeCode) -> None:
    """Write a command, a skill and hooks into the working directory."""
    folder = client.work / ".claude"
    command = folder / "commands" / "greet.md"
    skill = folder / "skills" / "lantern" / "SKILL.md"
    for path in (command, skill):
        path.parent.mkdir(parents=True)
    command.write_text("---\ndescription: greets\n---\nGreet $ARGUMENTS kindly.\n")
    skill.write_text(
        "---\nname: lantern\ndescription: gives light\n---\nLight the lantern.\n"
    )
    hooks = {
        "UserPromptSubmit": command_hook("echo a note from a hook"),
        "SessionStart": command_hook("echo a note at the start"),
    }
    (folder / "settings.json").write_text(json.dumps({"hooks": hooks}))


@scenario(
    needs_terminal=True,
    script={
        "Greet Ada kindly": [say("Greetings to Ada.")],
        "Light the lantern": [say("The lantern is lit.")],
        "Look at": [say("It has one line.")],
        **counting(2),
    },
    tree="""
        My own title
        ● /greet Ada
        ● /lantern bright
        ● Look at @notes.txt please.
        ● This is number 1.
        ● This is number 2.
    """,
    show="""
        % /greet Ada
        < Greetings to Ada.
        % /lantern bright
        < The lantern is lit.
        > Look at @notes.txt please.
        < It has one line.
        ! echo from the shell
        < It has one line.
        % /rename My own title
        > This is number 1.
        < That was 1!
        % /model sonnet
        > This is number 2.
        < That was 2!
    """,
)
def commands(client: ClaudeCode) -> None:
    """A command, a skill, a mention, a shell line, /rename and /model, with hooks."""
    write_extensions(client)
    (client.work / "notes.txt").write_text("a line\n")
    with client.terminal(*ALLOW_ALL) as terminal:
        terminal.say("/greet Ada", "Greetings to Ada.")
        terminal.say("/lantern bright", "The lantern is lit.")
        terminal.say("Look at @notes.txt please.", "It has one line.")
        terminal.type("!echo from the shell")
        terminal.pause(2)
        terminal.type("/rename My own title")
        terminal.pause(1.5)
        terminal.say(*count(1))
        terminal.type("/model sonnet")
        terminal.pause(2)
        terminal.press("Enter", pause=1)
        terminal.say(*count(2))


@scenario(
    needs_terminal=True,
    script={
        "Enter a worktree": [
            call(tool("ToolSearch", query="select:EnterWorktree", max_results=1)),
            call(tool("EnterWorktree", name="side")),
            say("Inside the worktree."),
        ],
        **counting(2),
    },
    tree="""
        This is number 1.
        ● This is number 1.
        ● Enter a worktree.
        ● This is number 2.
    """,
    show="""
        > This is number 1.
        < That was 1!
        > Enter a worktree.
          ToolSearch done: select:EnterWorktree
          EnterWorktree done
        < Inside the worktree.
        > This is number 2.
        < That was 2!
    """,
)
def worktree(client: ClaudeCode) -> None:
    """A session that moves into a worktree, and with it its transcript."""
    (client.work / "file.txt").write_text("text\n")
    author = ("-c", "user.name=n", "-c", "user.email=n@example.org")
    for arguments in (("init", "-q"), ("add", "."), (*author, "commit", "-qm", "one")):
        subprocess.run(["git", *arguments], cwd=client.work, check=True)
    with client.terminal(*ALLOW_ALL) as terminal:
        terminal.say(*count(1))
        terminal.say("Enter a worktree.", "Inside the worktree.")
        terminal.say(*count(2))


@scenario(
    needs_terminal=True,
    script={
        "Start an agent": [
            call(
                tool(
                    "Agent",
                    description="slow",
                    prompt="TAKE YOUR TIME",
                    subagent_type="general-purpose",
                    run_in_background=True,
                )
            ),
            say("It was started."),
            say("It has reported."),
        ],
        "TAKE YOUR TIME": [say("Slow is done.", delay=3)],
    },
    tree="""
        Start an agent.
        ● Start an agent.
        │ ◆ general-purpose: slow
    """,
    show="""
        > Start an agent.
          Agent done: slow
        < It was started.
        # Agent "slow" finished
        < It has reported.
    """,
)
def background_agent(client: ClaudeCode) -> None:
    """An agent in the background, which reports after the turn."""
    with client.terminal(*ALLOW_ALL) as terminal:
        terminal.say("Start an agent.", "It was started.")
        terminal.wait_for("It has reported.")
        terminal.pause(1)
