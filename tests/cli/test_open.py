"""``bygones open``: a session in the page, which is there or is started."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from html import escape
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Event, Thread
from urllib.parse import urlsplit

import pytest

from bygones.cli.commands import serve
from bygones.cli.commands.serve import find_running_server
from bygones.cli.main import main
from bygones.errors import ExitCode
from tests.build import Home, session_id

pytestmark = pytest.mark.skipif(os.name == "nt", reason="ended with a signal")
FIRST = session_id(1)


@pytest.fixture(autouse=True)
def _import_home(sample_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert sample_home.path.exists()
    assert main(["ingest", "--quiet"]) == ExitCode.SUCCESS


@contextmanager
def start_command(*words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a command that serves the page, and give it with the link it printed."""
    started = subprocess.Popen(
        [sys.executable, "-m", "bygones", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert started.stdout is not None
        yield started, started.stdout.readline().strip()
    finally:
        started.send_signal(signal.SIGINT)
        started.communicate(timeout=20)


def wait_until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def fetch(link: str) -> str:
    home_dir = urlsplit(link)
    connection = HTTPConnection(home_dir.hostname or "", home_dir.port or 0, timeout=10)
    try:
        connection.request("GET", f"{home_dir.path}?{home_dir.query}")
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def test_running_server_is_used(
    capsys: pytest.CaptureFixture[str], home_dir: Path
) -> None:
    with start_command("serve", "--no-browser") as (_, link):
        (left,) = (home_dir / ".local/state/bygones").glob("page-*")
        assert stat.S_IMODE(left.stat().st_mode) == 0o600
        assert main(["open", FIRST]) == ExitCode.SUCCESS
        shown = capsys.readouterr().out.strip()
        assert shown == f"{link}&to=/session/{FIRST}"
        assert f'content="0;url=/session/{FIRST}"' in fetch(shown)

        assert main(["open", "last"]) == ExitCode.SUCCESS
        again = capsys.readouterr().out
        assert again.strip().endswith(f"&to=/session/{session_id(2)}")
        assert shown.partition("&to=")[0] not in again
    assert not left.exists()


def test_link_of_a_record_points_into_its_session(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["search", "--json", "count"]) == ExitCode.SUCCESS
    capsys.readouterr()
    with start_command("serve", "--no-browser"):
        assert main(["open", "1.1"]) == ExitCode.SUCCESS

        assert f"&to=/session/{FIRST}?at=" in capsys.readouterr().out


def test_server_is_started_if_none_runs() -> None:
    with start_command("open", FIRST, "--no-browser") as (started, link):
        assert link.endswith(f"&to=/session/{FIRST}")
        assert "http-equiv" in fetch(link)
        assert started.poll() is None
    assert started.returncode == ExitCode.INTERRUPTED


def test_browser_opens_on_a_desktop(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setenv("DISPLAY", ":7")
    monkeypatch.setattr(webbrowser, "open", opened.append)
    with start_command("serve", "--no-browser"):
        assert main(["open", "last"]) == ExitCode.SUCCESS
        assert main(["open", "last", "--no-browser"]) == ExitCode.SUCCESS

        (page,) = (Path(urlsplit(url).path) for url in opened)
        link = capsys.readouterr().out.splitlines()[0]
        assert escape(link) in page.read_text("utf-8")
        assert stat.S_IMODE(page.stat().st_mode) == 0o600
        assert "key=" not in opened[0]
    assert not page.exists()


def test_each_of_several_servers_is_used_while_it_runs(home_dir: Path) -> None:
    archive = home_dir / "archive"
    state = home_dir / ".local/state/bygones"
    with start_command("serve", "--no-browser") as (_, first):
        with start_command("serve", "--no-browser") as (_, second):
            assert find_running_server(archive) == second
            fetch(first)
            wait_until(lambda: find_running_server(archive) not in {second, None})
            newest = find_running_server(archive)
            assert newest is not None
            assert urlsplit(newest).port == urlsplit(first).port
            fetch(second)
            wait_until(lambda: find_running_server(archive) != newest)
        assert find_running_server(archive) == newest

        with start_command("serve", "--no-browser") as (killed, third):
            assert find_running_server(archive) == third
            killed.kill()
            killed.wait()
            assert find_running_server(archive) == newest
            assert len(list(state.glob("page-*"))) == 1
    assert find_running_server(archive) is None
    assert not list(state.glob("page-*"))


def test_browser_that_cannot_be_opened_privately_is_reported(
    home_dir: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DISPLAY", ":7")
    monkeypatch.setattr(webbrowser, "open", pytest.fail)
    with start_command("serve", "--no-browser"):
        (left,) = (home_dir / ".local/state/bygones").glob("page-*")
        page = left.with_suffix(".html")
        page.mkdir()

        assert main(["open", "last"]) == ExitCode.SUCCESS

    out, err = capsys.readouterr()
    assert "/enter?key=" in out
    assert "note: no browser was opened; open the link yourself, as ~/" in err
    assert f"{page.name} cannot be written: " in err
    assert "set XDG_STATE_HOME to a folder where files can be created" in err


def test_server_that_cannot_save_its_link_says_so(home_dir: Path) -> None:
    state = home_dir / ".local/state"
    state.mkdir(parents=True)
    (state / "bygones").write_text("a file")
    with start_command("serve", "--no-browser") as (started, link):
        assert "/enter?key=" in link
        fetch(link)
        started.send_signal(signal.SIGINT)
        assert started.stderr is not None
        err = started.stderr.read()

    (note,) = (line for line in err.splitlines() if line.startswith("note:"))
    assert note.startswith(
        "note: the next `bygones open` will start a server of its own, as ~/"
    )
    assert "set XDG_STATE_HOME" in note


def test_server_of_another_program_is_not_opened(home_dir: Path) -> None:
    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"the page that `bygones serve` shows")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with start_command("serve", "--no-browser") as (_, link):
        assert find_running_server(home_dir / "archive") == link
        (left,) = (home_dir / ".local/state/bygones").glob("page-*")
    with HTTPServer(("127.0.0.1", 0), Other) as other:
        Thread(target=other.serve_forever, daemon=True).start()
        port = other.server_address[1]
        left.write_text(f"http://127.0.0.1:{port}/enter?key=a")
        assert find_running_server(home_dir / "archive") is None
        other.shutdown()
    assert find_running_server(home_dir / "archive") is None
    left.write_text("http://[::1:no/\x00")
    assert find_running_server(home_dir / "archive") is None


def test_program_that_answers_slowly_is_given_up(
    home_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "_TIMEOUT", 0.3)
    done = Event()

    class Slow(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):
                while not done.wait(0.1):
                    self.wfile.write(b"x")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with start_command("serve", "--no-browser"):
        (left,) = (home_dir / ".local/state/bygones").glob("page-*")
    with HTTPServer(("127.0.0.1", 0), Slow) as other:
        Thread(target=other.serve_forever, daemon=True).start()
        left.write_text(f"http://127.0.0.1:{other.server_address[1]}/enter?key=a")
        started = time.monotonic()
        assert find_running_server(home_dir / "archive") is None
        assert time.monotonic() - started < 20  # it would send bytes for ever
        done.set()
        other.shutdown()


@pytest.fixture
def silent_programs(home_dir: Path) -> Iterator[list[Path]]:
    """Yield saved links to ports of programs that never answer."""
    files = []
    with ExitStack() as stack:
        for _ in range(3):
            other = stack.enter_context(closing(socket.create_server(("127.0.0.1", 0))))
            port = other.getsockname()[1]
            link = f"http://127.0.0.1:{port}/enter?key=abc"
            file = serve._link_file(home_dir / "archive", link)
            serve.write_private_file(file, link)
            files.append(file)
        yield files


def test_programs_that_never_answer_are_waited_for_at_the_same_time(
    home_dir: Path, silent_programs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "_TIMEOUT", 1.0)
    started = time.monotonic()

    assert find_running_server(home_dir / "archive") is None

    assert time.monotonic() - started < 2
    # A server that is only stopped for now may answer again.
    assert all(file.exists() for file in silent_programs)


def test_links_of_programs_that_never_answer_are_deleted_after_a_day(
    home_dir: Path, silent_programs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "_TIMEOUT", 0.3)
    old, other_old, recent = silent_programs
    for file in (old, other_old):
        os.utime(file, (time.time() - 90_000,) * 2)
    os.utime(recent, (time.time() - 3_600,) * 2)

    assert find_running_server(home_dir / "archive") is None

    assert [file.exists() for file in silent_programs] == [False, False, True]


def test_damaged_file_of_a_link_is_deleted_after_a_day(home_dir: Path) -> None:
    file = serve._state_file(home_dir / "archive", 1)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"\xff\xfe")
    os.utime(file, (1, 1))

    assert find_running_server(home_dir / "archive") is None

    assert not file.exists()


def test_link_of_a_running_server_is_never_deleted(
    home_dir: Path, silent_programs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with start_command("serve", "--no-browser") as (_, link):
        monkeypatch.setattr(serve, "_TIMEOUT", 20)
        file = serve._link_file(home_dir / "archive", link)
        os.utime(file, (time.time(),) * 2)
        for one in silent_programs:
            os.utime(one, (1, 1))
        started = time.monotonic()
        assert find_running_server(home_dir / "archive") == link
        assert time.monotonic() - started < 10  # only newer links are waited for

        monkeypatch.setattr(serve, "_TIMEOUT", 1.5)
        os.utime(file, (0, 0))
        assert find_running_server(home_dir / "archive") == link
        assert file.exists()


def test_unknown_session_is_reported_like_in_other_commands(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["open", "zzz"]) == ExitCode.USAGE_ERROR
    assert "no session 'zzz' in the archive" in capsys.readouterr().err


def test_json_has_the_link() -> None:
    with start_command("open", FIRST, "--no-browser", "--json") as (_, line):
        row = json.loads(line)

        assert row["type"] == "link"
        assert (row["session_id"], row["is_temporary"]) == (FIRST, True)
        assert FIRST in fetch(row["url"])
