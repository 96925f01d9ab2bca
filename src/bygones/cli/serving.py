"""The page in a browser: started, or found where it is shown already."""

from __future__ import annotations

import os
import sys
import webbrowser
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from zlib import crc32

import click

from bygones.cli.options import homes_of
from bygones.errors import ExitCode, NothingFound, PathMissing
from bygones.settings import state_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    from bygones.cli.options import Asked

__all__ = ["running_link", "serve_page", "show_link"]

_PATIENCE = 2.0
_LONGEST = 4096


def serve_page(  # noqa: PLR0913 (each a part of where and how, most by name)
    folder: Path,
    asked: Asked,
    *,
    host: str,
    port: int,
    opens: bool,
    to: str = "/",
    line: Callable[[str], str] = str,
) -> None:
    """Serve the archive in a folder until Ctrl-C, and say where the page is.

    ``line`` returns what is printed of a link.
    """
    from bygones.cli.costing import own_prices  # noqa: PLC0415 (not for a help page)
    from bygones.web.server import Place, Serving  # noqa: PLC0415

    place = Place(
        folder=folder,
        homes=_watched(asked),
        host=host,
        port=port,
        prices=own_prices(),
    )
    teller = _Teller(folder, opens=opens, line=line)
    try:
        Serving(place, teller.tell, to).run()
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped\n")
        raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None
    finally:
        teller.forget()


def running_link(folder: Path) -> str | None:
    """Return the link of a page that shows this archive now, if there is one."""
    try:
        link = _file(folder).read_text("utf-8")[:_LONGEST].strip()
        place = urlsplit(link)
        host, port = place.hostname or "", place.port or 0
    except (OSError, ValueError):
        return None
    connection = HTTPConnection(host, port, timeout=_PATIENCE)
    try:
        connection.request("GET", "/")
        told = connection.getresponse().read(_LONGEST)
    except (OSError, ValueError, HTTPException):
        return None
    finally:
        connection.close()
    # Another program may have the port by now.
    return link if b"`bygones serve`" in told else None


def show_link(link: str, *, opens: bool, line: Callable[[str], str] = str) -> None:
    """Print a link, and open it where there is a screen, if it is to be opened."""
    sys.stdout.write(f"{line(link)}\n")
    sys.stdout.flush()
    if opens and _has_screen():
        webbrowser.open(link)


class _Teller:
    """Says where the page is, opens it the first time, and leaves word for others."""

    def __init__(
        self, folder: Path, *, opens: bool, line: Callable[[str], str]
    ) -> None:
        self._line = line
        self._file = _file(folder)
        self._opens = opens
        self._is_first = True
        self._link = ""

    def tell(self, link: str) -> None:
        """Print a link, and keep it for whoever wants to open something."""
        self._leave(link.partition("&to=")[0])
        if self._is_first:
            sys.stderr.write("the page is there until Ctrl-C; this link opens it:\n")
        show_link(link, opens=self._is_first and self._opens, line=self._line)
        self._is_first = False

    def _leave(self, link: str) -> None:
        self._link = link
        with suppress(OSError):
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            with open(os.open(self._file, flags, 0o600), "w") as file:  # noqa: PTH123 (a number)
                file.write(link)

    def forget(self) -> None:
        """Take the word away, unless another page has left its own since."""
        with suppress(OSError):
            if self._file.read_text("utf-8") == self._link:
                self._file.unlink()


def _file(folder: Path) -> Path:
    name = crc32(os.fsencode(folder.absolute()))
    return state_folder(os.environ, Path.home()) / f"page-{name:08x}"


def _watched(asked: Asked) -> tuple[Path, ...]:
    if asked.is_fixed:
        return ()
    try:
        return homes_of(asked.homes)
    except (NothingFound, PathMissing):
        return ()


def _has_screen() -> bool:
    if sys.platform in {"win32", "darwin"}:
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
