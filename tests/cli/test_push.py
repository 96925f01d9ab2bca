"""``bygones push``: what was named goes, and it is said what and how."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Semaphore

import pytest

from bygones.archive import Archive
from bygones.cli.main import main
from bygones.errors import ExitCode
from bygones.hub.chunks import LineRedactor
from bygones.hub.client import PushLoop
from bygones.model.base import SessionId
from bygones.team.contract import ErasureSelector
from tests.build import Home, jsonl, prompt, session_id, thread
from tests.hub.hubs import TestHub, run_hub
from tests.hub.sending import KEY, NOW, PROJECT, make_project


@pytest.fixture
def home(home_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    home, _ = make_project(home_dir)
    monkeypatch.setenv("BYGONES_HOME", str(home.path))
    return home


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[TestHub]:
    with run_hub(tmp_path / "hub", {}) as hub:
        yield hub


def write_settings(
    home_dir: Path, hub: str = "", token: str = "", project: str = PROJECT
) -> None:
    folder = home_dir / ".config" / "bygones"
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["[push]", f'projects = ["{project}"]']
    lines += [f'hub = "{hub}"'] * bool(hub) + [f'token = "{token}"'] * bool(token)
    (folder / "settings.toml").write_text("\n".join(lines))
    (folder / "settings.toml").chmod(0o600)


@pytest.mark.usefixtures("home")
def test_only_named_projects_are_uploaded(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["push"]) == ExitCode.USAGE_ERROR
    assert "have no projects" in capsys.readouterr().err
    write_settings(home_dir)
    assert main(["push"]) == ExitCode.USAGE_ERROR
    assert "have no hub" in capsys.readouterr().err
    write_settings(home_dir, hub="https://hub.example.com")
    assert main(["push"]) == ExitCode.USAGE_ERROR
    assert "have no token" in capsys.readouterr().err


@pytest.mark.usefixtures("home")
def test_token_that_others_can_read_is_not_used(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_settings(home_dir, "https://hub.example.com", "byg_x")
    (home_dir / ".config" / "bygones" / "settings.toml").chmod(0o644)

    assert main(["push"]) != ExitCode.SUCCESS
    assert "other users can read the token" in capsys.readouterr().err


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    "hub", ["http://hub.example.com", "hub", "ftp://x", "http://["]
)
def test_token_is_never_sent_unencrypted(
    home_dir: Path, hub: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_settings(home_dir, hub, "rcl_x")

    assert main(["push"]) == ExitCode.USAGE_ERROR
    assert "invalid address" in capsys.readouterr().err


@pytest.mark.usefixtures("home")
def test_unmatched_project_is_reported_as_unknown(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_settings(home_dir)
    settings = home_dir / ".config" / "bygones" / "settings.toml"
    settings.write_text('[push]\nprojects = ["/nowhere"]\n')

    assert main(["push", "--dry-run"]) == ExitCode.SUCCESS

    assert "no session was started in the selected projects" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("cwd", "message"),
    [("/home/ida/shop", "~/shop"), ("/root/shop", "/root/shop")],
)
def test_a_dry_run_names_projects_as_the_hub_will_know_them(
    cwd: str,
    message: str,
    home: Home,
    capsys: pytest.CaptureFixture[str],
) -> None:
    home_dir = home.path.parent
    home.session(session_id(70), thread(prompt("Said", cwd=cwd)), project="-shop")
    write_settings(home_dir, project=cwd)

    assert main(["push", "--dry-run"]) == ExitCode.SUCCESS

    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if "1 session" in line][1:] == [message]


@pytest.mark.usefixtures("home")
def test_dry_run_reports_uploads_and_redactions(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_settings(home_dir)

    assert main(["push", "--dry-run"]) == ExitCode.SUCCESS

    stdout = capsys.readouterr().out
    assert stdout.startswith("would send 3 sessions: 3 files, 24 lines, ")
    assert "~/work/shop" in stdout
    assert "12 email" in stdout


def test_second_push_uploads_only_new_lines(
    home_dir: Path, home: Home, hub: TestHub, capsys: pytest.CaptureFixture[str]
) -> None:
    secret, _ = hub.token("ann")
    write_settings(home_dir, hub=hub.address, token=secret)

    assert main(["push"]) == ExitCode.SUCCESS
    first = capsys.readouterr().out
    assert main(["push"]) == ExitCode.SUCCESS
    second = capsys.readouterr().out
    path = home.path / "projects" / KEY / f"{session_id(1)}.jsonl"
    with path.open("ab") as file:
        file.write(jsonl(thread(prompt("One more", cwd=PROJECT), start=900)))
    assert main(["push", "--json"]) == ExitCode.SUCCESS
    third = json.loads(capsys.readouterr().out.splitlines()[-1])

    assert first.startswith("sent 3 sessions to http://")
    assert second == "sent nothing: the hub already has everything\n"
    assert (third["type"], third["line_count"], third["session_ids"]) == (
        "push",
        1,
        [session_id(1)],
    )


@pytest.mark.usefixtures("home")
def test_a_push_says_how_many_sessions_were_erased_on_the_hub(
    home_dir: Path, hub: TestHub, capsys: pytest.CaptureFixture[str]
) -> None:
    secret, _ = hub.token("ann")
    write_settings(home_dir, hub=hub.address, token=secret)
    assert main(["push"]) == ExitCode.SUCCESS
    capsys.readouterr()

    hub.store.erase(ErasureSelector(session=SessionId(session_id(1))), now=NOW)
    assert main(["push"]) == ExitCode.SUCCESS
    some = capsys.readouterr().out
    hub.store.erase(ErasureSelector(person="ann"), now=NOW)
    assert main(["push"]) == ExitCode.SUCCESS
    every = capsys.readouterr().out
    assert main(["push", "--json"]) == ExitCode.SUCCESS
    row = json.loads(capsys.readouterr().out.splitlines()[-1])

    assert some == (
        "sent nothing: the hub already has the others\n"
        "not sent: 1 session erased on the hub and not sent again\n"
    )
    assert every.startswith(
        "sent nothing: the selected sessions were erased on the hub\n"
    )
    assert "3 sessions erased on the hub and not sent again" in every
    assert row["erased_session_ids"] == [session_id(number) for number in range(3)]


@pytest.fixture
def failing_file(monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the end of the name of a file that cannot be redacted."""
    original = LineRedactor.redact

    def redact(self: LineRedactor, raw: bytes) -> bytes:
        if session_id(1).encode() in raw:
            raise KeyError("unexpected")
        return original(self, raw)

    monkeypatch.setattr(LineRedactor, "redact", redact)
    return f"{session_id(1)}.jsonl"


@pytest.mark.usefixtures("home")
def test_a_push_whose_file_failed_says_so_and_exits_with_1(
    home_dir: Path,
    hub: TestHub,
    failing_file: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    secret, _ = hub.token("ann")
    write_settings(home_dir, hub=hub.address, token=secret)

    assert main(["push"]) == ExitCode.FAILURE
    first = capsys.readouterr()
    assert main(["push"]) == ExitCode.FAILURE
    second = capsys.readouterr()
    assert main(["push", "--quiet"]) == ExitCode.FAILURE
    quiet = capsys.readouterr()
    assert main(["push", "--json"]) == ExitCode.FAILURE
    row = json.loads(capsys.readouterr().out.splitlines()[-1])

    assert first.out.startswith("sent 2 sessions to http://")
    assert second.out == "sent nothing\nnot sent: 1 file that failed\n"
    assert quiet.out == ""
    for result in (first, second, quiet):
        assert "error: 1 file could not be redacted; the first is " in result.err
        assert f"{failing_file}: KeyError('unexpected')\n" in result.err
    assert [name.endswith(failing_file) for name in row["failed_files"]] == [True]


@pytest.mark.usefixtures("home", "failing_file")
def test_a_watching_push_reports_files_that_failed_and_continues(
    home_dir: Path,
    hub: TestHub,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    secret, _ = hub.token("ann")
    write_settings(home_dir, hub=hub.address, token=secret)
    monkeypatch.setattr(PushLoop, "interval", 0.05)
    reports = Semaphore(0)

    def watch(
        _folder: Path, _homes: object, notify: Callable[[None], None], *, stop: Event
    ) -> None:
        for _ in range(2):
            assert reports.acquire(timeout=20)
            assert not stop.is_set()
            notify(None)
        raise KeyboardInterrupt

    def write(text: str) -> int:
        if "1 file could not be redacted" in text:
            reports.release()
        return len(text)

    monkeypatch.setattr(Archive, "watch", watch)
    monkeypatch.setattr(sys.stderr, "write", write)

    assert main(["push", "--watch"]) == ExitCode.INTERRUPTED
    assert "sent 2 sessions to http://" in capsys.readouterr().out


@pytest.mark.usefixtures("home")
def test_a_wrong_token_is_reported(
    home_dir: Path, hub: TestHub, capsys: pytest.CaptureFixture[str]
) -> None:
    write_settings(home_dir, hub.address, "rcl_wrong")

    assert main(["push"]) == ExitCode.FAILURE
    assert "token is unknown" in capsys.readouterr().err


def test_watching_push_uploads_new_lines(
    home_dir: Path, home: Home, hub: TestHub
) -> None:
    secret, _ = hub.token("ann")
    write_settings(home_dir, hub=hub.address, token=secret)
    quickly = (
        "from bygones.hub.client import PushLoop; PushLoop.interval = 0.1;"
        " from bygones.cli.main import entry_point; entry_point()"
    )
    words = [sys.executable, "-c", quickly, "push", "--watch"]

    def lines() -> int:
        return sum(
            hub.objects.get(span.address).count(b"\n")
            for batch in hub.store.export_updates()
            for span in batch.spans
        )

    with subprocess.Popen(words, env=dict(os.environ), stderr=subprocess.PIPE) as child:
        try:
            _wait_until(lambda: lines() == 24)
            path = home.path / "projects" / KEY / f"{session_id(1)}.jsonl"
            with path.open("ab") as file:
                file.write(jsonl(thread(prompt("One more", cwd=PROJECT), start=900)))
            _wait_until(lambda: lines() == 25)
            child.send_signal(signal.SIGINT)
            assert child.wait(30) == ExitCode.INTERRUPTED
        finally:
            child.kill()


def _wait_until(condition: Callable[[], bool]) -> None:
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < 60
        time.sleep(0.05)
