"""Exporting many sessions into a folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from bygones.export.folder import ExportItem, export_folder
from bygones.export.formats import ExportFormat
from bygones.model.sessions import Session
from tests.build import prompt, reply, session_id, thread
from tests.export.shared import KEY, export_items, export_options, make_home

HTML = export_options(ExportFormat.HTML)


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


def fail_to_load(item: ExportItem, error: Exception) -> ExportItem:
    def load() -> Session:
        raise error

    return structs.replace(item, load=load)
