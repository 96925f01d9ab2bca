"""Group search results: copies, sessions of one lineage, and similar sessions.

Ten results should be ten different things. A copy has no matching record of its own.
Similar sessions, which are usually runs of one prompt, are one result. The sessions of a
lineage share records, and follow each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from bygones.model.summary import SessionSummary
from bygones.query.tokens import Analyzer
from bygones.search.scoring import TextProfile

MAX_COMPARED_SESSIONS = 50
"""Of how many of the best sessions copies are folded together."""
MAX_GROUPED_SESSIONS = 30
"""Of how many of the best sessions similar ones are grouped."""
_MIN_TITLE_WORDS = 4
_MIN_TITLE_OVERLAP = 0.9
_MAX_LENGTH_RATIO = 2
"""By how much the numbers of messages of similar sessions may differ."""
_MIN_SHARED_TEXTS = 3
_MIN_SHARED_WORDS = 40
_MIN_TEXT_OVERLAP = 0.8


def possible_duplicates(
    sessions: Sequence[int], families: Mapping[int, int]
) -> list[int]:
    """Return those of the best sessions that may share records with another of them."""
    return [
        session for group in _family_groups(sessions, families) for session in group
    ]


def _family_groups(
    sessions: Sequence[int], families: Mapping[int, int]
) -> list[list[int]]:
    groups: dict[int, list[int]] = {}
    for session in sessions[:MAX_COMPARED_SESSIONS]:
        if session in families:
            groups.setdefault(families[session], []).append(session)
    return [group for group in groups.values() if len(group) > 1]


class FoldedSessions(Struct, frozen=True):
    """Sessions of which each matching record belongs to one."""

    sessions: list[int]
    """Those with a record of their own, in order."""
    copies: dict[int, tuple[int, ...]]
    """The sessions that have only records of others, by the original."""
    copied_records: dict[int, frozenset[int]]
    """The records of a session that belong to an older one."""


def fold_duplicates(
    sessions: Sequence[int],
    families: Mapping[int, int],
    records_of: Callable[[int], frozenset[int]],
    sort_by_age: Callable[[Sequence[int]], Sequence[int]],
) -> FoldedSessions:
    """Assign the matching records of related sessions to the oldest that has them.

    A session without a record of its own is a copy; its original has the rank of the
    best of its copies.
    """
    original_of: dict[int, int] = {}
    copied: dict[int, frozenset[int]] = {}
    for group in _family_groups(sessions, families):
        owners: dict[int, int] = {}
        for session in sort_by_age(group):
            records = records_of(session)
            shared = [owners[record] for record in records if record in owners]
            if shared:
                copied[session] = frozenset(records & owners.keys())
            if shared and len(shared) == len(records):
                original_of[session] = max(sorted(set(shared)), key=shared.count)
            for record in records:
                owners.setdefault(record, session)
    order = dict.fromkeys(original_of.get(session, session) for session in sessions)
    copies: dict[int, tuple[int, ...]] = {}
    for session in sorted(original_of):
        original = original_of[session]
        copies[original] = (*copies.get(original, ()), session)
    return FoldedSessions(list(order), copies, copied)


class SessionProfile(Struct, frozen=True):
    """What a session is compared by: its title and the texts that match best."""

    summary: SessionSummary
    title_words: frozenset[str]
    texts: Counter[TextProfile]

    @classmethod
    def build(
        cls, summary: SessionSummary, texts: Iterable[TextProfile], tokenize: Analyzer
    ) -> SessionProfile:
        """Return the profile of a session with its best texts."""
        words = frozenset(tokenize(summary.title.text))
        return cls(summary, words, Counter(texts))

    def is_similar(self, other: SessionProfile) -> bool:
        """Whether two sessions of a project have as many prompts, and are alike.

        They are if they start with the same prompt or have the same title, and are
        about as long; or if the same texts match.
        """
        own, theirs = self.summary, other.summary
        if (own.project, own.prompt_count) != (theirs.project, theirs.prompt_count):
            return False
        counts = sorted((own.message_count, theirs.message_count))
        if (
            counts[1] <= _MAX_LENGTH_RATIO * counts[0]
            and _overlap(self.title_words, other.title_words) >= _MIN_TITLE_OVERLAP
            and len(self.title_words) >= _MIN_TITLE_WORDS
        ):
            return True
        shared = self.texts & other.texts
        every = self.texts | other.texts
        return (
            shared.total() >= _MIN_SHARED_TEXTS
            and shared.total() >= _MIN_TEXT_OVERLAP * every.total()
            and sum(text.length * n for text, n in shared.items()) >= _MIN_SHARED_WORDS
        )


def _overlap(words: frozenset[str], others: frozenset[str]) -> float:
    return len(words & others) / (len(words | others) or 1)


def group_similar(
    sessions: Sequence[int],
    families: Mapping[int, int],
    load_profile: Callable[[int], SessionProfile | None],
) -> list[tuple[int, ...]]:
    """Return sessions in groups of similar ones, and lineages side by side.

    A group has the rank of its best session, which is its first. Sessions of one family
    are not similar: each has matching records of its own.
    """
    groups: list[list[int]] = []
    profiles: list[tuple[SessionProfile, list[int]]] = []
    for rank, session in enumerate(sessions[:MAX_COMPARED_SESSIONS]):
        profile = load_profile(session) if rank < MAX_GROUPED_SESSIONS else None
        group = None
        if profile is not None and session not in families:
            group = next((g for one, g in profiles if one.is_similar(profile)), None)
        if group is None:
            groups.append(group := [])
            if profile is not None and session not in families:
                profiles.append((profile, group))
        group.append(session)
    rest = ((session,) for session in sessions[MAX_COMPARED_SESSIONS:])
    return [*_join_lineages(groups, families), *rest]


def _join_lineages(
    groups: Sequence[Sequence[int]], families: Mapping[int, int]
) -> Iterator[tuple[int, ...]]:
    """Yield groups in order, but the groups of a family after its best one."""
    by_family: dict[int, list[Sequence[int]]] = {}
    for group in groups:
        if group[0] in families:
            by_family.setdefault(families[group[0]], []).append(group)
    for group in groups:
        family = families.get(group[0])
        if family is None:
            yield tuple(group)
        else:
            yield from map(tuple, by_family.pop(family, ()))
