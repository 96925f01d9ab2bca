"""``bygones show`` of what is in the archive."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bygones.cli.main import main
from bygones.errors import ExitCode
from tests.build import Home, prompt, reply, session_id

REWOUND = "aaaa1111-0000-4000-8000-000000000001"
OURS = "77770000-0000-4000-8000-000000000007"


@pytest.fixture
def archived_home(sample_home: Home) -> Home:
    """Return a home that is archived and gone."""
    records = [
        prompt("Begin", uuid="begin"),
        reply("Begun", uuid="begun", parent="begin"),
        prompt("The wrong way", uuid=REWOUND, parent="begun"),
        prompt("The right way", uuid="right", parent="begun"),
    ]
    for number, record in enumerate(records):
        record["timestamp"] = f"2026-01-05T09:00:{number:02}.000Z"
    sample_home.session(OURS, records)
    assert main(["ingest", "--quiet"]) == ExitCode.SUCCESS
    shutil.rmtree(sample_home.path)
    return sample_home


def show_output(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["show", *words]) == ExitCode.SUCCESS
    return capsys.readouterr().out


@pytest.mark.usefixtures("archived_home")
def test_a_session_is_shown_when_its_files_are_gone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "Please count the lines" in show_output(capsys, session_id(1))
    assert "The right way" in show_output(capsys, "7777")
    assert "Begun" in show_output(capsys, "7777", "--json")


@pytest.mark.usefixtures("archived_home")
@pytest.mark.req("T7")
def test_a_record_shows_the_branch_that_it_is_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = show_output(capsys, "aaaa1111")

    assert "The wrong way" in page
    assert "The right way" not in page.partition("abandoned branch")[0]


@pytest.mark.usefixtures("archived_home")
def test_unknown_name_is_a_usage_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["show", "7778"]) == ExitCode.USAGE_ERROR
    assert "no session '7778' in the archive" in capsys.readouterr().err
    assert main(["show", "5e55"]) == ExitCode.USAGE_ERROR
    assert "matches 2 sessions" in capsys.readouterr().err


@pytest.mark.usefixtures("home_dir")
def test_without_an_archive_no_names_are_completed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["show", "7777"]) == ExitCode.NO_ARCHIVE
    assert "no archive in " in capsys.readouterr().err


def test_showing_a_file_does_not_wait_for_the_archive(home_dir: Path) -> None:
    path = Home(home_dir / "home").session(OURS, [prompt("Hello")])
    code = (
        "import sys; from bygones.cli.main import main; main(sys.argv[1:]);"
        "sys.exit(bool({'apsw', 'tantivy', 'watchfiles'} & set(sys.modules)))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code, "show", str(path)],
        capture_output=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
