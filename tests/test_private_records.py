"""Private records never leave the archive: a canary in each, and every way out."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.cli.main import main
from bygones.hub.client import push
from bygones.model.metadata import ATTACHMENTS_BY_TYPE, METADATA_BY_TYPE
from bygones.redact.engine import Redactor
from tests.build import CWD, Home, attachment, prompt, reply, session_id, thread
from tests.hub.sending import MemoryHub
from tests.mcp.client import ToolClient
from tests.web.archives import WebArchive
from tests.web.client import web_client

SESSION = session_id(1)
CANARY = "zanzibarine"
PRIVATE_RECORDS = [
    *(name for name, kind in METADATA_BY_TYPE.items() if kind.is_private),
    "api-request-of-tomorrow",
]
PRIVATE_ATTACHMENTS = [
    *(name for name, kind in ATTACHMENTS_BY_TYPE.items() if not kind.is_exported),
    "attachment_of_tomorrow",
]


def records() -> list[dict[str, object]]:
    """Return a session with the canary in every field that a private record may have."""
    nested = {"text": CANARY, "content": CANARY, "system": [{"text": CANARY}]}
    values = dict.fromkeys(("message", "shape", "params", "context"), nested)
    private = [
        {"type": name, "sessionId": SESSION, "text": CANARY, **values}
        for name in PRIVATE_RECORDS
    ]
    attached = [
        attachment(name, content=CANARY, systemPrompt=[CANARY], files=[nested])
        | {"rendered": [{"content": CANARY}]}
        for name in PRIVATE_ATTACHMENTS
    ]
    return [*private, *thread(prompt("Hello there"), *attached, reply("Hello."))]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("BYGONES_ARCHIVE", str(tmp_path / "archive"))
    monkeypatch.setenv("BYGONES_HOME", str(tmp_path / ".claude"))
    monkeypatch.chdir(tmp_path)
    home = Home(tmp_path / ".claude")
    home.session(SESSION, records())
    Archive.ingest(tmp_path / "archive", [home.path])
    return home


def run(*arguments: str) -> str:
    output = io.StringIO()
    with redirect_stdout(output):
        main([*arguments, "--no-ingest"])
    return output.getvalue()


@pytest.mark.parametrize("redact", ["--redact", "--no-redact"])
@pytest.mark.parametrize("name", ["html", "markdown", "text", "json", "jsonl"])
def test_no_export_contains_private_records(home: Home, name: str, redact: str) -> None:
    run("export", SESSION, "--format", name, redact, "--to", "out")
    run("export", "--all", "--format", name, redact, "--to", "folder")

    written = [path for path in home.path.parent.rglob("*") if path.is_file()]
    exported = [
        path
        for path in written
        if {"out", "folder"} & {*path.relative_to(home.path.parent).parts}
    ]
    assert len(exported) >= 2
    for path in exported:
        assert CANARY.encode() not in path.read_bytes(), path


def test_exported_tree_has_no_missing_parents(home: Home) -> None:
    lines = run("export", SESSION, "--format", "jsonl", "--to", "-").splitlines()

    exported = [json.loads(line) for line in lines]
    ids = {record["uuid"] for record in exported}
    assert len(exported) == 2 + len(PRIVATE_ATTACHMENTS)
    assert {record["parentUuid"] for record in exported} - {None} <= ids
    assert home.path.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", SESSION),
        ("show", SESSION, "--json"),
        ("tree", SESSION, "--json"),
        ("search", CANARY),
        ("list", "--json"),
        ("prompts", "--json"),
    ],
    ids=lambda arguments: " ".join(arguments[::2]),
)
def test_no_command_prints_private_records(
    home: Home, arguments: tuple[str, ...]
) -> None:
    assert CANARY not in run(*arguments).replace(f'"{CANARY}"', "")
    assert home.path.exists()


def test_push_sends_no_private_records(home: Home, tmp_path: Path) -> None:
    hub = MemoryHub(tmp_path / "raw")

    push(tmp_path / "archive", [CWD], redactor=Redactor(), transport=hub)

    assert hub.texts()
    assert all(CANARY.encode() not in text for text in hub.texts().values())
    assert home.path.exists()


def test_no_web_page_or_api_answer_shows_private_records(
    home: Home, tmp_path: Path
) -> None:
    client = web_client(WebArchive(home, tmp_path / "archive"))

    for path in (
        f"/session/{SESSION}",
        f"/api/sessions/{SESSION}",
        f"/api/sessions/{SESSION}/messages",
        f"/api/search?q={CANARY}",
    ):
        answer = client.get(path)
        assert CANARY not in answer.text.replace(f'"{CANARY}"', ""), path


def test_mcp_answers_contain_no_private_records(tmp_path: Path) -> None:
    client = ToolClient(tmp_path)
    client.home.session(SESSION, records())
    client.sandbox.ingest()

    assert "0 sessions found" in client.ask("search", query=CANARY, scope="all")
    assert CANARY not in client.ask("outline", session=SESSION)
    assert CANARY not in client.ask("read", session=SESSION, detail="full")
