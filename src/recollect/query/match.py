"""Says whether a text matches a query, with nothing but the text and its facts.

Slow and plain on purpose: what the store finds is compared with it in tests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from msgspec import Struct

from recollect.model.ids import AgentId, SessionId
from recollect.model.parts import Role
from recollect.model.query import (
    And,
    Fact,
    Flag,
    Has,
    Not,
    Or,
    Part,
    Period,
    Phrase,
    Prefix,
    Query,
    Regex,
    Scoped,
    Term,
    Word,
    Words,
)
from recollect.query.fields import BY_NAME, Field, Value
from recollect.query.regexes import searcher

__all__ = ["Analyse", "Subject", "fits", "matches", "says"]

Analyse = Callable[[str], Sequence[str]]
"""Turns a text into the terms that are compared, in the text's order."""


class Subject(Struct, frozen=True, kw_only=True):
    """One text of a session, with all that a query can ask about it."""

    session: SessionId
    project: str | None = None
    title: str = ""
    models: tuple[str, ...] = ()
    git_branches: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    started: datetime | None = None
    flags: frozenset[Flag] = frozenset()
    """What is true of the session as a whole."""

    role: Role | None = None
    part: Part
    tool: str | None = None
    paths: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    agent: AgentId | None = None
    """The agent run in which it was said."""
    agent_type: str | None = None
    is_rewound: bool = False
    """Said on a branch that was left."""
    is_error: bool = False
    time: datetime | None = None
    has: frozenset[Has] = frozenset()
    text: str = ""


def matches(query: Query, subject: Subject, analyse: Analyse) -> bool:
    """Whether a text is what a query asks for.

    A word that has no terms, such as a sign, asks for nothing: it is left out as if
    it had not been typed, and a query of nothing else matches everything.
    """
    return query.root is None or _holds(query.root, subject, analyse) is not False


def _holds(term: Term, subject: Subject, analyse: Analyse) -> bool | None:
    """Whether a term holds; nothing, if it asks for nothing."""
    if isinstance(term, Not):
        held = _holds(term.term, subject, analyse)
        return None if held is None else not held
    if isinstance(term, And | Or):
        each = [_holds(part, subject, analyse) for part in term.terms]
        return _joined(each, any if isinstance(term, Or) else all)
    if isinstance(term, Words):
        each = [says(Word(word), subject.text, analyse) for word in term.words]
        return _joined(each, all)
    if isinstance(term, Regex):
        return searcher(term.pattern).search(subject.text) is not None
    if isinstance(term, Phrase | Prefix):
        return says(term, subject.text, analyse)
    return _fielded(term, subject, analyse)


def _joined(
    each: Iterable[bool | None], how: Callable[[Iterable[bool]], bool]
) -> bool | None:
    asking = [held for held in each if held is not None]
    return how(asking) if asking else None


def says(term: Word | Phrase | Prefix, text: str, analyse: Analyse) -> bool | None:
    """Whether the terms stand in the text, one right behind the other."""
    wanted, there = tuple(analyse(term.text)), tuple(analyse(text))
    if not wanted:
        return None
    count = len(wanted)
    runs = (there[at : at + count] for at in range(len(there) - count + 1))
    if isinstance(term, Prefix):
        *whole, start = wanted
        return any(
            run[:-1] == tuple(whole) and run[-1].startswith(start) for run in runs
        )
    return wanted in runs


def _fielded(
    term: Scoped | Fact | Period, subject: Subject, analyse: Analyse
) -> bool | None:
    if isinstance(term, Scoped):
        texts = subject.commands if term.field == "cmd" else (subject.title,)
        # No text at all says no word, but a sign asks for nothing even there.
        asked = [says(term.term, text, analyse) for text in ("", *texts)]
        return _joined(asked, any)
    if isinstance(term, Period):
        return _is_during(term, subject.time or subject.started)
    field = BY_NAME[term.field]
    facts = _facts(subject)[field.name]
    return any(fits(field, term.value, there) for there in facts)


def _is_during(period: Period, time: datetime | None) -> bool:
    return (
        time is not None
        and (period.start is None or period.start <= time)
        and (period.end is None or time < period.end)
    )


def _facts(subject: Subject) -> dict[str, Iterable[str | None]]:
    return {
        "project": (subject.project,),
        "tool": (subject.tool,),
        "file": subject.paths,
        "model": subject.models,
        "branch": ("rewound" if subject.is_rewound else "live",),
        "git": subject.git_branches,
        "role": (subject.role,),
        "agent": (subject.agent, subject.agent_type),
        "is": _flags(subject),
        "has": subject.has,
        "session": (subject.session,),
        "tag": subject.tags,
        "in": (subject.part,),
    }


def _flags(subject: Subject) -> frozenset[Flag]:
    of_text = {
        Flag.ERROR: subject.is_error,
        Flag.REWOUND: subject.is_rewound,
        Flag.AGENT: subject.agent is not None,
    }
    return subject.flags | {flag for flag, is_so in of_text.items() if is_so}


def fits(field: Field, value: str, there: str | None) -> bool:
    """Whether a fact is what a field's value asks for."""
    if there is None:
        return False
    value, there = _folded(value), _folded(there)
    if field.value is Value.START:
        return there.startswith(value.rstrip("*"))
    if "*" in value:
        pattern = ".*".join(map(re.escape, value.split("*")))
        begin = "(?:.*/)?" if field.value is Value.PART else ""
        return re.fullmatch(begin + pattern, there, re.DOTALL) is not None
    return value in there if field.value is Value.PART else value == there


def _folded(value: str) -> str:
    return value.casefold().replace("\\", "/")
