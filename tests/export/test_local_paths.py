"""Exports contain neither local paths nor the name of the user."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.cli.main import main
from bygones.export.formats import ExportFormat
from bygones.mcp.server import McpDispatcher
from bygones.mcp.tool_service import Caller, ToolService
from bygones.redact.engine import Redactor
from tests.build import (
    Home,
    jsonl,
    prompt,
    queue,
    reply,
    session_id,
    thread,
    tool_result,
    tool_use,
)

USER = "zebraquux"
CWD = f"/home/{USER}/shop"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Return an archive of records without ids, in a user's directory."""
    home = Home(tmp_path / USER / ".claude")
    talk = [
        prompt("Count the walruses"),
        reply([tool_use("Read", file_path=f"{CWD}/walrus.py")]),
        tool_result("toolu_1", "one walrus"),
        reply("There is one"),
    ]
    inline = [record | {"isSidechain": True} for record in talk]
    own = [*talk[:2], queue("enqueue", "Faster"), queue("remove"), *talk[2:], *inline]
    project = home.path / "projects" / f"-home-{USER}-shop"
    project.mkdir(parents=True)
    for name in (session_id(1), "agent-0a1b2c3"):
        records = [_without_ids(record) for record in own]
        (project / f"{name}.jsonl").write_bytes(jsonl(records))
    Archive.ingest(tmp_path / "archive", [home.path])
    return tmp_path / "archive"


def _without_ids(record: dict[str, object]) -> dict[str, object]:
    left_out = {"uuid", "parentUuid", "sessionId", "agentId"}
    remaining = {name: value for name, value in record.items() if name not in left_out}
    return remaining | {"cwd": CWD}


def find_ids(value: object, name: str = "") -> list[str]:
    """Return the values of all fields of a JSON value that are ids."""
    if isinstance(value, dict):
        return [id_ for key, item in value.items() for id_ in find_ids(item, key)]
    if isinstance(value, list):
        return [id_ for item in value for id_ in find_ids(item, name)]
    is_id = name == "id" or name.endswith(("_id", "_ids"))
    return [value] if isinstance(value, str) and is_id else []


@pytest.mark.parametrize("export_format", ExportFormat)
def test_exports_do_not_name_the_machine(
    archive: Path, tmp_path: Path, export_format: ExportFormat
) -> None:
    folder = tmp_path / "out"
    arguments = [
        "export",
        "--all",
        "--format",
        export_format.value,
        "--to",
        f"{folder}/",
    ]

    assert main(["--archive", str(archive), *arguments]) == 0
    written = [path for path in folder.rglob("*") if path.is_file()]
    assert written
    for path in written:
        content = path.read_bytes()
        assert b"walrus" in content or path.suffix not in {".json", ".md", ".txt"}
        assert USER.encode() not in content, path
        assert str(tmp_path).encode() not in content, path
        assert USER not in str(path.relative_to(tmp_path))


@pytest.mark.parametrize("export_format", ExportFormat)
def test_exports_do_not_name_the_account_of_another_session(
    tmp_path: Path, export_format: ExportFormat
) -> None:
    home = Home(tmp_path / ".claude")
    for number, text in enumerate(("go", f"{USER} wrote the walrus"), 1):
        cwd = f"/home/{USER}/shop" if number == 1 else "/srv/shop"
        records = thread(prompt(text, cwd=cwd), reply("done", cwd=cwd))
        home.session(session_id(number), records)
    Archive.ingest(tmp_path / "archive", [home.path])
    file = tmp_path / "one"
    arguments = ["--format", export_format.value, "--to", str(file)]

    common = ["--archive", str(tmp_path / "archive")]
    assert main([*common, "export", session_id(2), *arguments]) == 0
    content = file.read_bytes()
    assert b"wrote the walrus" in content
    assert USER.encode() not in content


@pytest.mark.parametrize(
    "arguments",
    [
        ("list", "--all"),
        ("search", "walrus"),
        ("prompts",),
        ("tree",),
        ("show", "--all"),
    ],
)
def test_ids_are_not_paths(
    archive: Path, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    (*sessions,) = _session_ids(archive)
    assert len(sessions) == 2
    for id_ in sessions if arguments[0] in {"tree", "show"} else [""]:
        named = [arguments[0], *([id_] if id_ else []), *arguments[1:]]
        assert main(["--archive", str(archive), "--no-ingest", *named, "--json"]) == 0
    stdout = capsys.readouterr().out
    ids = [id_ for line in stdout.splitlines() for id_ in find_ids(json.loads(line))]

    assert ids
    assert [id_ for id_ in ids if "/" in id_ or "\\" in id_ or USER in id_] == []


def test_answers_to_agents_on_this_machine_have_paths_that_can_be_opened(
    archive: Path,
) -> None:
    dispatcher = McpDispatcher(ToolService(archive, _caller(), redactor=Redactor()))

    result = dispatcher.dispatch("tools/call", {"name": "recent", "arguments": {}})

    assert CWD in result["content"][0]["text"]


def _caller() -> Caller:
    return Caller(
        directory=Path(CWD), session=None, clock=lambda: datetime.now(UTC), zone=UTC
    )


def test_answers_to_other_agents_do_not_name_the_machine(archive: Path) -> None:
    service = ToolService(
        archive, _caller(), lambda: Archive.open(archive), redactor=Redactor()
    )
    dispatcher = McpDispatcher(service)
    calls = [("search", {"query": "walrus"}), ("recent", {})]
    calls += [("read", {"session": id_}) for id_ in _session_ids(archive)]
    for tool, arguments in calls:
        result = dispatcher.dispatch(
            "tools/call", {"name": tool, "arguments": arguments}
        )
        text = result["content"][0]["text"]
        assert not result["isError"], text
        assert USER not in text
        assert str(archive.parent) not in text


def _session_ids(archive: Path) -> list[str]:
    with Archive.open(archive) as opened:
        return [summary.id for summary in opened.sessions(include_empty=True)]
