"""`bygones search`: find sessions."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC

import click
from msgspec import Struct

from bygones.cli.context import (
    CommonOptions,
    QueryCommand,
    archive_options,
    color_option,
    complete_query,
    iso_option,
    join_query_words,
    json_option,
    print_tag_notes,
    unescape_words,
)
from bygones.cli.open_archive import open_current
from bygones.cli.output import (
    Console,
    output_width,
    print_objects,
    print_paged,
    project_name,
    short_session_id,
)
from bygones.cli.resolve import save_results
from bygones.errors import ExitCode
from bygones.model.summary import (
    CountBound,
    Excerpt,
    SearchResults,
    SessionMatch,
    SessionSummary,
)
from bygones.query.parser import parse_query
from bygones.render.headers import PART_LABELS, hit_excerpt, hit_label, search_notes
from bygones.render.numbers import pluralize
from bygones.render.text.primitives import (
    display_width,
    sanitize,
    sanitize_line,
    sanitize_name,
)

_MAX_LISTED_IDS = 3
"""Sessions of a group whose ids are shown."""
_INDENT = 4
_WordPieces = list[tuple[str, bool]]
"""Pieces of a word, and whether each is highlighted."""


class SearchResultsPage(Struct, frozen=True, kw_only=True):
    """The layout of search results."""

    console: Console
    first_number: int = 1
    """The number of the first match."""
    shows_scores: bool = False

    def lines(self, results: SearchResults) -> Iterator[str]:
        """Yield the lines of all matches, separated by blank lines."""
        for number, one in enumerate(results.sessions, self.first_number):
            if number > self.first_number:
                yield ""
            yield from self._match_lines(number, one)

    def _match_lines(self, number: int, match: SessionMatch) -> Iterator[str]:
        mark = self.console.style.location(f"{number:>2}")
        title = self._wrap(_split_excerpt(match.highlighted_title), is_title=True)
        for at, line in enumerate(title):
            yield f"{mark}  {line}" if at == 0 else " " * _INDENT + line
        yield " " * _INDENT + self.console.style.dim(self._match_facts(match))
        if self.shows_scores and match.score_parts:
            yield " " * _INDENT + self.console.style.dim(_format_score(match))
        for share in match.word_shares if self.shows_scores else ():
            counts = ", ".join(
                f"{PART_LABELS[part]} {n:,}" for part, n in share.record_counts
            )
            text = sanitize_line(f"{share.word} {share.share:.0%}: {counts}")
            yield " " * _INDENT + self.console.style.dim(text)
        for hit in match.hits:
            label = hit_label(hit)
            words = [[(label, False)], *_split_excerpt(hit_excerpt(hit))]
            for at, line in enumerate(self._wrap(words, label=label)):
                yield " " * (_INDENT + 2 * (at > 0)) + line

    def _match_facts(self, match: SessionMatch) -> str:
        listed = match.summary
        facts = [
            short_session_id(listed.id),
            listed.person,
            project_name(listed),
            self.console.format_time(listed.ended_at),
            match.hit_count_bound.qualify(pluralize(match.hit_count, "hit"))
            if match.hit_count
            else "",
            f"also in {', '.join(map(short_session_id, match.duplicate_ids))}"
            if match.duplicate_ids
            else "",
            f"same lineage: {_list_ids(match.lineage)}" if match.lineage else "",
            f"and {len(match.similar):,} similar: {_list_ids(match.similar)}"
            if match.similar
            else "",
        ]
        return sanitize_line(" · ".join(fact for fact in facts if fact))

    def _wrap(
        self, words: Sequence[_WordPieces], *, label: str = "", is_title: bool = False
    ) -> Iterator[str]:
        room = (
            None
            if self.console.width is None
            else max(self.console.width - _INDENT - 2, 20)
        )
        line: list[str] = []
        taken = 0
        for word in words:
            # Without colors, highlights are in quotation marks.
            quotes = 0 if self.console.style.is_colored else 2
            columns = sum(
                display_width(piece) + quotes * marked for piece, marked in word
            )
            if line and room is not None and taken + 1 + columns > room:
                yield " ".join(line)
                line, taken = [], 0
            is_label = bool(label) and word == [(label, False)]
            line.append(self._style_word(word, is_label=is_label, is_title=is_title))
            taken += columns + 1
        if line:
            yield " ".join(line)

    def _style_word(self, word: _WordPieces, *, is_label: bool, is_title: bool) -> str:
        style = self.console.style
        unmarked = style.dim if is_label else style.heading if is_title else str
        return "".join(
            style.highlight(piece) if is_marked else unmarked(piece)
            for piece, is_marked in word
        )


def _list_ids(sessions: Sequence[SessionSummary]) -> str:
    ids = [short_session_id(one.id) for one in sessions[:_MAX_LISTED_IDS]]
    return ", ".join(ids) + (" …" if len(sessions) > _MAX_LISTED_IDS else "")


def _format_score(match: SessionMatch) -> str:
    """Return a score and its parts, the largest first."""
    parts = sorted(match.score_parts, key=lambda part: -part.value)
    terms = (f"{part.kind.replace('-', ' ')} {part.value:.2f}" for part in parts)
    return f"score {match.score:.2f}: {', '.join(terms)}"


def _split_excerpt(excerpt: Excerpt) -> list[_WordPieces]:
    """Return the words of an excerpt, split where highlights start or end."""
    pieces: list[tuple[str, bool]] = []
    at = 0
    for start, stop in excerpt.highlights:
        pieces += [(excerpt.text[at:start], False), (excerpt.text[start:stop], True)]
        at = stop
    pieces.append((excerpt.text[at:], False))
    words: list[_WordPieces] = [[]]
    if excerpt.is_cut_before:
        words[-1].append(("…", False))
    for text, marked in pieces:
        for number, part in enumerate(text.split(" ")):
            if number:
                words.append([])
            if part:
                words[-1].append((sanitize(part), marked))
    if excerpt.is_cut_after:
        words[-1].append(("…", False))
    return [word for word in words if word]


def result_notes(results: SearchResults, offset: int) -> Iterator[str]:
    """Yield notes about how a query was answered."""
    for remark in search_notes(results):
        yield f"note: {remark}"
    shown = offset + len(results.sessions)
    if not results.sessions:
        yield "no sessions found" if not offset else "no more sessions"
    elif results.session_count > shown or results.session_count_bound:
        total = results.session_count_bound.qualify(
            pluralize(results.session_count, "session")
        )
        text = f"{offset + 1} to {shown} of {total}"
        is_estimate = results.session_count_bound is CountBound.ABOUT
        if len(results.query_words) > 1 and (
            results.full_match_count or not is_estimate
        ):
            text += f", {results.full_match_count:,} with all words"
        more = f"; --page {offset // len(results.sessions) + 2} shows more"
        yield f"{text}{more}" if results.session_count > shown else text


def _print_query_help(
    context: click.Context, _: click.Parameter, is_requested: bool
) -> None:
    if is_requested:
        from bygones.query.fields import format_query_help

        text = format_query_help(min(output_width(sys.stdout, os.environ), 100))
        print_paged(text.splitlines(), is_terminal=sys.stdout.isatty())
        context.exit()


@click.command("search", cls=QueryCommand)
@click.argument(
    "words",
    metavar="[QUERY]...",
    nargs=-1,
    type=click.UNPROCESSED,
    shell_complete=complete_query,
)
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1, 1000),
    default=10,
    help="Number of sessions.",
)
@click.option("--page", type=click.IntRange(1), default=1, help="Page of results.")
@click.option(
    "--hits", type=click.IntRange(0, 100), default=2,
    help="Number of hits per session.",
)  # fmt: skip
@click.option(
    "--sort", type=click.Choice(["best", "newest", "oldest"]), default="best",
    metavar="ORDER", help="Order: best, newest or oldest first.",
)  # fmt: skip
@click.option(
    "--explain",
    is_flag=True,
    help="Show the parts of each score, and what each word contributed.",
)
@iso_option
@click.option(
    "--syntax", is_flag=True, is_eager=True, expose_value=False,
    callback=_print_query_help, help="Show the query language and exit.",
)  # fmt: skip
@archive_options
@json_option
@color_option
def search(  # noqa: PLR0913 (one parameter per option)
    *,
    words: tuple[str, ...],
    limit: int,
    page: int,
    hits: int,
    sort: str,
    explain: bool,
    iso: bool,
    options: CommonOptions,
    as_json: bool,
    color: str,
) -> None:
    r"""Find sessions by what was said and done in them.

    \b
    bygones search why does the login test fail
    bygones search '"charged twice" tool:Bash after:2w'
    bygones search project:shop is:error -docker

    Type words as you remember them. A session need not contain all of them, word forms
    such as "retried" match "retry", and typos are corrected. "Quoted words" must be
    adjacent, -word excludes a word, and fields such as project: and after: filter;
    --syntax lists them all.

    Results are numbered: `bygones show 2` shows the second session, `bygones show 2.1`
    its first hit. The exit code is 1 if nothing is found.
    """
    console = Console.for_stdout(color, iso=iso)
    now = console.now
    text = join_query_words(unescape_words(words))
    query = parse_query(text, now=now, zone=now.astimezone().tzinfo or UTC)
    offset = (page - 1) * limit
    with open_current(options) as archived:
        found = archived.search(
            query, limit=limit, offset=offset, hits_per_session=hits, sort=sort
        )
        folder = archived.folder
        if not options.quiet:
            print_tag_notes(archived, query)
    save_results(folder, found, offset, text)
    if as_json:
        from bygones.schema.summaries import search_objects

        print_objects(search_objects(text, found, offset))
        _exit_if_empty(found)
        return
    page_layout = SearchResultsPage(
        console=console, first_number=offset + 1, shows_scores=explain
    )
    console.print_lines(page_layout.lines(found))
    for line in () if options.quiet else result_notes(found, offset):
        sys.stderr.write(f"{sanitize_name(line)}\n")
    _exit_if_empty(found)


def _exit_if_empty(results: SearchResults) -> None:
    """End with the exit code of grep if nothing was found."""
    if not results.sessions:
        raise click.exceptions.Exit(ExitCode.FAILURE)
