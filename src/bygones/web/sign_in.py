"""The page for browsers without a valid cookie, and the login that a fixed port keeps."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from html import escape
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import msgspec
from msgspec import Struct
from starlette.responses import Response

from bygones.render.html.markup import Html, escape_line, tag
from bygones.web.layout import PageMeta, render_commands, render_page

_MAX_FILE_BYTES = 4096
_TEXT = (
    "Bygones was restarted, or this browser has not opened it yet. Open the newest link"
    " that `bygones serve` printed, run `bygones open` in a terminal, or paste the link"
    " here."
)


class SavedLogin(Struct, frozen=True):
    """The cookie key and the host name that browsers are sent to."""

    cookie_key: str
    host_name: str


def create_login() -> SavedLogin:
    return SavedLogin(
        secrets.token_urlsafe(32), f"bygones-{secrets.token_hex(8)}.localhost"
    )


def load_login(path: Path | None) -> SavedLogin:
    """Return the login of a file, or a new one, which is saved there.

    A file that others can read is replaced, as are damaged ones.
    """
    if path is None:
        return create_login()
    login = _read_login(path)
    if login is None:
        login = create_login()
        with suppress(OSError):  # browsers have to sign in again after a restart
            _write_login(path, login)
    return login


def _read_login(path: Path) -> SavedLogin | None:
    with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        with open(descriptor, "rb") as file:  # noqa: PTH123 (a number)
            status = os.fstat(descriptor)
            is_shared = os.name == "posix" and (
                status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077
            )
            if not is_shared:
                content = file.read(_MAX_FILE_BYTES)
                return msgspec.json.decode(content, type=SavedLogin)
    return None


def _write_login(path: Path, login: SavedLogin) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with open(os.open(path, flags, 0o600), "wb") as file:  # noqa: PTH123 (a number)
        file.write(msgspec.json.encode(login))


def key_of_link(text: str) -> str:
    """Return the key of a login link, or the text itself if it is not a link."""
    if "key=" not in text:
        return text.strip()
    try:
        query = parse_qs(urlsplit(text.strip()).query)
    except ValueError:
        return ""
    return query.get("key", [""])[0]


def sign_in_page(target: str, action: str) -> Response:
    """Return the page that explains how to sign in; `target` is where to go then."""
    form = Html(
        f'<form class="sign-in" action="{escape(action)}">'
        '<label><span>Link</span><input type="text" name="key" required '
        'autocomplete="off" spellcheck="false" placeholder="http://…/enter?key=…">'
        f'</label><input type="hidden" name="to" value="{escape(target)}">'
        '<button type="submit">Sign in</button></form>'
    )
    main = (
        tag("h1", escape_line("Sign in")),
        tag("p", render_commands(_TEXT), kind="note"),
        form,
    )
    page = PageMeta(title="Sign in", css_class="plain lost", is_bare=True)
    return render_page(page, main, 401)
