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
    addresses,
    filled,
    leading_to,
    method_of,
    parameters,
)
from tests.faults.careless import files_by_path, pictures_by_name
from tests.faults.mutations import Set
from tests.faults.sizes import reached, sized
from tests.web.archives import PLAIN, WebArchive, build_archive
from tests.web.client import ClientResponse, WebClient, web_client
from tests.web.test_security import entrances, routes

STEP = sized(400, 10, 1)
"""Of so many names a place is given one; another place is given others."""
ENDLESS_ROUTE = "/api/live"
"""Takes no name and no value, and does not end."""
STARRED = b'{"is_starred":false}'
"""What is sent where something is: it would change nothing."""

WORDS = [
    *("../../../../etc/passwd", "/etc/passwd", "..", "-", "", " ", "%00", "a" * 5000),
    *("\x1b]0;owned\x07", "\x9b31m", "\u202egnp.exe", "'; DROP TABLE source; --", "*"),
    *("$(touch owned)", "`touch owned`", "{id}", "NaN", "\udcff", "-1", "9" * 400),
]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> WebArchive:
    place = tmp_path_factory.mktemp("doors")
    archive_home = build_archive(place)
    for folder in (place, archive_home.folder, archive_home.home.path):
        (folder / "canary.txt").write_text(CANARY, "utf-8")
    return archive_home


@pytest.fixture(scope="module")
def page(kept: WebArchive) -> WebClient:
    return web_client(kept)


def hostile(kept: WebArchive, page: WebClient, asked: list[Route]) -> Iterator[Address]:
    """Yield hostile addresses for each place of some routes."""
    sure = leading_to(kept.folder.parent / "canary.txt")
    for number, route in enumerate(asked):
        names = [*sure, *NAMES[number % STEP :: STEP]]
        yield from addresses(route, parameters(as_usual(page), route), names)


def as_usual(page: WebClient) -> Callable[[str, str], ClientResponse]:
    """Return a way to ask as one of our pages would."""
    return lambda method, path: page.ask(method, path, page.default_headers)


def limited() -> list[Route]:
    """Return the routes that come to an end."""
    return [route for route in routes() if route.path != ENDLESS_ROUTE]


class Watched:
    """What hostile addresses brought, and which of them a route's function saw."""

    def __init__(self, kept: WebArchive, put: Set, asked: list[Route]) -> None:
        page = web_client(kept)
        self.asked = {one.path: one for one in hostile(kept, page, asked)}
        self.faults: list[str] = []
        self.seen: set[tuple[str, str]] = set()
        answered = app._handle_request

        def watching(row: RouteSpec, visit: RequestContext) -> Response:
            way = visit.request.scope["raw_path"], visit.request.scope["query_string"]
            self.seen.add((row.path, b"?".join(filter(None, way)).decode()))
            return answered(row, visit)

        put(app, "_handle_request", watching)
        ways = [(one.method, one.path) for one in self.asked.values()]
        page.ask_many(ways, self.look, STARRED)

    def look(self, path: str, answer: ClientResponse) -> None:
        """Note what an answer should not say."""
        told = answer.body + str(answer.headers).encode()
        self.faults += self.asked[path].faults(answer.status, told)

    def reached(self) -> dict[tuple[str, str], int]:
        """Return how many names came to a route's function, by route and place."""
        found: dict[tuple[str, str], int] = defaultdict(int)
        for one in self.asked.values():
            found[one.route, one.place] += (one.route, one.path) in self.seen
        return found


@pytest.mark.full
def test_no_route_leads_out(kept: WebArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    before = state_of(kept.folder.parent)

    watched = Watched(kept, monkeypatch.setattr, limited())

    assert watched.faults == []
    assert state_of(kept.folder.parent) == before
    came = watched.reached()
    assert min(came.values()) >= 10
    assert sum(came.values()) >= 1_000
    reached("web: requests with path traversal", len(watched.asked))
    reached(
        "web: requests with path traversal that reached a handler", sum(came.values())
    )
    reached("web: parameters tried, in paths and queries", len(came))


@pytest.mark.full
def test_every_value_that_is_described_is_given_hostile_names(page: WebClient) -> None:
    known = {route.path: parameters(as_usual(page), route) for route in limited()}

    for row in ROUTES:
        declared = PARAMETERS.get(row.name, ()) if row.is_api else ()
        assert {one.name for one in declared} <= known[row.path], row.path


@pytest.mark.parametrize("mutation", [pictures_by_name, files_by_path])
def test_a_route_that_opens_any_path_is_caught(
    mutation: Callable[[Set], None], kept: WebArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {row.path: row.handler for row in app.ROUTES}
    mutation(monkeypatch.setattr)
    changed = {row.path for row in app.ROUTES if row.handler is not known[row.path]}

    asked = [route for route in routes() if route.path in changed]
    watched = Watched(kept, monkeypatch.setattr, asked)

    assert [fault for fault in watched.faults if CANARY in fault]


def open_to_others(page: WebClient) -> str | None:
    """Return the first route that answers to a host that is not ours."""
    for route in [*entrances(), *routes()]:
        told = page.ask(
            method_of(route),
            filled(route.path),
            page.default_headers | {"host": "attacker.test:8765"},
        )
        if told.status != 421:
            return str(route.path)  # behind it are some that go on for ever
    return None


def test_a_gate_that_does_not_look_at_the_host_is_caught(
    kept: WebArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert open_to_others(web_client(kept)) is None
    monkeypatch.setattr(SecurityMiddleware, "_is_allowed_host", lambda *_: True)

    assert open_to_others(web_client(kept))


ENDLESS = frozenset({"watch", "serve", "mcp"})
"""Commands that go on until they are stopped."""
ELSEWHERE = frozenset({"push", "open", "hub"})
"""Commands that ask another program or machine, whatever it is called."""


@pytest.fixture
def surroundings(
    kept: WebArchive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """Give a folder in which commands run, and all that is theirs is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(kept.home.path))
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO()))
    yield tmp_path
    assert not list(tmp_path.rglob("owned"))


def assert_no_accident(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    """Run a command; its output must be intended and contain no control characters."""
    code = main(words)
    told = "".join(capfd.readouterr())
    assert code in {int(code) for code in ExitCode}, words
    assert "error: unexpected " not in told, (words, told)
    assert "Traceback" not in told, words
    assert CANARY not in told
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(told), words


@pytest.mark.parametrize(
    "name", [row.name for row in COMMANDS if row.name not in ENDLESS]
)
@pytest.mark.usefixtures("surroundings")
def test_no_command_stumbles_over_a_name(
    name: str, kept: WebArchive, capfd: pytest.CaptureFixture[str]
) -> None:
    chosen = WORDS[:: sized(4, 1, 1)]
    for word in chosen:
        assert_no_accident([name, "--archive", str(kept.folder), "--", word], capfd)
    reached("commands: hostile arguments", len(chosen))


def values_of(row: CommandSpec) -> list[str]:
    """Return the options of a command to which a value is given."""
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
    [row for row in COMMANDS if row.name not in ENDLESS | ELSEWHERE],
    ids=lambda row: row.name,
)
@pytest.mark.full
def test_no_command_stumbles_over_a_value(
    row: CommandSpec, surroundings: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    own = str(build_archive(surroundings / "own").folder)
    # A user may write anywhere, but not over the archive's own files.
    words = [word for word in WORDS if "passwd" not in word]
    count = 0
    for number, option in enumerate(values_of(row)):
        for word in words[number % len(words) :: sized(len(words), 1, 1)]:
            given = f"{option}={word}"
            assert_no_accident([row.name, "--archive", own, given], capfd)
            count += 1
    reached("commands: hostile option values", count)


def tools_of(kept: WebArchive) -> McpDispatcher:
    """Return the server for agents over an archive."""
    caller = Caller(directory=Path(CWD), session=None, clock=lambda: kept.now, zone=UTC)
    return McpDispatcher(ToolService(kept.folder, caller))


def requests(words: list[str]) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield what can be asked of the server, with each word in each place."""
    for tool in list_tools():
        schema = tool["inputSchema"]
        needed = dict.fromkeys(schema.get("required", ()), PLAIN)
        for name, word in product(schema["properties"], words):
            given = {**needed, name: word}
            yield "tools/call", {"name": tool["name"], "arguments": given}
    for word in words:
        yield "resources/read", {"uri": f"bygones://session/{word}"}
        yield "resources/read", {"uri": word}
        yield "tools/call", {"name": word, "arguments": {}}
        for prompt in list_prompts():
            (place,) = prompt["arguments"]
            words_of = {place["name"]: word}
            yield "prompts/get", {"name": prompt["name"], "arguments": words_of}


def told_to_agents(kept: WebArchive, words: list[str]) -> list[str]:
    """Return everything that agents get for this request."""
    speaker = tools_of(kept)
    told = []
    for method, given in requests(words):
        try:
            told.append(text_of(speaker.dispatch(method, given)))
        except JsonRpcError as error:
            told.append(str(error))
    return told


def text_of(answer: dict[str, Any]) -> str:
    """Return what an answer says; the words of a prompt are the asker's own."""
    (found,) = answer.get("content") or answer.get("contents") or [{"text": ""}]
    return str(found["text"])


def state_of(folder: Path) -> dict[str, bytes]:
    """Return what lies in a folder, but for what readers keep beside it."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {
        str(path): path.read_bytes()
        for path in files
        if not path.name.endswith(("-shm", "-wal", ".lock"))
    }


def ways_out(kept: WebArchive) -> list[str]:
    """Return names that lead out, and such by which the canary would be reached."""
    sure = leading_to(kept.folder.parent / "canary.txt")
    return [*map(unquote, dict.fromkeys([*sure, *NAMES[::STEP]])), *WORDS]


@pytest.mark.full
def test_no_tool_leads_out_or_changes_anything(kept: WebArchive) -> None:
    before = state_of(kept.folder)

    told = told_to_agents(kept, ways_out(kept))

    assert not [text for text in told if CANARY in text or "root:x:0" in text]
    assert not [text for text in told if "SQLite format 3" in text]
    assert not [text for text in told if "error: unexpected " in text]
    assert {c for text in told for c in text if not c.isprintable()} <= {"\n", "\t"}
    assert state_of(kept.folder) == before
    reached("MCP: hostile tool arguments", len(told))


def test_a_tool_that_opens_any_path_is_caught(
    kept: WebArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    def careless(_: ToolService, asked: FileHistoryArguments) -> str:
        path = Path(asked.path)
        return path.read_text("utf-8") if path.exists() else ""

    tool = TOOLS_BY_NAME["file_history"]._replace(run=careless)
    monkeypatch.setitem(TOOLS_BY_NAME, "file_history", tool)

    told = told_to_agents(kept, ways_out(kept)[:1])

    assert [text for text in told if CANARY in text]
