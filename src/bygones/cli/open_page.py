"""``bygones open``: a session in the browser."""

from __future__ import annotations

from functools import partial

import click

from bygones.cli.naming import session_place
from bygones.cli.options import (
    Asked,
    archive_options,
    complete_sessions,
    json_option,
)
from bygones.cli.rows import BeginRow, print_row
from bygones.cli.serving import running_link, serve_page, show_link
from bygones.model.ids import RecordId, SessionId
from bygones.render.encode import encoded
from bygones.rows.made import LinkRow

__all__ = ["open_page"]


@click.command("open")
@click.argument("session", default="last", shell_complete=complete_sessions)
@click.option("--no-browser", is_flag=True, help="Print the link; open nothing.")
@archive_options
@json_option
def open_page(*, session: str, no_browser: bool, asked: Asked, as_json: bool) -> None:
    r"""Open a session in the browser.

    SESSION is an id, the beginning of one, "last", the uuid of any record, or a number
    of the last search: 2, or 2.1 for the first hit of the second session. Where
    `bygones serve` shows this archive already, its page is used, and the command
    ends; else the page is there until Ctrl-C. `bygones show` takes the same names.

    \b
    bygones search flaky login test
    bygones open 1
    """
    with asked.current() as archive:
        name, record = session_place(archive, session)
        folder = archive.folder
    to = f"/session/{name}" + (f"?at={record}" if record else "")
    link = running_link(folder)
    line = partial(_row, name, record, is_served=link is None) if as_json else str
    if as_json:
        print_row(BeginRow.of("open", folder))
    if link is not None:
        show_link(f"{link}&to={to}", opens=not no_browser, line=line)
        return
    serve_page(
        folder,
        asked,
        host="127.0.0.1",
        port=0,
        opens=not no_browser,
        to=to,
        line=line,
    )


def _row(session: str, record: str | None, link: str, *, is_served: bool) -> str:
    return encoded(
        LinkRow(
            url=link,
            session=SessionId(session),
            record=RecordId(record) if record else None,
            is_served=is_served,
        )
    )
