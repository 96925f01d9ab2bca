"""Every route, command and tool, as the program lists them, with hostile names.

Files outside contain a canary. Whatever is requested, in whatever spelling, the canary is
never shown, nothing is written outside, and there are no unexpected errors.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC
from io import BytesIO, TextIOWrapper
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import click
import pytest
from starlette.responses import Response
from starlette.routing import Route

from bygones.cli.commands.registry import COMMANDS, CommandSpec
from bygones.cli.group import CommandGroup
from bygones.cli.main import main
from bygones.errors import ExitCode
from bygones.mcp.server import JsonRpcError, McpDispatcher
from bygones.mcp.tool_service import Caller, FileHistoryArguments, ToolService
from bygones.mcp.tools import TOOLS_BY_NAME, list_prompts, list_tools
from bygones.web import app
from bygones.web.api import PARAMETERS
from bygones.web.app import ROUTES
from bygones.web.context import RequestContext, RouteSpec
from bygones.web.security import SecurityMiddleware
from tests.build import CWD
from tests.faults.addresses import (
    CANARY,
    NAMES,
    Address,
    fill_path,
    find_query_parameters,
    hostile_addresses,
    names_leading_to,
    route_method,
)
from tests.faults.careless import serve_any_file, serve_images_by_path
from tests.faults.mutations import Patch
from tests.faults.sizes import reached, sized
from tests.web.archives import PLAIN, WebArchive, build_archive
from tests.web.client import ClientResponse, WebClient, web_client
from tests.web.test_security import entrances, routes

STEP = sized(400, 10, 1)
"""Each parameter gets every n-th name, starting at a different one."""
ENDLESS_ROUTE = "/api/live"
"""Has no parameters, and its response does not end."""
REQUEST_BODY = b'{"is_starred":false}'
"""The body of POST requests: a request that would change nothing."""

HOSTILE_WORDS = [
    *("../../../../etc/passwd", "/etc/passwd", "..", "-", "", " ", "%00", "a" * 5000),
    *("\x1b]0;owned\x07", "\x9b31m", "\u202egnp.exe", "'; DROP TABLE source; --", "*"),
    *("$(touch owned)", "`touch owned`", "{id}", "NaN", "\udcff", "-1", "9" * 400),
]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> WebArchive:
    root = tmp_path_factory.mktemp("doors")
    web_archive = build_archive(root)
    for folder in (root, web_archive.folder, web_archive.home.path):
        (folder / "canary.txt").write_text(CANARY, "utf-8")
    return web_archive


@pytest.fixture(scope="module")
def page(archive: WebArchive) -> WebClient:
    return web_client(archive)


def find_hostile_addresses(
    archive: WebArchive, page: WebClient, selected_routes: list[Route]
) -> Iterator[Address]:
    """Yield hostile URLs for each parameter of some routes."""
    canary_names = names_leading_to(archive.folder.parent / "canary.txt")
    for number, route in enumerate(selected_routes):
        names = [*canary_names, *NAMES[number % STEP :: STEP]]
        yield from hostile_addresses(
            route, find_query_parameters(same_origin_request(page), route), names
        )


def same_origin_request(page: WebClient) -> Callable[[str, str], ClientResponse]:
    """Return a function that sends requests as our own pages do."""
    return lambda method, path: page.ask(method, path, page.default_headers)


def finite_routes() -> list[Route]:
    """Return the routes whose responses end."""
    return [route for route in routes() if route.path != ENDLESS_ROUTE]


class HostileRequests:
    """Sends hostile requests, and records faults and which requests reached a handler."""

    def __init__(
        self, archive: WebArchive, patch: Patch, selected_routes: list[Route]
    ) -> None:
        page = web_client(archive)
        self.addresses = {
            one.path: one
            for one in find_hostile_addresses(archive, page, selected_routes)
        }
        self.faults: list[str] = []
        self.handled: set[tuple[str, str]] = set()
        original_handle = app._handle_request

        def record_and_handle(row: RouteSpec, context: RequestContext) -> Response:
            url_parts = (
                context.request.scope["raw_path"],
                context.request.scope["query_string"],
            )
            self.handled.add((row.path, b"?".join(filter(None, url_parts)).decode()))
            return original_handle(row, context)

        patch(app, "_handle_request", record_and_handle)
        requests = [(one.method, one.path) for one in self.addresses.values()]
        page.ask_many(requests, self.check, REQUEST_BODY)

    def check(self, path: str, answer: ClientResponse) -> None:
        """Record what is wrong with a response."""
        content = answer.body + str(answer.headers).encode()
        self.faults += self.addresses[path].faults(answer.status, content)

    def reached(self) -> dict[tuple[str, str], int]:
        """Return how many names reached a handler, by route and parameter."""
        counts: dict[tuple[str, str], int] = defaultdict(int)
        for one in self.addresses.values():
            counts[one.route, one.parameter] += (one.route, one.path) in self.handled
        return counts


@pytest.mark.full
def test_no_route_leads_out(
    archive: WebArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = state_of(archive.folder.parent)

    hostile_requests = HostileRequests(archive, monkeypatch.setattr, finite_routes())

    assert hostile_requests.faults == []
    assert state_of(archive.folder.parent) == before
    handled = hostile_requests.reached()
    assert min(handled.values()) >= 10
    assert sum(handled.values()) >= 1_000
    reached("web: requests with path traversal", len(hostile_requests.addresses))
    reached(
        "web: requests with path traversal that reached a handler",
        sum(handled.values()),
    )
    reached("web: parameters tried, in paths and queries", len(handled))


@pytest.mark.full
def test_every_value_that_is_described_is_given_hostile_names(page: WebClient) -> None:
    known = {
        route.path: find_query_parameters(same_origin_request(page), route)
        for route in finite_routes()
    }

    for row in ROUTES:
        declared = PARAMETERS.get(row.name, ()) if row.is_api else ()
        assert {one.name for one in declared} <= known[row.path], row.path


@pytest.mark.parametrize("mutation", [serve_images_by_path, serve_any_file])
def test_a_route_that_opens_any_path_is_caught(
    mutation: Callable[[Patch], None],
    archive: WebArchive,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = {row.path: row.handler for row in app.ROUTES}
    mutation(monkeypatch.setattr)
    changed = {row.path for row in app.ROUTES if row.handler is not known[row.path]}

    selected_routes = [route for route in routes() if route.path in changed]
    hostile_requests = HostileRequests(archive, monkeypatch.setattr, selected_routes)

    assert [fault for fault in hostile_requests.faults if CANARY in fault]


def find_route_for_other_hosts(page: WebClient) -> str | None:
    """Return the first route that accepts a foreign Host header."""
    for route in [*entrances(), *routes()]:
        response = page.ask(
            route_method(route),
            fill_path(route.path),
            page.default_headers | {"host": "attacker.test:8765"},
        )
        if response.status != 421:
            return str(route.path)  # some of the routes after it never end
    return None


def test_a_gate_that_does_not_look_at_the_host_is_caught(
    archive: WebArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_route_for_other_hosts(web_client(archive)) is None
    monkeypatch.setattr(SecurityMiddleware, "_is_allowed_host", lambda *_: True)

    assert find_route_for_other_hosts(web_client(archive))


ENDLESS_COMMANDS = frozenset({"watch", "serve", "mcp"})
"""Commands that run until they are stopped."""
EXTERNAL_COMMANDS = frozenset({"push", "open", "hub"})
"""Commands that contact another program or machine."""


@pytest.fixture
def working_directory(
    archive: WebArchive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """Return a folder in which commands run, with all their settings and data."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(archive.home.path))
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO()))
    yield tmp_path
    assert not list(tmp_path.rglob("owned"))


def assert_handled(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    """Run a command; it must not crash, and its output must have no control characters."""
    code = main(arguments)
    output = "".join(capfd.readouterr())
    assert code in {int(code) for code in ExitCode}, arguments
    assert "error: unexpected " not in output, (arguments, output)
    assert "Traceback" not in output, arguments
    assert CANARY not in output
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(output), arguments


@pytest.mark.parametrize(
    "name", [row.name for row in COMMANDS if row.name not in ENDLESS_COMMANDS]
)
@pytest.mark.usefixtures("working_directory")
def test_no_command_stumbles_over_a_name(
    name: str, archive: WebArchive, capfd: pytest.CaptureFixture[str]
) -> None:
    words = HOSTILE_WORDS[:: sized(4, 1, 1)]
    for word in words:
        assert_handled([name, "--archive", str(archive.folder), "--", word], capfd)
    reached("commands: hostile arguments", len(words))


def value_options(row: CommandSpec) -> list[str]:
    """Return the options of a command that take a value."""
    group = CommandGroup(COMMANDS)
    command = group.get_command(click.Context(group), row.name)
    assert command
    return [
        one.opts[0]
        for one in command.params
        if isinstance(one, click.Option)
        and not (one.is_flag or one.count)
        and one.opts[0].startswith("--")
        and "--archive" not in one.opts
    ]


@pytest.mark.parametrize(
    "row",
    [row for row in COMMANDS if row.name not in ENDLESS_COMMANDS | EXTERNAL_COMMANDS],
    ids=lambda row: row.name,
)
@pytest.mark.full
def test_no_command_stumbles_over_a_value(
    row: CommandSpec, working_directory: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    own_archive = str(build_archive(working_directory / "own").folder)
    # A user may write anywhere, but not over the archive's own files.
    words = [word for word in HOSTILE_WORDS if "passwd" not in word]
    count = 0
    for number, option in enumerate(value_options(row)):
        for word in words[number % len(words) :: sized(len(words), 1, 1)]:
            argument = f"{option}={word}"
            assert_handled([row.name, "--archive", own_archive, argument], capfd)
            count += 1
    reached("commands: hostile option values", count)


def mcp_server(archive: WebArchive) -> McpDispatcher:
    """Return the MCP server of an archive."""
    caller = Caller(
        directory=Path(CWD), session=None, clock=lambda: archive.now, zone=UTC
    )
    return McpDispatcher(ToolService(archive.folder, caller))


def requests(words: list[str]) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield MCP requests, with each word in each argument."""
    for tool in list_tools():
        schema = tool["inputSchema"]
        required = dict.fromkeys(schema.get("required", ()), PLAIN)
        for name, word in product(schema["properties"], words):
            arguments = {**required, name: word}
            yield "tools/call", {"name": tool["name"], "arguments": arguments}
    for word in words:
        yield "resources/read", {"uri": f"bygones://session/{word}"}
        yield "resources/read", {"uri": word}
        yield "tools/call", {"name": word, "arguments": {}}
        for prompt in list_prompts():
            (argument,) = prompt["arguments"]
            values = {argument["name"]: word}
            yield "prompts/get", {"name": prompt["name"], "arguments": values}


def mcp_responses(archive: WebArchive, words: list[str]) -> list[str]:
    """Return the text of all responses of the MCP server."""
    server = mcp_server(archive)
    responses = []
    for method, params in requests(words):
        try:
            responses.append(text_of(server.dispatch(method, params)))
        except JsonRpcError as error:
            responses.append(str(error))
    return responses


def text_of(answer: dict[str, Any]) -> str:
    """Return the text of a response; prompts only repeat the caller's words."""
    (found,) = answer.get("content") or answer.get("contents") or [{"text": ""}]
    return str(found["text"])


def state_of(folder: Path) -> dict[str, bytes]:
    """Return the files in a folder, without those that readers create."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {
        str(path): path.read_bytes()
        for path in files
        if not path.name.endswith(("-shm", "-wal", ".lock"))
    }


def traversal_names(archive: WebArchive) -> list[str]:
    """Return path traversal names, and names that would lead to the canary."""
    canary_names = names_leading_to(archive.folder.parent / "canary.txt")
    return [
        *map(unquote, dict.fromkeys([*canary_names, *NAMES[::STEP]])),
        *HOSTILE_WORDS,
    ]


@pytest.mark.full
def test_no_tool_leads_out_or_changes_anything(archive: WebArchive) -> None:
    before = state_of(archive.folder)

    responses = mcp_responses(archive, traversal_names(archive))

    assert not [text for text in responses if CANARY in text or "root:x:0" in text]
    assert not [text for text in responses if "SQLite format 3" in text]
    assert not [text for text in responses if "error: unexpected " in text]
    assert {c for text in responses for c in text if not c.isprintable()} <= {
        "\n",
        "\t",
    }
    assert state_of(archive.folder) == before
    reached("MCP: hostile tool arguments", len(responses))


def test_a_tool_that_opens_any_path_is_caught(
    archive: WebArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    def careless(_: ToolService, arguments: FileHistoryArguments) -> str:
        path = Path(arguments.path)
        return path.read_text("utf-8") if path.exists() else ""

    tool = TOOLS_BY_NAME["file_history"]._replace(run=careless)
    monkeypatch.setitem(TOOLS_BY_NAME, "file_history", tool)

    responses = mcp_responses(archive, traversal_names(archive)[:1])

    assert [text for text in responses if CANARY in text]
