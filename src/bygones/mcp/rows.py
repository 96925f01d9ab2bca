"""The rows that tools quote: messages, outlines, file histories, search results."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, takewhile
from typing import NamedTuple

import msgspec

from bygones.archive import Archive
from bygones.errors import BygonesError
from bygones.mcp.quoting import (
    QUOTE_LABEL,
    MessageSequence,
    QuotedRow,
    cite_record,
    short_session_id,
)
from bygones.model.base import RecordId, SessionId
from bygones.model.nodes import Origin, parse_user_text
from bygones.model.query import Exclusion, FieldValue, Not, Part, Query, Term
from bygones.model.records import TextBlock, ThinkingBlock
from bygones.model.sessions import Branch, FileEdit, Message, Session, ToolCall, Turn
from bygones.model.summary import (
    Hit,
    IndexedEdit,
    Role,
    ScorePartKind,
    SearchResults,
    SessionMatch,
)
from bygones.query.parser import and_terms
from bygones.render.headers import agent_facts, search_notes
from bygones.render.message_text import describe_block, prompt_text
from bygones.render.numbers import format_duration, format_time_range, pluralize
from bygones.render.text.primitives import (
    plain_text,
    sanitize,
    sanitize_line,
    truncate_line,
)
from bygones.render.text.session import MessageLayout, TextSystemMessages
from bygones.render.tool_detail import output_text, render_input, render_result
from bygones.render.tool_line import ToolCallFormatter, render_tool_line

_OWN_TOOL = "bygones__"
"""Part of the name of our own tools."""
_SAID_PREFIX = "| "
"""Before every line of a transcript; lines without it are ours."""
_THOUGHT_PREFIX = "~ "
"""Before every line of thinking."""


def _prefix_lines(text: str, prefix: str) -> list[str]:
    clean = sanitize(text).strip("\n")
    return [prefix + line for line in clean.split("\n")] if clean else []


def is_own_tool(tool: str) -> bool:
    """Return whether a tool is ours; its output is not history but quotes it."""
    return tool.startswith("mcp__") and _OWN_TOOL in tool


class _IndependentCallLines(ToolCallFormatter):
    """Formats calls without state, so that a row does not depend on earlier rows."""

    def task_progress(self) -> str:
        return ""


class _MessagePart(NamedTuple):
    """Rows of a message: a text, thinking or a call."""

    rows: list[str]
    is_cited: bool = False


_LEAD_CHARS = 400
"""What is quoted before the words that a reader looks for."""
_NEAR_CHARS = 200
"""Words within this distance belong together."""
_HEAD_CHARS = 1_000
_END_CHARS = 1_200
"""What is quoted of a long input or result of a cited call."""
_ROW_PREFIX = re.compile(r"(?:[|~] | {4}[>|] )?")


class CitedRecord:
    """A record that is quoted with thinking, input and result.

    A long one is quoted from the words on that a reader looks for.
    """

    def __init__(
        self,
        name: str,
        find_words: Callable[[str], Sequence[tuple[int, int]]],
        max_chars_before: int,
    ) -> None:
        self._prefix = name.removeprefix("#")
        self._find_words = find_words
        self._max_chars_before = max_chars_before

    def records_in(self, message: Message) -> frozenset[RecordId]:
        """Return the records of a message that are cited."""
        if not self._prefix:
            return frozenset()
        return frozenset(
            id_ for id_ in message.record_ids if id_.startswith(self._prefix)
        )

    def cut_rows(self, rows: Sequence[str], skipped: int) -> list[str]:
        """Return rows without the first ones, and without what is far before the words."""
        text = "\n".join(rows[skipped:])
        best = self._best_start(text)
        if best > self._max_chars_before:
            start = max(best - _LEAD_CHARS, 0)
            line = text.rfind("\n", 0, start) + 1
            skipped += text.count("\n", 0, line)
            prefix = _ROW_PREFIX.match(text, line)
            if start - line > _LEAD_CHARS and prefix:  # a long line
                text = f"{prefix[0]}…{text[start:]}"
            else:
                text = text[line:]
        left_out = pluralize(skipped, "line")
        note = [f"  ({left_out} of this message before)"] if skipped else []
        return [*note, *text.split("\n")]

    def _best_start(self, text: str) -> int:
        """Return where most different words are close together, the first such place."""
        spans = self._find_words(text)
        best = (0, 0)
        last = 0
        inside: Counter[str] = Counter()
        for start, end in spans:
            inside[text[start:end].casefold()] += 1
            while spans[last][0] < start - _NEAR_CHARS:
                word = text[slice(*spans[last])].casefold()
                inside[word] -= 1
                inside += Counter()  # drop words that are gone
                last += 1
            best = max(best, (len(inside), -spans[last][0]))
        return -best[1]


class MessageRows:
    """The messages of a branch or agent run as rows."""

    def __init__(
        self,
        session: Session,
        sequence: MessageSequence,
        detail: str,
        cited_record: CitedRecord | None = None,
    ) -> None:
        self._sequence = sequence
        self._call_line_renderer = _IndependentCallLines(session.project)
        self._detail = detail
        self._cited_record = cited_record

    def rows(self, start: int) -> Iterator[QuotedRow]:
        """Yield rows from a message on; messages without text are skipped."""
        for number in range(start, len(self._sequence.messages)):
            text = self._message_text(number)
            if text:
                yield QuotedRow(self._sequence.names.name_of(number), text)

    def _message_text(self, number: int) -> str:
        message = self._sequence.messages[number]
        cited_record = self._cited_record
        cited = cited_record.records_in(message) if cited_record else frozenset()
        speaker, parts = self._speaker_and_parts(message, cited)
        rows = [row for part in parts for row in part.rows]
        if not rows:
            return ""
        if cited_record is not None and cited:
            before = takewhile(lambda part: not (part.is_cited and part.rows), parts)
            skipped = sum(len(part.rows) for part in before)
            rows = cited_record.cut_rows(rows, skipped if skipped < len(rows) else 0)
        name = f"#{self._sequence.names.name_of(number)}"
        head = " ".join(filter(None, [name, self._time_label(number), speaker]))
        if len(rows) == 1 and rows[0].startswith(_SAID_PREFIX):
            return f"{head}: {rows[0].removeprefix(_SAID_PREFIX)}\n"
        return "\n".join([f"{head}:", *rows]) + "\n"

    def _time_label(self, number: int) -> str:
        """Return the time, with the date if it differs from the message before."""
        time = self._sequence.messages[number].sent_at
        if time is None:
            return ""
        previous = self._sequence.messages[number - 1].sent_at if number else None
        is_same_day = previous is not None and previous.date() == time.date()
        return f"{time:%H:%M}" if is_same_day else f"{time:%Y-%m-%d %H:%M}"

    def _speaker_and_parts(
        self, message: Message, cited: frozenset[RecordId]
    ) -> tuple[str, list[_MessagePart]]:
        if message.role is Role.ASSISTANT:
            return "Claude", list(self._reply_parts(message, cited))
        if message.is_prompt:
            speaker = "prompt"
            if message.origin is Origin.CALLER:
                speaker = "caller"
            elif message.is_steering:
                speaker = "prompt while Claude worked"
            notes = [
                describe_block(b)
                for b in message.blocks
                if not isinstance(b, TextBlock)
            ]
            notes = [f"  {note}" for note in notes if note]
            said = _prefix_lines(prompt_text(message, parse_user_text), _SAID_PREFIX)
            return speaker, [_MessagePart(said), _MessagePart(notes)]
        if self._detail == "talk" and message.compaction is None and not cited:
            return "", []
        layout = MessageLayout(
            max_width=None,
            text_parser=parse_user_text,
            is_full=self._detail == "full" or bool(cited),
        )
        lines = map(plain_text, TextSystemMessages(layout).render(message))
        text = "\n".join(lines)
        said = _prefix_lines(text, _SAID_PREFIX)
        return str(message.origin or "notice"), [_MessagePart(said)]

    def _reply_parts(
        self, message: Message, cited: frozenset[RecordId]
    ) -> Iterator[_MessagePart]:
        for ref in message.record_refs:
            is_cited = ref.record_id in cited
            blocks = message.loader.load_blocks(ref.position)
            for at in ref.block_indexes:
                block = blocks[at] if at < len(blocks) else None
                if isinstance(block, TextBlock):
                    yield _MessagePart(
                        _prefix_lines(block.text or "", _SAID_PREFIX), is_cited
                    )
                elif isinstance(block, ThinkingBlock) and (
                    is_cited or self._detail == "full"
                ):
                    thought = _prefix_lines(block.thinking or "", _THOUGHT_PREFIX)
                    yield _MessagePart(thought, is_cited)
        for call in message.tool_calls:
            is_cited = not cited.isdisjoint(_call_record_ids(call))
            if is_cited or self._detail != "talk":
                yield _MessagePart(
                    list(self._call_lines(call, is_cited=is_cited)), is_cited
                )

    def _call_lines(self, call: ToolCall, *, is_cited: bool) -> Iterator[str]:
        for row in render_tool_line(self._call_line_renderer.format_call(call), None):
            yield plain_text(row)
        is_full = self._detail == "full"
        if is_own_tool(call.name) and (is_full or is_cited):
            yield "    (quoted history omitted)"
        elif is_full:
            yield from (f"    > {span.text}" for span in render_input(call))
            yield from (f"    | {span.text}" for span in render_result(call))
        elif is_cited:
            yield from _indented(_input_fields(call), "> ")
            yield from _indented(_shorten_middle(output_text(call)), "| ")
        for run in call.agents:
            if run.kind.is_shown:
                facts = ", ".join(filter(None, agent_facts(run)))
                yield f"    agent {sanitize_line(run.id)}: {sanitize_line(facts)}"


def _input_fields(call: ToolCall) -> str:
    """Return what a call was given, as search knows it: a diff may not contain that."""
    fields = call.input
    return "\n".join(
        f"{name}: {value if name == 'command' else _shorten_middle(value)}"
        if isinstance(value, str)
        else f"{name}: {_shorten_middle(msgspec.json.encode(value).decode())}"
        for name, value in fields.items()
    )


def _indented(text: str, prefix: str) -> list[str]:
    return _prefix_lines(text.rstrip("\n"), f"    {prefix}")


def _shorten_middle(text: str) -> str:
    """Return a text without its middle, if it is long.

    Search finds the start of inputs and results, and the end of failed results.
    """
    left_out = len(text) - _HEAD_CHARS - _END_CHARS
    if left_out <= 0:
        return text
    note = f"… ({left_out:,} characters omitted; detail full has them) …"
    return f"{text[:_HEAD_CHARS]}{note}{text[-_END_CHARS:]}"


def _call_record_ids(call: ToolCall) -> Iterator[RecordId]:
    yield call.record_id
    yield from (ref.record_id for ref in call.attached_refs)
    if call.result_record_id is not None:
        yield call.result_record_id


_OUTLINE_PROMPT_CHARS = 160
_MAX_FILES_PER_TURN = 4


def outline_rows(session: Session, branch_number: int) -> Iterator[QuotedRow]:
    """Yield the facts of a session, the turns of a branch, other branches and agents."""
    branch = next(
        branch for branch in session.branches if branch.number == branch_number
    )
    outline = _OutlineBuilder(session, branch)
    yield QuotedRow("", _outline_head(session))
    names = MessageSequence(branch.messages).names
    at = 0
    for turn in branch.turns:
        yield QuotedRow(
            "", outline.turn_text(turn, names.name_of(at) if turn.messages else "")
        )
        at += len(turn.messages)
    for other in session.branches:
        if other is not branch:
            yield QuotedRow("", _branch_line(other))
    for run in session.agents:
        if not run.call_ids and run.kind.is_shown:
            facts = ", ".join(filter(None, agent_facts(run)))
            yield QuotedRow(
                "", f"agent {sanitize_line(run.id)}, caller unknown: {facts}\n"
            )


class _OutlineBuilder:
    """Formats turns with the edits and the forks that belong to them."""

    def __init__(self, session: Session, branch: Branch) -> None:
        self._edits: dict[RecordId, list[FileEdit]] = {}
        for edit in session.edits:
            self._edits.setdefault(edit.message_id, []).append(edit)
        self._forks: dict[RecordId, list[int]] = {}
        for other in session.branches:
            if other is not branch and other.fork_id is not None:
                self._forks.setdefault(other.fork_id, []).append(other.number)

    def turn_text(self, turn: Turn, name: str) -> str:
        first = turn.messages[0].sent_at if turn.messages else None
        when = f"{first:%m-%d %H:%M}" if first else ""
        head = " ".join(
            filter(None, (f"t{turn.number + 1}", name and f"#{name}", when))
        )
        words = (
            truncate_line(turn.prompt.preview, _OUTLINE_PROMPT_CHARS)
            if turn.prompt
            else "(no prompt)"
        )
        facts = "; ".join(map(sanitize_line, filter(None, self._turn_facts(turn))))
        return f"{head}: {words}\n" + (f"  {facts}\n" if facts else "")

    def _turn_facts(self, turn: Turn) -> Iterator[str]:
        calls = turn.tool_calls
        failed = sum(1 for call in calls if call.is_error)
        yield pluralize(len(calls), "call") if calls else ""
        yield f"{failed} failed" if failed else ""
        yield format_duration(turn.duration) if turn.duration is not None else ""
        yield _edited_files(
            [e for m in turn.messages for e in self._edits.get(m.id, ())]
        )
        for call in calls:
            for run in call.agents:
                if run.kind.is_shown:
                    name = ": ".join(filter(None, (run.agent_type, run.description)))
                    yield f"agent {run.id} ({truncate_line(name, 80)}) {run.status}"
        if self._forks:
            records = [record for m in turn.messages for record in m.record_ids]
            for number in sorted(n for r in records for n in self._forks.get(r, ())):
                yield f"branch {number + 1} starts here"
        yield "compacted" if any(m.compaction for m in turn.messages) else ""


def _outline_head(session: Session) -> str:
    times = ""
    if session.started_at is not None and session.ended_at is not None:
        times = format_time_range(
            session.started_at, session.ended_at, session.started_at.tzinfo
        )
    facts = [
        session.id,
        times,
        session.project or "",
        ", ".join(name for name in session.git_branches if name != "HEAD"),
        ", ".join(session.models),
        *(f"{origin.kind} {origin.session_id[:8]}" for origin in session.lineage),
        session.title.text,
    ]
    return " · ".join(sanitize_line(fact) for fact in facts if fact) + "\n"


def _edited_files(edits: list[FileEdit]) -> str:
    files: dict[str, tuple[int, int]] = {}
    for edit in edits:
        added, removed = files.get(edit.path, (0, 0))
        files[edit.path] = (added + edit.added_lines, removed + edit.removed_lines)
    parts = [
        f"{path} +{added} -{removed}" if added or removed else path
        for path, (added, removed) in list(files.items())[:_MAX_FILES_PER_TURN]
    ]
    if len(files) > _MAX_FILES_PER_TURN:
        parts.append(f"{len(files) - _MAX_FILES_PER_TURN} more files")
    return f"edited {', '.join(parts)}" if parts else ""


def _branch_line(branch: Branch) -> str:
    kind = "live" if branch.is_live else "abandoned"
    if branch.session_id is not None:
        kind = f"session {sanitize_line(branch.session_id[:8])}"
    prompts = branch.prompts
    words = truncate_line(prompts[0].preview, _OUTLINE_PROMPT_CHARS) if prompts else ""
    counted = pluralize(len(prompts), "prompt")
    return f"branch {branch.number + 1}, {kind}: {counted}; starts with: {words}\n"


_HISTORY_PROMPT_CHARS = 200
_HISTORY_REPLY_CHARS = 160


def edits_by_session(
    edits: Sequence[IndexedEdit], caller_session: str | None
) -> dict[SessionId, set[str]]:
    """Return the paths that each session changed, newest session first."""
    paths: dict[SessionId, set[str]] = {}
    for edit in reversed(edits):
        if edit.session_id != caller_session:
            paths.setdefault(edit.session_id, set()).add(edit.path)
    return paths


def file_history_rows(
    archive: Archive,
    sessions: Mapping[SessionId, set[str]],
    redact: Callable[[Session], Session],
) -> Iterator[QuotedRow]:
    """Yield a row for each session."""
    for id_, paths in sessions.items():
        name = short_session_id(archive, archive.session_summary(id_))
        try:
            text = _changes_text(archive.session(id_), paths, redact)
        except (BygonesError, OSError, MemoryError):
            raise
        except Exception:  # noqa: BLE001 (the other sessions are shown)
            text = "it could not be read or redacted\n"
        yield QuotedRow("", f"{name} · {text}")


def _changes_text(
    raw: Session, paths: set[str], redact: Callable[[Session], Session]
) -> str:
    session = redact(raw)
    edits = [
        redacted
        for edit, redacted in zip(raw.edits, session.edits, strict=True)
        if edit.path in paths
    ]
    title = truncate_line(session.title.text, _HISTORY_PROMPT_CHARS)
    return f"{title}\n{''.join(_change_lines(session, edits))}"


def _change_lines(session: Session, edits: Sequence[FileEdit]) -> Iterator[str]:
    """Yield the changes grouped by turn, each with its prompt."""
    turns, messages = _index_messages(session)
    groups: dict[tuple[int, int, str | None], list[FileEdit]] = {}
    for edit in edits:
        groups.setdefault(
            (edit.branch_number, edit.turn_number, edit.agent_id), []
        ).append(edit)
    live = session.live_branch.number
    for (branch, _, agent), group in groups.items():
        first = group[0]
        turn = turns.get(first.message_id)
        if turn is not None and turn.prompt is not None:
            yield f"  asked: {truncate_line(turn.prompt.preview, _HISTORY_PROMPT_CHARS)}\n"
        for edit in group:
            message = messages.get(edit.message_id)
            words = ""
            if message is not None:
                words = truncate_line(message.preview, _HISTORY_REPLY_CHARS)
            yield f"  {_change_text(edit)}{_branch_suffix(branch, live, agent)}" + (
                f": {words}\n" if words else "\n"
            )


def _change_text(edit: FileEdit) -> str:
    facts = [
        cite_record(edit.message_id),
        f"{edit.edited_at:%Y-%m-%d %H:%M}" if edit.edited_at else "",
        _change_verb(edit),
        sanitize_line(edit.path),
        f"+{edit.added_lines} -{edit.removed_lines}"
        if edit.added_lines or edit.removed_lines
        else "",
        "(failed)" if edit.tool_call.is_error else "",
    ]
    return " ".join(filter(None, facts))


def _change_verb(edit: FileEdit) -> str:
    if edit.is_deleted:
        return "deleted"
    return "created" if edit.is_new_file else "changed"


def _branch_suffix(branch: int, live: int, agent: str | None) -> str:
    if agent is not None:
        return f", by agent {sanitize_line(agent)}"
    return "" if branch == live else f", abandoned branch {branch + 1}"


def _index_messages(
    session: Session,
) -> tuple[dict[RecordId, Turn], dict[RecordId, Message]]:
    turns: dict[RecordId, Turn] = {}
    messages: dict[RecordId, Message] = {}
    branches = [*session.branches, *(run.live_branch for run in session.all_agents)]
    for branch in branches:
        for turn in branch.path.rest:
            for message in turn.messages:
                turns.setdefault(message.id, turn)
                messages.setdefault(message.id, message)
    return turns, messages


_SEARCH_PAGE_SIZE = 20
"""Sessions that are loaded at once; those of the caller's project rise among them."""
_MAX_RELATED = 5
"""Related sessions whose ids are listed."""
_PROJECT_BOOST = 1.25
"""Factor of the score of sessions in the caller's project.

With 2,100 sessions it raises hit@1 from 0.81 to 0.89 for queries about that project, and
lowers it to 0.79 for others; 1.1 gives 0.87 and 0.80, 1.5 gives 0.89 and 0.79.
"""
_MIN_SCORE_SHARE = 0.5
"""Sessions that lack words and have a smaller share of the best score are left out.

With 2,100 sessions this leaves out 1.6 of 8.5 results, but no right one in 500 queries; a
share of 0.6 leaves out one.
"""
_CUT_NOTE = "left out: sessions that lack words of the query and match far less"
_EXTRA_HITS = 3
"""Additional hits, as those in our own tools are left out."""
_TITLE_CHARS = 120


def _score_without_title(match: SessionMatch) -> float:
    """Return a score that can be compared with those of sessions with other titles."""
    parts = (one for one in match.score_parts if one.kind is not ScorePartKind.TITLE)
    return sum(one.value for one in parts)


class SearchRows:
    """The results of a query as rows, loaded as far as they are read."""

    def __init__(
        self,
        archive: Archive,
        query: Query,
        *,
        hits: int,
        caller_session: str | None,
        redact: Callable[[str], str],
    ) -> None:
        self._archive = archive
        self._query = query
        self._hits = hits
        self._redact = redact
        # Results of our own tools are not history, and the caller knows its own session.
        # Prompts and replies that quote us are found nevertheless.
        self._exclusion = Exclusion(caller_session, QUOTE_LABEL)
        self.exclusion_note = "Not included: results of these tools"
        if caller_session is not None:
            self.exclusion_note += " and your own session"
        self._project: str | None = None

    def set_project(self, project: str | None, *, is_only: bool) -> None:
        """Rank the sessions of a project higher, or leave all others out."""
        if project is None or _names_project(self._query.root):
            return
        if is_only:
            own = [self._query.root] if self._query.root else []
            terms = and_terms([*own, FieldValue("project", project)])
            self._query = Query(terms, self._query.notes)
        else:
            self._project = project

    def search(self, offset: int) -> SearchResults:
        """Return a page of the matching sessions, best first."""
        return self._archive.search(
            self._query,
            limit=_SEARCH_PAGE_SIZE,
            offset=offset,
            hits_per_session=self._hits + _EXTRA_HITS,
            redact=self._redact,
            exclusion=self._exclusion,
        )

    def rows(self, first_page: SearchResults, start: int) -> Iterator[QuotedRow]:
        """Yield rows from a number on: notes on the query, then a row per session.

        Pages after the first are loaded when they are reached.
        """
        if start == 0:
            yield QuotedRow("0", self._query_notes(first_page))
        best_score = max(map(_score_without_title, first_page.sessions), default=0.0)
        offset = max(start - 1, 0) // _SEARCH_PAGE_SIZE * _SEARCH_PAGE_SIZE
        while offset < first_page.session_count:
            page = self.search(offset) if offset else first_page
            if not page.sessions:
                return
            is_cut = False
            for number, (match, score) in enumerate(self._sort_page(page), offset + 1):
                lacks_words = len(match.matched_words) < len(page.query_words)
                if lacks_words and score < _MIN_SCORE_SHARE * best_score:
                    if number >= start and not is_cut:
                        yield QuotedRow(str(number), f"({_CUT_NOTE})\n")
                    is_cut = True
                elif number >= start:
                    yield QuotedRow(str(number), self._session_text(match))
            if is_cut:
                return
            offset += _SEARCH_PAGE_SIZE

    def _sort_page(self, page: SearchResults) -> list[tuple[SessionMatch, float]]:
        """Return the sessions of a page with their scores, those of the project raised.

        The others keep their order: a session that follows another of its lineage counts
        as much as what comes after it.
        """
        scores = list(accumulate((one.score for one in reversed(page.sessions)), max))
        ranked = list(zip(page.sessions, reversed(scores), strict=True))
        return sorted(ranked, key=lambda one: -one[1] * self._boost(one[0]))

    def _boost(self, match: SessionMatch) -> float:
        return _PROJECT_BOOST if self._project in match.summary.project_names else 1

    def _query_notes(self, results: SearchResults) -> str:
        notes = map(self._redact, search_notes(results))
        return "".join(f"({sanitize_line(note)})\n" for note in notes)

    def _session_text(self, match: SessionMatch) -> str:
        summary = match.summary
        facts = [
            short_session_id(self._archive, summary),
            f"{summary.ended_at:%Y-%m-%d}" if summary.ended_at else "",
            summary.person,
            self._redact(summary.project or ""),
            truncate_line(self._redact(summary.title.text), _TITLE_CHARS),
        ]
        hits = [hit for hit in match.hits if not any(map(is_own_tool, hit.tool_names))]
        shown = [hit for hit in hits if hit.part is not Part.TITLE][: self._hits]
        lines = [" · ".join(sanitize_line(fact) for fact in facts if fact)]
        lines += [f"  {self._hit_text(hit)}" for hit in shown]
        more = match.hit_count - len(match.hits) + len(hits) - len(shown)
        if more > 0:
            hits_left = pluralize(more, "more hit", "more hits")
            lines.append(f"  {match.hit_count_bound.qualify(hits_left)}")
        for label, others in (
            ("same lineage", match.lineage),
            (f"and {len(match.similar):,} similar", match.similar),
        ):
            if others:
                ids = [short_session_id(self._archive, one) for one in others]
                rest = " …" if len(ids) > _MAX_RELATED else ""
                lines.append(f"  {label}: {', '.join(ids[:_MAX_RELATED])}{rest}")
        return "\n".join(lines) + "\n"

    def _hit_text(self, hit: Hit) -> str:
        facts = [
            cite_record(hit.record_id),
            f"{hit.sent_at:%m-%d %H:%M}" if hit.sent_at else "",
            "failed result" if hit.is_error else str(hit.part),
            ", abandoned branch" if hit.is_abandoned else "",
            f", agent {sanitize_line(hit.agent_type or hit.agent_id)}"
            if hit.agent_id
            else "",
        ]
        excerpt = hit.excerpt
        start = "…" if excerpt.is_cut_before else ""
        text = start + excerpt.text + ("…" if excerpt.is_cut_after else "")
        head = " ".join(filter(None, facts)).replace(" ,", ",")
        return f"{head}: {sanitize_line(text)}"


def _names_project(term: Term | None) -> bool:
    if isinstance(term, Not):
        return _names_project(term.term)
    terms = getattr(term, "terms", ())
    if any(map(_names_project, terms)):
        return True
    return isinstance(term, FieldValue) and term.field in {"project", "session"}
