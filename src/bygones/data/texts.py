"""Load the texts of messages and tool calls that rows of the index name."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from bygones.ingest.loading import load_session
from bygones.model.base import Position, RecordId, SessionId, ToolUseId
from bygones.model.nodes import PREVIEW_LIMIT, Origin
from bygones.model.records import ThinkingBlock
from bygones.model.sessions import Message, Session, ToolCall, own_messages
from bygones.model.summary import Loader, RecordRef, Role
from bygones.redact.json import TextRedactor, redact_json
from bygones.redact.personal import login_names_in
from bygones.redact.session import RedactingLoader, RedactionLog
from bygones.render.message_text import full_text
from bygones.render.tool_detail import output_text
from bygones.store.connect import fetch_all
from bygones.store.fact_encoding import HAS_STORED_OUTPUT, decode_id, decode_refs
from bygones.store.schema import IN_SESSION

if TYPE_CHECKING:
    from bygones.redact.engine import Redactor
    from bygones.store.local_reader import LocalReader

_SESSIONS_IN_MEMORY = 4
_RECORDS_IN_MEMORY = 4
_MAX_CACHED_TEXT = 200
MESSAGE_ROLE = 5
"""Number of the role among the columns that name a message."""


class ContentLoader:
    """Loads texts, redacted unless there is no redactor."""

    def __init__(
        self, reader: LocalReader, loader: Loader, redactor: Redactor | None
    ) -> None:
        self._reader = reader
        self._db = reader.sessions.index.db
        self.redactor = (
            redactor.with_accounts(self._login_names())
            if redactor is not None
            else None
        )
        self.loader = (
            RedactingLoader(loader, self.redactor, RedactionLog())
            if self.redactor is not None
            else loader
        )
        self._session = lru_cache(_SESSIONS_IN_MEMORY)(self._load_session)
        self._positions = lru_cache(_RECORDS_IN_MEMORY)(self._load_positions)
        self._prompt_heads = lru_cache(_SESSIONS_IN_MEMORY)(self._load_prompt_heads)
        self._prompt_rows = lru_cache(_SESSIONS_IN_MEMORY)(self._load_prompt_rows)
        self._source = lru_cache(1024)(reader.byte_store.source)
        self._short_text = lru_cache(1 << 16)(self._redact)
        self._short_json = lru_cache(1024)(self._redact_json)

    def _login_names(self) -> frozenset[str]:
        """Return the logins in all directories that the index knows."""
        sql = "SELECT DISTINCT project FROM session WHERE project IS NOT NULL"
        folders = [row[0] for row in fetch_all(self._db, sql)]
        folders += self._reader.byte_store.homes()
        return login_names_in(folders)

    def redact(self, text: str | None) -> str | None:
        """Return a text from the index without secrets and personal data."""
        if text is None or self.redactor is None:
            return text
        if len(text) < _MAX_CACHED_TEXT:
            return self._short_text(text)
        return self._redact(text)

    def redact_json(self, text: str | None) -> str | None:
        """Return a list or an object from the index without what `redact` removes."""
        if text is None or self.redactor is None:
            return text
        return self._short_json(text)

    def _redact_json(self, text: str) -> str:
        if self.redactor is None:
            return text
        return redact_json(text.encode(), TextRedactor(self.redactor)).decode()

    def _redact(self, text: str) -> str:
        return self.redactor.redact_text(text) if self.redactor else text

    def position(self, session: int, key: int) -> Position | None:
        """Return where a record of a session is, by its key."""
        positions = self._positions(session)
        if key not in positions:
            positions[key] = self._find_position(session, key)
        return positions[key]

    def _find_position(self, session: int, key: int) -> Position | None:
        """Return where a record is that a session shares with the one it continues."""
        sql = (
            "SELECT r.source, r.start, r.length FROM record AS r"
            " JOIN session AS s ON s.number = r.session WHERE r.key = ? AND s.family ="
            " (SELECT family FROM session WHERE number = ?) ORDER BY r.id LIMIT 1"
        )
        for source, start, length in self._db.execute(sql, (key, session)):
            stored = self._source(source)
            if stored is not None:
                return Position(stored.id, stored.generation, start, length)
        return None

    def prompt_head(self, session: int, record: str) -> str | None:
        """Return the start of a session's own prompt."""
        return self._prompt_heads(session).get(record)

    def _load_positions(self, session: int) -> dict[int, Position | None]:
        """Return the positions of the records in a session's files, by key."""
        found: dict[int, Position | None] = {}
        sql = f"SELECT key, source, start, length FROM record WHERE {IN_SESSION}"  # noqa: S608 (our names)
        for key, source, start, length in self._db.execute(sql, (session,)):
            stored = self._source(source)
            if stored is not None:
                position = Position(stored.id, stored.generation, start, length)
                found.setdefault(key, position)
        return found

    def _load_session(self, number: int) -> Session:
        sql = "SELECT id FROM session_id WHERE number = ?"
        ((id_,),) = fetch_all(self._db, sql, (number,))
        return load_session(self._reader, SessionId(id_), self.loader)

    def _load_prompt_heads(self, session: int) -> dict[str, str]:
        sql = "SELECT record, text_head FROM prompt WHERE session = ?"
        return dict(fetch_all(self._db, sql, (session,)))

    def _refs(self, session: int, records: bytes) -> tuple[RecordRef, ...] | None:
        """Return the records of a message; none if one of them is not indexed."""
        refs: list[RecordRef] = []
        for key, blocks in decode_refs(records):
            position = self.position(session, key)
            if position is None:
                return None
            refs.append(RecordRef(position, RecordId(""), blocks))
        return tuple(refs) or None

    def message(  # noqa: PLR0913, PLR0917 (the columns of a row)
        self,
        session: int,
        agent: str,
        branch: int,
        number: int,
        id_: bytes,
        role: str,
        origin: str | None,
        head: str | None,
        records: bytes,
    ) -> Message | None:
        """Return a message as far as its texts need it."""
        refs = self._refs(session, records)
        if refs is None:
            return self._assembled_message(session, agent, branch, number)
        record_id = RecordId(decode_id(id_))
        if head is None and role != Role.ASSISTANT:
            head = self._prompt_heads(session).get(record_id, "")
        return Message(
            id=record_id,
            role=Role(role),
            origin=Origin(origin) if origin else None,
            # A short preview is the text itself, so it is redacted like one.
            preview=self.redact(head) or "",
            is_preview_cut=len(head or "") >= PREVIEW_LIMIT,
            record_refs=refs,
            loader=self.loader,
        )

    def message_text(self, *row: object) -> str | None:
        """Return what was typed, what Claude replied, or what a notice says."""
        message = self.message(*row)  # type: ignore[arg-type]
        return full_text(message) if message is not None else None

    def message_thinking(self, *row: object) -> str | None:
        """Return the reasoning in a reply."""
        if row[MESSAGE_ROLE] != Role.ASSISTANT:
            return None
        message = self.message(*row)  # type: ignore[arg-type]
        blocks = message.blocks if message is not None else ()
        return join_texts(b.thinking for b in blocks if isinstance(b, ThinkingBlock))

    def prompt_text(self, session: int, record: str, head: str) -> str:
        """Return what was typed, of which the index has the start."""
        if len(head) < PREVIEW_LIMIT:
            return self.redact(head) or ""
        row = self._prompt_rows(session).get(record)
        text = self.message_text(session, *row) if row is not None else None
        return text or self.redact(head) or ""

    def _load_prompt_rows(self, session: int) -> dict[str, tuple[object, ...]]:
        """Return the rows of a session's own prompts, by id."""
        sql = (
            "SELECT agent, branch, number, id, role, origin, head, records FROM message"
            " WHERE session = ? AND agent = '' AND role = 'user'"
        )
        rows = fetch_all(self._db, sql, (session,))
        return {decode_id(row[3]): tuple(row) for row in rows}

    def call(  # noqa: PLR0913, PLR0917 (the columns of a row)
        self,
        session: int,
        agent: str,
        branch: int,
        number: int,
        index: int,
        flags: int,
        call_key: int,
        call_block: int,
        result_key: int | None,
        result_block: int,
    ) -> ToolCall | None:
        """Return a tool call as far as its texts need it."""
        position = self.position(session, call_key)
        result = None if result_key is None else self.position(session, result_key)
        is_known = result is not None or result_key is None
        if position is None or not is_known or flags & HAS_STORED_OUTPUT:
            message = self._assembled_message(session, agent, branch, number)
            calls = message.tool_calls if message is not None else ()
            return calls[index] if index < len(calls) else None
        return ToolCall(
            id=ToolUseId(""),
            name="",
            record_id=RecordId(""),
            position=position,
            block_index=call_block,
            result_position=result,
            result_index=result_block,
            loader=self.loader,
        )

    def call_input(self, *row: object) -> str | None:
        """Return the input of a call as JSON."""
        call = self.call(*row)  # type: ignore[arg-type]
        raw = bytes(call.raw_input) if call is not None else b""
        return raw.decode("utf-8", "replace") or None

    def call_output(self, *row: object) -> str | None:
        """Return the result of a call as text; none if there is no result."""
        call = self.call(*row)  # type: ignore[arg-type]
        return output_text(call) if call is not None and call.has_result else None

    def _assembled_message(
        self, session: int, agent: str, branch: int, number: int
    ) -> Message | None:
        """Return a message of an assembled session, for rows that name no records."""
        whole = self._session(session)
        runs = {str(run.id): run.branches for run in whole.all_agents}
        for one in runs.get(agent, ()) if agent else whole.branches:
            if one.number == branch:
                own = own_messages(one)
                first = one.path.message_count - len(own)
                at = number - first
                return own[at] if 0 <= at < len(own) else None
        return None


def join_texts(texts: Iterable[str | None]) -> str | None:
    """Join texts by lines; return none if there are none."""
    return "\n".join(filter(None, texts)) or None
