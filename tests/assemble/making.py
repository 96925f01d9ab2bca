"""From drawn sessions to what the parts of assembling take and give."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

from bygones.assemble import assemble
from bygones.assemble.branches import Growth, part
from bygones.assemble.dedupe import each_once
from bygones.assemble.queue import queued_prompts
from bygones.assemble.tree import Tree, grow, in_sequence, join
from bygones.model.nodes import Node, Transcript
from bygones.model.parts import Loader
from bygones.model.sessions import Message, Session
from bygones.parse import node_of
from tests.build import SESSION, sketches
from tests.properties.forests import transcript

__all__ = [
    "assembled",
    "branches",
    "grown",
    "kept",
    "nodes",
    "only",
    "said",
    "steps",
    "transcript",
]


def nodes(records: Iterable[object], source: str = "a.jsonl") -> list[Node]:
    """Return the nodes of records in one file."""
    return list(map(node_of, sketches(records, source=source)))


def kept(records: Iterable[object]) -> list[Node]:
    """Return the nodes with every record once."""
    return in_sequence(each_once(nodes(records))[0])


def grown(records: Iterable[object]) -> Tree:
    """Return the tree of records."""
    return grow(kept(records))


def branches(records: Iterable[object]) -> Growth:
    """Return which branch each record is on."""
    once = kept(records)
    tree = grow(once)
    return part(tree, join(tree), queued_prompts(once))


def assembled(*files: Transcript) -> tuple[Session, ...]:
    """Return the sessions of some files."""
    return assemble(files, Loader())


def only(records: Iterable[object]) -> Session:
    """Return the one session of one file."""
    (session,) = assembled(transcript(SESSION, records))
    return session


def said(records: Iterable[object]) -> list[Message]:
    """Return the messages of the live branch."""
    return list(only(records).live.messages)


def steps(work: Callable[[], object]) -> int:
    """Return how many lines of Python are gone through: the same on any machine."""
    count = 0

    def trace(_frame: FrameType, event: str, _arg: object) -> Any:  # noqa: ANN401 (itself)
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
