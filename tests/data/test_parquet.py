"""Arrow and Parquet hold the rows of the views, and the recipes of the guide run."""

from __future__ import annotations

import json
import re
import shutil
import stat
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.cli.main import main
from bygones.data import arrow as arrow_module
from bygones.data import text_batches
from bygones.data.exported_rows import read_rows
from bygones.data.text_batches import TextBatchLoader
from bygones.data.views import VIEW_NAMES, VIEWS
from bygones.errors import MissingDataPackage, SqlError
from bygones.ingest.loading import StoreLoader
from bygones.redact.engine import Redactor
from tests.build import Home, prompt, reply, session_id, thread, tool_result, tool_use
from tests.cases.archives import CaseArchives
from tests.cases.make import stories
from tests.corpus import CORPUS, needs_corpus
from tests.export.shared import damage_session

pq = pytest.importorskip(
    "pyarrow.parquet", reason="needs pyarrow: pip install bygones[data]"
)

ROOT = Path(__file__).resolve().parents[2]
SECRET = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
LOGIN = "margarethe"
VIEWS_BY_NAME = {view.name: view for view in VIEWS}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of an archive with sessions in two months."""
    folder = tmp_path_factory.mktemp("parquet")
    home = Home(folder / ".claude")
    cwd = f"/home/{LOGIN}/shop"
    for number in (1, 2):
        home.session(
            session_id(number),
            thread(
                prompt(f"use {SECRET} in {cwd}", cwd=cwd),
                reply([tool_use("Bash", id=f"t{number}", command="ls")], cwd=cwd),
                tool_result(f"t{number}", "a result, éè", cwd=cwd),
                reply(f"done, {LOGIN}", cwd=cwd),
                start=number * 30 * 86_400,
            ),
        )
    Archive.ingest(folder / "archive", [home.path])
    return folder / "archive"


def plain(value: object) -> object:
    """Return a value of Arrow as SQL has it."""
    if isinstance(value, datetime):
        text = value.astimezone(UTC).isoformat(timespec="milliseconds")
        return text.replace("+00:00", "Z")
    return int(value) if isinstance(value, bool) else value


@pytest.mark.req("DA3")
def test_tables_and_files_have_the_rows_of_the_views(
    folder: Path, tmp_path: Path
) -> None:
    with Archive.open(folder) as archive:
        written = archive.export_parquet(tmp_path)
        for view in VIEWS:
            rows = archive.sql(f"SELECT * FROM {view.name}").to_dicts()
            expected = sorted(json.dumps(row, default=repr) for row in rows)
            table = archive.to_arrow(view.name)
            stored = pq.read_table(tmp_path / f"{view.name}.parquet")
            for one in (table, stored):
                found = [
                    {name: plain(value) for name, value in row.items()}
                    for row in one.to_pylist()
                ]
                texts = sorted(json.dumps(row, default=repr) for row in found)
                assert texts == expected
            assert written.row_counts[view.name] == len(rows)
            assert stored.schema.metadata[b"bygones.views_version"] == b"1"
    assert {path.name for path in written.files} == {f"{v}.parquet" for v in VIEW_NAMES}
    assert not list(tmp_path.rglob("*.partial"))


def load_texts(archive: Archive, view: str, *, redact: bool) -> list[str]:
    """Return what SQL loads row by row, in any order."""
    columns = _LOADED[view]
    rows = archive.sql(f"SELECT session_id, {columns} FROM {view}", redact=redact)
    return sorted(map(repr, rows))


_LOADED = {
    "messages": "text, thinking",
    "tool_calls": "input, output",
    "prompts": "text",
    "commits": "sha, summary, turn, branch",
}
every_tenth_case = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if at % 10 == 0 else pytest.mark.full)
        for at, name in enumerate(sorted(stories()))
    ],
)


def assert_batches_equal_rows(archive: Archive) -> None:
    for redact in (True, False):
        found: dict[str, list[str]] = {view: [] for view in _LOADED}
        for view, row in read_rows(archive.sql_service(redact=redact), VIEWS):
            if view in _LOADED:
                names = [column.name for column in VIEWS_BY_NAME[view].columns]
                wanted = ("session_id", *_LOADED[view].split(", "))
                found[view].append(repr(tuple(row[names.index(one)] for one in wanted)))
        for name, rows in found.items():
            assert sorted(rows) == load_texts(archive, name, redact=redact)


@every_tenth_case
def test_texts_read_at_once_are_those_read_one_by_one(
    name: str, case_archives: CaseArchives
) -> None:
    with Archive.open(case_archives.archive(name)) as archive:
        assert_batches_equal_rows(archive)


@pytest.mark.full
@needs_corpus
def test_texts_of_real_transcripts_are_the_same_at_once(tmp_path: Path) -> None:
    Archive.ingest(tmp_path / "archive", [CORPUS])
    with Archive.open(tmp_path / "archive") as archive:
        assert_batches_equal_rows(archive)


def test_batches_are_divided_by_size(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_batches, "_BATCH_BYTES", 1)
    with Archive.open(folder) as archive:
        assert_batches_equal_rows(archive)


@pytest.mark.req("DA3")
def test_files_are_redacted_unless_disabled(folder: Path, tmp_path: Path) -> None:
    with Archive.open(folder) as archive:
        archive.export_parquet(tmp_path / "shared")
        archive.export_parquet(tmp_path / "private", redact=False)

    for view in VIEW_NAMES:
        shown = repr(pq.read_table(tmp_path / "shared" / f"{view}.parquet").to_pylist())
        assert SECRET not in shown
        assert LOGIN not in shown
    prompts = tmp_path / "private" / "prompts.parquet"
    assert SECRET in repr(pq.read_table(prompts).to_pylist())
    assert stat.S_IMODE(prompts.stat().st_mode) == 0o600


def test_what_a_killed_export_left_does_not_make_tables_public(
    folder: Path, tmp_path: Path
) -> None:
    target, other = tmp_path / "private", tmp_path / "notes"
    target.mkdir()
    other.write_text("mine", "utf-8")
    (target / ".prompts.parquet.partial").touch(0o644)
    (target / ".sessions.parquet.partial").symlink_to(other)

    with Archive.open(folder) as archive:
        archive.export_parquet(target, redact=False)

    for name in ("prompts", "sessions"):
        table = target / f"{name}.parquet"
        assert not table.is_symlink()
        assert stat.S_IMODE(table.stat().st_mode) == 0o600
    assert other.read_text("utf-8") == "mine"


class _TextFailure(Exception):
    """An error that nothing expects."""


def fail_on(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, word: str) -> None:
    """Let a method fail whenever its arguments contain a word."""
    original = getattr(owner, name)

    def method(*args: object, **options: object) -> object:
        if word in repr(args[1:]):
            raise _TextFailure(word)
        return original(*args, **options)

    monkeypatch.setattr(owner, name, method)


@pytest.mark.parametrize(
    ("owner", "name", "word", "view", "columns"),
    [
        (Redactor, "redact_text", "broken", "messages", {"text"}),
        (Redactor, "redact_text", "broken", "sessions", {"title"}),
        (Redactor, "for_line", "failure", "tool_calls", {"input", "output"}),
        (StoreLoader, "read_raw", session_id(2), "prompts", {"text"}),
        (TextBatchLoader, "call_texts", "(2, ", "tool_calls", {"input", "output"}),
    ],
)
def test_session_whose_texts_cannot_be_loaded_does_not_stop_the_others(  # noqa: PLR0913, PLR0917
    owner: type,
    name: str,
    word: str,
    view: str,
    columns: set[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    home = Home(tmp_path / ".claude")
    for number, first, called in (
        (1, "intact", "ls"),
        (2, "broken", "failure"),
        (3, "intact", "ls"),
    ):
        home.session(
            session_id(number),
            thread(
                prompt(f"{first} " * 200),
                reply([tool_use("Bash", id=f"t{number}", command=called)]),
                tool_result(f"t{number}", "a result"),
                reply("done"),
            ),
        )
    Archive.ingest(tmp_path / "archive", [home.path])
    command = ["export", "--format", "parquet", "--to", str(tmp_path / "data")]
    command += ["--archive", str(tmp_path / "archive"), "--no-ingest"]
    assert main(command) == 0
    whole = pq.read_table(tmp_path / "data" / f"{view}.parquet").to_pylist()
    fail_on(monkeypatch, owner, name, word)
    capsys.readouterr()

    assert main(command) == 1

    output = capsys.readouterr()
    assert "sessions.parquet" in output.out
    assert f"texts of 1 session are missing; the first is {session_id(2)}" in output.err
    found = pq.read_table(tmp_path / "data" / f"{view}.parquet").to_pylist()
    lost = dict.fromkeys(columns)
    changed = [(old, new) for old, new in zip(whole, found, strict=True) if old != new]
    assert changed
    assert [new for _, new in changed] == [old | lost for old, _ in changed]
    assert {new["session_id"] for _, new in changed} == {session_id(2)}
    assert main([*command, "--json"]) == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["failed_sessions"] == [session_id(2)]


def test_all_sessions_with_a_value_that_cannot_be_redacted_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = Home(tmp_path / ".claude")
    for number, name in ((1, "broken"), (2, "broken"), (3, "intact")):
        home.session(
            session_id(number), thread(prompt("Go", cwd=f"/srv/{name}"), reply("done"))
        )
    Archive.ingest(tmp_path / "archive", [home.path])
    fail_on(monkeypatch, Redactor, "redact_text", "broken")
    command = ["export", "--format", "parquet", "--to", str(tmp_path / "data")]

    code = main([*command, "--archive", str(tmp_path / "archive"), "--json"])

    assert code == 1
    found = json.loads(capsys.readouterr().out)["failed_sessions"]
    assert sorted(found) == [session_id(1), session_id(2)]


def test_unredacted_files_beside_redacted_tables_are_reported(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--to", str(tmp_path), "--archive", str(folder), "--no-ingest"]
    tables = ["export", "--format", "parquet", *options]
    assert main(tables) == 0
    assert "may not be redacted" not in capsys.readouterr().err
    assert main(["export", "--all", "--no-redact", *options]) == 0

    assert main(tables) == 0

    note = capsys.readouterr().err.splitlines()[-1]
    assert note.startswith("note: 5 files in the folder may not be redacted")
    assert main([*tables, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["unredacted_files"]
    assert {Path(path).name for path in found} == {
        *(".bygones-export.json", "index.html", "index.js"),
        *(f"{session_id(number)}.html" for number in (1, 2)),
    }


def test_damaged_texts_are_missing_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = Home(tmp_path / ".claude")
    for number in (1, 2, 3):
        home.session(
            session_id(number),
            thread(
                prompt(f"please {number} " * 200),
                reply([tool_use("Bash", id=f"t{number}", command="ls")]),
                tool_result(f"t{number}", "a result"),
                reply("done"),
            ),
        )
    Archive.ingest(tmp_path / "archive", [home.path])
    shutil.rmtree(home.path)
    damage_session(tmp_path / "archive", session_id(2))
    command = ["export", "--format", "parquet", "--to", str(tmp_path / "data")]
    command += ["--archive", str(tmp_path / "archive"), "--no-ingest"]

    assert main(command) == 1

    output = capsys.readouterr()
    assert f"texts of 1 session are missing; the first is {session_id(2)}" in output.err
    for view, column in (
        ("prompts", "text"),
        ("messages", "text"),
        ("tool_calls", "input"),
        ("tool_calls", "output"),
    ):
        rows = pq.read_table(tmp_path / "data" / f"{view}.parquet").to_pylist()
        lost = {row["session_id"] for row in rows if row[column] is None}
        assert lost == {session_id(2)}, (view, column)
    assert main([*command, "--no-redact"]) == 1


def test_large_views_are_divided_by_month(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Archive.open(folder) as archive:
        archive.export_parquet(tmp_path)
        monkeypatch.setattr(arrow_module, "_MAX_FILE_ROWS", 3)
        archive.export_parquet(tmp_path)
        count = archive.sql("SELECT count(*) FROM messages").rows[0][0]

    months = sorted(path.name for path in (tmp_path / "messages").iterdir())
    assert months == ["month=2026-02", "month=2026-03"]
    assert not (tmp_path / "messages.parquet").exists()
    assert pq.read_table(tmp_path / "messages").num_rows == count
    assert (tmp_path / "sessions.parquet").exists()


def test_some_columns_of_a_view(folder: Path) -> None:
    with Archive.open(folder) as archive:
        table = archive.to_arrow("messages", columns=["role", "sent_at"])

        assert table.column_names == ["role", "sent_at"]
        with pytest.raises(SqlError, match="no column 'price'"):
            archive.to_arrow("messages", columns=["price"])
        with pytest.raises(SqlError, match="at least one column"):
            archive.to_arrow("messages", columns=[])
        with pytest.raises(SqlError, match="no view 'message'"):
            archive.to_arrow("message")


def test_without_pyarrow_the_extra_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_module, "pa", None)
    with (
        Archive.open(folder) as archive,
        pytest.raises(MissingDataPackage) as caught,
    ):
        archive.to_arrow("usage")
    assert caught.value.hint == "run `pip install 'bygones[data]'`"


def test_command_writes_parquet(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["export", "--format", "parquet", "--archive", str(folder), "--no-ingest"]

    assert main([*command, "--to", str(tmp_path / "data")]) == 0
    assert "sessions.parquet" in capsys.readouterr().out
    assert main([*command, "--to", str(tmp_path / "data"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["format"] == "parquet"
    assert main([*command]) == 2
    assert main([*command, "5e55", "--to", str(tmp_path / "x")]) == 2


def recipes() -> list[tuple[str, str]]:
    """Return the Python examples of the guide, with the package that each needs."""
    text = (ROOT / "docs" / "guide" / "data.md").read_text("utf-8")
    found = re.findall(r"<!-- needs (\w+) -->\n```python\n(.*?)```", text, re.DOTALL)
    return [(package, code) for package, code in found]


@pytest.mark.full
@pytest.mark.parametrize(("package", "code"), recipes())
def test_a_recipe_of_the_guide_runs(
    package: str, code: str, folder: Path, tmp_path: Path
) -> None:
    pytest.importorskip(package, reason=f"needs {package}: pip install {package}")
    with Archive.open(folder) as archive:
        archive.export_parquet(tmp_path / "data")
    code = code.replace("Archive.open()", f"Archive.open({str(folder)!r})")

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.full
def test_the_notebook_runs(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib and pandas")
    pytest.importorskip("pandas", reason="needs matplotlib and pandas")
    path = ROOT / "docs" / "guide" / "history.ipynb"
    cells = json.loads(path.read_text("utf-8"))["cells"]
    code = "\n".join(
        "".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"
    )
    code = code.replace("Archive.open()", f"Archive.open({str(folder)!r})")
    code = f"import matplotlib\nmatplotlib.use('Agg')\n{code}\n"
    code += "import matplotlib.pyplot as plt\nprint(len(plt.get_fignums()))"

    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "5"
