"""Exporting many sessions into a folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from bygones.export import folder as folder_module
from bygones.export.folder import ExportItem, export_folder
from bygones.export.formats import ExportFormat
from bygones.model.sessions import Session
from tests.build import Home, prompt, reply, session_id, thread
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


@pytest.mark.parametrize("has_manifest", [True, False])
def test_redacted_export_replaces_an_unredacted_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_manifest: bool
) -> None:
    monkeypatch.setattr(folder_module, "_MAX_PAGE_CHARS", 1500)
    home = two_projects(tmp_path / "home")
    site = tmp_path / "site"
    bare = export_options(ExportFormat.HTML, redact=False)
    export_folder(export_items(home.path), site, bare)
    assert "margarethe" in read_all(site)
    assert len(list(site.glob("projects/*"))) == 3
    if not has_manifest:
        (site / ".bygones-export.json").unlink()

    result = export_folder(export_items(home.path), site, HTML)

    assert result.unredacted_files == []
    assert KEY not in read_all(site)
    assert "margarethe" not in read_all(site)
    assert len(list(site.glob("projects/*"))) == 3


@pytest.mark.parametrize("has_manifest", [True, False])
def test_unredacted_sessions_are_reported_and_not_listed_by_a_redacted_export(
    tmp_path: Path, *, has_manifest: bool
) -> None:
    home = two_projects(tmp_path / "home")
    site = tmp_path / "site"
    bare = export_options(ExportFormat.HTML, redact=False)
    export_folder(export_items(home.path), site, bare)
    if not has_manifest:
        (site / ".bygones-export.json").unlink()

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


def test_session_that_fails_is_reported_if_its_older_page_is_not_redacted(
    tmp_path: Path,
) -> None:
    home = make_home(tmp_path / "home")
    site = tmp_path / "site"
    bare = export_options(ExportFormat.HTML, redact=False)
    export_folder(export_items(home.path), site, bare)
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


def fail_to_load(item: ExportItem, error: Exception) -> ExportItem:
    def load() -> Session:
        raise error

    return structs.replace(item, load=load)
