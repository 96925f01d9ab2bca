"""``bygones serve``: a real server, asked over a real connection."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from bygones.archive import Archive
from bygones.cli.main import main
from bygones.config import find_state_dir
from bygones.errors import ExitCode
from bygones.runtime import bind_socket
from tests.build import Home


@contextmanager
def run_server(
    *words: str, prefix: tuple[str, ...] = (), no_browser: bool = True
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start the server, and give it with the link that it printed.

    `prefix` is a command that starts it.
    """
    command = [
        *prefix,
        sys.executable,
        *("-m", "bygones", "serve", *words),
        *(["--no-browser"] if no_browser else []),
    ]
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert running.stdout is not None
        yield running, running.stdout.readline().strip()
    finally:
        running.kill()
        running.communicate()


def wait_until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def fetch(link: str, cookie: str = "") -> tuple[int, dict[str, str], str]:
    home_dir = urlsplit(link)
    connection = HTTPConnection(home_dir.hostname or "", home_dir.port or 0, timeout=10)
    headers = {"Cookie": cookie} if cookie else {}
    try:
        connection.request("GET", f"{home_dir.path}?{home_dir.query}", headers=headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C is sent differently there")
def test_a_page_is_served_until_ctrl_c(sample_home: Home, home_dir: Path) -> None:
    archive = str(home_dir / "archive")
    Archive.ingest(archive, [sample_home.path])
    with run_server("--archive", archive) as (running, link):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/enter\?key=[\w-]{43}", link)
        home = link.partition("/enter")[0] + "/"

        assert fetch(home)[0] == 401
        status, headers, _ = fetch(link)
        assert status == 200
        cookie = headers["set-cookie"].partition(";")[0]
        status, headers, text = fetch(home, cookie)
        assert status == 200
        assert "Counting lines" in text
        assert "server" not in {name.lower() for name in headers}
        assert running.stdout is not None
        again = running.stdout.readline().strip()
        assert again.startswith(link.partition("key=")[0])
        assert again != link

        running.send_signal(signal.SIGINT)
        _, stderr = running.communicate(timeout=20)
    assert running.returncode == ExitCode.INTERRUPTED
    assert "Traceback" not in stderr


@pytest.mark.skipif(os.name == "nt", reason="other commands start a browser there")
def test_link_is_in_a_private_file_until_it_is_used_and_in_no_command_line(
    sample_home: Home,
    home_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    archive = str(home_dir / "archive")
    Archive.ingest(archive, [sample_home.path])
    seen = tmp_path / "seen"
    browser = tmp_path / "browser"
    browser.write_text(
        f"#!/bin/sh\necho \"$@\" > '{seen}.new'\nmv '{seen}.new' '{seen}'\n"
        # Some browsers run until their last window is closed.
        "exec sleep 15 > /dev/null 2>&1\n"
    )
    browser.chmod(0o700)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    monkeypatch.setenv("DISPLAY", ":0")
    with run_server("--archive", archive, no_browser=False) as (_, link):
        wait_until(seen.exists)
        argument = seen.read_text().strip()
        page = Path(unquote(urlsplit(argument).path))
        assert link.partition("key=")[2] not in argument
        assert page.stat().st_mode & 0o777 == 0o600
        assert link in page.read_text()

        assert fetch(link)[0] == 200

        wait_until(lambda: not page.exists())


@pytest.mark.skipif(os.name == "nt", reason="no such signals there")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_stopped_server_leaves_no_link_behind(
    name: str, sample_home: Home, home_dir: Path
) -> None:
    archive = str(home_dir / "archive")
    Archive.ingest(archive, [sample_home.path])
    number = getattr(signal, name)
    with run_server("--archive", archive) as (running, link):
        assert fetch(link)[0] == 200
        state = find_state_dir(os.environ, home_dir)
        assert list(state.glob("page-*"))

        running.send_signal(number)
        _, stderr = running.communicate(timeout=20)
    assert running.returncode == -number
    assert "Traceback" not in stderr
    assert not list(state.glob("page-*"))


@pytest.mark.skipif(os.name == "nt", reason="no limit of open files there")
def test_more_idle_connections_than_files_may_be_open_do_not_block_the_owner(
    sample_home: Home, home_dir: Path
) -> None:
    archive = str(home_dir / "archive")
    Archive.ingest(archive, [sample_home.path])
    limited = ("sh", "-c", 'ulimit -n 256; exec "$@"', "sh")
    idle: list[socket.socket] = []
    with run_server("--archive", archive, prefix=limited) as (running, link):
        place = urlsplit(link)
        try:
            for _ in range(600):
                address = (place.hostname or "", place.port or 0)
                idle.append(socket.create_connection(address, timeout=60))

            assert fetch(link)[0] == 200
        finally:
            for connection in idle:
                connection.close()
            running.send_signal(signal.SIGINT)
        _, stderr = running.communicate(timeout=20)
    assert "Too many open files" not in stderr


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.7.7", "example.org"])  # noqa: S104 (refused)
def test_other_machines_need_an_explicit_option(
    host: str, sample_home: Home, home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = str(home_dir / "archive")
    Archive.ingest(archive, [sample_home.path])

    code = main(["serve", "--archive", archive, "--host", host, "--no-browser"])

    assert code == ExitCode.USAGE_ERROR
    assert "--allow-network" in capsys.readouterr().err


def test_busy_port_is_reported(
    sample_home: Home, home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = str(home_dir / "archive")
    Archive.ingest(archive, [sample_home.path])
    with run_server("--archive", archive) as (_, link):
        port = str(urlsplit(link).port)

        code = main(["serve", "--archive", archive, "--port", port, "--no-browser"])

    assert code == ExitCode.FAILURE
    assert "address already in use" in capsys.readouterr().err


def test_missing_archive_is_reported(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["serve", "--no-ingest", "--archive", str(home_dir / "none")]

    assert main(words) == ExitCode.NO_ARCHIVE
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("form", ["--home {}", "--home={}"])
def test_named_home_is_not_reported_as_missing(
    home_dir: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    home, archive = Home(home_dir / "elsewhere").path, home_dir / "none"
    home.mkdir(parents=True, exist_ok=True)
    words = [
        "serve",
        "--no-ingest",
        *form.format(home).split(" "),
        "--archive",
        str(archive),
    ]

    assert main(words) == ExitCode.NO_ARCHIVE

    stderr = capsys.readouterr().err
    assert "no Claude Code home found" not in stderr
    assert f"`bygones ingest --archive {archive} --home {home}` to create one" in stderr


@pytest.mark.usefixtures("demo_home")
def test_busy_port_is_reported_with_a_useful_hint(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with closing(bind_socket("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code = main(["serve", "--no-browser", "--port", str(port)])

    assert code == ExitCode.FAILURE
    stderr = capsys.readouterr().err
    assert f"cannot listen on 127.0.0.1 port {port}: " in stderr
    assert "choose another port with --port" in stderr
    assert "disk" not in stderr
