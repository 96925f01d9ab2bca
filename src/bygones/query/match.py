"""Says whether a text matches a query, with nothing but the text and its facts.

Slow and plain on purpose: what the store finds is compared with it in tests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime

from msgspec import Struct

from bygones.model.ids import AgentId, SessionId
from bygones.model.parts import Role
from bygones.model.query import (
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
from bygones.query.fields import BY_NAME, Field, Value
from bygones.query.terms import Analyse, Reading, reading, readings

__all__ = ["MAIN", "Analyse", "Stem", "Subject", "fits", "matches"]

MAIN = "main"
"""The agent that is none: what is said in the session itself."""
Stem = Callable[[str], str]
"""Returns what the forms of a term have in common."""


class Subject(Struct, frozen=True, kw_only=True):
    """One text of a session, with all that a query can ask about it."""

    session: SessionId
    project: str | None = None
    title: str = ""
    models: tuple[str, ...] = ()
    git_branches: tuple[str, ...] = ()
    entrypoints: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    started: datetime | None = None
    flags: frozenset[Flag] = frozenset()
    """What is true of the session as a whole."""

    role: Role | None = None
    part: Part
    tools: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    """The tools that gave it back."""
    answered_paths: tuple[str, ...] = ()
    answered_commands: tuple[str, ...] = ()
    """What the calls name that it answers."""
    agent: AgentId | None = None
    """The agent run in which it was said."""
    agent_type: str | None = None
    is_rewound: bool = False
    """Said on a branch that was left."""
    is_error: bool = False
    time: datetime | None = None
    has: frozenset[Has] = frozenset()
    text: str = ""


def matches(query: Query, subject: Subject, analyse: Analyse, stem: Stem = str) -> bool:
    """Whether a text is what a query asks for.

    A word that has no terms, such as a sign, asks for nothing: it is left out as if
    it had not been typed, and a query of nothing else matches everything. Plain words
    are found in all their forms, what is quoted only as it stands.
    """
    if query.root is None:
        return True
    return _holds(query.root, subject, _Reader(analyse, stem)) is not False


class _Reader:
    """Turns texts into terms, the same text once."""

    def __init__(self, analyse: Analyse, stem: Stem) -> None:
        self.analyse = analyse
        self._stem = stem
        self._terms: dict[str, tuple[str, ...]] = {}
        self._stems: dict[str, set[str]] = {}

    def terms(self, text: str) -> tuple[str, ...]:
        if text not in self._terms:
            self._terms[text] = tuple(self.analyse(text))
        return self._terms[text]

    def says(self, one: Reading, text: str) -> bool:
        if text not in self._stems:
            self._stems[text] = {self._stem(term) for term in self.terms(text)}
        return any(
            self._stem(run[0]) in self._stems[text]
            if len(run) == 1
            else _is_in(run, self.terms(text))
            for run in one.runs
        )


def _holds(term: Term, subject: Subject, reader: _Reader) -> bool | None:
    """Whether a term holds; nothing, if it asks for nothing."""
    if isinstance(term, Not):
        held = _holds(term.term, subject, reader)
        return None if held is None else not held
    if isinstance(term, And | Or):
        each = [_holds(part, subject, reader) for part in term.terms]
        return _joined(each, any if isinstance(term, Or) else all)
    if isinstance(term, Words):
        found = readings(term.words, reader.analyse)
        each = [reader.says(one, subject.text) if one else None for one in found]
        return _joined(each, all)
    if isinstance(term, Regex):
        from bygones.query.regexes import searcher  # noqa: PLC0415 (most ask not)

        return searcher(term.pattern).search(subject.text) is not None
    if isinstance(term, Phrase | Prefix):
        return _says(term, subject.text, reader)
    return _fielded(term, subject, reader)


def _joined(
    each: Iterable[bool | None], how: Callable[[Iterable[bool]], bool]
) -> bool | None:
    asking = [held for held in each if held is not None]
    return how(asking) if asking else None


def _says(term: Word | Phrase | Prefix, text: str, reader: _Reader) -> bool | None:
    """Whether a term stands in a text: a word in any form, else as it is written."""
    if isinstance(term, Word):
        one = reading(term.text, reader.analyse)
        return reader.says(one, text) if one else None
    wanted, there = reader.terms(term.text), reader.terms(text)
    if not wanted:
        return None
    if isinstance(term, Phrase):
        return _is_in(wanted, there)
    *whole, start = wanted
    return any(
        found.startswith(start) and there[at - len(whole) : at] == tuple(whole)
        for at, found in enumerate(there)
        if at >= len(whole)
    )


def _is_in(run: tuple[str, ...], terms: tuple[str, ...]) -> bool:
    count = len(run)
    return any(
        found == run[0] and terms[at : at + count] == run
        for at, found in enumerate(terms)
    )


def _fielded(
    term: Scoped | Fact | Period, subject: Subject, reader: _Reader
) -> bool | None:
    if isinstance(term, Scoped):
        texts = _texts(subject)[term.field]
        # No text at all says no word, but a sign asks for nothing even there.
        asked = [_says(term.term, text, reader) for text in ("", *texts)]
        return _joined(asked, any)
    if isinstance(term, Period):
        return _is_during(term, subject.time or subject.started)
    if term == Fact("agent", MAIN):
        return subject.agent is None
    field = BY_NAME[term.field]
    facts = _facts(subject)[term.field]
    return any(fits(field, term.value, there) for there in facts)


def _texts(subject: Subject) -> dict[str, Iterable[str]]:
    return {
        "cmd": subject.commands,
        "answers.cmd": subject.answered_commands,
        "title": (subject.title,),
    }


def _is_during(period: Period, time: datetime | None) -> bool:
    return (
        time is not None
        and (period.start is None or period.start <= time)
        and (period.end is None or time < period.end)
    )


def _facts(subject: Subject) -> dict[str, Iterable[str | None]]:
    return {
        "project": (subject.project,),
        "tool": subject.tools,
        "answers": subject.answers,
        "file": subject.paths,
        "answers.file": subject.answered_paths,
        "model": subject.models,
        "branch": ("rewound" if subject.is_rewound else "live",),
        "git": subject.git_branches,
        "entrypoint": subject.entrypoints,
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
