"""Messages: records joined to what one side said, and calls met by their results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from bygones.assemble.dedupe import name_of
from bygones.assemble.queue import steering
from bygones.assemble.visible import hidden_reason
from bygones.model.ids import Position, RecordId, ToolUseId
from bygones.model.nodes import (
    BlockFact,
    CompactionFacts,
    DurationFacts,
    Node,
    RetractionFacts,
)
from bygones.model.problems import Problem
from bygones.model.sessions import (
    AgentRun,
    Hidden,
    Loader,
    Message,
    Piece,
    Role,
    ToolCall,
)
from bygones.model.texts import Origin
from bygones.model.usage import Usage

__all__ = ["Said", "say"]

_OUTPUTS = {Origin.COMMAND_OUTPUT, Origin.SHELL_OUTPUT}
_TYPED = {Origin.PERSON, Origin.CALLER}
_INTERRUPTED = ("interrupted", "doesn't want to proceed", "tool use was rejected")


class Said(Struct, frozen=True):
    """The messages of a transcript in order, and the records that are in none."""

    messages: tuple[Message, ...]
    hidden: tuple[Hidden, ...]
    problems: tuple[Problem, ...]


class _Answer(Struct):
    """A result block that waits for its call."""

    node: Node
    index: int


def say(
    nodes: Sequence[Node],
    branch: Mapping[RecordId, int],
    loader: Loader,
    agents: Mapping[ToolUseId, Sequence[AgentRun]] = {},
) -> Said:
    """Return what was said, given each record's branch and each call's agents."""
    return _Sayer(nodes, branch, loader, agents).say()


class _Sayer:
    """Walks the nodes once; what a record joins is decided by what came before."""

    def __init__(
        self,
        nodes: Sequence[Node],
        branch: Mapping[RecordId, int],
        loader: Loader,
        agents: Mapping[ToolUseId, Sequence[AgentRun]],
    ) -> None:
        self._nodes = nodes
        self._branch = branch
        self._loader = loader
        self._agents = agents
        self._problems: list[Problem] = []
        self._hidden: list[Hidden] = []
        self._answers, self._bodies = self._gather()
        self._gone = _gone(nodes)
        self._calls = self._asked()
        self._steering = {node.position for node in steering(nodes)}
        self._groups: list[list[Node]] = []
        self._open: dict[int, dict[str, list[Node]]] = {}
        self._attached: dict[RecordId, list[Node]] = {}
        self._durations: dict[Position, int] = {}
        self._heads: dict[RecordId, Node] = {}
        self._here = 0
        self._typed: dict[Position, int] = {}

    def say(self) -> Said:
        for node in self._nodes:
            self._here = self._branch_of(node)
            self._place(node)
        messages = tuple(self._message(group) for group in self._groups)
        return Said(messages, tuple(self._hidden), tuple(self._problems))

    def _gather(
        self,
    ) -> tuple[dict[ToolUseId, _Answer], dict[ToolUseId, list[Node]]]:
        """Return the results and the injected bodies by the call they belong to."""
        answers: dict[ToolUseId, _Answer] = {}
        bodies: dict[ToolUseId, list[Node]] = {}
        for node in self._nodes:
            if node.source_call is not None and _is_body(node):
                bodies.setdefault(node.source_call, []).append(node)
            for index, block in enumerate(node.blocks):
                if block.id is None or block.name is not None:
                    continue
                if block.id in answers and answers[block.id].node.uuid != node.uuid:
                    problem = Problem("double-result", node.position, block.id)
                    self._problems.append(problem)
                answers[block.id] = _Answer(node, index)
        return answers, bodies

    def _asked(self) -> dict[ToolUseId, str | None]:
        """Return every call, with the reason if no answer that is shown makes it."""
        calls: dict[ToolUseId, str | None] = {}
        for node in self._nodes:
            if node.kind != "assistant":
                continue
            for block in node.blocks:
                if block.name is not None and block.id is not None:
                    reason = hidden_reason(node, self._gone)
                    calls[block.id] = reason and calls.get(block.id, reason)
        return calls

    def _place(self, node: Node) -> None:
        """Put a record into a message, beside one, or among the hidden."""
        if self._steering and node.position in self._steering:
            self._typed[node.position] = self._here
            self._groups.append([node])
            return
        if isinstance(node.extra, DurationFacts) and self._groups:
            self._durations[self._groups[-1][0].position] = node.extra.milliseconds
        reason = hidden_reason(node, self._gone)
        if reason in {None, "harness"} and self._joins(node):
            return
        if reason is not None:
            self._hide(node, reason)
        elif node.kind == "assistant":
            self._answer(node)
        elif node.origin is Origin.TOOL:
            self._result(node)
            self._beside(node)
        else:
            self._groups.append([node])
            self._heads[name_of(node)] = node
        if node.kind == "user" and node.origin in _TYPED:
            self._close()

    def _joins(self, node: Node) -> bool:
        """Whether a record is left to its call, or hangs on a message before it."""
        if _is_body(node) and node.source_call in self._calls:
            return self._calls[node.source_call] is None
        return self._attach(node)

    def _close(self) -> None:
        """End the answers of a branch: gateways may give their ids to later ones."""
        self._open.pop(self._here, None)

    def _hide(self, node: Node, reason: str) -> None:
        self._hidden.append(Hidden(reason, node.position, node.uuid))

    def _answer(self, node: Node) -> None:
        """Join an assistant record with the earlier pieces of its message."""
        key = node.message or f"@{node.uuid}"
        answers = self._open.setdefault(self._branch_of(node), {})
        group = answers.get(key)
        if group is None:
            group = answers[key] = []
            self._groups.append(group)
        group.append(node)

    def _result(self, node: Node) -> None:
        """Leave a result to its call; show it alone where it has none."""
        ids = [block.id for block in node.blocks if block.id is not None]
        lost = [id_ for id_ in ids if id_ not in self._calls]
        self._problems += [Problem("lost-result", node.position, id_) for id_ in lost]
        if lost:
            self._groups.append([node])
            return
        reasons = [self._calls[id_] or self._outdone(node, id_) for id_ in ids]
        if all(reasons):
            self._hide(node, reasons[0] or "")

    def _beside(self, node: Node) -> None:
        """Show what was typed in a record of results as a message of its own."""
        beside = node.beside
        if beside is None:
            return
        said = structs.replace(node, origin=beside.origin, head=beside.head)
        self._groups.append([said])
        if beside.origin in _TYPED:
            self._close()

    def _outdone(self, node: Node, call: ToolUseId) -> str | None:
        is_last = self._answers[call].node.uuid == node.uuid
        return None if is_last else "answered-again"

    def _attach(self, node: Node) -> bool:
        """Hang outputs on their command, and a digest on its compaction."""
        above = self._heads.get(node.parent) if node.parent is not None else None
        if above is None:
            return False
        belongs = (
            (node.origin in _OUTPUTS)
            or (above.command is not None and _stands_for(node, above))
            or (
                node.origin is Origin.COMPACTION
                and isinstance(above.extra, CompactionFacts)
            )
        )
        if belongs:
            self._attached.setdefault(name_of(above), []).append(node)
            self._heads[name_of(node)] = above
        return belongs

    def _branch_of(self, node: Node) -> int:
        """Return a record's branch; beside the tree, that of the record before it."""
        here = self._here
        if self._typed:
            here = self._typed.get(node.position, here)
        return self._branch.get(node.uuid, here) if node.uuid is not None else here

    def _message(self, group: list[Node]) -> Message:
        first = group[0]
        uuid = name_of(first)
        pieces = _pieces(group)
        usage: Usage | None = None
        for node in group:
            if node.usage is not None and not node.is_synthetic:
                usage = node.usage if usage is None else usage | node.usage
        compaction = first.extra if isinstance(first.extra, CompactionFacts) else None
        return Message(
            id=uuid,
            role=_role(first),
            origin=first.origin,
            time=first.time,
            head=first.head or next((node.head for node in group if node.head), ""),
            pieces=pieces,
            branch=self._branch_of(first),
            api_id=first.message,
            model=first.model,
            usage=usage,
            calls=self._calls_in(group, pieces),
            attached=_pieces(self._attached[uuid]) if uuid in self._attached else (),
            command=first.command,
            notification=first.notification,
            compaction=compaction,
            notice=first.subtype if first.kind in {"system", "attachment"} else None,
            is_error=first.is_error,
            is_steering=not first.is_conversation and first.origin is Origin.PERSON,
            turn_ms=self._durations.get(first.position),
            loader=self._loader,
        )

    def _calls_in(
        self, group: Sequence[Node], pieces: Sequence[Piece]
    ) -> tuple[ToolCall, ...]:
        if group[0].kind != "assistant":
            return ()
        return tuple(
            self._call(node, index)
            for node, piece in zip(group, pieces, strict=True)
            for index in piece.blocks
            if node.blocks[index].name is not None and node.blocks[index].id is not None
        )

    def _call(self, node: Node, index: int) -> ToolCall:
        block = node.blocks[index]
        id_ = block.id or ToolUseId("")
        answer = self._answers.get(id_)
        bodies = self._bodies.pop(id_, ())
        return ToolCall(
            id=id_,
            name=block.name or "",
            note=block.note or "",
            path=block.path,
            record=node.uuid or RecordId(""),
            place=node.position,
            index=index,
            time=node.time,
            attached=_pieces(bodies) if bodies else (),
            agents=tuple(self._agents.get(id_, ())),
            loader=self._loader,
            **(_answered(answer) if answer is not None else {}),
        )


def _answered(answer: _Answer) -> dict[str, Any]:
    """Return what a call has from its answer."""
    node, block = answer.node, answer.node.blocks[answer.index]
    alone = sum(1 for other in node.blocks if other.id is not None) == 1
    return {
        "answered_at": node.position,
        "answer_index": answer.index,
        "answer_record": node.uuid,
        "answer_time": node.time,
        "is_error": block.is_error,
        "is_interrupted": block.is_error and _sounds_interrupted(node.head),
        "result_size": block.size,
        "facts": node.result if alone else None,
    }


def _is_body(node: Node) -> bool:
    """Whether a user record may be a text that the harness added for a call."""
    return node.kind == "user" and node.origin is not Origin.TOOL


def _stands_for(node: Node, command: Node) -> bool:
    """Whether a text of the harness is what a command stood for, not said beside it."""
    is_text = node.origin is Origin.HARNESS and bool(node.head)
    return is_text and node.parent == command.uuid


def _role(node: Node) -> Role:
    if node.kind == "assistant":
        return Role.ASSISTANT
    is_notice = not node.is_conversation and node.origin is None
    return Role.SYSTEM if is_notice else Role.USER


def _sounds_interrupted(head: str) -> bool:
    return any(phrase in head for phrase in _INTERRUPTED)


def _gone(nodes: Iterable[Node]) -> dict[RecordId, str]:
    """Return the records that a later one takes back or tells again, and how.

    A compaction by hand is recorded as it was typed, and later as the command.
    """
    gone: dict[RecordId, str] = {}
    typed: RecordId | None = None
    command = Origin.COMMAND
    for node in nodes:
        if node.supersedes:
            gone.update(dict.fromkeys(node.supersedes, "superseded"))
        if isinstance(node.extra, RetractionFacts):
            gone.update(dict.fromkeys(node.extra.records, "retracted"))
        if node.origin is not command:
            continue
        if node.command is None:
            typed = node.uuid
        elif typed is not None and node.command.name == "/compact":
            gone[typed] = "copy"
            typed = None
    return gone


def _pieces(group: Iterable[Node]) -> tuple[Piece, ...]:
    """Return the records with the blocks that each adds to those before it."""
    nodes = list(group)
    if len(nodes) == 1 and len(nodes[0].blocks) == 1 and nodes[0].beside is None:
        (node,) = nodes
        blocks = (0,)
        return (Piece(node.position, name_of(node), blocks),)
    seen: set[object] = set()
    pieces = []
    for node in nodes:
        # What is no conversation says one thing, which nodes do not tell of.
        fresh = [] if node.is_conversation else [0]
        within: set[object] = set()
        for index, block in enumerate(node.blocks):
            if node.beside is not None and _is_answer(block) != _is_tools(node):
                continue
            sign = block.id or (block.kind, block.digest, block.size)
            if sign not in seen:
                fresh.append(index)
                within.add(sign)
        seen |= within
        pieces.append(Piece(node.position, name_of(node), tuple(fresh)))
    return tuple(pieces)


def _is_answer(block: BlockFact) -> bool:
    return block.id is not None and block.name is None


def _is_tools(node: Node) -> bool:
    return node.origin is Origin.TOOL
