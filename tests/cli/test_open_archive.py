"""New transcripts are imported before something is shown."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.assemble.sessions import assemble_sessions
from bygones.assemble.summary import SummariesByLeaf
from bygones.cli.main import main
from bygones.errors import ExitCode, SystemFailure
from bygones.ingest import derive
from bygones.model.nodes import Transcript
from bygones.model.sessions import Session
from bygones.model.summary import Loader
from bygones.store.connect import writer_lock
from tests.build import Home, prompt, reply, session_id, thread
from tests.cli.terminals import Terminal

THIRD = session_id(3)


@pytest.fixture
def archived_home(sample_home: Home, capsys: pytest.CaptureFixture[str]) -> Home:
    assert main(["ingest"]) == ExitCode.SUCCESS
    capsys.readouterr()
    return sample_home


def add_third(home: Home) -> None:
    home.session(THIRD, thread(prompt("A third one"), reply("Yes"), start=9000))


def list_output(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["list", *words]) == ExitCode.SUCCESS
    return capsys.readouterr().out


def test_a_list_shows_what_was_written_a_moment_ago(
    archived_home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    add_third(archived_home)

    assert "A third one" in list_output(capsys)


def test_no_ingest_lists_the_archive_unchanged(
    archived_home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    add_third(archived_home)

    assert "A third one" not in list_output(capsys, "--no-ingest")


@pytest.mark.usefixtures("archived_home")
def test_nothing_is_imported_without_changes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(Archive, "ingest", refuse)

    assert "Counting lines" in list_output(capsys)


def test_interrupted_import_is_completed_by_the_next_command(
    archived_home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    path = next(archived_home.path.glob("projects/*/*.jsonl"))
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("who may read everything is refused nothing")
    main(["ingest"])

    path.chmod(0o600)
    archive = Archive.open(archived_home.path.parent / "archive")

    assert not archive.is_current([archived_home.path])
    assert "Counting lines" in list_output(capsys)


def test_during_another_ingest_the_committed_archive_is_shown(
    archived_home: Home, home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_third(archived_home)

    with writer_lock(home_dir / "archive"):
        shown = list_output(capsys)

    assert "Counting lines" in shown
    assert "A third one" not in shown


def test_transcript_that_cannot_be_indexed_does_not_hide_the_others(
    archived_home: Home,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:

    def fail_for_third(
        transcripts: Sequence[Transcript], loader: Loader, titles: SummariesByLeaf
    ) -> tuple[Session, ...]:
        if any(THIRD in one.source.id for one in transcripts):
            raise ValueError("unexpected")
        return assemble_sessions(transcripts, loader, titles)

    monkeypatch.setattr(derive, "assemble_sessions", fail_for_third)
    add_third(archived_home)
    fourth = thread(prompt("A fourth one"), reply("Sure"), start=9900)
    archived_home.session(session_id(4), fourth)

    for options in ([], ["--quiet"]):
        assert main(["list", *options]) == ExitCode.SUCCESS
        shown, notes = capsys.readouterr()
        assert "Counting lines" in shown
        assert "A fourth one" in shown
        assert "note: 1 session could not be indexed" in notes
        assert f"{THIRD}.jsonl: ValueError('unexpected') (fail_for_third, line" in notes
    assert main(["ingest"]) == ExitCode.FAILURE
    assert "1 session could not be indexed" in capsys.readouterr().err
    assert main(["rebuild"]) == ExitCode.FAILURE
    assert "A fourth one" in list_output(capsys)
    monkeypatch.setattr(derive, "assemble_sessions", assemble_sessions)
    assert "A third one" in list_output(capsys)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (KeyError("model"), "unexpected KeyError('model') while importing"),
        (OSError(errno.EIO, "Input/output error"), "Input/output error"),
        (
            SystemFailure("no space left on device"),
            "the system reported an error: no space",
        ),
    ],
    ids=["unexpected", "unreadable", "system"],
)
def test_a_failed_import_is_reported_also_with_quiet(
    archived_home: Home,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    *,
    error: Exception,
    reason: str,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(Archive, "ingest", fail)
    add_third(archived_home)

    output, note = _run("list", capsys, "--quiet")

    assert "Counting lines" in output
    assert note.startswith(f"note: the archive is not up to date: {reason}")


def test_quiet_hides_that_another_ingest_is_running(
    archived_home: Home, home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_third(archived_home)

    with writer_lock(home_dir / "archive"):
        assert _run("list", capsys, "--quiet")[1] == ""


def test_without_any_home_the_archive_is_shown(
    archived_home: Home, home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archived_home.path.rename(home_dir / "elsewhere")

    assert "Counting lines" in list_output(capsys)


@pytest.mark.parametrize("name", ["--home", "BYGONES_HOME", "CLAUDE_CONFIG_DIR"])
def test_archive_is_shown_with_a_note_if_the_named_home_is_missing(
    archived_home: Home,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    commands = ["list", "search lines", f"show {session_id(1)}", "list --json"]
    shown = [_run(command, capsys, "--no-ingest")[0] for command in commands]
    archived_home.path.rename(archived_home.path.with_name("elsewhere"))
    away = str(archived_home.path.with_name("away"))
    option = ["--home", away] if name == "--home" else []
    if not option:
        monkeypatch.setenv(name, away)

    for command, expected in zip(commands, shown, strict=True):
        output, note = _run(command, capsys, *option)

        assert output == expected
        assert note.startswith("note: the archive is not up to date: ")
        assert note.count("\n") == note.count(away) == 1


def _run(
    command: str, capsys: pytest.CaptureFixture[str], *options: str
) -> tuple[str, str]:
    assert main([*command.split(), *options]) == ExitCode.SUCCESS
    return capsys.readouterr()


@pytest.mark.usefixtures("archived_home")
def test_named_home_must_exist_to_be_imported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["ingest", "--home", "nowhere"]) == ExitCode.USAGE_ERROR
    assert "nowhere does not exist" in capsys.readouterr().err
    monkeypatch.setenv("BYGONES_HOME", "nowhere")
    assert main(["ingest"]) == ExitCode.USAGE_ERROR
    assert "nowhere does not exist" in capsys.readouterr().err


@pytest.mark.usefixtures("archived_home")
def test_home_of_the_settings_may_be_missing(
    home_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    away = home_dir / "away"
    (home_dir / "mine.toml").write_text(f"homes = ['{away}']")
    monkeypatch.setenv("BYGONES_SETTINGS", str(home_dir / "mine.toml"))

    assert main(["list"]) == ExitCode.SUCCESS

    captured = capsys.readouterr()
    assert "Counting lines" in captured.out
    assert (
        captured.err == f"note: the archive is not up to date: {away} does not exist\n"
    )


@pytest.mark.parametrize(
    "words",
    [["list", "--archive="], ["--archive=", "list"], ["show", ""], ["files", " "]],
)
@pytest.mark.usefixtures("archived_home")
def test_empty_path_is_rejected(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == ExitCode.USAGE_ERROR
    assert "a path must not be empty" in capsys.readouterr().err


def test_named_archive_is_not_updated(
    archived_home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    add_third(archived_home)

    assert "A third one" not in list_output(capsys, "--archive", "archive")
    home = str(archived_home.path)
    assert "A third one" in list_output(capsys, "--archive", "archive", "--home", home)


def test_verbose_reports_what_was_imported(
    archived_home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    add_third(archived_home)

    assert main(["list", "-v"]) == ExitCode.SUCCESS

    assert "1 new" in capsys.readouterr().err


def test_an_index_of_another_version_is_rebuilt(
    archived_home: Home, home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (index,) = (home_dir / "archive" / "index").iterdir()
    index.rename(index.with_name("0123456789abcdef-1"))
    archived_home.path.rename(home_dir / "elsewhere")

    assert main(["list"]) == ExitCode.SUCCESS

    captured = capsys.readouterr()
    assert "Counting lines" in captured.out
    assert captured.err == "building the search index\n"


@pytest.mark.usefixtures("sample_home")
@pytest.mark.parametrize(
    "words",
    [
        *(["list"], ["usage"], ["search", "count"], ["show", "last"], ["projects"]),
        *(["prompts"], ["tree"], ["sql", "select 1"]),
        ["export", "--to", "-", "last"],
    ],
    ids=lambda words: words[0],
)
def test_first_command_in_a_pipe_creates_the_archive(
    words: list[str], home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == ExitCode.SUCCESS

    created = capsys.readouterr()
    assert "no archive yet: importing ~/.claude into ~/archive" in created.err
    assert created.out
    assert (home_dir / "archive").exists()
    assert main([*words, "--quiet"]) == ExitCode.SUCCESS
    assert capsys.readouterr() == (created.out, "")


@pytest.mark.usefixtures("sample_home")
def test_no_archive_is_created_if_nothing_is_to_be_imported(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["list", "--no-ingest"]) == ExitCode.NO_ARCHIVE

    assert "bygones ingest" in capsys.readouterr().err
    assert not (home_dir / "archive").exists()


@pytest.mark.skipif(os.name == "nt", reason="terminals are others there")
@pytest.mark.usefixtures("sample_home")
def test_the_first_command_creates_the_archive_and_shows_progress() -> None:
    terminal = Terminal("list")

    assert terminal.end() == ExitCode.SUCCESS

    assert "no archive yet: importing ~/.claude into ~/archive" in terminal.shown
    assert "Counting lines" in terminal.shown


def test_show_imports_new_records(
    archived_home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    add_third(archived_home)

    assert main(["show", THIRD[:-1] + "3"]) == ExitCode.SUCCESS
    assert "A third one" in capsys.readouterr().out


def test_last_is_the_newest_session(
    archived_home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    add_third(archived_home)

    assert main(["show", "last"]) == ExitCode.SUCCESS
    assert "A third one" in capsys.readouterr().out


@pytest.mark.usefixtures("home_dir")
@pytest.mark.parametrize(
    "words",
    [
        *([], ["list"], ["show"], ["show", "5e55"], ["verify"], ["rebuild"]),
        *(["backup", "there"], ["restore", "--all"], ["purge", "5e55"]),
    ],
)
def test_demo_is_offered_in_a_pipe_if_there_are_no_transcripts(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == ExitCode.NO_ARCHIVE

    stderr = capsys.readouterr().err
    assert "and no Claude Code home found in " in stderr
    assert "`bygones demo` creates sample data" in stderr


@pytest.mark.usefixtures("archived_home")
@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["list", "--archive", "no where"], "ingest"),
        (["--archive=no where", "list"], "ingest"),
        (["show", "nope", "--archive=archive"], "list"),
    ],
)
def test_hint_names_the_given_archive(
    words: list[str], command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) != ExitCode.SUCCESS

    named = "archive" if "archive" in " ".join(words).split("=") else "'no where'"
    stderr = capsys.readouterr().err
    assert f"`bygones {command} --archive {named}" in stderr


@pytest.mark.usefixtures("sample_home")
def test_missing_home_is_reported_even_without_ingest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["ingest", "-q"])

    missing = str(tmp_path / "gone")
    assert main(["list", "--no-ingest", "--home", missing]) == ExitCode.SUCCESS
    assert f"{missing} does not exist" in capsys.readouterr().err


@pytest.mark.usefixtures("sample_home")
@pytest.mark.parametrize("words", [["list"], ["search", "lines"]])
def test_archive_under_construction_is_noted_in_a_pipe(
    words: list[str], home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = home_dir / "empty"
    (empty / "projects").mkdir(parents=True)
    Archive.ingest(home_dir / "archive", [empty])

    with writer_lock(home_dir / "archive"):
        main(words)

    message = "note: the archive is still being created and is empty: another command"
    assert message in capsys.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="no directory can be removed there so")
@pytest.mark.usefixtures("demo_home")
def test_a_missing_current_directory_is_reported(
    home_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = home_dir / "gone"
    missing.mkdir()
    monkeypatch.chdir(missing)
    missing.rmdir()

    for words in (["list", "-n", "1"], [], ["search", "retry"], ["show", "last"]):
        assert main(words) == ExitCode.SUCCESS, capsys.readouterr().err
    capsys.readouterr()
    for words in (["list", "--project", "."], ["files", "x.py"], ["backup", "there"]):
        assert main(words) == ExitCode.USAGE_ERROR
        message = "error: the current directory no longer exists\n"
        assert capsys.readouterr().err.startswith(message)
    monkeypatch.chdir(home_dir)


def test_projects_of_a_new_archive_are_a_note_without_a_table(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home_dir / ".claude" / "projects").mkdir(parents=True)
    assert main(["ingest", "-q"]) == ExitCode.SUCCESS

    assert main(["projects"]) == ExitCode.SUCCESS
    assert capsys.readouterr() == ("", "no projects yet\n")
