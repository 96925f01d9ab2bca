"""How long turns took, without the pause before a file was resumed."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from msgspec import Struct, structs

from bygones.assemble.dedupe import TREE_KINDS, get_record_id
from bygones.model.base import RecordId
from bygones.model.nodes import Origin, RecordNode
from bygones.model.sessions import Message
from bygones.model.summary import Role

_TYPED_ORIGINS = {Origin.PERSON, Origin.CALLER, Origin.COMMAND}


class TurnTimes(Struct, frozen=True, array_like=True):
    """What the duration of a turn is computed from."""

    measured_ms: int | None = None
    """The sum that Claude Code recorded."""
    first_at: datetime | None = None
    last_at: datetime | None = None
    pause: timedelta = timedelta()
    """The time until the messages were copied to another file."""
    is_copied: bool = False
    """Whether `first_at` is the time of copying."""

    @property
    def duration(self) -> timedelta | None:
        if self.measured_ms is not None:
            return timedelta(milliseconds=self.measured_ms)
        if self.first_at is None or self.last_at is None:
            return None
        worked = self.last_at - self.first_at - self.pause
        # Nothing is known about a turn whose times are all those of copying.
        return None if (self.pause or self.is_copied) and not worked else worked

    def __add__(self, later: TurnTimes) -> TurnTimes:
        measured = [
            ms for ms in (self.measured_ms, later.measured_ms) if ms is not None
        ]
        between = timedelta()
        if later.is_copied and later.first_at is not None and self.last_at is not None:
            between = max(later.first_at - self.last_at, between)
        return TurnTimes(
            sum(measured) if measured else None,
            min(filter(None, (self.first_at, later.first_at)), default=None),
            max(filter(None, (self.last_at, later.last_at)), default=None),
            self.pause + later.pause + between,
            self.is_copied,
        )


def measure_turn(
    messages: Sequence[Message],
    copied: Sequence[datetime] = (),
    *,
    is_rest: bool = False,
) -> TurnTimes:
    """Return when a turn started and ended, and the recorded duration.

    `is_rest` says that messages of the same turn precede these.

    It ends with the last reply or result, or when you interrupted it: commands and
    notices may follow at any time, such as ``/exit`` the next day.

    Times in `copied` are those of copying, of these or other messages: what was done
    since the time before is unknown, and mostly nothing.
    """
    measured = [m.turn_duration_ms for m in messages if m.turn_duration_ms is not None]
    times = [m.sent_at for m in messages if m.sent_at is not None and _is_work(m)]
    if not is_rest and messages and messages[0].sent_at is not None:
        times.append(messages[0].sent_at)
    times += [c.completed_at for m in messages for c in m.tool_calls if c.completed_at]
    return _measure_times(times, copied, sum(measured) if measured else None)


def measure_run(nodes: Sequence[RecordNode]) -> timedelta | None:
    """Return how long the records of an agent took."""
    times = [node.timestamp for node in nodes if node.timestamp is not None]
    return _measure_times(times, find_copy_times(nodes)).duration


def _measure_times(
    times: Sequence[datetime],
    copied: Sequence[datetime],
    measured_ms: int | None = None,
) -> TurnTimes:
    first, last = min(times, default=None), max(times, default=None)
    if first is None or not copied:
        return TurnTimes(measured_ms, first, last)
    pause = timedelta()
    for before, time in pairwise(sorted({*times})):
        until = bisect_right(copied, time)
        if until and copied[until - 1] > before:
            pause += copied[until - 1] - before
    at = bisect_left(copied, first)
    is_copied = at < len(copied) and copied[at] == first
    return TurnTimes(measured_ms, first, last, pause, is_copied)


def _is_work(message: Message) -> bool:
    return message.role is Role.ASSISTANT or message.origin is Origin.INTERRUPT


COPY_TOLERANCE = timedelta(milliseconds=50)
"""Claude Code copies a record in less time, and no request is answered in it."""
MAX_WAIT = timedelta(hours=1)
"""A reply that comes later was not waited for, with all retries."""


def find_copy_times(nodes: Sequence[RecordNode]) -> tuple[datetime, ...]:
    """Return the times, sorted, at which Claude Code 1.0 copied records into a resumed file.

    It gave replies, results and interruptions the time of copying, which may be several
    milliseconds; prompts kept theirs. The times near that of a reply that must be a copy
    are times of copying.
    """
    if not any(is_version_1(node) for node in nodes):
        return ()
    certain = _certain_copy_times(nodes)
    times = {
        node.timestamp
        for node in nodes
        if node.timestamp is not None and _may_have_copy_time(node)
    }
    found: set[datetime] = set()
    together: list[datetime] = []
    for time in sorted(times):
        if together and time - together[-1] > COPY_TOLERANCE:
            together = []
        together.append(time)
        if together[0] in found:
            found.add(time)
        elif time in certain:
            found.update(together)
    return tuple(sorted(found))


def _may_have_copy_time(node: RecordNode) -> bool:
    is_reply = node.kind == "assistant" or node.origin in {
        Origin.TOOL,
        Origin.INTERRUPT,
    }
    return is_reply and is_version_1(node)


def is_version_1(node: RecordNode) -> bool:
    return (node.version or "").startswith("1.")


class _Answer(Struct, frozen=True):
    """The last reply or interruption at or above a record."""

    id: str
    sent_at: datetime
    is_followed: bool = False
    """Whether a prompt or result follows, so that the next reply needs a request."""


def _certain_copy_times(nodes: Sequence[RecordNode]) -> set[datetime]:
    """Return the times of answers that cannot have been written at their times.

    - No request is answered or interrupted at the time of the answer before it.
    - A prompt is answered by the process that it was typed in, which has one version.
    - A resumed file starts with copies: its first answer may be much too late.
    """
    found: set[datetime] = set()
    answers: dict[RecordId | None, _Answer] = {}
    prompts: dict[RecordId | None, RecordNode] = {}
    tree = (node for node in nodes if node.kind in TREE_KINDS)
    first = next(tree, None)
    may_be_first = (
        first is not None
        and first.parent_uuid is None
        and first.logical_parent_uuid is None
    )
    for node in nodes:
        last, prompt = answers.get(node.parent_uuid), prompts.get(node.parent_uuid)
        answer = _as_answer(node)
        if answer is not None:
            if is_version_1(node) and not node.is_synthetic:
                if last is not None and _is_unrequested(last, answer, prompt, node):
                    found.update((last.sent_at, answer.sent_at))
                elif prompt is not None and _is_late(
                    prompt, node, is_first=may_be_first
                ):
                    found.add(answer.sent_at)
            may_be_first, last, prompt = False, answer, None
        elif node.kind == "user":
            last = structs.replace(last, is_followed=True) if last is not None else None
            prompt = node if node.origin in _TYPED_ORIGINS else prompt
        if last is not None:
            answers[get_record_id(node)] = last
        if prompt is not None:
            prompts[get_record_id(node)] = prompt
    return found


def _as_answer(node: RecordNode) -> _Answer | None:
    is_interruption = node.origin is Origin.INTERRUPT
    id_ = get_record_id(node) if is_interruption else node.message_id
    is_answer = is_interruption or node.kind == "assistant"
    if not is_answer or id_ is None or node.timestamp is None:
        return None
    return _Answer(id_, node.timestamp)


def _is_unrequested(
    last: _Answer, answer: _Answer, prompt: RecordNode | None, node: RecordNode
) -> bool:
    """Whether an answer came too soon after the one before it.

    An interruption may come at any time, but not as soon as a prompt is typed.
    """
    if node.origin is Origin.INTERRUPT and prompt is None:
        return False
    is_next = last.is_followed and last.id != answer.id
    return is_next and abs(answer.sent_at - last.sent_at) <= COPY_TOLERANCE


def _is_late(prompt: RecordNode, reply: RecordNode, *, is_first: bool) -> bool:
    if prompt.version is not None and prompt.version != reply.version:
        return True
    if not is_first or prompt.timestamp is None or reply.timestamp is None:
        return False
    return reply.timestamp - prompt.timestamp > MAX_WAIT
