"""`bygones open`: show a session in the browser."""

from __future__ import annotations

from functools import partial

import click

from bygones.cli.commands.serve import find_running_server, print_link, run_server
from bygones.cli.context import (
    CommonOptions,
    archive_options,
    complete_sessions,
    json_option,
)
from bygones.cli.open_archive import open_current
from bygones.cli.picker.choose import choose_session_name, query_option
from bygones.cli.resolve import resolve_session_and_record
from bygones.model.base import RecordId, SessionId
from bygones.schema.commands import LinkObject
from bygones.schema.encoding import encode_object

__all__ = ["open_page"]


@click.command("open")
@click.argument("session", required=False, shell_complete=complete_sessions)
@query_option
@click.option("--no-browser", is_flag=True, help="Print the link without opening it.")
@archive_options
@json_option
def open_page(
    *,
    session: str | None,
    pick_query: str | None,
    no_browser: bool,
    options: CommonOptions,
    as_json: bool,
) -> None:
    r"""Open a session in the browser.

    \b
    bygones search flaky login test
    bygones open 1

    SESSION is an id or its first characters, "last", the id of a record, or a result
    number of the last search: 2, or 2.1 for the first hit of the second session. Without
    it, you pick one; in a pipe, the last one is used.

    If `bygones serve` is running for this archive, the page opens there. Otherwise it is
    served until you press Ctrl-C.
    """
    chosen = choose_session_name(session, pick_query, options, "open", as_json=as_json)
    with open_current(options) as archive:
        name, record = resolve_session_and_record(archive, chosen)
        folder = archive.folder
    to = f"/session/{name}" + (f"?at={record}" if record else "")
    link = find_running_server(folder)
    line = (
        partial(_format_link, name, record, is_temporary=link is None)
        if as_json
        else str
    )
    if link is not None:
        print_link(
            f"{link}&to={to}", folder, open_browser=not no_browser, format_line=line
        )
        return
    run_server(
        folder,
        options,
        host="127.0.0.1",
        port=0,
        open_browser=not no_browser,
        to=to,
        format_line=line,
    )


def _format_link(
    session_id: str, record_id: str | None, url: str, *, is_temporary: bool
) -> str:
    link = LinkObject(
        url=url,
        session_id=SessionId(session_id),
        record_id=RecordId(record_id) if record_id else None,
        is_temporary=is_temporary,
    )
    return encode_object(link)
