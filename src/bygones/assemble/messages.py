"""Messages: records joined to what one side said, and calls met by their results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from bygones.assemble.dedupe import get_record_id
from bygones.assemble.queue import find_steering
from bygones.assemble.visibility import hidden_reason
from bygones.model.base import Position, Problem, RecordId, ToolUseId
from bygones.model.nodes import (
    CompactionFacts,
    DurationFacts,
    NodeBlock,
    Origin,
    RecordNode,
    RetractionFacts,
)
from bygones.model.sessions import AgentRun, Message, ToolCall
from bygones.model.summary import HiddenRecord, Loader, RecordRef, Role
from bygones.model.usage import Usage

__all__ = ["AssembledMessages", "build_messages"]

_OUTPUT_ORIGINS = {Origin.COMMAND_OUTPUT, Origin.SHELL_OUTPUT}
_TYPED_ORIGINS = {Origin.PERSON, Origin.CALLER}
_INTERRUPTION_PHRASES = (
    "interrupted",
    "doesn't want to proceed",
    "tool use was rejected",
)


class AssembledMessages(Struct, frozen=True):
    """The messages of a transcript in order, and the records that are in none."""

    messages: tuple[Message, ...]
    hidden_records: tuple[HiddenRecord, ...]
    problems: tuple[Problem, ...]


class _MatchedResult(Struct):
    """A result block that waits for its call."""

    node: RecordNode
    index: int


def build_messages(
    nodes: Sequence[RecordNode],
    branch: Mapping[RecordId, int],
    loader: Loader,
    agents: Mapping[ToolUseId, Sequence[AgentRun]] = {},
) -> AssembledMessages:
    """Return what was said, given each record's branch and each call's agents."""
    return _MessageBuilder(nodes, branch, loader, agents).build()


class _MessageBuilder:
    """Walks the nodes once; what a record joins is decided by what came before."""

    def __init__(
        self,
        nodes: Sequence[RecordNode],
        branch: Mapping[RecordId, int],
        loader: Loader,
        agents: Mapping[ToolUseId, Sequence[AgentRun]],
    ) -> None:
        self._nodes = nodes
        self._branch = branch
        self._loader = loader
        self._agents = agents
        self._problems: list[Problem] = []
        self._hidden: list[HiddenRecord] = []
        self._results, self._bodies = self._index_results()
        self._removed = _removed_records(nodes)
        self._calls = self._index_calls()
        self._steering = {node.position for node in find_steering(nodes)}
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
        """Return the results and the injected bodies by the call they belong to."""
        answers: dict[ToolUseId, _MatchedResult] = {}
        bodies: dict[ToolUseId, list[RecordNode]] = {}
        for node in self._nodes:
            if node.source_call_id is not None and _is_injected_text(node):
                bodies.setdefault(node.source_call_id, []).append(node)
            for index, block in enumerate(node.blocks):
                if block.id is None or block.name is not None:
                    continue
                if block.id in answers and answers[block.id].node.uuid != node.uuid:
                    problem = Problem("double-result", node.position, block.id)
                    self._problems.append(problem)
                answers[block.id] = _MatchedResult(node, index)
        return answers, bodies

    def _index_calls(self) -> dict[ToolUseId, str | None]:
        """Return every call, with the reason if no answer that is shown makes it."""
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
        """Put a record into a message, beside one, or among the hidden."""
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
        """Whether a record is left to its call, or hangs on a message before it."""
        if _is_injected_text(node) and node.source_call_id in self._calls:
            return self._calls[node.source_call_id] is None
        return self._attach(node)

    def _close_answers(self) -> None:
        """End the answers of a branch: gateways may give their ids to later ones."""
        self._open_answers.pop(self._current_branch, None)

    def _hide(self, node: RecordNode, reason: str) -> None:
        self._hidden.append(HiddenRecord(reason, node.position, node.uuid))

    def _add_assistant_record(self, node: RecordNode) -> None:
        """Join an assistant record with the earlier pieces of its message."""
        key = node.message_id or f"@{node.uuid}"
        answers = self._open_answers.setdefault(self._branch_of(node), {})
        group = answers.get(key)
        if group is None:
            group = answers[key] = []
            self._groups.append(group)
        group.append(node)

    def _add_result_record(self, node: RecordNode) -> None:
        """Leave a result to its call; show it alone where it has none."""
        ids = [block.id for block in node.blocks if block.id is not None]
        lost = [id_ for id_ in ids if id_ not in self._calls]
        self._problems += [Problem("lost-result", node.position, id_) for id_ in lost]
        if lost:
            self._groups.append([node])
            return
        reasons = [self._calls[id_] or self._replaced_reason(node, id_) for id_ in ids]
        if all(reasons):
            self._hide(node, reasons[0] or "")

    def _add_side_text(self, node: RecordNode) -> None:
        """Show what was typed in a record of results as a message of its own."""
        beside = node.side_text
        if beside is None:
            return
        said = structs.replace(node, origin=beside.origin, preview=beside.preview)
        self._groups.append([said])
        if beside.origin in _TYPED_ORIGINS:
            self._close_answers()

    def _replaced_reason(self, node: RecordNode, call: ToolUseId) -> str | None:
        is_last = self._results[call].node.uuid == node.uuid
        return None if is_last else "answered-again"

    def _attach(self, node: RecordNode) -> bool:
        """Hang outputs on their command, and a digest on its compaction."""
        above = (
            self._message_heads.get(node.parent_uuid)
            if node.parent_uuid is not None
            else None
        )
        if above is None:
            return False
        belongs = (
            (node.origin in _OUTPUT_ORIGINS)
            or (above.command is not None and _is_command_body(node, above))
            or (
                node.origin is Origin.COMPACTION
                and isinstance(above.extra, CompactionFacts)
            )
        )
        if belongs:
            self._attached.setdefault(get_record_id(above), []).append(node)
            self._message_heads[get_record_id(node)] = above
        return belongs

    def _branch_of(self, node: RecordNode) -> int:
        """Return a record's branch; beside the tree, that of the record before it."""
        here = self._current_branch
        if self._steering_branches:
            here = self._steering_branches.get(node.position, here)
        return self._branch.get(node.uuid, here) if node.uuid is not None else here

    def _build_message(self, group: list[RecordNode]) -> Message:
        first = group[0]
        uuid = get_record_id(first)
        pieces = _build_record_refs(group)
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
            record_refs=pieces,
            branch_number=self._branch_of(first),
            api_id=first.message_id,
            model=first.model,
            usage=usage,
            tool_calls=self._build_calls(group, pieces),
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
        self, group: Sequence[RecordNode], pieces: Sequence[RecordRef]
    ) -> tuple[ToolCall, ...]:
        if group[0].kind != "assistant":
            return ()
        return tuple(
            self._build_call(node, index)
            for node, piece in zip(group, pieces, strict=True)
            for index in piece.block_indexes
            if node.blocks[index].name is not None and node.blocks[index].id is not None
        )

    def _build_call(self, node: RecordNode, index: int) -> ToolCall:
        block = node.blocks[index]
        id_ = block.id or ToolUseId("")
        answer = self._results.get(id_)
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
            attached_refs=_build_record_refs(bodies) if bodies else (),
            agents=tuple(self._agents.get(id_, ())),
            loader=self._loader,
            **(_result_fields(answer) if answer is not None else {}),
        )


def _result_fields(answer: _MatchedResult) -> dict[str, Any]:
    """Return what a call has from its answer."""
    node, block = answer.node, answer.node.blocks[answer.index]
    alone = sum(1 for other in node.blocks if other.id is not None) == 1
    return {
        "result_position": node.position,
        "result_index": answer.index,
        "result_record_id": node.uuid,
        "completed_at": node.timestamp,
        "is_error": block.is_error,
        "is_interrupted": block.is_error and _mentions_interruption(node.preview),
        "result_size": block.size,
        "result_facts": node.result if alone else None,
    }


def _is_injected_text(node: RecordNode) -> bool:
    """Whether a user record may be a text that the harness added for a call."""
    return node.kind == "user" and node.origin is not Origin.TOOL


def _is_command_body(node: RecordNode, command: RecordNode) -> bool:
    """Whether a text of the harness is what a command stood for, not said beside it."""
    is_text = node.origin is Origin.HARNESS and bool(node.preview)
    return is_text and node.parent_uuid == command.uuid


def _role(node: RecordNode) -> Role:
    if node.kind == "assistant":
        return Role.ASSISTANT
    is_notice = not node.is_conversation and node.origin is None
    return Role.SYSTEM if is_notice else Role.USER


def _mentions_interruption(head: str) -> bool:
    return any(phrase in head for phrase in _INTERRUPTION_PHRASES)


def _removed_records(nodes: Iterable[RecordNode]) -> dict[RecordId, str]:
    """Return the records that a later one takes back or tells again, and how.

    A compaction by hand is recorded as it was typed, and later as the command.
    """
    gone: dict[RecordId, str] = {}
    typed: RecordId | None = None
    command = Origin.COMMAND
    for node in nodes:
        if node.supersedes_ids:
            gone.update(dict.fromkeys(node.supersedes_ids, "superseded"))
        if isinstance(node.extra, RetractionFacts):
            gone.update(dict.fromkeys(node.extra.record_ids, "retracted"))
        if node.origin is not command:
            continue
        if node.command is None:
            typed = node.uuid
        elif typed is not None and node.command.name == "/compact":
            gone[typed] = "copy"
            typed = None
    return gone


def _build_record_refs(group: Iterable[RecordNode]) -> tuple[RecordRef, ...]:
    """Return the records with the blocks that each adds to those before it."""
    nodes = list(group)
    if len(nodes) == 1 and len(nodes[0].blocks) == 1 and nodes[0].side_text is None:
        (node,) = nodes
        blocks = (0,)
        return (RecordRef(node.position, get_record_id(node), blocks),)
    seen: set[object] = set()
    pieces = []
    for node in nodes:
        # What is no conversation says one thing, which nodes do not tell of.
        fresh = [] if node.is_conversation else [0]
        within: set[object] = set()
        for index, block in enumerate(node.blocks):
            if node.side_text is not None and _is_result_block(
                block
            ) != _is_tool_result(node):
                continue
            sign = block.id or (block.kind, block.digest, block.size)
            if sign not in seen:
                fresh.append(index)
                within.add(sign)
        seen |= within
        pieces.append(RecordRef(node.position, get_record_id(node), tuple(fresh)))
    return tuple(pieces)


def _is_result_block(block: NodeBlock) -> bool:
    return block.id is not None and block.name is None


def _is_tool_result(node: RecordNode) -> bool:
    return node.origin is Origin.TOOL
