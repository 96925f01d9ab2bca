"""``recollect demo``: an invented home to try everything with."""

from __future__ import annotations

import shlex
import sys
import tempfile
from pathlib import Path

import click

from recollect.archive import Archive
from recollect.cli.costing import costs
from recollect.cli.demo_home import write_home
from recollect.cli.options import colour_option, json_option
from recollect.cli.paths import path_type
from recollect.cli.rows import BeginRow, SessionRow, print_row
from recollect.cli.screen import Screen
from recollect.cli.session_table import SessionTable
from recollect.cli.terminal import plain
from recollect.rows.made import DemoRow
from recollect.settings import ARCHIVE_VARIABLE, HOME_VARIABLE

__all__ = ["demo"]


@click.command("demo")
@click.argument("folder", required=False, type=path_type(is_file=False))
@json_option
@colour_option
def demo(*, folder: Path | None, as_json: bool, colour: str) -> None:
    r"""Make a small invented home, take it in and say what to try.

    It has a rewind, agents, a compaction and changes of files. Everything lies in
    FOLDER, which must be new or empty, else in a temporary folder; your own home and
    archive are not touched.

    \b
    recollect demo
    recollect demo ~/demo
    """
    place = folder.expanduser().absolute() if folder else _temporary()
    if place.exists() and any(place.iterdir()):
        raise click.UsageError(f"{place} is not empty")
    screen = Screen.of(colour)
    home = write_home(place, screen.now)
    archive = place / "archive"
    Archive.ingest(archive, [home])
    with Archive.open(archive) as opened:
        sessions = list(opened.sessions())
        spent = costs(opened, sessions)
    if as_json:
        row = DemoRow(folder=str(place), home=str(home), archive=str(archive))
        print_row(BeginRow.of("demo", archive))
        print_row(row)
        for one in sessions:
            print_row(SessionRow.of(one, spent.get(one.id)))
        return
    screen.show(SessionTable(screen, spent).lines(sessions))
    rewound = next(one for one in sessions if one.branches > 1)
    sys.stderr.write(_advice(home, archive, rewound.id[:8]))


def _temporary() -> Path:
    return Path(tempfile.mkdtemp(prefix="recollect-demo-"))


def _advice(home: Path, archive: Path, session: str) -> str:
    variables = ((HOME_VARIABLE, home), (ARCHIVE_VARIABLE, archive))
    told = "\n  ".join(
        plain(f"export {name}={shlex.quote(str(path))}") for name, path in variables
    )
    return (
        "An invented home. To try it, type"
        f"\n\n  {told}\n"
        "\n  recollect show last"
        f"\n  recollect tree {session}"
        "\n  recollect files src/checkout.py"
        "\n  recollect prompts retry\n"
    )
