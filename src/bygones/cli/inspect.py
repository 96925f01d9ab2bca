"""``bygones inspect``: what transcripts hold, before anything is kept."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import msgspec

from bygones import __version__
from bygones.cli.asked import here
from bygones.cli.existing import existing
from bygones.cli.options import colour_option, home_option, json_option
from bygones.cli.paging import page_out
from bygones.cli.paths import path_type
from bygones.cli.survey_page import Page, place_text
from bygones.cli.terminal import (
    Colour,
    Paint,
    ProgressBar,
    columns,
    has_colour,
    plain,
    short_path,
)
from bygones.errors import NothingFound
from bygones.model.surveys import ProblemRow, StartRow, Survey
from bygones.sources import path_text
from bygones.survey import survey, weigh

__all__ = ["inspect"]


@click.command("inspect")
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=path_type())
@click.option("--problems", "all_problems", is_flag=True, help="List every problem.")
@home_option
@json_option
@colour_option
def inspect(
    paths: tuple[Path, ...],
    *,
    all_problems: bool,
    homes: tuple[Path, ...],
    as_json: bool,
    colour: str,
) -> None:
    """Say what transcripts hold: records, versions, problems, drift.

    A PATH is a transcript, a folder of transcripts or a Claude Code home; without one,
    the homes that other commands take in are inspected. Nothing is written anywhere.

    Problems are facts about the files, not failures: finding some ends with code 0.
    """
    places = existing(paths, homes)
    if as_json:
        _json(StartRow(bygones=__version__, places=tuple(map(path_text, places))))
    on_terminal = sys.stdout.isatty()
    waiting: list[str] = []
    with ProgressBar(weigh(places) if sys.stderr.isatty() else 0) as bar:

        def notice(problem: ProblemRow) -> None:
            if on_terminal and not as_json:
                # All of it goes through the pager, in the end.
                waiting.append(_line(problem))
                return
            bar.clear()
            click.echo(msgspec.json.encode(problem) if as_json else _line(problem))

        found = survey(
            places, notice=notice if all_problems else None, passed=bar.advance
        )
    if as_json:
        for row in _rows(found):
            _json(row)
    elif found.total.files or found.total.problems:
        if all_problems and found.problems:
            waiting.append("")
        page = _page(found, places, Colour(colour), with_places=not all_problems)
        page_out([*waiting, *page], on_terminal=on_terminal)
    if not found.total.files:
        raise NothingFound(*places)


def _rows(found: Survey) -> Iterator[msgspec.Struct]:
    for name in found.__struct_fields__:
        rows = getattr(found, name)
        yield from rows if isinstance(rows, tuple) else (rows,)


def _json(row: msgspec.Struct) -> None:
    click.echo(msgspec.json.encode(row))


def _line(problem: ProblemRow) -> str:
    reason = f"{problem.kind}: {problem.detail}" if problem.detail else problem.kind
    return plain(f"{place_text(problem, _short)}: {reason}")


def _page(
    found: Survey, places: Sequence[Path], colour: Colour, *, with_places: bool
) -> Iterator[str]:
    page = Page(
        paint=Paint(coloured=has_colour(colour, sys.stdout, os.environ)),
        columns=columns(sys.stdout, os.environ),
        short=_short,
        is_cut=sys.stdout.isatty(),
    )
    names = [path_text(path) for path in places]
    yield from page.lines(found, names, with_places=with_places)


def _short(path: str) -> str:
    return short_path(path, here=here(), home=Path.home())
