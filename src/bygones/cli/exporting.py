"""Carrying out an export: what is meant, where it goes, what is said about it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click
import msgspec
from msgspec import Struct, structs

from bygones.cli.choose import chosen_branch
from bygones.cli.hiding import own_redactor
from bygones.cli.naming import meant
from bygones.cli.options import Asked, shown_path
from bygones.cli.rows import BeginRow, print_row
from bygones.cli.telling import WRITTEN, if_stopped
from bygones.cli.terminal import StageBar
from bygones.errors import SecretsSuspected
from bygones.export import (
    Chosen,
    Format,
    Making,
    Raws,
    Tally,
    coster,
    export_folder,
    export_session,
    made,
    suspicions,
    transcripts,
)
from bygones.export.files import file_name, write_whole
from bygones.model.ids import SessionId
from bygones.model.listing import Listed
from bygones.model.sessions import Session
from bygones.prices import load_prices
from bygones.query.times import Now, period
from bygones.reading import raws, read
from bygones.render.figures import several, size
from bygones.render.redact import Finds
from bygones.rows.made import ExportedRow
from bygones.settings import prices_file
from bygones.sources.names import path_text

if TYPE_CHECKING:  # files are exported without any archive
    from bygones.archive import Archive

__all__ = ["Wish", "carry_out", "check"]

_FOLDER = "bygones-export"
_STDOUT = Path("-")
_MOST_FOUND = 1000
"""Sessions that a search brings at most."""


class Wish(Struct, frozen=True, kw_only=True):
    """What somebody wants to have exported."""

    names: tuple[str, ...] = ()
    everything: bool = False
    source: Path | None = None
    form: str = "html"
    to: Path | None = None
    branch: str | None = None
    turns: str | None = None
    search: str | None = None
    since: str | None = None
    redact: bool = True
    private: bool = False
    second_opinion: bool = False
    report: Path | None = None
    as_json: bool = False


class _Written(Struct, frozen=True, kw_only=True):
    """What an export wrote."""

    path: Path
    """What to open."""
    files: tuple[Path, ...] = ()
    sessions: int = 1
    same: int = 0
    empty: int = 0
    bytes: int
    tally: Tally


class _Left(Struct):
    """What was meant, and is not written."""

    empty: int = 0


def carry_out(wish: Wish, asked: Asked, out: TextIO, err: TextIO) -> None:
    """Export what is wished for; say where it is, and what was hidden."""
    prices = load_prices(prices_file(os.environ, Path.home()))
    left = _Left()
    with _chosen(wish, asked, left) as (chosen, bytes_of):
        making = Making(
            format=Format(wish.form),
            redactor=own_redactor() if wish.redact else None,
            cost=coster(prices),
            pricer=prices.cost_of,
            private=wish.private,
            raws=bytes_of,
        )
        wanted = _looked_at(chosen, making, err) if wish.second_opinion else chosen
        first = list(islice(wanted, 2))
        if _is_single(wish, len(first)):
            done = _single(first[0].open(), wish, making, out)
        else:
            done = _folder(chain(first, wanted), wish, making)
        done = structs.replace(done, empty=left.empty)
    if wish.report is not None:
        write_whole(wish.report, [done.tally.report()], private=True)
    if wish.as_json:
        print_row(BeginRow.of("export", asked.folder if not wish.source else None))
        print_row(_row(wish, done))
        return
    if wish.to != _STDOUT:
        out.writelines(f"{path}\n" for path in done.files or (done.path,))
    if not asked.quiet:
        err.write("".join(f"{told}\n" for told in _told(wish, done)))


def check(wish: Wish) -> None:
    """Refuse what cannot be wished for together."""
    if wish.everything and wish.names:
        raise click.UsageError("name sessions or a project, or ask for --all alone")
    if not (wish.everything or wish.names or wish.source or wish.search):
        raise click.UsageError("name sessions or a project, or ask for --all")
    if wish.search and (wish.names or wish.source):
        raise click.UsageError("--search looks through the whole archive")
    if wish.private and (wish.redact or wish.form != Format.JSONL):
        raise click.UsageError("--private goes with --no-redact --format jsonl alone")
    if wish.as_json and wish.to == _STDOUT:
        raise click.UsageError("-o - and --json both print; give -o a file")
    if wish.second_opinion and not wish.redact:
        raise click.UsageError("a second opinion is on what --redact leaves")


def _row(wish: Wish, done: _Written) -> ExportedRow:
    """Return what an export did, for programs."""
    return ExportedRow(
        path=path_text(done.path),
        format=wish.form,
        files=tuple(map(path_text, done.files)),
        sessions=done.sessions,
        same=done.same,
        empty=done.empty,
        bytes=done.bytes,
        is_redacted=wish.redact,
        hidden=dict(done.tally.counts),
        private=done.tally.private,
        report=path_text(wish.report) if wish.report else None,
    )


def _told(wish: Wish, done: _Written) -> Iterator[str]:
    """Yield what was written, what is said of what was hidden, and of what was not."""
    if not done.files and wish.to != _STDOUT:
        told = f"{several(done.sessions, 'session')} written, {size(done.bytes)}"
        same = f"; {done.same:,} had not changed" if done.same else ""
        yield f"{told}{same}, in {shown_path(wish.to or Path(_FOLDER))}"
    if done.empty:
        left = several(done.empty, "session")
        yield f"{left} left out, in which nothing was said: --format jsonl has them"
    if _is_whole(wish) and not done.files and wish.to != _STDOUT:
        yield _NO_TRANSCRIPTS
    if wish.redact:
        yield from filter(None, (done.tally.sentence(),))
        return
    yield _NOTHING_HIDDEN
    if done.tally.private:
        left = several(done.tally.private, "private record")
        yield f"{left} left out: --private writes those too"


def _looked_at(
    chosen: Iterable[Chosen], making: Making, err: TextIO
) -> Iterator[Chosen]:
    """Have another program look at everything before anything is written."""
    every = list(chosen)
    found = suspicions((one.open() for one in every), making)
    err.writelines(
        f"{one.rule}: session {one.session}, record {one.record}\n" for one in found
    )
    if found:
        raise SecretsSuspected(len(found), sorted({one.rule for one in found}))
    return iter(every)


_NO_TRANSCRIPTS = (
    "journals of workflows, notes on agents and outputs in files of their own are no "
    "transcripts, and not here: bygones restore writes every file"
)
_NOTHING_HIDDEN = "nothing was hidden: look before you give it away"


@contextmanager
def _chosen(
    wish: Wish, asked: Asked, left: _Left
) -> Iterator[tuple[Iterator[Chosen], Raws]]:
    """Give the sessions that are meant; they can be opened while the context lasts."""
    start = _since(wish.since)
    if wish.source is not None:
        yield _read(wish.source, wish, start, left), raws
        return
    with asked.current() as archive:
        yield _archived(archive, wish, start, left), archive.raws


def _read(
    path: Path, wish: Wish, start: datetime | None, left: _Left
) -> Iterator[Chosen]:
    names = wish.names
    missing = set(names)
    for session in read(path):
        fitting = {name for name in names if session.id.startswith(name)}
        for name in fitting - missing:
            raise click.UsageError(f"several sessions begin with {name!r}")
        missing -= fitting
        if (names and not fitting) or not _is_since(session, start):
            continue
        if session.is_empty and not names and not _is_whole(wish):
            left.empty += 1
        else:
            files = [(one.id, one.size, one.mtime_ns) for one in session.sources]
            stamp = msgspec.json.encode(files)
            yield Chosen(id=session.id, stamp=stamp, open=partial(_same, session))
    if missing:
        raise click.UsageError(f"no session begins with {min(missing)!r}")


def _is_since(session: Session | Listed, start: datetime | None) -> bool:
    return start is None or (session.ended is not None and session.ended >= start)


def _is_whole(wish: Wish) -> bool:
    """Whether all that is there is wanted, and not only what can be read."""
    return wish.form == Format.JSONL


def _same(session: Session) -> Session:
    return session


def _archived(
    archive: Archive, wish: Wish, start: datetime | None, left: _Left
) -> Iterator[Chosen]:
    wanted = None
    if wish.search is not None:
        wanted = _searched(archive, wish.search)
    elif not wish.everything:
        found = meant(archive, wish.names)
        wanted = {*found.sessions}.union(*(one.sessions for one in found.projects))
    for listed in archive.sessions(empty=True):
        if (wanted is not None and listed.id not in wanted) or not _is_since(
            listed, start
        ):
            continue
        if listed.is_empty and wanted is None and not _is_whole(wish):
            left.empty += 1
        else:
            yield Chosen(
                id=listed.id,
                stamp=msgspec.json.encode(listed),
                open=partial(archive.session, listed.id),
            )


def _searched(archive: Archive, text: str) -> set[SessionId]:
    from bygones.query.parse import parse  # noqa: PLC0415 (only for a search)

    now = datetime.now(UTC)  # noqa: TID251 (a face knows the clock)
    query = parse(text, now=now, zone=now.astimezone().tzinfo or UTC)
    found = archive.search(query, limit=_MOST_FOUND, hits=1)
    return {one.listed.id for one in found.sessions}


def _since(text: str | None) -> datetime | None:
    if text is None:
        return None
    now = datetime.now(UTC)  # noqa: TID251 (a face knows the clock)
    found = period("after", text, Now(now, now.astimezone().tzinfo or UTC))
    if found is None or found.start is None:
        raise click.UsageError(f"{text!r} is no time; 2026-01-31 and 30d are")
    return found.start


def _is_single(wish: Wish, count: int) -> bool:
    """Whether one session goes into one file; ``count`` is right up to two."""
    if not count:
        raise click.UsageError(f"{_nobody(wish)}: nothing is written")
    to = wish.to
    is_alone = count == 1 and len(wish.names) <= 1 and not wish.everything
    is_alone = is_alone and wish.search is None
    if is_alone and not (to is not None and to != _STDOUT and to.is_dir()):
        return True
    if wish.branch or wish.turns or to == _STDOUT:
        raise click.UsageError("--branch, --turns and -o - go with one session alone")
    if to is not None and to.suffix == Format(wish.form).suffix and not to.is_dir():
        raise click.UsageError(f"several sessions go into a folder, not into {to}")
    return False


def _nobody(wish: Wish) -> str:
    """Return why no session is left to write."""
    if wish.search is not None:
        return f"the search {wish.search!r} finds no session"
    if wish.since is not None:
        return f"nothing went on since {wish.since}"
    return "no session was meant, or none in which anything was said"


def _single(session: Session, wish: Wish, making: Making, out: TextIO) -> _Written:
    branch = chosen_branch(session, wish.branch)
    turns = _turns(wish.turns)
    _check_turns(session, branch, turns.get("first") or 0)
    view = structs.replace(making.view, branch=branch, **turns)
    making = structs.replace(making, view=view)
    finds = Finds()
    path = wish.to or Path(f"{file_name(session.id)}{making.format.suffix}")
    files: list[Path] = []
    if wish.to == _STDOUT:
        out.writelines(_texts(session, making, finds))
    else:
        files = export_session(session, path, making, finds)
    tally = Tally()
    tally.add(session.id, finds, keep=wish.report is not None)
    weight = sum(one.stat().st_size for one in files)
    return _Written(path=path, files=tuple(files), bytes=weight, tally=tally)


def _texts(session: Session, making: Making, finds: Finds) -> Iterator[str]:
    if making.format is not Format.JSONL:
        yield from made(session, making, finds)
        return
    for one in transcripts(
        session, making.raws, making.redactor, finds, private=making.private
    ):
        for raw in one.raws:
            yield raw.decode("utf-8", "surrogateescape")


def _turns(text: str | None) -> dict[str, int | None]:
    """Return the first and the last turn, counted from 0 as the walk counts them."""
    if text is None:
        return {}
    first, dash, last = text.partition("-")
    if not first.isdecimal() or not (last.isdecimal() or not last):
        raise click.UsageError(f"{text!r} are no turns; 2-4, 2- and 2 are")
    start = int(first) - 1
    end = (int(last) - 1 if last else None) if dash else start
    if start < 0 or (end is not None and end < start):
        raise click.UsageError(f"{text!r} are no turns; the first one is 1")
    return {"first": start, "last": end}


def _check_turns(session: Session, number: int, first: int) -> None:
    """Refuse turns of which the branch has none."""
    turns = next((one.turns for one in session.branches if one.number == number), ())
    if first > max((turn.number for turn in turns), default=0):
        has = several(len(turns), "turn")
        raise click.UsageError(f"there is no turn {first + 1}: the branch has {has}")


def _folder(chosen: Iterable[Chosen], wish: Wish, making: Making) -> _Written:
    folder = wish.to or Path(_FOLDER)
    keep = wish.report is not None
    with if_stopped(WRITTEN), StageBar() as bar:
        if wish.source is None:
            # The archive knows how many there are; of files one is read at a time.
            chosen = list(chosen)
            bar.begin("sessions", len(chosen))
        done = export_folder(_counted(chosen, bar), folder, making, report=keep)
    return _Written(
        path=folder / "index.html" if making.format is Format.HTML else folder,
        sessions=done.written,
        same=done.same,
        bytes=done.bytes,
        tally=done.tally,
    )


def _counted(chosen: Iterable[Chosen], bar: StageBar) -> Iterator[Chosen]:
    for one in chosen:
        yield one
        bar.advance(1)
