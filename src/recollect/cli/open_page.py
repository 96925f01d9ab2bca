"""``recollect open``: a session in the browser."""

from __future__ import annotations

import click

from recollect.cli.naming import session_place
from recollect.cli.options import Asked, archive_options, complete_sessions
from recollect.cli.serving import running_link, serve_page, show_link

__all__ = ["open_page"]


@click.command("open")
@click.argument("session", default="last", shell_complete=complete_sessions)
@click.option("--no-browser", is_flag=True, help="Print the link; open nothing.")
@archive_options
def open_page(*, session: str, no_browser: bool, asked: Asked) -> None:
    r"""Open a session in the browser.

    SESSION is an id, the beginning of one, "last", the uuid of any record, or a number
    of the last search: 2, or 2.1 for the first hit of the second session. Where
    `recollect serve` shows this archive already, its page is used, and the command
    ends; else the page is there until Ctrl-C. `recollect show` takes the same names.

    \b
    recollect search flaky login test
    recollect open 1
    """
    with asked.current() as archive:
        name, record = session_place(archive, session)
        folder = archive.folder
    to = f"/session/{name}" + (f"?at={record}" if record else "")
    link = running_link(folder)
    if link is not None:
        show_link(f"{link}&to={to}", opens=not no_browser)
        return
    serve_page(folder, asked, host="127.0.0.1", port=0, opens=not no_browser, to=to)
