"""Tool calls: files, commands, agents, servers, and what print mode denies."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.client.driver import ClaudeCode
from tests.client.messages_api import (
    Answer,
    Json,
    call,
    say,
    server_search,
    text_block,
    thinking,
    tool,
)
from tests.client.scenario import scenario

ALLOW_ALL = ("--permission-mode", "bypassPermissions")


def shell(command: str) -> Json:
    return tool("Bash", command=command, description="Run a command")


@scenario(
    is_quick=True,
    script={
        "three things": [
            Answer(
                blocks=[
                    thinking("All at once."),
                    text_block("Three calls."),
                    tool("Write", file_path="{work}/poem.txt", content="a\nb\nc\n"),
                    shell("printf 'hello\\n'"),
                    tool("Read", file_path="{work}/given.txt"),
                ],
                block_delay=0.05,
            ),
            say("All three returned."),
        ],
        "change the poem": [
            call(tool("Read", file_path="{work}/poem.txt")),
            call(
                tool(
                    "Edit",
                    file_path="{work}/poem.txt",
                    old_string="b",
                    new_string="B",
                )
            ),
            call(
                tool(
                    "Edit",
                    file_path="{work}/poem.txt",
                    old_string="missing",
                    new_string="x",
                )
            ),
            say("One edit worked."),
        ],
        "fail in every way": [
            call(shell("echo out; echo err >&2; exit 3")),
            call(tool("Read", file_path="{work}/absent.txt")),
            call(tool("NoSuchTool", a=1)),
            say("Everything failed."),
        ],
    },
    tree="""
        Do three things.
        ● Do three things.
        ● Please change the poem.
        ● Now fail in every way.
    """,
    show="""
        > Do three things.
        < Three calls.
          Write done: {work}/poem.txt
          Bash done: printf 'hello\\n'
          Read done: {work}/given.txt
        < All three returned.
        > Please change the poem.
          Read done: {work}/poem.txt
          Edit done: {work}/poem.txt
          Edit failed: {work}/poem.txt
        < One edit worked.
        > Now fail in every way.
          Bash failed: echo out; echo err >&2; exit 3
          Read failed: {work}/absent.txt
          NoSuchTool failed
        < Everything failed.
    """,
)
def files(client: ClaudeCode) -> None:
    """Files written, read and edited; parallel calls; calls that fail."""
    (client.work / "given.txt").write_text("given\n")
    client.ask("Do three things.", *ALLOW_ALL)
    client.ask("Please change the poem.", "-c", *ALLOW_ALL)
    client.ask("Now fail in every way.", "-c", *ALLOW_ALL)


@scenario(
    script={
        "without permission": [
            call(
                tool("Write", file_path="{work}/no.txt", content="no\n"),
                shell("touch no.txt"),
            ),
            say("Neither was permitted."),
        ]
    },
    tree="""
        Write without permission.
        ● Write without permission.
    """,
    show="""
        > Write without permission.
          Write denied: {work}/no.txt
          Bash denied: touch no.txt
        < Neither was permitted.
    """,
)
def denied(client: ClaudeCode) -> None:
    """Calls that print mode denies, because it cannot ask."""
    client.ask("Write without permission.", "--permission-mode", "default")


SHELL_COMMANDS = (
    "printf 'a\\nb\\n' > new.txt",
    "sed -i 's/two/2/' base.txt",
    "rm gone.txt",
    "mv before.txt after.txt",
    "for i in $(seq 1 9); do echo $i > many$i.txt; done",
    "mkdir -p ignored && echo x > ignored/x.txt",
    "echo half > half.txt; exit 3",
)


@scenario(
    script={
        "change files by commands": [
            *(call(shell(command)) for command in SHELL_COMMANDS),
            say("All commands ran."),
        ]
    },
    tree="""
        Please change files by commands.
        ● Please change files by commands.
    """,
    show="\n".join(
        (
            "> Please change files by commands.",
            *(f"  Bash done: {command}" for command in SHELL_COMMANDS[:-1]),
            f"  Bash failed: {SHELL_COMMANDS[-1]}",
            "< All commands ran.",
        )
    ),
)
def shell_edits(client: ClaudeCode) -> None:
    """Commands in a git tree that create, change, delete and rename files."""
    before = {"base.txt": "one\ntwo\n", "gone.txt": "bye\n", "before.txt": "same\n"}
    for name, text in before.items():
        (client.work / name).write_text(text)
    (client.work / ".gitignore").write_text("ignored/\n")
    author = ("-c", "user.name=n", "-c", "user.email=n@example.org")
    for arguments in (("init", "-q"), ("add", "."), (*author, "commit", "-qm", "one")):
        subprocess.run(["git", *arguments], cwd=client.work, check=True)
    client.ask("Please change files by commands.", *ALLOW_ALL)


def agent(description: str, prompt: str) -> Json:
    return tool(
        "Agent",
        description=description,
        prompt=prompt,
        subagent_type="general-purpose",
        run_in_background=False,
    )


@scenario(
    is_quick=True,
    script={
        "Send two agents": [
            say(
                "Sending.",
                agent("east", "GO EAST"),
                agent("west", "GO WEST"),
            ),
            say("Both were sent."),
        ],
        "GO EAST": [call(shell("echo east")), say("East is done.")],
        "GO WEST": [
            call(agent("inner", "LOOK INSIDE")),
            say("West is done."),
        ],
        "LOOK INSIDE": [say("Inside is done.")],
    },
    tree="""
        Send two agents.
        ● Send two agents.
        │ ◆ general-purpose: east
        │ ◆ general-purpose: west
        │ │ ◆ general-purpose: inner
    """,
    show="""
        > Send two agents.
        < Sending.
          Agent done: east
          Agent done: west
        < Both were sent.
    """,
)
def agents(client: ClaudeCode) -> None:
    """Two agents at the same time, of which one starts another."""
    client.ask("Send two agents.", *ALLOW_ALL)


SERVER = """
import json, sys

ADD = {
    "name": "add",
    "description": "adds two numbers",
    "inputSchema": {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
    },
}


def result(method, parameters):
    if method == "initialize":
        return {
            "protocolVersion": parameters["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "sums", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [ADD]}
    if method == "tools/call":
        a, b = parameters["arguments"]["a"], parameters["arguments"]["b"]
        return {"content": [{"type": "text", "text": str(a + b)}], "isError": a < 0}
    return {}


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        answer = result(request["method"], request.get("params"))
        message = {"jsonrpc": "2.0", "id": request["id"], "result": answer}
        print(json.dumps(message), flush=True)
"""


@scenario(
    script={
        "add some numbers": [
            call(tool("ToolSearch", query="select:mcp__sums__add", max_results=1)),
            call(tool("mcp__sums__add", a=2, b=3), tool("mcp__sums__add", a=-1, b=3)),
            say("Five, and an error."),
        ],
        "search for tides": [
            call(tool("ToolSearch", query="select:WebSearch", max_results=1)),
            call(tool("WebSearch", query="tides today")),
            say("High tide is at noon."),
        ],
        "Perform a web search": [
            Answer(
                blocks=[
                    *server_search("tides today", "Tides", "https://example.org/t"),
                    text_block("Noon."),
                ],
                usage={"server_tool_use": {"web_search_requests": 2}},
            )
        ],
    },
    unrecorded=1,
    tree="""
        Please add some numbers.
        ● Please add some numbers.
        ● Then search for tides.
    """,
    show="""
        > Please add some numbers.
          ToolSearch done: select:mcp__sums__add
          mcp__sums__add done
          mcp__sums__add failed
        < Five, and an error.
        > Then search for tides.
          ToolSearch done: select:WebSearch
          WebSearch done: tides today
        < High tide is at noon.
    """,
)
def servers(client: ClaudeCode) -> None:
    """A local MCP server, and a web search that the API makes."""
    (client.work / "server.py").write_text(SERVER)
    server = {"command": sys.executable, "args": ["server.py"]}
    (client.work / ".mcp.json").write_text(json.dumps({"mcpServers": {"sums": server}}))
    options = (*ALLOW_ALL, "--mcp-config", ".mcp.json")
    client.ask("Please add some numbers.", *options)
    client.ask("Then search for tides.", "-c", *options)
