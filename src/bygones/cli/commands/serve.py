"""`bygones serve`: show the archive in a browser."""

from __future__ import annotations

import hmac
import os
import secrets
import signal
import sys
import time
import webbrowser
from contextlib import closing, suppress
from html import escape
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit
from zlib import crc32

import click

from bygones.cli.context import CommonOptions, archive_options, find_homes
from bygones.cli.open_archive import open_current
from bygones.cli.output import display_path
from bygones.cli.signals import stopped_by_signals
from bygones.config import find_searches_file, find_state_dir
from bygones.errors import ExitCode, NoTranscriptsFound, PathNotFound
from bygones.render.text.primitives import sanitize_name
from bygones.web.link_proof import prove_key

if TYPE_CHECKING:
    from collections.abc import Callable


_TIMEOUT = 3.0
"""Seconds; a server that was killed refuses the connection at once."""
_MAX_LINK_AGE = 24 * 60 * 60
"""Seconds after which a link whose server does not answer is deleted."""
_MAX_BYTES = 4096


def run_server(  # noqa: PLR0913 (most by name)
    folder: Path,
    options: CommonOptions,
    *,
    host: str,
    port: int,
    open_browser: bool,
    to: str = "/",
    format_line: Callable[[str], str] = str,
) -> None:
    """Serve the archive in a folder until Ctrl-C.

    `format_line` formats a link for printing.
    """
    from bygones.cli.open_archive import load_user_prices
    from bygones.web.server import ServerConfig, WebServer

    place = ServerConfig(
        folder=folder,
        homes=_watched_homes(options),
        host=host,
        port=port,
        prices=load_user_prices(),
        searches_file=find_searches_file(os.environ, Path.home()),
        login_file=_login_file(folder, port) if port else None,
    )
    announcer = _LinkAnnouncer(
        folder, open_browser=open_browser, format_line=format_line
    )
    try:
        server = WebServer(place, announcer.announce, to)
        with stopped_by_signals(server.stop, "SIGTERM", "SIGHUP") as received:
            server.run()
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped\n")
        raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None
    finally:
        announcer.remove_links()
    for number in received[:1]:
        signal.raise_signal(number)


def find_running_server(folder: Path) -> str | None:
    """Return the link of a server that is running for this archive, if any.

    Of several, it is the one that printed a link last.
    """
    links: list[tuple[int, Path]] = []
    for file in _state_file(folder, "").parent.glob(_state_file(folder, "*").name):
        with suppress(OSError):
            if not file.suffix:
                links.append((file.stat().st_mtime_ns, file))
    checks = [_LinkCheck(file) for _, file in sorted(links, reverse=True)]
    deadline = time.monotonic() + _TIMEOUT
    for check in checks:
        if check.is_running(deadline):
            return check.link
    for check in checks:
        check.remove_old_file()
    return None


class _LinkCheck:
    """Asks, in a thread, whether the server whose link is in a file is running.

    Another program, or another user's, may use the port by now, and not answer or send
    one byte after the other.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._text = ""
        self._is_proved = False
        self._thread = Thread(target=self._ask, daemon=True)
        self._thread.start()

    @property
    def link(self) -> str:
        return self._text[:_MAX_BYTES].strip()

    def is_running(self, deadline: float) -> bool:
        """Wait for the answer until a time of the monotonic clock."""
        self._thread.join(max(0, deadline - time.monotonic()))
        return self._is_proved

    def remove_old_file(self) -> None:
        """Delete the file if it is older than a server that is only stopped for now."""
        with suppress(OSError):
            if time.time() - self._file.stat().st_mtime > _MAX_LINK_AGE:
                _remove_file(self._file, self._text)

    def _ask(self) -> None:
        with suppress(OSError, ValueError, HTTPException):
            self._text = self._file.read_text("utf-8", "replace")
            place = urlsplit(self.link)
            key = parse_qs(place.query).get("key", [""])[0]
            challenge = secrets.token_urlsafe()
            connection = HTTPConnection(
                place.hostname or "", place.port or 0, timeout=_TIMEOUT
            )
            with closing(connection):
                try:
                    connection.request("GET", f"{place.path}?challenge={challenge}")
                except ConnectionRefusedError:
                    _remove_file(self._file, self._text)  # the server was killed
                    return
                proof = connection.getresponse().read(_MAX_BYTES)
            wanted = prove_key(key, challenge).encode()
            self._is_proved = bool(key) and hmac.compare_digest(proof, wanted)


def print_link(
    link: str,
    folder: Path,
    *,
    open_browser: bool,
    format_line: Callable[[str], str] = str,
    in_background: bool = False,
) -> None:
    """Print a link, and open it in a browser if there is a display.

    Some browsers are waited for until they are closed, unless that is `in_background`.
    """
    sys.stdout.write(f"{format_line(link)}\n")
    sys.stdout.flush()
    if open_browser and _has_display():
        opening = Thread(
            target=_open_privately,
            args=(link, _redirect_file(folder, link)),
            daemon=True,
        )
        opening.start()
        if not in_background:
            opening.join()


def _open_privately(link: str, page: Path) -> None:
    """Open a link through a file, as others can read the command line of a browser.

    The server removes the file when the link has been used.
    """
    try:
        write_private_file(page, _REDIRECT_PAGE.format(link=escape(link)))
    except OSError as error:
        _note_unwritable(page, error, "no browser was opened; open the link yourself")
        return
    webbrowser.open(page.as_uri())


_REDIRECT_PAGE = """<!doctype html><meta charset=utf-8><title>Bygones</title>
<meta http-equiv=refresh content="0;url={link}">
"""


def _note_unwritable(file: Path, error: OSError, effect: str) -> None:
    sys.stderr.write(
        sanitize_name(
            f"note: {effect}, as {display_path(file)} cannot be written:"
            f" {error.strerror or error}; set XDG_STATE_HOME to a folder where files can"
            " be created"
        )
        + "\n"
    )


def write_private_file(path: Path, text: str) -> None:
    """Replace a file by one that only its owner can read."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with open(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:  # noqa: PTH123 (a number)
        file.write(text)


class _LinkAnnouncer:
    """Prints links, opens the first one, and saves them for `bygones open`."""

    def __init__(
        self, folder: Path, *, open_browser: bool, format_line: Callable[[str], str]
    ) -> None:
        self._format_line = format_line
        self._folder = folder
        self._open_browser = open_browser
        self._is_first = True
        self._link = ""

    def announce(self, link: str) -> None:
        self._remove_redirect()
        self._save_link(link.partition("&to=")[0])
        if self._is_first:
            sys.stderr.write("open this link; press Ctrl-C to stop:\n")
        print_link(
            link,
            self._folder,
            open_browser=self._is_first and self._open_browser,
            format_line=self._format_line,
            in_background=True,
        )
        self._is_first = False

    def _save_link(self, link: str) -> None:
        self._link = link
        file = _link_file(self._folder, link)
        try:
            write_private_file(file, link)
        except OSError as error:
            if self._is_first:
                effect = "the next `bygones open` will start a server of its own"
                _note_unwritable(file, error, effect)

    def remove_links(self) -> None:
        """Delete the saved link, unless another server has saved its own."""
        if self._link:
            self._remove_redirect()
            _remove_file(_link_file(self._folder, self._link), self._link)

    def _remove_redirect(self) -> None:
        """Delete the file with which a browser was opened if it has the saved link."""
        if self._link:
            page = _redirect_file(self._folder, self._link)
            _remove_file(page, escape(self._link))


def _remove_file(file: Path, text: str) -> None:
    """Delete a file that contains a text."""
    with suppress(OSError):
        if text in file.read_text("utf-8", "replace"):
            file.unlink()


def _state_file(folder: Path, port: int | str) -> Path:
    name = crc32(os.fsencode(folder.absolute()))
    return find_state_dir(os.environ, Path.home()) / f"page-{name:08x}-{port}"


def _link_file(folder: Path, link: str) -> Path:
    """Return the file for the link of one server; an archive may have several."""
    return _state_file(folder, urlsplit(link).port or 0)


def _redirect_file(folder: Path, link: str) -> Path:
    return _link_file(folder, link).with_suffix(".html")


def _login_file(folder: Path, port: int) -> Path:
    """Return the file that keeps browsers signed in at a fixed port."""
    file = _state_file(folder, port)
    return file.with_name(f"login-{file.name}")


def _watched_homes(options: CommonOptions) -> tuple[Path, ...]:
    if options.is_ingest_disabled:
        return ()
    try:
        return find_homes(options.homes)
    except (NoTranscriptsFound, PathNotFound):
        return ()


def _has_display() -> bool:
    if sys.platform in {"win32", "darwin"}:
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


_NETWORK_WARNING = """\
Everyone who can reach {host} and has a link can read all conversations, and the
connection is not encrypted. Press Ctrl-C to stop.
"""


@click.command("serve")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    show_default="a free port",
    help="Port to listen on.",
)
@click.option(
    "--host", metavar="ADDRESS", default="127.0.0.1", help="Address to listen on."
)
@click.option(
    "--allow-network",
    is_flag=True,
    help="Allow a --host that other machines can reach.",
)
@click.option("--no-browser", is_flag=True, help="Print the link without opening it.")
@archive_options
def serve(
    *,
    port: int | None,
    host: str,
    allow_network: bool,
    no_browser: bool,
    options: CommonOptions,
) -> None:
    r"""Browse and search the archive in the browser.

    \b
    bygones serve
    bygones serve --port 8765 --no-browser

    The page is only available on this machine, and only with the printed link. Each link
    works once; after that, a new one is printed. Sessions are updated while Claude Code
    writes them.
    """
    from bygones.web.security import is_loopback

    if not is_loopback(host):
        if not allow_network:
            raise click.UsageError(
                f"other machines can reach {host}; add --allow-network to allow this"
            )
        sys.stderr.write(_NETWORK_WARNING.format(host=host))
    with open_current(options) as archive:
        folder = archive.folder
    run_server(folder, options, host=host, port=port or 0, open_browser=not no_browser)
