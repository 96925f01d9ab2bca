"""The size of a session's context, turn by turn."""

from __future__ import annotations

from collections.abc import Iterator

from bygones.model.reports import ContextReport, ContextRow
from bygones.model.sessions import Message, Session, Turn
from bygones.model.usage import Usage


def build_context_report(session: Session) -> ContextReport:
    """Return the size of the context along the live branch.

    All answers on it count, including those that were copied from another session.
    """
    rows = tuple(row for turn in session.live_branch.turns for row in _turn_rows(turn))
    usages = [
        message.usage
        for turn in session.live_branch.turns
        for message in turn.messages
        if message.usage is not None
    ]
    contexts = sum(usage.context for usage in usages)
    reads = sum(usage.cache_read for usage in usages)
    return ContextReport(
        session_id=session.id,
        title=session.title.text,
        rows=rows,
        peak_tokens=max((row.peak_tokens for row in rows), default=0),
        cache_hit_rate=reads / contexts if contexts else 0.0,
        compaction_count=sum(row.trigger is not None for row in rows),
    )


def _turn_rows(turn: Turn) -> Iterator[ContextRow]:
    answers: list[Message] = []
    for message in turn.messages:
        if message.compaction is not None:
            yield from _answer_row(turn, answers)
            answers = []
            yield ContextRow(
                turn_number=turn.number,
                measured_at=message.sent_at,
                tokens=message.compaction.tokens_after or 0,
                compacted_from=message.compaction.tokens_before,
                trigger=message.compaction.trigger or "unknown",
            )
        elif message.usage is not None and message.usage.context:
            answers.append(message)
    yield from _answer_row(turn, answers)


def _answer_row(turn: Turn, answers: list[Message]) -> Iterator[ContextRow]:
    usages = [message.usage or Usage() for message in answers]
    if not usages:
        return
    total = sum(usages, Usage())
    yield ContextRow(
        turn_number=turn.number,
        measured_at=answers[-1].sent_at,
        tokens=usages[-1].context,
        peak_tokens=max(usage.context for usage in usages),
        output_tokens=total.output,
        cache_read_tokens=total.cache_read,
        cache_write_tokens=total.cache_write,
        input_tokens=total.input,
        answers=len(answers),
        prompt=turn.prompt.preview if turn.prompt else "",
    )
