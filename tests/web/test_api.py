"""The web API returns the same objects as the commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.cli.main import main
from bygones.web.api import build_openapi
from bygones.web.app import ROUTES
from tests.build import (
    Home,
    prompt,
    reply,
    session_id,
    thread,
    tool_result,
    tool_use,
)
from tests.web.archives import AGENT, LONG, PLAIN, REWOUND, WebArchive, build_archive
from tests.web.client import WebClient, web_client


@pytest.mark.parametrize(
    ("path", "arguments"),
    [
        ("/api/sessions?limit=500", ["list"]),
        ("/api/projects", ["projects"]),
        ("/api/search?q=lines", ["search", "lines"]),
        ("/api/usage?by=model", ["usage", "--by", "model"]),
        (f"/api/sessions/{PLAIN}", ["show", PLAIN]),
        (f"/api/sessions/{REWOUND}?tools=1", ["show", REWOUND, "--tools"]),
        (f"/api/sessions/{AGENT}?agents=1", ["show", AGENT, "--agents"]),
        (f"/api/files?session={PLAIN}", ["files", PLAIN]),
    ],
)
def test_api_equals_the_json_of_commands(
    path: str,
    arguments: list[str],
    web_archive: WebArchive,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*arguments, "--json", "--archive", str(web_archive.folder)]) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    answer = web_client(web_archive).get(path).json

    assert answer["schema"] == 2
    assert answer["items"] == printed


def test_files_of_several_sessions_are_listed_newest_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = Home(tmp_path / ".claude")
    for number in (1, 2, 3):
        write = tool_use("Write", file_path="/work/demo/a.py", content=f"{number}\n")
        records = thread(
            prompt("Write"), reply([write]), tool_result("toolu_1"), start=number * 60
        )
        home.session(session_id(number), records)
    web_archive = WebArchive(home, tmp_path / "archive")
    Archive.ingest(web_archive.folder, [home.path])
    arguments = [
        "files",
        "/work/demo/a.py",
        "--json",
        "--archive",
        str(web_archive.folder),
    ]
    assert main(arguments) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    items = web_client(web_archive).get("/api/files?path=/work/demo/a.py").json["items"]

    assert items == printed
    assert [item["session_id"] for item in items] == [session_id(n) for n in (3, 2, 1)]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/sessions?limit=x", 400),
        ("/api/sessions?on=x", 400),
        ("/api/sessions?q=tool:", 400),
        ("/api/sessions?projects=x", 400),
        ("/api/projects?limit=1", 400),
        ("/api/sessions/ffff", 404),
        (f"/api/sessions/{PLAIN}?branch=9", 404),
        ("/api/search?q=tool:", 400),
        ("/api/search?q=a&sort=x", 400),
        ("/api/usage?by=x", 400),
        ("/api/usage?since=x", 400),
        ("/api/files", 400),
        ("/api/nothing", 404),
    ],
)
def test_api_errors_have_a_message_and_a_hint(
    path: str, status: int, page: WebClient
) -> None:
    answer = page.get(path)

    assert answer.status == status
    assert set(answer.json) == {"error", "hint"}


@pytest.mark.parametrize(
    ("parameters", "query"),
    [
        ("tool=Edit", "tool:Edit"),
        ("q=tool:Edit", "tool:Edit"),
        ("q=counting", "counting"),
        ("q=project:/work&text=count", "project:/work title:count*"),
        ("project=/work", "project:/work"),
    ],
)
def test_session_parameters_select_like_a_query(
    parameters: str, query: str, page: WebClient, web_archive: WebArchive
) -> None:
    rows = page.get(f"/api/sessions?{parameters}").json["items"]

    with Archive.open(web_archive.folder) as archive:
        selected = [session.id for session in archive.sessions(query)]
        assert len(selected) > 0
    assert [row["session_id"] for row in rows] == selected


def test_openapi_describes_every_route(page: WebClient) -> None:
    result = page.get("/api/openapi.json").json

    paths = {row.path for row in ROUTES if row.is_api} - {"/api/openapi.json"}
    assert set(result["paths"]) == paths
    assert result == json.loads(json.dumps(build_openapi(ROUTES)))
    known = set(result["components"]["schemas"])
    named = set(_refs(result))
    assert named <= known


def _refs(value: object) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"].rpartition("/")[2]] if "$ref" in value else []
        return own + [ref for inner in value.values() for ref in _refs(inner)]
    if isinstance(value, list):
        return [ref for inner in value for ref in _refs(inner)]
    return []


def test_annotations_are_saved(tmp_path_factory: pytest.TempPathFactory) -> None:
    page = web_client(build_archive(tmp_path_factory.mktemp("annotated")))
    path = f"/api/sessions/{LONG}/annotations"

    assert page.post(path, {"is_starred": True}).json["items"][0]["is_starred"] is True
    (result,) = page.post(path, {"tags": ["b", "a"], "note": "to read"}).json["items"]

    assert result["tags"] == ["a", "b"]
    assert result["is_starred"] is True
    text = page.get(f"/session/{LONG}").text
    assert 'aria-pressed="true"' in text
    assert 'value="a b"' in text
    assert page.post(path, {"tags": []}).json["items"][0]["tags"] == []


@pytest.mark.parametrize(
    "change",
    [
        {"tags": ["two words"]},
        {"tags": [""]},
        {"tags": ["x" * 101]},
        {"tags": ["\x1b[2J"]},
        {"tags": "a"},
        {"note": "\x00"},
        {"title": "x"},
        [],
    ],
)
def test_invalid_annotations_are_rejected(change: object, page: WebClient) -> None:
    assert page.post(f"/api/sessions/{PLAIN}/annotations", change).status == 400


def test_annotating_an_unknown_session_fails(page: WebClient) -> None:
    assert page.post("/api/sessions/ffff/annotations", {}).status == 404
