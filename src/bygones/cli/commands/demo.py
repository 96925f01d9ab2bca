"""`bygones demo`: a home with invented sessions to try everything."""

from __future__ import annotations

import shlex
import sys
import tempfile
from pathlib import Path

import click

from bygones.archive import Archive
from bygones.cli.commands.demo_data import write_demo_home
from bygones.cli.commands.list import SessionTable, print_sessions_json
from bygones.cli.context import color_option, json_option, path_type
from bygones.cli.open_archive import load_session_costs
from bygones.cli.output import Console, print_objects
from bygones.config import ARCHIVE_ENV, HOME_ENV
from bygones.render.text.primitives import sanitize_name
from bygones.schema.commands import DemoObject

__all__ = ["demo"]


@click.command("demo")
@click.argument("folder", required=False, type=path_type(allow_file=False))
@json_option
@color_option
def demo(*, folder: Path | None, as_json: bool, color: str) -> None:
    r"""Create and import a small home with invented sessions.

    It contains a rewind, agents, a compaction and edited files. Everything is written
    to FOLDER, which must be new or empty; default: a temporary folder. Your own home
    and archive are not touched.

    \b
    bygones demo
    bygones demo ~/demo
    """
    place = folder.expanduser().absolute() if folder else _make_temp_folder()
    if place.exists() and any(place.iterdir()):
        raise click.UsageError(f"{place} is not empty")
    console = Console.for_stdout(color)
    home = write_demo_home(place, console.now)
    archive = place / "archive"
    Archive.ingest(archive, [home])
    with Archive.open(archive) as opened:
        sessions = list(opened.sessions())
        spent = load_session_costs(opened, sessions)
    if as_json:
        made = DemoObject(folder=str(place), home=str(home), archive=str(archive))
        print_objects([made])
        print_sessions_json(sessions, spent)
        return
    console.print_lines(SessionTable(console, spent).lines(sessions))
    rewound = next(one for one in sessions if one.branch_count > 1)
    sys.stderr.write(_next_steps(home, archive, rewound.id[:8]))


def _make_temp_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="bygones-demo-"))


def _next_steps(home: Path, archive: Path, session: str) -> str:
    variables = ((HOME_ENV, home), (ARCHIVE_ENV, archive))
    told = "\n  ".join(
        sanitize_name(f"export {name}={shlex.quote(str(path))}")
        for name, path in variables
    )
    return (
        "A home with invented sessions. To try it, type"
        f"\n\n  {told}\n"
        "\n  bygones show last"
        f"\n  bygones tree {session}"
        "\n  bygones files src/checkout.py"
        "\n  bygones prompts retry\n"
    )
