"""Prompts, the command palette, saved searches and exports from the browser."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from bygones.archive import Archive
from bygones.export import folder
from bygones.export.formats import ExportInput, ExportOptions, RedactionReport
from bygones.ingest.loading import StoreLoader
from bygones.model.base import SessionId
from bygones.model.sessions import Session
from bygones.redact.session import RedactionLog
from bygones.render.html.markup import Html
from bygones.web.saved_searches import SavedSearch, load_searches
from tests.build import SESSION, Home, prompt, reply, session_id, thread
from tests.web.archives import (
    EDITED,
    EDITED_PATH,
    LONG,
    PLAIN,
    REWOUND,
    WebArchive,
    build_archive,
)
from tests.web.client import WebClient, web_client

FORM = {"content-type": "application/x-www-form-urlencoded"}


def test_prompts_are_listed_newest_first_with_a_link_to_each(page: WebClient) -> None:
    text = page.get("/prompts").text

    assert text.index("Change the words") < text.index("Second way")
    assert f'href="/session/{EDITED}?at=' in text
    older = page.get("/prompts?page=2").text
    assert 'data-copy="Please count the lines"' in older


def test_prompts_are_filtered_by_query_and_project(page: WebClient) -> None:
    assert "First way" not in page.get("/prompts?q=lines").text
    assert "Please count" in page.get("/prompts?q=lines").text
    assert "Please count" not in page.get("/prompts?project=/work/other").text
    assert "No prompts match" in page.get("/prompts?q=nowhere").text


def test_prompts_that_cannot_be_loaded_are_marked_and_not_called_equal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / ".claude")
    for number in (1, 2):
        words = "word " * 100 + str(number)
        home.session(session_id(number), thread(prompt(words, uuid=f"p{number}")))
    home.session(session_id(3), thread(prompt("A short one"), reply("Yes.")))
    Archive.ingest(tmp_path / "archive", [home.path])
    client = web_client(WebArchive(home, tmp_path / "archive"))
    assert "could not be loaded" not in client.get("/prompts").text

    monkeypatch.setattr(StoreLoader, "read_raw", lambda *_: b"")

    assert client.get("/prompts").text.count("the rest could not be loaded") == 2
    assert "No prompts match" in client.get("/prompts?sort=used").text


def test_prompts_used_again_are_counted(tmp_path: Path) -> None:
    home = Home(tmp_path / ".claude")
    for number in (1, 2, 3):
        words = "run the  tests" if number == 2 else "Run the tests"
        asked = prompt(words, uuid=f"p{number}")
        lines = thread(asked, reply("Yes.", uuid=f"r{number}"), start=number * 60)
        home.session(session_id(number), lines)
    home.session(session_id(4), thread(prompt("Once only"), reply("Yes.")))
    Archive.ingest(tmp_path / "archive", [home.path])
    text = (
        web_client(WebArchive(home, tmp_path / "archive"))
        .get("/prompts?sort=used")
        .text
    )

    assert "used 3 times" in text
    assert "Once only" not in text


@pytest.mark.parametrize(
    ("query", "group", "label"),
    [
        ("", "Sessions", "Counting lines"),
        ("count lines", "Sessions", "Counting lines"),
        ("other", "Projects", "other"),
        ("words.txt", "Files", "words.txt"),
        ("second", "Prompts", "Second way"),
    ],
)
def test_palette_finds(query: str, group: str, label: str, page: WebClient) -> None:
    entries = page.get(f"/palette?q={query.replace(' ', '+')}").json

    assert (group, label) in {(entry[0], entry[1]) for entry in entries}
    for entry in entries:
        assert page.get(entry[3]).status in {200, 303}


def test_palette_names_the_folder_of_a_file(page: WebClient) -> None:
    entries = page.get("/palette?q=words.txt").json

    folder = EDITED_PATH.rpartition("/")[0]
    assert [entry[2] for entry in entries if entry[0] == "Files"] == [folder]


def test_palette_and_tabs_show_titles_without_marks(tmp_path: Path) -> None:
    home = Home(tmp_path / ".claude")
    home.session(SESSION, thread(prompt("**Router** uses `dnsmasq`"), reply("Yes.")))
    Archive.ingest(tmp_path / "archive", [home.path])
    page = web_client(WebArchive(home, tmp_path / "archive"))

    entries = page.get("/palette?q=router").json
    tab = page.get(f"/session/{SESSION}").text.partition("</title>")[0]

    labels = {(entry[0], entry[1]) for entry in entries}
    assert ("Sessions", "Router uses dnsmasq") in labels
    assert tab.endswith("<title>Router uses dnsmasq · Bygones")


def test_searches_are_saved_and_removed(tmp_path: Path) -> None:
    page = web_client(build_archive(tmp_path))
    path = tmp_path / "config" / "searches.json"
    state = page.app._app.state.app_state  # type: ignore[attr-defined]
    page = web_client(build_archive(tmp_path / "again"))
    app = page.app._app  # type: ignore[attr-defined]
    assert state.searches_file is None
    assert (
        page.ask("POST", "/searches", page.default_headers | FORM, b"q=x").status == 404
    )
    structs.force_setattr(app.state.app_state, "searches_file", path)

    body = b"q=is%3Aerror+timeout&action=save"
    saved = page.ask("POST", "/searches", page.default_headers | FORM, body)

    assert saved.status == 303
    assert load_searches(path) == (SavedSearch("is:error timeout"),)
    assert path.stat().st_mode & 0o777 == 0o600
    assert "is:error timeout" in page.get("/search").text
    groups = [entry[0] for entry in page.get("/palette?q=timeout").json]
    assert "Saved searches" in groups
    removed = body.replace(b"save", b"remove")
    page.ask("POST", "/searches", page.default_headers | FORM, removed)
    assert load_searches(path) == ()
    invalid = b"q=after%3Anever&action=save"
    assert (
        page.ask("POST", "/searches", page.default_headers | FORM, invalid).status
        == 400
    )
    for route in ("/searches", "/sessions/change"):
        assert (
            page.ask("POST", route, page.default_headers | FORM, b"&" * 5_000).status
            == 400
        )


def test_export_is_previewed_and_downloaded(tmp_path: Path) -> None:
    home = Home(tmp_path / ".claude")
    key = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    home.session(
        SESSION,
        thread(prompt(f"Use {key}"), reply("Yes."), prompt("Second"), reply("Done.")),
    )
    Archive.ingest(tmp_path / "archive", [home.path])
    page = web_client(WebArchive(home, tmp_path / "archive"))

    preview = page.get(f"/share?session={SESSION}").text
    whole = page.get(f"/share/download?session={SESSION}&format=markdown")
    part = page.get(f"/share/download?session={SESSION}&format=markdown&first=2&last=2")

    assert "Download" in preview
    assert "1 github" in preview.lower()
    assert key not in preview.partition('class="redactions"')[2]
    assert key not in whole.text
    assert "Use " in whole.text
    assert "Yes." in whole.text
    assert "Yes." not in part.text
    assert "Second" in part.text
    assert f'filename="{SESSION}.md"' in whole.headers["content-disposition"]


@pytest.mark.parametrize("format_", ["html", "jsonl"])
def test_export_preview_of_a_long_session_checks_a_first_part_and_says_so(
    tmp_path: Path, format_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bygones.web.pages.share._CHECKED_MESSAGES", 4)
    monkeypatch.setattr("bygones.web.pages.share._CHECKED_BYTES", 10)
    home = Home(tmp_path / ".claude")
    lines = [
        one
        for at in range(3)
        for one in (prompt(f"Ask ann{at}@shop.dev"), reply("Yes. " * 40_000))
    ]
    home.session(SESSION, thread(*lines))
    Archive.ingest(tmp_path / "archive", [home.path])
    page = web_client(WebArchive(home, tmp_path / "archive"))
    url = f"/share?session={SESSION}&format={format_}"

    part = page.get(url).text
    whole = page.get(f"{url}&check=all").text
    short = page.get(f"{url}&first=1&last=2").text

    part_checked = "4 of 6 messages" if format_ == "html" else "Counted in the first "
    assert "Counted in the first" in part
    assert part_checked in part
    assert "3 email addresses" not in part
    assert "check=all" in part
    assert "Counted in the first" not in whole
    assert "3 email addresses" in whole
    assert ("Counted in the first" in short) == (format_ == "jsonl")


@pytest.mark.parametrize("query", ["first=3", "first=2&last=1", "first=900&last=901"])
def test_export_of_no_turns_says_so(query: str, page: WebClient) -> None:
    text = page.get(f"/share?session={REWOUND}&{query}").text

    assert "No turns in this range. The session has 1 turn." in text
    assert "Download" not in text


def test_several_sessions_are_downloaded_as_one_archive(page: WebClient) -> None:
    names = f"session={PLAIN}&session={LONG}&session={EDITED}"
    answer = page.get(f"/share/download?{names}&format=html")

    with zipfile.ZipFile(io.BytesIO(answer.body)) as file:
        pages = [name for name in file.namelist() if name.endswith(".html")]
    assert "bygones-export/index.html" in pages
    assert sum(PLAIN in name for name in pages) == 1
    assert page.get(f"/share?{names}").status == 200


@pytest.mark.parametrize("format_", ["html", "jsonl"])
def test_session_that_fails_is_named_in_the_preview_of_the_others(
    format_: str, page: WebClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = RedactionReport.add

    def add(self: RedactionReport, session: SessionId, log: RedactionLog) -> None:
        if session == EDITED:
            raise ValueError("unexpected")
        original(self, session, log)

    monkeypatch.setattr(RedactionReport, "add", add)
    answer = page.get(f"/share?session={PLAIN}&session={EDITED}&format={format_}")

    assert answer.status == 200
    left_out = answer.text.partition("will be left out: ")[2].partition("<")[0]
    assert left_out == "Change the words"
    assert "Download" in answer.text
    single = page.get(f"/share?session={EDITED}&format={format_}")
    assert single.status == 500


@pytest.mark.parametrize("format_", ["html", "jsonl"])
def test_preview_offers_no_download_if_all_sessions_fail(
    format_: str, page: WebClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("unexpected")

    monkeypatch.setattr(RedactionReport, "add", fail)
    answer = page.get(f"/share?session={PLAIN}&session={EDITED}&format={format_}")

    assert answer.status == 200
    assert "will be left out: " in answer.text
    assert "Download" not in answer.text
    assert "No secrets" not in answer.text


def test_session_that_fails_is_named_in_the_archive_of_the_others(
    page: WebClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    render = folder.render_session_pages

    def fail_for_one(
        source: Session | ExportInput, stem: str, options: ExportOptions
    ) -> Iterator[tuple[str, Iterator[Html]]]:
        if EDITED in stem:
            raise ValueError("unexpected")
        return render(source, stem, options)

    monkeypatch.setattr(folder, "render_session_pages", fail_for_one)
    wanted = f"session={PLAIN}&session={LONG}&session={EDITED}"
    answer = page.get(f"/share/download?{wanted}&format=html")

    with zipfile.ZipFile(io.BytesIO(answer.body)) as file:
        names = file.namelist()
        lines = file.read("bygones-export/not exported.txt").decode().splitlines()
    assert any(PLAIN in name for name in names)
    assert not any(EDITED in name for name in names)
    assert lines[1:] == [EDITED]


def test_pages_of_a_session_that_fails_are_not_in_the_archive_of_the_others(
    page: WebClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    render = folder.render_session_pages

    def fail_after_first_page(
        source: Session | ExportInput, stem: str, options: ExportOptions
    ) -> Iterator[tuple[str, Iterator[Html]]]:
        for named_page in render(source, stem, options):
            yield named_page
            if EDITED in stem:
                raise ValueError("unexpected")

    monkeypatch.setattr(folder, "render_session_pages", fail_after_first_page)
    wanted = f"session={PLAIN}&session={EDITED}"
    answer = page.get(f"/share/download?{wanted}&format=html")

    with zipfile.ZipFile(io.BytesIO(answer.body)) as file:
        names = file.namelist()
    assert any(PLAIN in name for name in names)
    assert not any(EDITED in name for name in names)
    assert "bygones-export/not exported.txt" in names


@pytest.mark.parametrize(
    "query", ["", "session=", "session=x&format=exe", f"session={REWOUND}&branch=9"]
)
def test_wrong_exports_are_rejected(query: str, page: WebClient) -> None:
    assert page.get(f"/share?{query}").status in {400, 404}
    assert page.get(f"/share/download?{query}").status in {400, 404}
