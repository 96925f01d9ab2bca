"""Text search on PostgreSQL: term vectors, posting segments and their queries."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import accumulate, chain
from operator import add
from struct import Struct
from zlib import crc32

import msgspec

from bygones.model.query import KINDS_PER_SESSION
from bygones.store.compression import compress, decompress
from bygones.store.export_rows import ExportedText
from bygones.team.contract import (
    AccessRole,
    AccessScope,
    ScopedDatabase,
    allocate_numbers,
)
from bygones.team.stores.postgres_connection import PostgresConnection
from bygones.team.text_engine import TermStats, form_groups
from bygones.team.text_query import (
    MatchQuery,
    SessionPostings,
    SqlCondition,
    TextQuery,
    split_required_match,
)

PIECE = 8_000
"""Terms of a vector: positions above 16,383 are all one to the engine."""
OVERLAP = 32
"""Terms that two pieces share, so that no run is cut in two."""
_SLOT = 8_000
"""Terms of texts that a slot holds, about."""
_KNOWN = 400_000
"""Terms whose group is remembered."""
_COUNT = Struct(">qi")
"""A session, then the kind of its texts and how many there are: 8 and 24 bits."""
_MOST = (1 << 24) - 1

_BREAK = b"\n"
_encode = msgspec.msgpack.encode
_decode_facts = msgspec.msgpack.Decoder(tuple[list[int], list[int], list[int]]).decode
"""Of each text its record, its kind, and where it begins; then where the last ends."""
_decode_slot = msgspec.msgpack.Decoder(tuple[bytes, list[int], list[int], bytes]).decode
_decode_term = msgspec.msgpack.Decoder(list[int]).decode
_PLACES = [f":{at}" for at in range(1, PIECE + 1)]


def vectors_of(terms: Sequence[str]) -> Iterator[str]:
    """Yield the vectors of a text; most have one.

    A term has letters and digits only: nothing in it needs to be escaped. One that
    stands there twice is told twice; the engine joins the places.
    """
    start = 0
    while True:
        yield " ".join(map(add, terms[start : start + PIECE], _PLACES))
        start += PIECE - OVERLAP
        if start + OVERLAP >= len(terms):
            return


def query_of(runs: Sequence[Sequence[str]]) -> str:
    """Return the question for texts that have one of some runs of terms."""
    return " | ".join(
        "(" + " <-> ".join(f"'{term}'" for term in run) + ")" for run in runs
    )


def sign_of(term: str) -> int:
    """Return the checksum by which a term is dealt to a slot."""
    return crc32(term.encode())


def slots_of(said: SessionTerms) -> list[bytes]:
    """Return what a session's slots hold: the facts of its texts, then its terms."""
    places: defaultdict[str, list[int]] = defaultdict(list)
    for at, term in enumerate(chain.from_iterable(said.terms)):
        places[term].append(at)
    slots = max(1, said.words.total() // _SLOT)
    dealt: list[dict[str, list[int]]] = [{} for _ in range(slots)]
    for term, found in places.items() if slots > 1 else ():
        dealt[sign_of(term) % slots][term] = found
    some = dealt if slots > 1 else [places]
    starts = list(accumulate(map(len, said.terms), initial=0))
    records = [text.record for text in said.texts]
    facts = _encode((records, [text.kind for text in said.texts], starts))
    return [compress(facts), *(compress(_slot(one, said.words)) for one in some)]


def _slot(dealt: Mapping[str, list[int]], words: Mapping[str, int]) -> bytes:
    """Pack terms so that one is found without unpacking the others.

    Where each stands is told in terms of the whole session, text behind text.
    """
    told = [_encode(places) for places in dealt.values()]
    names = "\n".join(("", *dealt, "")).encode()
    texts = [words[term] for term in dealt]
    return _encode((names, texts, list(map(len, told)), b"".join(told)))


def posted_in(
    slots: Mapping[int, bytes], terms: Sequence[str], *, everything: bool
) -> SessionPostings:
    """Return what a session's slots say of some terms; slot 0 must be there.

    Texts are told of that have one of them, or all.
    """
    records, kinds, starts = _decode_facts(decompress(slots[0]))
    places: dict[str, dict[int, Sequence[int]]] = {}
    for slot, packed in slots.items():
        if slot:
            names, _, lengths, told = _decode_slot(decompress(packed))
            for term in terms:
                at = names.find(b"\n%b\n" % term.encode())
                if at >= 0:
                    number = names.count(_BREAK, 0, at)
                    start = sum(lengths[:number])
                    own = memoryview(told)[start : start + lengths[number]]
                    places[term] = _by_text(_decode_term(own), starts)
    numbers: Iterable[int] = range(len(records))
    if not everything:
        numbers = {number for texts in places.values() for number in texts}
    facts = {n: (records[n], kinds[n], starts[n + 1] - starts[n]) for n in numbers}
    return SessionPostings(facts, places)


def _by_text(places: Sequence[int], starts: Sequence[int]) -> dict[int, Sequence[int]]:
    """Return places in a session, which ascend, as places in its texts."""
    found: dict[int, Sequence[int]] = {}
    at = 0
    while at < len(places):
        text = bisect_right(starts, places[at]) - 1
        stop = bisect_left(places, starts[text + 1], at)
        start = starts[text]
        found[text] = [place - start for place in places[at:stop]]
        at = stop
    return found


class SessionTerms:
    """What the texts of a session say: their terms, and which have which."""

    def __init__(self, texts: Sequence[ExportedText]) -> None:
        self.texts = texts
        self.terms = [text.terms for text in texts]
        self.sets = list(map(set, self.terms))
        self.words: Counter[str] = Counter()
        """How many texts have each term."""
        for own in self.sets:
            self.words.update(own)


class SegmentTermCounts:
    """Counts in how many texts of which session a form of each group stands."""

    _groups: dict[str, str] = {}  # noqa: RUF012 (remembered for all)

    def __init__(self) -> None:
        self.packed: defaultdict[str, bytearray] = defaultdict(bytearray)
        self.words: Counter[str] = Counter()
        """How many texts have each term."""
        self.texts = self.terms = 0

    def add(self, session: int, said: SessionTerms) -> None:
        """Count the texts of a session."""
        self.texts += len(said.texts)
        self.terms += sum(map(len, said.terms))
        self.words.update(said.words)
        kinds: dict[int, Counter[str]] = {}
        for text, own in zip(said.texts, said.sets, strict=True):
            kinds.setdefault(text.kind, Counter()).update(set(self.groups(own)))
        packed = self.packed
        for kind, counts in kinds.items():
            told = {
                count: _COUNT.pack(session, kind << 24 | min(count, _MOST))
                for count in set(counts.values())
            }
            for group, count in counts.items():
                packed[group] += told[count]

    def take(self, slot: int, packed: bytes) -> None:
        """Count what a slot of a session says that is there."""
        if slot == 0:
            records, _, starts = _decode_facts(decompress(packed))
            self.texts += len(records)
            self.terms += starts[-1]
            return
        names, texts, _, _ = _decode_slot(decompress(packed))
        terms = names.decode().split()
        self.words.update(dict(zip(terms, texts, strict=True)))

    @classmethod
    def groups(cls, terms: AbstractSet[str]) -> Iterator[str]:
        """Yield the group of each term."""
        known = cls._groups
        if not known.keys() >= terms:
            if len(known) > _KNOWN:
                known.clear()
            new = [term for term in terms if term not in known]
            known.update(zip(new, form_groups(new), strict=True))
        return map(known.__getitem__, terms)


def counts_in(packed: bytes, alive: Container[int]) -> dict[int, int]:
    """Return how many texts there are, by bucket, of sessions that are there."""
    return {
        session * KINDS_PER_SESSION + (told >> 24): told & _MOST
        for session, told in _COUNT.iter_unpack(packed)
        if session in alive
    }


def living_in(packed: bytes, alive: Container[int]) -> bytes:
    """Return the same without what is told of sessions that are no more."""
    told = list(_COUNT.iter_unpack(packed))
    if all(session in alive for session, _ in told):
        return packed
    return b"".join(_COUNT.pack(*one) for one in told if one[0] in alive)


_JOINED = 16
"""Segments of a level that are joined to one."""
_POST = ("holder", "segment", "forms", "packed")
_TYPES = ("int4", "int8", "text", "bytea")


def add_segment(
    db: PostgresConnection,
    holder: int,
    numbers: Sequence[int],
    packed: Mapping[str, bytearray],
) -> None:
    """File sessions, with what they have of each group of forms."""
    if not packed:
        return
    (segment,) = allocate_numbers(1)
    rows = [(holder, segment, forms, bytes(told)) for forms, told in packed.items()]
    db.copy("post", _POST, rows, _TYPES)
    db.execute(
        "INSERT INTO segment VALUES (%(segment)s, %(holder)s, 0, %(size)s)",
        {"segment": segment, "holder": holder, "size": len(numbers)},
    )
    db.execute(
        "INSERT INTO filed SELECT number, %(segment)s"
        " FROM unnest(%(numbers)s::bigint[]) AS number",
        {"segment": segment, "numbers": list(numbers)},
    )
    _join(db, holder)


def _join(db: PostgresConnection, holder: int) -> None:
    """Join the segments of a level that has many of them."""
    rows = db.rows(
        "SELECT level, array_agg(segment), sum(size)::integer, sum(dead)::integer"
        " FROM segment WHERE holder = %(holder)s GROUP BY level"
        " HAVING count(*) >= %(most)s ORDER BY level",
        {"holder": holder, "most": _JOINED},
    )
    for level, segments, size, dead in rows:
        (segment,) = allocate_numbers(1)
        values = {
            "old": segments,
            "new": segment,
            "holder": holder,
            "level": level + 1,
            "size": size,
            "dead": dead,
        }
        db.execute(
            "INSERT INTO post SELECT holder, %(new)s, forms, string_agg(packed, '')"
            " FROM post WHERE segment = ANY(%(old)s) GROUP BY holder, forms",
            values,
        )
        for table in ("post", "segment"):
            sql = f"DELETE FROM {table} WHERE segment = ANY(%(old)s)"  # noqa: S608 (our names)
            db.execute(sql, values)
        db.execute(
            "UPDATE filed SET segment = %(new)s WHERE segment = ANY(%(old)s)", values
        )
        db.execute(
            "INSERT INTO segment"
            " VALUES (%(new)s, %(holder)s, %(level)s, %(size)s, %(dead)s)",
            values,
        )
        _tidy(db, [segment])


def leave_segments(db: PostgresConnection, numbers: Sequence[int]) -> None:
    """Take sessions out of their segments; their texts must be gone already."""
    rows = db.rows(
        "WITH gone AS (DELETE FROM filed WHERE number = ANY(%(numbers)s)"
        " RETURNING segment), left_by AS (SELECT segment, count(*) AS dead FROM gone"
        " GROUP BY segment) UPDATE segment AS s SET dead = s.dead + l.dead"
        " FROM left_by AS l WHERE s.segment = l.segment RETURNING s.segment",
        {"numbers": list(numbers)},
    )
    _tidy(db, [row[0] for row in rows])


def _tidy(db: PostgresConnection, segments: Sequence[int]) -> None:
    """Strip segments of which most is dead."""
    rows = db.rows(
        "SELECT segment FROM segment WHERE segment = ANY(%(segments)s)"
        " AND (dead >= size OR dead * 2 > size)",
        {"segments": list(segments)},
    )
    for (segment,) in rows:
        _strip(db, segment)


def forget_dead(db: PostgresConnection, people: Sequence[str]) -> None:
    """Leave nothing in the segments of people of sessions that are no more."""
    rows = db.rows(
        "SELECT segment FROM segment WHERE dead > 0 AND holder IN"
        " (SELECT holder FROM holder WHERE person = ANY(%(people)s))",
        {"people": list(people)},
    )
    for (segment,) in rows:
        _strip(db, segment)


def _strip(db: PostgresConnection, segment: int) -> None:
    """Take out of a segment what it says of sessions that are no more."""
    values = {"segment": segment}
    filed = db.rows("SELECT number FROM filed WHERE segment = %(segment)s", values)
    alive = {row[0] for row in filed}
    sql = "SELECT forms, packed FROM post WHERE segment = %(segment)s"
    changed = {
        forms: left
        for forms, packed in db.rows(sql, values)
        if len(left := living_in(packed, alive)) < len(packed)
    }
    db.execute(
        "UPDATE post AS p SET packed = c.packed"
        " FROM unnest(%(forms)s::text[], %(packed)s::bytea[]) AS c (forms, packed)"
        " WHERE p.segment = %(segment)s AND p.forms = c.forms",
        {**values, "forms": list(changed), "packed": list(changed.values())},
    )
    db.execute("DELETE FROM post WHERE segment = %(segment)s AND packed = ''", values)
    if not alive:
        db.execute("DELETE FROM segment WHERE segment = %(segment)s", values)
    db.execute(
        "UPDATE segment SET dead = 0, size = %(size)s WHERE segment = %(segment)s",
        {**values, "size": len(alive)},
    )


_LAST_CHARACTER = "\U0010ffff"


class PostgresTextSearch:
    """What one scope may know of texts and terms."""

    def __init__(self, sight: ScopedDatabase, scope: AccessScope) -> None:
        self._sight = sight
        self._scope = scope
        self._totals = (0, 0)

    def refresh_scope(self) -> object:
        """Look whose rows may be seen; return what changes when these do."""
        scope = self._scope
        rows = self._sight.db.rows(
            "SELECT * FROM standing(%(person)s, %(teams)s::text[], %(all)s)",
            {
                "person": scope.person,
                "teams": list(scope.teams) if scope.role is AccessRole.TEAM else [],
                "all": scope.role is AccessRole.AUDITOR,
            },
        )
        self._sight.set_holders([row[0] for row in rows])
        self._totals = sum(row[1] for row in rows), sum(row[2] for row in rows)
        return rows

    def totals(self) -> tuple[int, int]:
        """Return how many texts there are, and how many terms in all of them."""
        return self._totals

    def load_term_stats(
        self, groups: Sequence[str], terms: Sequence[str], live_sessions: Container[int]
    ) -> TermStats:
        """Return all terms of some groups with where they stand, and other terms."""
        rows = self._sight.rows(
            "SELECT term, NULL::bytea, sum(texts)::bigint FROM {word} AS w"
            " WHERE forms = ANY(%(groups)s) OR term = ANY(%(terms)s) GROUP BY term"
            " UNION ALL SELECT forms, packed, NULL FROM {post} AS p"
            " WHERE forms = ANY(%(groups)s)",
            groups=list(groups),
            terms=list(terms),
        )
        found = TermStats({}, {})
        for name, packed, texts in rows:
            if packed is None:
                found.term_counts[name] = texts
            else:
                found.group_counts.setdefault(name, {}).update(
                    counts_in(packed, live_sessions)
                )
        return found

    def document_frequencies(self, terms: Sequence[str]) -> dict[str, int]:
        """Return how many texts have each of some terms."""
        rows = self._sight.rows(
            "SELECT term, sum(texts)::bigint FROM {word} AS w"
            " WHERE term = ANY(%(terms)s) GROUP BY term",
            terms=list(terms),
        )
        return dict(rows)

    def terms_with_prefix(self, prefix: str) -> list[tuple[str, int]]:
        """Return terms that begin so in their order, and how many texts have each."""
        return self._sight.rows(
            "SELECT term, sum(texts)::bigint FROM {word} AS w"
            " WHERE term >= %(start)s AND term < %(last)s GROUP BY term ORDER BY term",
            start=prefix,
            last=prefix + _LAST_CHARACTER,
        )

    def terms_containing(self, substring: str) -> list[str]:
        """Return terms that have a piece somewhere in them."""
        rows = self._sight.rows(
            "SELECT DISTINCT term FROM {word} AS w WHERE strpos(term, %(piece)s) > 0"
            " ORDER BY term",
            piece=substring,
        )
        return [row[0] for row in rows]

    def count_texts(
        self, queries: Sequence[TextQuery]
    ) -> list[tuple[int, int, int, int]]:
        """Return how many texts are found, by question, session and kind."""
        condition = SqlCondition(self._sight.db, _match_source_sql)
        parts: list[str] = []
        for at, one in enumerate(queries):
            found, rest = split_required_match(one)
            table = "(SELECT * FROM {said} AS a WHERE piece = 0)"
            if found is not None:
                table = condition.match_source(found)
            where = f" WHERE {condition.compile(rest)}" if rest is not None else ""
            parts.append(
                f"SELECT {at:d}, number, kind, count(DISTINCT text)"  # noqa: S608 (our names)
                f" FROM {table} AS t{where} GROUP BY number, kind"
            )
        return self._sight.rows(" UNION ALL ".join(parts), **condition.values)

    def count_shared_texts(
        self, one: MatchQuery, other: MatchQuery
    ) -> list[tuple[int, int, int]]:
        """Return how many texts two matches both find, by session and kind."""
        return self._sight.rows(
            "SELECT number, kind, count(*) FROM"
            " matching_both(%(one)s::tsquery, %(other)s::tsquery) AS t"
            " GROUP BY number, kind",
            one=query_of(one.phrases),
            other=query_of(other.phrases),
        )

    def load_postings(
        self, sessions: Sequence[int], terms: Sequence[str], *, include_unmatched: bool
    ) -> dict[int, SessionPostings]:
        """Return where terms stand in the texts of sessions."""
        rows = self._sight.rows(
            "SELECT s.number, s.slot, s.packed FROM {stand} AS f JOIN {stand} AS s"
            " ON s.number = f.number AND (s.slot = 0 OR s.slot IN"
            " (SELECT 1 + mod(sign, f.slots) FROM unnest(%(signs)s::bigint[]) AS sign))"
            " WHERE f.slot = 0 AND f.number = ANY(%(numbers)s)",
            numbers=list(sessions),
            signs=[sign_of(term) for term in terms],
        )
        slots: dict[int, dict[int, bytes]] = {}
        for number, slot, packed in rows:
            slots.setdefault(number, {})[slot] = packed
        return {
            number: posted_in(own, terms, everything=include_unmatched)
            for number, own in slots.items()
        }


def _match_source_sql(query: MatchQuery, add: Callable[[object], str]) -> str:
    return f"matching({add(query_of(query.phrases))}::tsquery)"
