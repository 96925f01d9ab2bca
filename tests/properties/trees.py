"""Strategies for projects: transcripts with records in any kind of tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hypothesis import strategies as st

from bygones.model.base import (
    AgentId,
    ProjectKey,
    RecordId,
    SessionId,
    SourceFile,
    SourceId,
    SourceKind,
)
from bygones.model.nodes import Transcript
from bygones.model.sessions import AgentRun, Branch, Message, Session
from bygones.model.summary import Loader
from bygones.parse.light import build_node
from tests import build
from tests.build import PROJECT, Written, moment, session_id, sketches
from tests.forms import (
    INTERRUPT,
    caveat,
    command,
    digest,
    filler,
    notification,
    printed,
)

__all__ = ["messages", "projects", "reachable_records", "transcript", "transcripts"]

_NAMES = [f"r{number}" for number in range(10)]
_CALLS = ["toolu_1", "toolu_2", "toolu_3"]
_AGENTS = ["agent1", "acompact-1"]
_WORDS = ["Go on", "Stop", "Warmup", "/compact", ""]


@st.composite
def _blocks(draw: st.DrawFn) -> list[Written]:
    kinds = draw(st.lists(st.sampled_from(["text", "call", "think"]), max_size=3))
    arguments = {"subagent_type": "x", "prompt": draw(st.sampled_from(_WORDS))}
    blocks = {
        "text": build.text(draw(st.sampled_from(_WORDS))),
        "call": build.tool_use("Task", id=draw(st.sampled_from(_CALLS)), **arguments),
        "think": build.thinking("Hm"),
    }
    return [blocks[kind] for kind in kinds]


@st.composite
def _results(draw: st.DrawFn) -> Written:
    """Return a record with the results of one or two tool calls."""
    ids = draw(st.lists(st.sampled_from(_CALLS), min_size=1, max_size=2))
    blocks = [
        {"type": "tool_result", "tool_use_id": id_, "content": "done"} for id_ in ids
    ]
    agent = draw(st.sampled_from([*_AGENTS, None]))
    return build.prompt(blocks, toolUseResult={"agentId": agent, "status": "completed"})


@st.composite
def _progress_fields(draw: st.DrawFn, words: str) -> Written:
    """Return what a progress record repeats of its agent."""
    prompt = build.prompt(words, uuid=draw(st.sampled_from(["i1", "i2"])))
    call = build.reply(draw(_blocks()), uuid="i3", message_id="msg_3")
    before = [build.reply("Hm", uuid="i4", message_id="msg_3"), call]
    return draw(
        st.sampled_from(
            [
                {},
                {"message": prompt},
                {"message": call},
                {"message": call, "normalizedMessages": before},
            ]
        )
    )


@st.composite
def _records_without_parent(draw: st.DrawFn) -> Written:  # noqa: PLR0911 (one return per kind)
    """Return a record of some kind, without a parent."""
    words = draw(st.sampled_from(_WORDS))
    match draw(st.integers(0, 11)):
        case 0 | 1 | 2:
            return build.prompt(words)
        case 3 | 4:
            message_id = draw(st.sampled_from(["msg_1", "msg_2", None]))
            superseded = draw(st.lists(st.sampled_from(_NAMES), max_size=1))
            return build.reply(
                draw(_blocks()), message_id=message_id, supersedesUuids=superseded
            )
        case 5 | 6:
            return draw(_results())
        case 7:
            follows = draw(st.sampled_from(_NAMES))
            return draw(st.sampled_from([build.compact(follows), digest()]))
        case 8:
            special_records = [command("/cost"), printed("much"), caveat(), filler()]
            special_records += [
                build.prompt(INTERRUPT),
                notification("agent1", "completed"),
            ]
            special_records.append(
                build.prompt("x", isMeta=True, sourceToolUseID="toolu_1")
            )
            return draw(st.sampled_from(special_records))
        case 9:
            return build.attachment("queued_command", prompt=words)
        case 10:
            agent = draw(st.sampled_from(_AGENTS))
            return build.progress(
                "agent_progress", agentId=agent, **draw(_progress_fields(words))
            )
        case _:
            return {"type": "from-tomorrow", "sessionId": build.SESSION}


_META = st.one_of(
    st.builds(
        build.queue,
        st.sampled_from(["enqueue", "dequeue", "remove", "popAll"]),
        st.sampled_from(_WORDS),
    ),
    st.builds(build.summary, st.sampled_from(_WORDS), st.sampled_from(_NAMES)),
    st.builds(build.title, st.sampled_from(_WORDS)),
)


@st.composite
def _records_with_parents(draw: st.DrawFn) -> Written:
    """Return a record with any parent: another, none, itself or a missing one."""
    record = draw(_records_without_parent())
    parents = st.sampled_from([None, "gone", *_NAMES])
    name = draw(st.sampled_from([*_NAMES, None]))
    fields: Written = {
        "parentUuid": draw(parents),
        "timestamp": draw(st.sampled_from([None, *map(moment, range(4))])),
        "sessionId": session_id(draw(st.integers(1, 2))),
        "isSidechain": draw(st.integers(0, 5)) == 0,
    }
    if name is not None:
        fields["uuid"] = name
    else:
        record.pop("uuid", None)
    return record | fields


_TURN = st.one_of(
    st.builds(build.prompt, st.text("xyz", min_size=1, max_size=2)),
    st.builds(build.reply, st.just("Yes"), message_id=st.sampled_from(["msg_1", None])),
    st.builds(command, st.sampled_from(["/cost", "/init"])),
    _records_without_parent(),
)


@st.composite
def _threads(draw: st.DrawFn) -> list[Written]:
    """Return records that follow each other, with some rewinds."""
    found: list[Written] = []
    for number, record in enumerate(draw(st.lists(_TURN, max_size=14))):
        back = draw(st.sampled_from([1, 1, 1, 2, 3, 4, 99]))
        parent = f"r{number - back}" if number >= back else None
        fields = {"uuid": f"r{number}", "parentUuid": parent, "isSidechain": False}
        found.append(record | fields | {"timestamp": moment(number)})
    return found


def transcript(
    name: str, records: Iterable[object], *, agent: str | None = None, mtime: int = 0
) -> Transcript:
    """Return the transcript of a file with this name and these records."""
    path = f"projects/{PROJECT}/{name}.jsonl"
    source = SourceFile(
        id=SourceId(f"/home/{path}"),
        home="/home",
        relative_path=path,
        kind=SourceKind.AGENT if agent else SourceKind.SESSION,
        size=0,
        mtime_ns=mtime,
        project_key=ProjectKey(PROJECT),
        session_id=SessionId(name.partition("/")[0]),
        agent_id=AgentId(agent) if agent else None,
    )
    nodes = map(build_node, sketches(records, source=source.id))
    return Transcript(source=source, nodes=tuple(nodes))


@st.composite
def transcripts(draw: st.DrawFn) -> Transcript:
    """Return one file: of one of two sessions, or of one of their agents."""
    session = session_id(draw(st.integers(1, 2)))
    agent = draw(st.sampled_from([None, None, *_AGENTS]))
    records = draw(st.lists(_records_with_parents() | _META, max_size=14) | _threads())
    if agent is None:
        return transcript(session, records, mtime=draw(st.integers(0, 2)))
    fields = {"isSidechain": True, "agentId": agent}
    agent_records = [
        record | fields if "uuid" in record else record for record in records
    ]
    return transcript(f"{session}/subagents/agent-{agent}", agent_records, agent=agent)


projects = st.lists(transcripts(), max_size=4, unique_by=lambda t: t.source.id)
"""The files of a project: sessions and agents that share some records."""


def messages(session: Session) -> Iterator[Message]:
    """Yield each message once: of one branch, or of an agent."""
    for branches in _conversations(session):
        for branch in branches:
            for turn in branch.own_turns:
                yield from turn.messages


def _conversations(session: Session) -> Iterator[tuple[Branch, ...]]:
    yield session.branches
    for run in session.all_agents:
        yield run.branches


def reachable_records(session: Session) -> set[RecordId]:
    """Return all records in messages and agents, or hidden for a reason."""
    found = {record for message in messages(session) for record in message.record_ids}
    holders: list[Session | AgentRun] = [session, *session.all_agents]
    found |= {
        hidden.record_id
        for holder in holders
        for hidden in holder.hidden_records
        if hidden.record_id
    }
    return found


LOADER = Loader()
