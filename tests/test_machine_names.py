"""Nothing that leaves an archive names the machine's folders or its user."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.cli.main import main
from bygones.data.views import VIEW_NAMES
from bygones.export.formats import ExportFormat
from bygones.hub.client import push
from bygones.mcp.server import McpDispatcher
from bygones.mcp.tool_service import Caller, ToolService
from bygones.redact.engine import Redactor
from bygones.team.contract import encode_message
from bygones.web.app import ROUTES
from tests.build import (
    CWD,
    Home,
    Written,
    prompt,
    reply,
    session_id,
    thread,
    tool_result,
    tool_use,
)
from tests.hub.sending import MemoryHub
from tests.web.archives import WebArchive
from tests.web.client import web_client

LOGIN = "margarethe"
FILE = f"{CWD}/a.py"
NOW = datetime(2026, 1, 6, tzinfo=UTC)


@pytest.fixture(scope="module")
def web_archive(tmp_path_factory: pytest.TempPathFactory) -> WebArchive:
    """Return an archive of a home whose path has a name; no record mentions it."""
    folder = tmp_path_factory.mktemp("machine") / "home" / LOGIN
    home = Home(folder / ".claude")
    home.session(
        session_id(1),
        thread(
            prompt("fix the retry"),
            reply([tool_use("Bash", command="pytest")]),
            tool_result("toolu_1", "1 passed"),
            reply(
                [tool_use("Write", id="toolu_2", file_path=FILE, content="retry = 1\n")]
            ),
            tool_result(
                "toolu_2",
                "File created",
                outcome={
                    "type": "create",
                    "filePath": FILE,
                    "content": "retry = 1\n",
                    "structuredPatch": [],
                    "originalFile": None,
                },
            ),
            reply("It retries now."),
        ),
    )
    home.session(
        session_id(2),
        [_without_id(prompt("no ids here")), _without_id(reply("none at all"))],
    )
    damaged = home.session(session_id(3), [prompt("the next line is damaged")])
    with damaged.open("ab") as file:
        file.write(b'{"type":\n')
    archive = folder / "archive"
    Archive.ingest(archive, [home.path])
    return WebArchive(home, archive, NOW)


def _without_id(record: Written) -> Written:
    return {name: value for name, value in record.items() if name != "uuid"}


@pytest.mark.req("DA1")
@pytest.mark.parametrize("redaction", ["--redact", "--no-redact"])
@pytest.mark.parametrize("format_", list(ExportFormat))
def test_exports_do_not_name_the_user(
    web_archive: WebArchive, tmp_path: Path, format_: ExportFormat, redaction: str
) -> None:
    command = ["export", "--all", "--format", format_.value, redaction, "--no-ingest"]

    assert (
        main([*command, "--archive", str(web_archive.folder), "--to", str(tmp_path)])
        == 0
    )
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    for path in files:
        assert LOGIN not in path.name
        assert LOGIN.encode() not in path.read_bytes(), path.name


@pytest.mark.req("DA1")
def test_views_do_not_name_the_user(web_archive: WebArchive) -> None:
    with Archive.open(web_archive.folder) as archive:
        for view in VIEW_NAMES:
            rows = archive.sql(f"SELECT * FROM {view}", redact=False).rows  # noqa: S608
            assert LOGIN not in repr(rows), view
        assert archive.sql("SELECT source FROM problems").rows


@pytest.mark.req("DA1")
def test_parquet_does_not_name_the_user(
    web_archive: WebArchive, tmp_path: Path
) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    with Archive.open(web_archive.folder) as archive:
        written = archive.export_parquet(tmp_path, redact=False)
    assert len(written.files) == len(VIEW_NAMES)
    for path in written.files:
        table = pq.read_table(path)
        assert LOGIN not in repr(table.to_pylist()), path.name
        assert LOGIN not in repr(table.schema), path.name


@pytest.mark.req("DA1")
def test_the_api_does_not_name_the_user(web_archive: WebArchive) -> None:
    client = web_client(web_archive)
    paths = {
        "/api/sessions": ["/api/sessions"],
        "/api/sessions/{id}": [
            f"/api/sessions/{session_id(n)}?tools=1&agents=1" for n in (1, 2, 3)
        ],
        "/api/projects": ["/api/projects"],
        "/api/search": ["/api/search?q=retry"],
        "/api/usage": ["/api/usage?by=session"],
        "/api/files": [f"/api/files?session={session_id(1)}"],
        "/api/problems": ["/api/problems"],
        "/api/openapi.json": ["/api/openapi.json"],
    }
    routes = {
        spec.path
        for spec in ROUTES
        if spec.path.startswith("/api/") and spec.method == "GET"
    }
    assert set(paths) == routes
    for path in (path for several in paths.values() for path in several):
        answer = client.get(path)
        assert answer.status == 200, path
        assert LOGIN not in answer.text, path


@pytest.mark.req("DA1")
def test_mcp_does_not_name_the_user(web_archive: WebArchive) -> None:
    caller = Caller(directory=Path(CWD), session=None, clock=lambda: NOW, zone=UTC)
    dispatcher = McpDispatcher(
        ToolService(web_archive.folder, caller, redactor=Redactor())
    )
    calls: dict[str, list[dict[str, object]]] = {
        "search": [{"query": "retry"}, {"query": "ids", "hits": 3}],
        "outline": [{"session": session_id(n)} for n in (1, 2, 3)],
        "read": [{"session": session_id(n), "detail": "full"} for n in (1, 2, 3)],
        "file_history": [{"path": FILE}],
        "blame": [{"path": FILE, "line": 1}],
        "file_at": [{"path": FILE, "session": session_id(1)}],
        "recent": [{}, {"scope": "all"}],
    }
    tools = dispatcher.dispatch("tools/list", {})["tools"]
    assert {tool["name"] for tool in tools} == set(calls)
    for name, arguments in (
        (name, one) for name, all_ in calls.items() for one in all_
    ):
        params = {"name": name, "arguments": arguments}
        result = dispatcher.dispatch("tools/call", params)
        assert not result["isError"], (name, result)
        assert LOGIN not in repr(result), name


@pytest.mark.req("DA1")
def test_mcp_resources_do_not_name_the_user(web_archive: WebArchive) -> None:
    caller = Caller(directory=Path(CWD), session=None, clock=lambda: NOW, zone=UTC)
    dispatcher = McpDispatcher(
        ToolService(web_archive.folder, caller, redactor=Redactor())
    )
    listed = dispatcher.dispatch("resources/list", {})
    assert LOGIN not in repr(listed)
    assert listed["resources"]
    for resource in listed["resources"]:
        read = dispatcher.dispatch("resources/read", {"uri": resource["uri"]})
        assert LOGIN not in repr(read), resource["uri"]


@pytest.mark.req("DA1")
def test_an_upload_does_not_name_the_user(
    web_archive: WebArchive, tmp_path: Path
) -> None:
    hub = MemoryHub(tmp_path)
    push(web_archive.folder, [CWD], redactor=Redactor(), transport=hub)

    assert hub.requests
    for request in hub.requests:
        assert LOGIN.encode() not in encode_message(request)
    assert LOGIN not in repr(hub.texts())
