"""Builders: from drawn records to nodes, trees, branches and sessions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

from bygones.assemble.branches import BranchLayout, assign_branches
from bygones.assemble.dedupe import deduplicate
from bygones.assemble.queue import find_queued_prompts
from bygones.assemble.sessions import assemble_sessions
from bygones.assemble.tree import (
    RecordTree,
    build_tree,
    join_fragments,
    order_parents_first,
)
from bygones.model.nodes import RecordNode, Transcript
from bygones.model.sessions import Message, Session
from bygones.model.summary import Loader
from bygones.parse.light import build_node
from tests.build import SESSION, sketches
from tests.properties.trees import transcript

__all__ = [
    "assembled",
    "branches",
    "distinct_nodes",
    "live_messages",
    "nodes",
    "only",
    "record_tree",
    "steps",
    "transcript",
]


def nodes(records: Iterable[object], source: str = "a.jsonl") -> list[RecordNode]:
    """Return the nodes of records in one file."""
    return list(map(build_node, sketches(records, source=source)))


def distinct_nodes(records: Iterable[object]) -> list[RecordNode]:
    """Return the nodes without copies, parents first."""
    return order_parents_first(deduplicate(nodes(records))[0])


def record_tree(records: Iterable[object]) -> RecordTree:
    """Return the tree of records."""
    return build_tree(distinct_nodes(records))


def branches(records: Iterable[object]) -> BranchLayout:
    """Return which branch each record is on."""
    once = distinct_nodes(records)
    tree = build_tree(once)
    return assign_branches(tree, join_fragments(tree), find_queued_prompts(once))


def assembled(*files: Transcript) -> tuple[Session, ...]:
    """Return the sessions of some files."""
    return assemble_sessions(files, Loader())


def only(records: Iterable[object]) -> Session:
    """Return the one session of one file."""
    (session,) = assembled(transcript(SESSION, records))
    return session


def live_messages(records: Iterable[object]) -> list[Message]:
    """Return the messages of the live branch."""
    return list(only(records).live_branch.messages)


def steps(work: Callable[[], object]) -> int:
    """Return how many lines of Python are executed: the same on any machine."""
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
