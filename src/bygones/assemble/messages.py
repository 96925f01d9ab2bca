"""Builds messages from records, and tool calls with their results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct, structs

from bygones.assemble.dedupe import TREE_KINDS, get_record_id
from bygones.assemble.queue import EMPTY_QUEUE, QueueState, find_steering
from bygones.model.base import Position, Problem, RecordId, ToolUseId
from bygones.model.metadata import METADATA_BY_TYPE, VISIBLE_ATTACHMENT_TYPES
from bygones.model.nodes import (
    CompactionFacts,
    DurationFacts,
    InterruptFacts,
    NodeBlock,
    Origin,
    RecordNode,
    ResultFacts,
    RetractionFacts,
)
from bygones.model.records import SYSTEM_SUBTYPES
from bygones.model.sessions import AgentRun, Message, ToolCall
from bygones.model.summary import HiddenRecord, Loader, RecordRef, Role
from bygones.model.usage import Usage

_OUTPUT_ORIGINS = {Origin.COMMAND_OUTPUT, Origin.SHELL_OUTPUT}
_TYPED_ORIGINS = {Origin.PERSON, Origin.CALLER}
_INTERRUPTION_PHRASES = (
    "interrupted",
    "doesn't want to proceed",
    "tool use was rejected",
)


class AssembledMessages(Struct, frozen=True):
    """The messages of a conversation in order, and the records that are hidden."""

    messages: tuple[Message, ...]
    hidden_records: tuple[HiddenRecord, ...]
    problems: tuple[Problem, ...]


class _MatchedResult(Struct):
    """The record and block index of the result of a call."""

    node: RecordNode
    index: int


def build_messages(
    nodes: Sequence[RecordNode],
    branch: Mapping[RecordId, int],
    loader: Loader,
    agents: Mapping[ToolUseId, Sequence[AgentRun]] = {},
    *,
    queue: QueueState = EMPTY_QUEUE,
) -> AssembledMessages:
    """Build messages, given the branch of each record and the agents of each call.

    `queue` is what was queued before these records.
    """
    steering = find_steering(nodes, queue)
    return _MessageBuilder(nodes, branch, loader, agents, steering=steering).build()


class _MessageBuilder:
    """Walks the nodes once; earlier records decide which message a record joins."""

    def __init__(
        self,
        nodes: Sequence[RecordNode],
        branch: Mapping[RecordId, int],
        loader: Loader,
        agents: Mapping[ToolUseId, Sequence[AgentRun]],
        *,
        steering: Sequence[RecordNode],
    ) -> None:
        self._nodes = nodes
        self._branch = branch
        self._loader = loader
        self._agents = agents
        self._problems: list[Problem] = []
        self._hidden: list[HiddenRecord] = []
        self._results, self._bodies = self._index_results()
        self._removed = _removed_records(nodes)
        self._interrupted = {
            node.extra.message_id
            for node in nodes
            if isinstance(node.extra, InterruptFacts)
        }
        self._calls = self._index_calls()
        self._steering = {node.position for node in steering}
        self._groups: list[list[RecordNode]] = []
        self._open_answers: dict[int, dict[str, list[RecordNode]]] = {}
        self._attached: dict[RecordId, list[RecordNode]] = {}
        self._durations: dict[Position, int] = {}
        self._message_heads: dict[RecordId, RecordNode] = {}
        self._current_branch = 0
        self._steering_branches: dict[Position, int] = {}

    def build(self) -> AssembledMessages:
        for node in self._nodes:
            self._current_branch = self._branch_of(node)
            self._place_record(node)
        messages = tuple(self._build_message(group) for group in self._groups)
        return AssembledMessages(messages, tuple(self._hidden), tuple(self._problems))

    def _index_results(
        self,
    ) -> tuple[dict[ToolUseId, _MatchedResult], dict[ToolUseId, list[RecordNode]]]:
        """Return the results and the injected texts by call."""
        results: dict[ToolUseId, _MatchedResult] = {}
        bodies: dict[ToolUseId, list[RecordNode]] = {}
        for node in self._nodes:
            if node.source_call_id is not None and _is_injected_text(node):
                bodies.setdefault(node.source_call_id, []).append(node)
            for index, block in enumerate(node.blocks):
                if block.id is None or block.name is not None:
                    continue
                if block.id in results and results[block.id].node.uuid != node.uuid:
                    problem = Problem("double-result", node.position, block.id)
                    self._problems.append(problem)
                results[block.id] = _MatchedResult(node, index)
        return results, bodies

    def _index_calls(self) -> dict[ToolUseId, str | None]:
        """Return every call, with the reason if all answers that make it are hidden."""
        calls: dict[ToolUseId, str | None] = {}
        for node in self._nodes:
            if node.kind != "assistant":
                continue
            for block in node.blocks:
                if block.name is not None and block.id is not None:
                    reason = hidden_reason(node, self._removed)
                    calls[block.id] = reason and calls.get(block.id, reason)
        return calls

    def _place_record(self, node: RecordNode) -> None:
        """Add a record to a message, attach it to one, or hide it."""
        if self._steering and node.position in self._steering:
            self._steering_branches[node.position] = self._current_branch
            self._groups.append([node])
            return
        if isinstance(node.extra, DurationFacts) and self._groups:
            self._durations[self._groups[-1][0].position] = node.extra.duration_ms
        reason = hidden_reason(node, self._removed)
        if reason in {None, "harness"} and self._join_earlier_message(node):
            return
        if reason is not None:
            self._hide(node, reason)
            self._skip_to_compaction(node)
        elif node.kind == "assistant":
            self._add_assistant_record(node)
        elif node.origin is Origin.TOOL:
            self._add_result_record(node)
            self._add_side_text(node)
        else:
            self._groups.append([node])
            self._message_heads[get_record_id(node)] = node
        if node.kind == "user" and node.origin in _TYPED_ORIGINS:
            self._close_answers()

    def _join_earlier_message(self, node: RecordNode) -> bool:
        """Whether a record belongs to its call, or was attached to an earlier message."""
        if _is_injected_text(node) and node.source_call_id in self._calls:
            return self._calls[node.source_call_id] is None
        return self._attach(node)

    def _close_answers(self) -> None:
        """Close the answers of a branch: some gateways reuse message ids."""
        self._open_answers.pop(self._current_branch, None)

    def _hide(self, node: RecordNode, reason: str) -> None:
        self._hidden.append(HiddenRecord(reason, node.position, node.uuid))

    def _add_assistant_record(self, node: RecordNode) -> None:
        """Join an assistant record with the earlier records of its message."""
        key = node.message_id or f"@{node.uuid}"
        answers = self._open_answers.setdefault(self._branch_of(node), {})
        group = answers.get(key)
        if group is None:
            group = answers[key] = []
            self._groups.append(group)
        group.append(node)

    def _add_result_record(self, node: RecordNode) -> None:
        """Leave a result to its call; show it as a message if the call is unknown."""
        ids = [block.id for block in node.blocks if block.id is not None]
        unknown = [id_ for id_ in ids if id_ not in self._calls]
        self._problems += [
            Problem("lost-result", node.position, id_) for id_ in unknown
        ]
        if unknown:
            self._groups.append([node])
            return
        reasons = [self._calls[id_] or self._replaced_reason(node, id_) for id_ in ids]
        if all(reasons):
            self._hide(node, reasons[0] or "")

    def _add_side_text(self, node: RecordNode) -> None:
        """Show text that was typed in a record of results as a separate message."""
        text = node.side_text
        if text is None:
            return
        typed = structs.replace(node, origin=text.origin, preview=text.preview)
        self._groups.append([typed])
        if text.origin in _TYPED_ORIGINS:
            self._close_answers()

    def _replaced_reason(self, node: RecordNode, call: ToolUseId) -> str | None:
        is_last = self._results[call].node.uuid == node.uuid
        return None if is_last else "answered-again"

    def _attach(self, node: RecordNode) -> bool:
        """Attach outputs to their command, and a summary to its compaction."""
        if node.parent_uuid is None:
            return False
        head = self._message_heads.get(node.parent_uuid)
        if head is None:
            return False
        belongs = (
            (node.origin in _OUTPUT_ORIGINS)
            or (head.command is not None and _is_command_body(node, head))
            or (
                node.origin is Origin.COMPACTION
                and isinstance(head.extra, CompactionFacts)
            )
        )
        if belongs:
            self._attached.setdefault(get_record_id(head), []).append(node)
            self._message_heads[get_record_id(node)] = head
        return belongs

    def _skip_to_compaction(self, node: RecordNode) -> None:
        """Let the summary after an attachment find its compaction before it."""
        if node.kind != "attachment" or node.parent_uuid is None:
            return
        head = self._message_heads.get(node.parent_uuid)
        is_compaction = head is not None and isinstance(head.extra, CompactionFacts)
        if head and is_compaction and get_record_id(head) not in self._attached:
            self._message_heads[get_record_id(node)] = head

    def _branch_of(self, node: RecordNode) -> int:
        """Return the branch of a record, outside the tree that of the record before."""
        current = self._current_branch
        if self._steering_branches:
            current = self._steering_branches.get(node.position, current)
        if node.uuid is None:
            return current
        return self._branch.get(node.uuid, current)

    def _build_message(self, group: list[RecordNode]) -> Message:
        first = group[0]
        uuid = get_record_id(first)
        refs = _build_record_refs(group)
        usage: Usage | None = None
        for node in group:
            if node.usage is not None and not node.is_synthetic:
                usage = node.usage if usage is None else usage | node.usage
        compaction = first.extra if isinstance(first.extra, CompactionFacts) else None
        return Message(
            id=uuid,
            role=_role(first),
            origin=first.origin,
            sent_at=first.timestamp,
            preview=first.preview
            or next((node.preview for node in group if node.preview), ""),
            record_refs=refs,
            branch_number=self._branch_of(first),
            api_id=first.message_id,
            model=first.model,
            usage=usage,
            tool_calls=self._build_calls(group, refs),
            attached_refs=_build_record_refs(self._attached[uuid])
            if uuid in self._attached
            else (),
            command=first.command,
            notification=first.notification,
            compaction=compaction,
            system_subtype=first.subtype
            if first.kind in {"system", "attachment"}
            else None,
            is_error=first.is_error,
            is_steering=not first.is_conversation and first.origin is Origin.PERSON,
            turn_duration_ms=self._durations.get(first.position),
            loader=self._loader,
        )

    def _build_calls(
        self, group: Sequence[RecordNode], refs: Sequence[RecordRef]
    ) -> tuple[ToolCall, ...]:
        if group[0].kind != "assistant":
            return ()
        return tuple(
            self._build_call(node, index)
            for node, ref in zip(group, refs, strict=True)
            for index in ref.block_indexes
            if node.blocks[index].name is not None and node.blocks[index].id is not None
        )

    def _build_call(self, node: RecordNode, index: int) -> ToolCall:
        block = node.blocks[index]
        id_ = block.id or ToolUseId("")
        matched = self._results.get(id_)
        result = _call_result(matched) if matched is not None else _NO_RESULT
        bodies = self._bodies.pop(id_, ())
        return ToolCall(
            id=id_,
            name=block.name or "",
            label=block.label or "",
            path=block.path,
            record_id=node.uuid or RecordId(""),
            position=node.position,
            block_index=index,
            called_at=node.timestamp,
            result_position=result.position,
            result_index=result.index,
            result_record_id=result.record_id,
            completed_at=result.completed_at,
            is_error=result.is_error,
            is_interrupted=result.is_interrupted,
            is_stopped=result.is_interrupted and node.message_id in self._interrupted,
            result_size=result.size,
            result_facts=result.facts,
            attached_refs=_build_record_refs(bodies) if bodies else (),
            agents=tuple(self._agents.get(id_, ())),
            loader=self._loader,
        )


class _CallResult(Struct, frozen=True, kw_only=True, gc=False):
    """The part of a call that comes from its result."""

    position: Position | None = None
    index: int = 0
    record_id: RecordId | None = None
    completed_at: datetime | None = None
    is_error: bool = False
    is_interrupted: bool = False
    size: int = 0
    facts: ResultFacts | None = None


_NO_RESULT = _CallResult()


def _call_result(matched: _MatchedResult) -> _CallResult:
    node, block = matched.node, matched.node.blocks[matched.index]
    is_only_result = sum(1 for other in node.blocks if other.id is not None) == 1
    return _CallResult(
        position=node.position,
        index=matched.index,
        record_id=node.uuid,
        completed_at=node.timestamp,
        is_error=block.is_error,
        is_interrupted=block.is_error and _mentions_interruption(node.preview),
        size=block.size,
        facts=node.result if is_only_result else None,
    )


def _is_injected_text(node: RecordNode) -> bool:
    """Whether a user record may be a text that the harness added to a call."""
    return node.kind == "user" and node.origin is not Origin.TOOL


def _is_command_body(node: RecordNode, command: RecordNode) -> bool:
    """Whether a harness text is the expansion of a command."""
    is_text = node.origin is Origin.HARNESS and bool(node.preview)
    return is_text and node.parent_uuid == command.uuid


def _role(node: RecordNode) -> Role:
    if node.kind == "assistant":
        return Role.ASSISTANT
    is_notice = not node.is_conversation and node.origin is None
    return Role.SYSTEM if is_notice else Role.USER


def _mentions_interruption(preview: str) -> bool:
    return any(phrase in preview for phrase in _INTERRUPTION_PHRASES)


def _removed_records(nodes: Iterable[RecordNode]) -> dict[RecordId, str]:
    """Return the records that a later one retracts or repeats, and the reason.

    A manual compaction is recorded first as typed text, and later as a command.
    """
    removed: dict[RecordId, str] = {}
    typed: RecordId | None = None
    command = Origin.COMMAND
    for node in nodes:
        if node.supersedes_ids:
            removed.update(dict.fromkeys(node.supersedes_ids, "superseded"))
        if isinstance(node.extra, RetractionFacts):
            removed.update(dict.fromkeys(node.extra.record_ids, "retracted"))
        if node.origin is not command:
            continue
        if node.command is None:
            typed = node.uuid
        elif typed is not None and node.command.name == "/compact":
            removed[typed] = "copy"
            typed = None
    return removed


def _build_record_refs(group: Iterable[RecordNode]) -> tuple[RecordRef, ...]:
    """Return the records, each with the blocks that no earlier one contains."""
    nodes = list(group)
    if len(nodes) == 1 and len(nodes[0].blocks) == 1 and nodes[0].side_text is None:
        (node,) = nodes
        return (RecordRef(node.position, get_record_id(node), (0,)),)
    seen: set[object] = set()
    refs = []
    for node in nodes:
        # Other records have one block, which their nodes do not list.
        new_indexes = [] if node.is_conversation else [0]
        new_keys: set[object] = set()
        for index, block in enumerate(node.blocks):
            if node.side_text is not None and _is_result_block(
                block
            ) != _is_tool_result(node):
                continue
            key = block.id or (block.kind, block.digest, block.size)
            if key not in seen:
                new_indexes.append(index)
                new_keys.add(key)
        seen |= new_keys
        refs.append(RecordRef(node.position, get_record_id(node), tuple(new_indexes)))
    return tuple(refs)


def _is_result_block(block: NodeBlock) -> bool:
    return block.id is not None and block.name is None


def _is_tool_result(node: RecordNode) -> bool:
    return node.origin is Origin.TOOL


def hidden_reason(node: RecordNode, removed: Mapping[RecordId, str]) -> str | None:
    """Return why a record is not shown, or `None` if it is.

    `removed` contains the records that a later one replaces, with the reason.
    """
    if node.uuid is not None and node.uuid in removed:
        return removed[node.uuid]
    find_reason = _REASON_BY_KIND.get(node.kind)
    if find_reason is not None:
        return find_reason(node)
    if node.kind in TREE_KINDS:
        return "context"
    return "metadata" if node.kind in METADATA_BY_TYPE else "unknown"


def _assistant_reason(node: RecordNode) -> str | None:
    return "synthetic" if node.is_synthetic and not node.is_error else None


def _user_reason(node: RecordNode) -> str | None:
    if node.origin is Origin.HARNESS or node.origin is None:
        return "harness"
    return {Origin.HOOK: "hook", Origin.WARMUP: "warm-up"}.get(node.origin)


def _system_reason(node: RecordNode) -> str | None:
    known = SYSTEM_SUBTYPES.get(node.subtype)
    if known is None:
        # The text of an unknown subtype may be important.
        return None if node.preview else "notice"
    return "notice" if known.label is None else None


def _attachment_reason(node: RecordNode) -> str | None:
    if node.subtype == "queued_command":
        return None if node.origin is Origin.PERSON else "notice"
    return None if node.subtype in VISIBLE_ATTACHMENT_TYPES else "context"


_REASON_BY_KIND: dict[str, Callable[[RecordNode], str | None]] = {
    "assistant": _assistant_reason,
    "user": _user_reason,
    "system": _system_reason,
    "attachment": _attachment_reason,
    "progress": lambda _: "progress",
}
