"""``bygones demo``: an invented home to try everything with."""

from __future__ import annotations

import shlex
import sys
import tempfile
from pathlib import Path

import click

from bygones.archive import Archive
from bygones.cli.costing import costs
from bygones.cli.demo_home import write_home
from bygones.cli.options import colour_option, json_option
from bygones.cli.paths import path_type
from bygones.cli.rows import BeginRow, SessionRow, print_row
from bygones.cli.screen import Screen
from bygones.cli.session_table import SessionTable
from bygones.cli.terminal import plain
from bygones.rows.made import DemoRow
from bygones.settings import ARCHIVE_VARIABLE, HOME_VARIABLE

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
    bygones demo
    bygones demo ~/demo
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
    return Path(tempfile.mkdtemp(prefix="bygones-demo-"))


def _advice(home: Path, archive: Path, session: str) -> str:
    variables = ((HOME_VARIABLE, home), (ARCHIVE_VARIABLE, archive))
    told = "\n  ".join(
        plain(f"export {name}={shlex.quote(str(path))}") for name, path in variables
    )
    return (
        "An invented home. To try it, type"
        f"\n\n  {told}\n"
        "\n  bygones show last"
        f"\n  bygones tree {session}"
        "\n  bygones files src/checkout.py"
        "\n  bygones prompts retry\n"
    )
