"""Exporting many sessions into a folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from msgspec import structs

from bygones.export import folder as folder_module
from bygones.export import formats as formats_module
from bygones.export.files import write_atomic
from bygones.export.folder import ExportItem, ExportResult, export_folder
from bygones.export.formats import (
    ExportFormat,
    ExportInput,
    as_input,
    export_session,
)
from bygones.model.sessions import Session
from bygones.redact.session import RedactionLog
from tests.build import Home, prompt, reply, session_id, thread
from tests.export.shared import KEY, export_items, export_options, make_home

HTML = export_options(ExportFormat.HTML)
BARE = export_options(ExportFormat.HTML, redact=False)


def written(folder: Path) -> dict[str, int]:
    return {
        path.relative_to(folder).as_posix(): path.stat().st_mtime_ns
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_html_export_has_index_pages_and_assets(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    site = tmp_path / "site"

    result = export_folder(export_items(home.path), site, HTML)

    assert (result.written_sessions, result.unchanged_sessions) == (3, 0)
    assert set(written(site)) == {
        *(f"sessions/{session_id(number)}.html" for number in range(3)),
        *(
            "index.html",
            "assets/style.css",
            "assets/index.js",
            ".bygones-export.json",
        ),
    }
    assert not any(KEY in p.read_text("utf-8") for p in site.rglob("*") if p.is_file())


@pytest.mark.parametrize("form", list(ExportFormat))
def test_only_changed_sessions_are_written_again(
    form: ExportFormat, tmp_path: Path
) -> None:
    home = make_home(tmp_path / "home")
    site = tmp_path / "site"
    export_folder(export_items(home.path), site, export_options(form))
    before = written(site)

    same = export_folder(export_items(home.path), site, export_options(form))
    unchanged = written(site)
    home.session(session_id(1), thread(prompt("Something else"), reply("Yes")))
    grown = export_folder(export_items(home.path), site, export_options(form))

    assert (same.written_sessions, same.unchanged_sessions, unchanged) == (0, 3, before)
    assert (grown.written_sessions, grown.unchanged_sessions) == (1, 2)
    page = site / "sessions" / f"{session_id(1)}{form.suffix}"
    assert "Something else" in page.read_text("utf-8")


def test_other_options_write_everything_again(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    export_folder(export_items(home.path), tmp_path / "site", HTML)

    bare = export_options(ExportFormat.HTML, redact=False)
    result = export_folder(export_items(home.path), tmp_path / "site", bare)

    assert result.written_sessions == 3


def test_deleted_page_is_written_again(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    site = tmp_path / "site"
    export_folder(export_items(home.path), site, HTML)
    (site / "sessions" / f"{session_id(2)}.html").unlink()

    assert export_folder(export_items(home.path), site, HTML).written_sessions == 1


def test_sessions_of_earlier_exports_stay_in_the_index(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    site = tmp_path / "site"
    export_folder(export_items(home.path), site, HTML)

    export_folder(export_items(home.path)[:1], site, HTML)

    assert (site / "index.html").read_text("utf-8").count("<li>") == 3


def read_all(folder: Path) -> str:
    """Return the content of everything that is shared, without the manifest."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return "".join(path.read_text("utf-8") for path in paths if path.name[0] != ".")


def two_projects(folder: Path) -> Home:
    home = make_home(folder)
    for number, name in enumerate(("shop", "blog")):
        records = thread(
            prompt(f"Use {KEY} here", cwd=f"/home/margarethe/{name}"),
            reply("x" * 3000, cwd=f"/home/margarethe/{name}"),
            prompt("Go on", cwd=f"/home/margarethe/{name}"),
            reply("Done", cwd=f"/home/margarethe/{name}"),
        )
        home.session(session_id(number), records)
    return home


def test_redacted_export_replaces_an_unredacted_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_module, "_MAX_PAGE_CHARS", 1500)
    home = two_projects(tmp_path / "home")
    site = tmp_path / "site"
    export_folder(export_items(home.path), site, BARE)
    assert "margarethe" in read_all(site)
    assert len(list(site.glob("projects/*"))) == 3

    result = export_folder(export_items(home.path), site, HTML)

    assert result.unredacted_files == []
    assert KEY not in read_all(site)
    assert "margarethe" not in read_all(site)
    assert len(list(site.glob("projects/*"))) == 3


def test_unredacted_sessions_are_reported_and_not_listed_by_a_redacted_export(
    tmp_path: Path,
) -> None:
    home = two_projects(tmp_path / "home")
    site = tmp_path / "site"
    export_folder(export_items(home.path), site, BARE)

    result = export_folder(export_items(home.path)[:1], site, HTML)

    left = [f"sessions/{session_id(number)}.html" for number in (1, 2)]
    assert result.unredacted_files == left
    lists = (site / "index.html", site / "assets/index.js", *site.glob("projects/*"))
    for path in lists:
        text = path.read_text("utf-8")
        assert "margarethe" not in text
        assert session_id(1) not in text
    again = export_folder(export_items(home.path)[1:], site, HTML)
    assert again.unredacted_files == []
    assert session_id(0) in (site / "index.html").read_text("utf-8")


def assert_leaks_are_reported(site: Path, result: ExportResult) -> None:
    """Check that all files with a secret or a user name are reported."""
    leaking = {
        path.relative_to(site).as_posix()
        for path in site.rglob("*")
        if path.is_file() and find_leaks(path)
    }
    assert leaking <= {*result.unredacted_files}


def find_leaks(path: Path) -> list[str]:
    text = path.read_bytes().decode("utf-8", "replace")
    return [secret for secret in (KEY, "margarethe") if secret in text]


def test_without_a_manifest_unredacted_files_are_reported_and_not_deleted(
    tmp_path: Path,
) -> None:
    home = two_projects(tmp_path / "home")
    site = tmp_path / "site"
    export_folder(export_items(home.path), site, BARE)
    (site / ".bygones-export.json").unlink()
    before = set(written(site))

    result = export_folder(export_items(home.path), site, HTML)

    assert before <= set(written(site))
    assert len(result.unredacted_files) == 2
    assert all(name.startswith("projects/") for name in result.unredacted_files)
    assert_leaks_are_reported(site, result)


def test_redacted_export_replaces_what_an_interrupted_unredacted_one_wrote(
    tmp_path: Path,
) -> None:
    home = two_projects(tmp_path / "home")
    site = tmp_path / "site"
    export_folder(export_items(home.path), site, HTML)
    first, second, third = export_items(home.path)
    interrupted = fail_to_load(third, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        export_folder([first, second, interrupted], site, BARE)

    part = export_folder([first], site, HTML)

    assert part.unredacted_files == [f"sessions/{second.id}.html"]
    assert second.id not in (site / "index.html").read_text("utf-8")
    assert_leaks_are_reported(site, part)
    whole = export_folder(export_items(home.path), site, HTML)
    assert (whole.written_sessions, whole.unchanged_sessions) == (1, 2)
    assert whole.unredacted_files == []
    assert_leaks_are_reported(site, whole)


@pytest.mark.parametrize("form", [ExportFormat.HTML, ExportFormat.JSONL])
def test_redacted_export_replaces_what_a_failed_unredacted_one_wrote(
    form: ExportFormat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = make_home(tmp_path / "home", 1)
    site = tmp_path / "site"
    monkeypatch.setattr(folder_module, "_MAX_PAGE_CHARS", 300)
    redacted = export_options(form)
    export_folder(export_items(home.path), site, redacted)
    with monkeypatch.context() as patch:
        for module in (folder_module, formats_module):
            patch.setattr(module, "write_atomic", FailingWrites(2))
        failed = export_folder(
            export_items(home.path), site, export_options(form, redact=False)
        )
    assert failed.failures
    assert any(find_leaks(path) for path in site.rglob("*.*"))

    nothing = export_folder([], site, redacted)
    assert_leaks_are_reported(site, nothing)
    result = export_folder(export_items(home.path), site, redacted)

    assert (result.written_sessions, result.unredacted_files) == (1, [])
    assert_leaks_are_reported(site, result)


class FailingWrites:
    """Writes files until one of them fails."""

    def __init__(self, failing: int) -> None:
        self._left = failing

    def __call__(
        self, path: Path, chunks: Iterable[bytes], *, private: bool = False
    ) -> int:
        self._left -= 1
        if not self._left:
            raise ValueError("damaged agent")
        return write_atomic(path, chunks, private=private)


@pytest.mark.parametrize("form", list(ExportFormat))
def test_redacted_export_replaces_a_page_that_another_command_overwrote(
    form: ExportFormat, tmp_path: Path
) -> None:
    home = make_home(tmp_path / "home")
    site = tmp_path / "site"
    redacted = export_options(form)
    export_folder(export_items(home.path), site, redacted)
    first = export_items(home.path)[0]
    page = site / "sessions" / f"{first.id}{form.suffix}"
    bare = export_options(form, redact=False)
    export_session(as_input(first.load(), bare), page, bare, RedactionLog())
    assert find_leaks(page)

    others = export_folder(export_items(home.path)[1:], site, redacted)
    assert_leaks_are_reported(site, others)
    result = export_folder(export_items(home.path), site, redacted)

    assert (result.written_sessions, result.unredacted_files) == (1, [])
    assert_leaks_are_reported(site, result)


def test_manifest_of_a_redacted_export_contains_redacted_sessions_only(
    tmp_path: Path,
) -> None:
    home = two_projects(tmp_path / "home")
    site = tmp_path / "site"
    export_folder(export_items(home.path), site, BARE)
    manifest = site / ".bygones-export.json"
    assert len(find_leaks(manifest)) == 2

    result = export_folder(export_items(home.path)[:1], site, HTML)

    assert find_leaks(manifest) == []
    assert_leaks_are_reported(site, result)


def test_files_of_the_user_are_not_removed(tmp_path: Path) -> None:
    home = two_projects(tmp_path / "home")
    site = tmp_path / "site"
    own = site / "projects" / "0123456789abcdef.html"
    own.parent.mkdir(parents=True)
    own.write_text("mine")
    own.with_name("fedcba9876543210.html").mkdir()

    result = export_folder(export_items(home.path), site, HTML)

    assert own.read_text() == "mine"
    assert result.unredacted_files == ["projects/0123456789abcdef.html"]


def test_pages_that_the_user_changed_are_not_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = two_projects(tmp_path / "home")
    site = tmp_path / "site"
    monkeypatch.setattr(folder_module, "_MAX_PAGE_CHARS", 1500)
    export_folder(export_items(home.path), site, BARE)
    part = site / "sessions" / f"{session_id(0)}-2.html"
    former = {one.name for one in site.glob("projects/*")}
    changed = [part, *site.glob("projects/*")]
    for path in changed:
        path.write_text("mine")
    monkeypatch.undo()

    result = export_folder(export_items(home.path), site, HTML)

    assert part.read_text() == "mine"
    now = {one.name for one in site.glob("projects/*")}
    assert former < now
    assert part.relative_to(site).as_posix() in result.unredacted_files


def test_page_that_the_user_changes_during_the_export_is_not_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = two_projects(tmp_path / "home")
    site = tmp_path / "site"
    monkeypatch.setattr(folder_module, "_MAX_PAGE_CHARS", 1500)
    export_folder(export_items(home.path), site, BARE)
    part = site / "sessions" / f"{session_id(0)}-2.html"
    monkeypatch.undo()
    item = export_items(home.path)[0]

    def load() -> Session | ExportInput:
        part.write_text("mine")
        return item.load()

    export_folder([structs.replace(item, load=load)], site, HTML)

    assert part.read_text() == "mine"


def test_redacted_lists_stay_known_after_other_formats(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    site = tmp_path / "site"
    export_folder(export_items(home.path), site, HTML)
    bare = export_options(ExportFormat.MARKDOWN, redact=False)
    export_folder(export_items(home.path)[:1], site, bare)

    markdown = export_options(ExportFormat.MARKDOWN)
    result = export_folder(export_items(home.path), site, markdown)

    assert result.unredacted_files == []
    assert_leaks_are_reported(site, result)


def test_other_files_that_exports_may_have_written_are_reported(
    tmp_path: Path,
) -> None:
    home = make_home(tmp_path / "home")
    site = tmp_path / "site"
    names = (
        "messages.parquet",
        ".messages.parquet.partial",
        "usage/month=2026-01/part-0.parquet",
        f"sessions/.{session_id(7)}.html.exporting",
        "projects/.0123456789abcdef.html.exporting",
        "assets/.index.js.exporting",
        ".index.html.exporting",
        f"{session_id(1)}.md",
        f"{session_id(1)}/subagents/a1.jsonl",
        "sessions/a/subagents/unusual",
    )
    for name in (*names, "README.md", "sessions/.DS_Store"):
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(KEY)

    markdown = export_options(ExportFormat.MARKDOWN)
    result = export_folder(export_items(home.path), site, markdown)

    assert result.unredacted_files == sorted(names)


def test_session_that_fails_is_reported_if_its_older_page_is_not_redacted(
    tmp_path: Path,
) -> None:
    home = make_home(tmp_path / "home")
    site = tmp_path / "site"
    export_folder(export_items(home.path), site, BARE)
    first, *others = export_items(home.path)
    failing = fail_to_load(first, ValueError("cannot be loaded"))

    result = export_folder([failing, *others], site, HTML)

    assert result.unredacted_files == [f"sessions/{first.id}.html"]
    assert first.id not in (site / "index.html").read_text("utf-8")


@pytest.mark.parametrize("redact", [True, False])
def test_several_formats_may_share_a_folder(tmp_path: Path, *, redact: bool) -> None:
    home = make_home(tmp_path / "home")
    site = tmp_path / "site"
    for form in ExportFormat:
        options = export_options(form, redact=redact)
        result = export_folder(export_items(home.path), site, options)
        assert result.unredacted_files == []
    page = site / "sessions" / session_id(0)
    others = {page.with_suffix(form.suffix).name for form in ExportFormat}
    assert others <= {path.name for path in page.parent.iterdir()}

    markdown = export_options(ExportFormat.MARKDOWN)
    result = export_folder(export_items(home.path), site, markdown)

    left = {Path(name).suffix for name in result.unredacted_files}
    assert left == (set() if redact else {".html", ".js", ".txt", ".json", ".jsonl"})


def test_pages_that_a_session_no_longer_has_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = make_home(tmp_path / "home")
    site = tmp_path / "site"
    monkeypatch.setattr(folder_module, "_MAX_PAGE_CHARS", 100)
    export_folder(export_items(home.path), site, HTML)
    assert list(site.glob("sessions/*-2.html"))
    monkeypatch.undo()
    manifest = site / ".bygones-export.json"
    outside = tmp_path / "outside.html"
    outside.write_text("kept")
    (site / "sessions" / session_id(1)).mkdir()
    name = f'"sessions/{session_id(1)}.html"'
    hostile = f'{name},"sessions/{session_id(1)}/../../../outside.html"'
    text = manifest.read_text("utf-8").replace(f"[{name}", f"[{hostile}")
    assert "outside" in text
    manifest.write_text(text.replace('"fingerprint":"', '"fingerprint":"old'))

    export_folder(export_items(home.path), site, HTML)

    assert len(list(site.glob("sessions/*.html"))) == 3
    assert outside.exists()


@pytest.mark.parametrize("manifest", ["", "{", "[]", '{"version": 99, "sessions": {}}'])
def test_invalid_manifest_is_replaced(manifest: str, tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    site = tmp_path / "site"
    site.mkdir()
    (site / ".bygones-export.json").write_text(manifest)

    assert export_folder(export_items(home.path), site, HTML).written_sessions == 3


def test_report_keeps_details_if_requested(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")

    result = export_folder(
        export_items(home.path), tmp_path / "site", HTML, keep_details=True
    )

    kinds = [row.kind for row in result.report.rows]
    assert kinds.count("github-token") == 3


def test_session_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    site = tmp_path / "site"
    first, *others = export_items(home.path)
    error = ValueError("cannot be loaded")

    result = export_folder([fail_to_load(first, error), *others], site, HTML)

    assert result.failures == {first.id: error}
    assert result.written_sessions == len(others)
    assert (site / "index.html").is_file()


def test_full_disk_stops_the_export(tmp_path: Path) -> None:
    items = export_items(make_home(tmp_path / "home").path)

    with pytest.raises(OSError, match="full"):
        export_folder(
            [fail_to_load(item, OSError("disk full")) for item in items],
            tmp_path / "site",
            HTML,
        )


def fail_to_load(item: ExportItem, error: BaseException) -> ExportItem:
    def load() -> Session:
        raise error

    return structs.replace(item, load=load)
