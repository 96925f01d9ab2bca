"""Files that Claude, commands and a person change, with checkpoints around commands."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from bygones.integrations.claude_code import claude_paths, plan_changes
from tests.client.driver import ClaudeCode
from tests.client.messages_api import Answer, call, say, tool
from tests.client.scenario import scenario
from tests.client.scenarios.calls import ALLOW_ALL, agent, shell
from tests.client.scenarios.rewinds import ACCEPT_EDITS

_GENERATE = "printf 'generated = 2  # command 2\\n' >> app.py"
_REPLACE = "sed -i 's/^second .*/import other.module.names  # command 2/' notes.txt"


def git(client: ClaudeCode, *arguments: str) -> None:
    options = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
    environ = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull}
    subprocess.run(
        ["git", *options, *arguments], cwd=client.work, env=environ, check=True
    )


@scenario(
    is_quick=True,
    script={
        "Add a limit": [
            call(tool("Read", file_path="{work}/app.py")),
            call(
                tool(
                    "Edit",
                    file_path="{work}/app.py",
                    old_string="last = 9  # before",
                    new_string="limit = 1  # claude 1\nlast = 9  # before",
                )
            ),
            call(
                tool(
                    "Write",
                    file_path="{work}/notes.txt",
                    content="first = 1  # claude 1\nsecond = 2  # claude 1\n",
                )
            ),
            say("Added."),
        ],
        "Generate the rest": [
            call(shell(_GENERATE)),
            call(shell(_REPLACE)),
            call(shell("cat app.py")),
            say("Generated."),
        ],
        "Raise the limit": [
            call(tool("Read", file_path="{work}/app.py")),
            call(
                tool(
                    "Edit",
                    file_path="{work}/app.py",
                    old_string="limit = 1  # claude 1",
                    new_string="limit = 3  # claude 3",
                )
            ),
            call(
                shell(
                    "git -c user.name=Ann -c user.email=ann@example.org"
                    " commit -qam Limit"
                )
            ),
            say("Raised."),
        ],
    },
    tree="""
        Add a limit.
        ● Add a limit.
        ● Generate the rest.
        ● Raise the limit.
    """,
    show=f"""
        > Add a limit.
          Read done: {{work}}/app.py
          Edit done: {{work}}/app.py
          Write done: {{work}}/notes.txt
        < Added.
        > Generate the rest.
          Bash done: {_GENERATE}
          Bash done: {_REPLACE}
          Bash done: cat app.py
        < Generated.
        > Raise the limit.
          Read done: {{work}}/app.py
          Edit done: {{work}}/app.py
          Bash done: git -c user.name=Ann -c user.email=ann@example.org commit -qam Limit
        < Raised.
    """,
)
def file_versions(client: ClaudeCode) -> None:
    """Edits, commands and a person's changes; commits that are amended and renamed."""
    places = claude_paths({}, client.home, Path("no plugin"))
    changes = plan_changes(
        places, ["bygones"], removing=False, statusline=False, checkpoints=True
    )
    settings = [c.after for c in changes if c.path == places.settings][-1]
    hooks = json.loads(settings or b"")["hooks"]
    own = {name: hooks[name] for name in ("PreToolUse", "PostToolUse")}
    places.settings.parent.mkdir(exist_ok=True)
    places.settings.write_text(json.dumps({"hooks": own}))
    app, notes = client.work / "app.py", client.work / "notes.txt"
    app.write_text("first = 1  # before\nlast = 9  # before\n")
    (client.work / ".gitignore").write_text("notes.txt\n")
    git(client, "init", "-q")
    git(client, "add", ".")
    git(client, "commit", "-qm", "Start")
    client.ask("Add a limit.", *ALLOW_ALL)
    app.write_text("mine = 0  # user\n" + app.read_text())
    notes.write_text(notes.read_text() + "third = 3  # user\n")
    client.ask("Generate the rest.", "-c", *ALLOW_ALL)
    client.ask("Raise the limit.", "-c", *ALLOW_ALL)
    git(client, "commit", "-q", "--amend", "-m", "Limit, amended")
    git(client, "mv", "app.py", "main.py")
    git(client, "commit", "-qm", "Rename")


def adding(line: str, answer: str) -> list[Answer]:
    """Return answers that add a line to a file."""
    last = "last = 9  # before"
    edit = tool(
        "Edit",
        file_path="{work}/app.py",
        old_string=last,
        new_string=f"{line}\n{last}",
    )
    return [call(tool("Read", file_path="{work}/app.py")), call(edit), say(answer)]


@scenario(
    needs_terminal=True,
    script={
        "an upper limit": adding("upper = 1  # claude 1", "Upper added!"),
        "a wrong limit": adding("wrong = 2  # nobody", "Wrong added!"),
        "a lower limit": adding("lower = 2  # claude 2", "Lower added!"),
        "a forgotten limit": adding("forgotten = 3  # unknown", "Forgotten added!"),
        "a middle limit": adding("middle = 3  # claude 3", "Middle added!"),
        "let an agent": [
            call(agent("bound", "ADD A BOUND")),
            say("The agent did it!"),
        ],
        "ADD A BOUND": adding("bound = 4  # claude 4", "Bound is added."),
    },
    tree="""
        Add an upper limit.
        ● Add an upper limit.
        ├╮abandoned branch 2: 1 prompt
        │ ○ Add a wrong limit.
        ● Add a lower limit.
        ├╮abandoned branch 3: 1 prompt
        │ ○ Add a forgotten limit.
        ● Add a middle limit.
        ● Now let an agent add one.
        │ ◆ general-purpose: bound
    """,
    show="""
        > Add an upper limit.
          Read done: {work}/app.py
          Edit done: {work}/app.py
        < Upper added!
        > Add a lower limit.
          Read done: {work}/app.py
          Edit done: {work}/app.py
        < Lower added!
        > Add a middle limit.
          Read done: {work}/app.py
          Edit done: {work}/app.py
        < Middle added!
        > Now let an agent add one.
          Agent done: bound
        < The agent did it!
    """,
)
def file_branches(client: ClaudeCode) -> None:
    """Edits that are rewound with and without the code, and edits of an agent."""
    app = client.work / "app.py"
    app.write_text("first = 1  # before\nlast = 9  # before\n")
    with client.terminal(*ACCEPT_EDITS) as terminal:
        terminal.say("Add an upper limit.", "Upper added!")
        terminal.say("Add a wrong limit.", "Wrong added!")
        terminal.rewind(1, "Restore code and conversation")
        terminal.clear_input()
        assert "wrong" not in app.read_text()
        terminal.say("Add a lower limit.", "Lower added!")
        terminal.say("Add a forgotten limit.", "Forgotten added!")
        terminal.rewind(1, "Restore conversation")
        terminal.clear_input()
        assert "forgotten" in app.read_text()
        terminal.say("Add a middle limit.", "Middle added!")
        app.write_text(app.read_text() + "mine = 0  # user\n")
        terminal.say("Now let an agent add one.", "The agent did it!")
