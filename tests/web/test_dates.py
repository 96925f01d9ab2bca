"""Pages of sessions with extreme years."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.model.reports import Grouping
from tests.build import Home, prompt, reply, session_id, thread
from tests.web.archives import WebArchive
from tests.web.client import web_client

TIMES = (
    "0001-01-01T00:00:00Z",
    "0002-01-01T00:00:00Z",
    "9998-12-31T23:59:59.999Z",
    "9999-12-31T23:59:59.999Z",
    "2026-01-01T10:00:00+14:00",
)
PAGES = ("/", "/usage.csv", "/api/usage", "/search?q=year", "/files", "/projects")


@pytest.fixture(params=["Asia/Tokyo", "America/New_York"])
def zone(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Time zones east and west of UTC."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("zone")
def test_years_outside_the_local_clock_break_no_page(tmp_path: Path) -> None:
    home = Home(tmp_path / ".claude")
    for number, result in enumerate(TIMES):
        records = thread(prompt(f"year {result}"), reply("y", message_id=f"m{number}"))
        dated = [record | {"timestamp": result} for record in records]
        home.session(session_id(number), dated)
    Archive.ingest(tmp_path / "archive", [home.path])
    page = web_client(WebArchive(home, tmp_path / "archive"))
    sessions = [f"/session/{session_id(number)}" for number in range(len(TIMES))]

    for path in (
        *PAGES,
        *sessions,
        *(f"/usage?by={grouping}" for grouping in Grouping),
    ):
        assert page.ask("GET", path, page.default_headers).status == 200, path
