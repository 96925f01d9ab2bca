"""Many sessions in one folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from bygones.export.folder import export_folder
from bygones.export.formats import ExportFormat
from tests.build import prompt, reply, session_id, thread
from tests.export.shared import KEY, chosen, home_of, making

HTML = making(ExportFormat.HTML)


def written(folder: Path) -> dict[str, int]:
    return {
        path.relative_to(folder).as_posix(): path.stat().st_mtime_ns
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_pages_come_with_lists_and_what_they_need(tmp_path: Path) -> None:
    home = home_of(tmp_path / "home")
    site = tmp_path / "site"

    done = export_folder(chosen(home.path), site, HTML)

    assert (done.written_sessions, done.unchanged_sessions) == (3, 0)
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
def test_only_what_changed_is_written_again(form: ExportFormat, tmp_path: Path) -> None:
    home = home_of(tmp_path / "home")
    site = tmp_path / "site"
    export_folder(chosen(home.path), site, making(form))
    before = written(site)

    same = export_folder(chosen(home.path), site, making(form))
    unchanged = written(site)
    home.session(session_id(1), thread(prompt("Something else"), reply("Yes")))
    grown = export_folder(chosen(home.path), site, making(form))

    assert (same.written_sessions, same.unchanged_sessions, unchanged) == (0, 3, before)
    assert (grown.written_sessions, grown.unchanged_sessions) == (1, 2)
    page = site / "sessions" / f"{session_id(1)}{form.suffix}"
    assert "Something else" in page.read_text("utf-8")


def test_another_wish_writes_everything_again(tmp_path: Path) -> None:
    home = home_of(tmp_path / "home")
    export_folder(chosen(home.path), tmp_path / "site", HTML)

    bare = making(ExportFormat.HTML, redact=False)
    done = export_folder(chosen(home.path), tmp_path / "site", bare)

    assert done.written_sessions == 3


def test_a_page_that_was_deleted_is_written_again(tmp_path: Path) -> None:
    home = home_of(tmp_path / "home")
    site = tmp_path / "site"
    export_folder(chosen(home.path), site, HTML)
    (site / "sessions" / f"{session_id(2)}.html").unlink()

    assert export_folder(chosen(home.path), site, HTML).written_sessions == 1


def test_sessions_that_are_not_chosen_stay_in_the_list(tmp_path: Path) -> None:
    home = home_of(tmp_path / "home")
    site = tmp_path / "site"
    export_folder(chosen(home.path), site, HTML)

    export_folder(chosen(home.path)[:1], site, HTML)

    assert (site / "index.html").read_text("utf-8").count("<li>") == 3


@pytest.mark.parametrize("manifest", ["", "{", "[]", '{"version": 99, "sessions": {}}'])
def test_a_manifest_that_says_nothing_is_made_anew(
    manifest: str, tmp_path: Path
) -> None:
    home = home_of(tmp_path / "home")
    site = tmp_path / "site"
    site.mkdir()
    (site / ".bygones-export.json").write_text(manifest)

    assert export_folder(chosen(home.path), site, HTML).written_sessions == 3


def test_places_are_kept_for_a_report(tmp_path: Path) -> None:
    home = home_of(tmp_path / "home")

    done = export_folder(chosen(home.path), tmp_path / "site", HTML, keep_details=True)

    kinds = [row.kind for row in done.report.rows]
    assert kinds.count("github-token") == 3
