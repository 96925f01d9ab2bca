"""The rows of sessions in a team store, made from derived rows and indexed lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from bygones.assemble.agents import find_hidden_records
from bygones.ingest.derive import SettledSession
from bygones.ingest.index_batch import IndexBatch
from bygones.model.base import Problem, SessionId, SourceFile, SourceKind
from bygones.model.problem_runs import ProblemRuns, add_drift
from bygones.model.summary import REPLAY_ID_PREFIXES, ProjectIdentity
from bygones.store.derived_rows import DerivedRows, PayerRows
from bygones.store.derived_tables import decode_summary
from bygones.store.encoding import TextLengths, id_key
from bygones.store.index_db import decode_nodes
from bygones.store.schema import TEAM_TABLES
from bygones.team.contract import PartRows, SessionText, TeamSource
from bygones.team.projects import encode_identity

Row = tuple[object, ...]


class SourceLines(Struct, frozen=True):
    """Lines of a source that are written together."""

    number: int
    file: SourceFile
    batches: Sequence[IndexBatch]
    """Complete lines."""
    fragment: IndexBatch | None = None
    """The last line without a newline."""

    @property
    def all_batches(self) -> list[IndexBatch]:
        return [*self.batches, *([self.fragment] if self.fragment else [])]

    def is_hidden(self) -> bool:
        """Whether it is a warm-up or a replay, whose texts are not indexed."""
        if self.file.kind is not SourceKind.AGENT:
            return False
        if (self.file.agent_id or "").startswith(REPLAY_ID_PREFIXES):
            return True
        found = (one.is_warm_up for one in self.all_batches)
        return next((one for one in found if one is not None), False)

    def hidden_keys(self) -> frozenset[int]:
        """Return the keys of records of warm-ups and replays inside it."""
        batches = self.all_batches
        if self.file.kind is SourceKind.AGENT or not any(
            batch.may_start_hidden_run for batch in batches
        ):
            return frozenset()
        pages = (decode_nodes(batch.page.msgpack) for batch in batches)
        return frozenset(map(id_key, find_hidden_records(chain.from_iterable(pages))))


class SettledTotals(Struct, array_like=True):
    """What the settled rows of a session add up to on a hub."""

    settled: SettledSession | None = None
    records: int = 0
    texts: int = 0
    edits: int = 0
    prompts: int = 0
    payers: PayerRows = field(default_factory=list)
    lengths: bytes = b""
    problems: dict[int, list[Problem]] = field(default_factory=dict)
    """By source."""
    drift: dict[int, list[tuple[tuple[str, str, str], int]]] = field(
        default_factory=dict
    )


_encode_totals = msgspec.msgpack.Encoder().encode
decode_totals = msgspec.msgpack.Decoder(SettledTotals).decode


def find_identity(session: SessionId, sources: Iterable[TeamSource]) -> ProjectIdentity:
    """Return the project of a session, if one of its clients has named it."""
    remotes = [source.source for source in sources]
    remotes.sort(
        key=lambda one: (one.session != session, one.kind is not SourceKind.SESSION)
    )
    found = (one.identity for one in remotes if one.identity is not None)
    return next(found, ProjectIdentity())


def with_directory(identity: ProjectIdentity, rows: DerivedRows) -> ProjectIdentity:
    """Return a project with the directory of the session, unless a client named one."""
    if identity.directory:
        return identity
    project = decode_summary(rows.session_row[-1]).project
    return replace(identity, directory=project or "")


class RowBuilder:
    """Builds the rows of a session, part by part.

    Records, texts, edits, prompts and payers are numbered within the session.
    """

    def __init__(
        self,
        person: str,
        sources: Sequence[TeamSource],
        totals: SettledTotals | None = None,
    ) -> None:
        self._person = person
        self._sources = sources
        self.totals = totals or SettledTotals()
        """What is settled so far."""

    def settle(
        self,
        rows: DerivedRows,
        settled: SettledSession,
        keys: Iterable[int],
        lines: Sequence[SourceLines],
    ) -> PartRows:
        """Return rows that stay when the session grows."""
        totals = self._copy_totals()
        part = self._build(totals, rows, lines)
        totals.settled = settled
        self.totals = totals
        tables = {**part.rows, "settled_key": [(key,) for key in keys]}
        return replace(part, rows=tables)

    def finish(self, rows: DerivedRows, lines: Sequence[SourceLines]) -> PartRows:
        """Return the rows that may change, with that of the session."""
        totals = self._copy_totals()
        part = self._build(totals, rows, lines)
        numbers = [source.number for source in self._sources]
        tables: dict[str, Sequence[Row]] = {
            **part.rows,
            "session": [self._session_row(rows, totals)],
            "session_source": [(number,) for number in numbers],
            "reported_cost": [rows.reported_cost] if rows.reported_cost else [],
            "problem": _numbered(
                _problem_row(number, problem)
                for number in numbers
                for problem in totals.problems.get(number, ())
            ),
            "drift": [
                (number, *what, count)
                for number in numbers
                for what, count in totals.drift.get(number, ())
            ],
            "settled_part": [(_encode_totals(self.totals),)]
            if self.totals.settled is not None
            else [],
            "settled_key": [],
        }
        if tables.keys() != TEAM_TABLES.keys():
            raise RuntimeError
        return replace(part, rows=tables)

    def _copy_totals(self) -> SettledTotals:
        before = self.totals
        return replace(
            before,
            payers=list(before.payers),
            problems=dict(before.problems),
            drift=dict(before.drift),
        )

    def _build(
        self, totals: SettledTotals, rows: DerivedRows, lines: Sequence[SourceLines]
    ) -> PartRows:
        """Return the rows of one part, without those of the session as a whole."""
        first_text, first_record = totals.texts, totals.records
        records, texts = _index_rows(totals, lines)
        payers, usage = _usage_rows(totals, rows)
        edits = _numbered(rows.edits, totals.edits)
        prompts = _numbered(rows.prompts, totals.prompts)
        totals.edits += len(edits)
        totals.prompts += len(prompts)
        runs = {run[0]: run for run in reversed(rows.agent_runs)}
        return PartRows(
            {
                "record": records,
                "edit": edits,
                "prompt": prompts,
                "abandoned_record": [(key,) for key in rows.abandoned_keys],
                "agent_run": list(runs.values()),
                "payer": payers,
                "usage": usage,
                "tool_context": list(rows.tool_contexts),
                "leaf_title": _title_rows(lines),
            },
            texts,
            first_text,
            first_record,
        )

    def _session_row(self, rows: DerivedRows, totals: SettledTotals) -> Row:
        """Return the row of a session, with the person who pushed it and its project."""
        *facts, encoded = rows.session_row
        identity = find_identity(rows.session, self._sources)
        known = identity if identity.key else None
        summary = replace(decode_summary(encoded), person=self._person, identity=known)
        return (
            rows.session,
            identity.name,
            encode_identity(identity),
            *map(_plain, facts),
            TextLengths(totals.lengths or None).pack(),
            msgspec.msgpack.encode(summary),
        )


def _index_rows(
    totals: SettledTotals, lines: Iterable[SourceLines]
) -> tuple[list[Row], list[SessionText]]:
    """Return the records and texts of lines, and add what else is known about them."""
    lengths = TextLengths(totals.lengths or None)
    records: list[Row] = []
    texts: list[SessionText] = []
    for source in lines:
        is_hidden, hidden = source.is_hidden(), source.hidden_keys()
        unknown = dict(totals.drift.get(source.number, ()))
        problems = ProblemRuns(totals.problems.get(source.number, ()))
        for batch in source.batches:
            if not is_hidden:
                lengths.merge(TextLengths(batch.lengths))
            add_drift(unknown, batch.drift)
            problems.extend(batch.problems)
        totals.drift[source.number] = list(unknown.items())
        totals.problems[source.number] = list(problems)
        for batch in source.all_batches:
            first = totals.records + len(records)
            texts += [
                SessionText(first + document.row_index, document.kind, document.text[1])
                for document in batch.documents
                if not is_hidden and batch.rows[document.row_index][0] not in hidden
            ]
            records += [
                (first + at, key, message_key, source.number, start, length)
                for at, (key, message_key, start, length) in enumerate(batch.rows)
            ]
    totals.lengths = lengths.pack()
    totals.records += len(records)
    totals.texts += len(texts)
    return records, texts


def _usage_rows(
    totals: SettledTotals, rows: DerivedRows
) -> tuple[list[Row], list[Row]]:
    """Return the payers that are new, and the usage of each answer."""
    known = {payer: number for number, payer in enumerate(totals.payers)}
    new: list[Row] = []
    for payer in rows.payers:
        if payer not in known:
            known[payer] = len(totals.payers)
            new.append((known[payer], *payer))
            totals.payers.append(payer)
    numbers = [known[payer] for payer in rows.payers]
    return new, [(numbers[index], *row) for index, *row in rows.usage]


def _problem_row(number: int, problem: Problem) -> Row:
    at = problem.position
    place = (number, at.offset, at.length)
    return (*place, problem.kind, problem.detail, problem.count)


def _title_rows(lines: Iterable[SourceLines]) -> list[Row]:
    """Return the titles that sources give; the last one at a place wins."""
    rows = {
        (key, source.number, start): (key, source.number, start, leaf, title)
        for source in lines
        for batch in source.batches
        for key, start, leaf, title in batch.leaf_titles
    }
    return list(rows.values())


def _numbered(rows: Iterable[Row], first: int = 0) -> list[Row]:
    return [(index, *map(_plain, row)) for index, row in enumerate(rows, first)]


def _plain(value: object) -> object:
    """Return a value as databases store it: they have no booleans here."""
    return int(value) if isinstance(value, bool) else value
