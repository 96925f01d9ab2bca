"""Writing what was derived: in the place of what there was, all at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bygones.store.harvest import TABLES, Harvest
from bygones.team.database import columns_of
from bygones.team.derivation import Derivation
from bygones.team.packing import new_numbers
from bygones.team.postgres.connect import Postgres
from bygones.team.postgres.segments import add_segment, leave_segments
from bygones.team.postgres.terms import Said, Tallied, slots_of, vectors_of

__all__ = ["holder_of", "remove_sessions", "write"]

_WEIGHT = 16 * 1024 * 1024
"""Bytes of vectors that wait to be written; more would only take memory."""


def holder_of(db: Postgres, person: str, teams: Sequence[str]) -> int:
    """Return the number of a person with these teams, a new one where it has none."""
    values = {"person": person, "teams": sorted(set(teams))}
    sql = "SELECT holder FROM holder WHERE person = %(person)s AND teams = %(teams)s"
    rows = db.rows(sql, values)
    if not rows:
        db.execute(
            "INSERT INTO holder (person, teams) VALUES (%(person)s, %(teams)s)"
            " ON CONFLICT DO NOTHING",
            values,
        )
        rows = db.rows(sql, values)
    return int(rows[0][0])


def write(db: Postgres, made: Derivation) -> None:
    """Put sessions in the place of what was derived of their sources before."""
    with db.at_once():
        # An erasure waits for this, or this for it: no row outlives its source.
        db.execute("LOCK TABLE source, session IN ROW EXCLUSIVE MODE")
        person = {"person": made.person}
        db.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended(%(person)s, 7))", person
        )
        rows = db.rows(
            "SELECT number, clean, holder FROM source WHERE number = ANY(%(numbers)s)",
            {"numbers": list(made.sources)},
        )
        if any(clean > made.sources[number] for number, clean, _ in rows):
            return  # somebody has derived something newer meanwhile
        gone = set(made.sources) - {row[0] for row in rows}
        if gone:
            return  # erased meanwhile: what is left is derived when it is touched
        _put(db, made, {row[0]: row[2] for row in rows}, _replaced(db, made))
        db.execute(
            "UPDATE source AS s SET clean = n.revision"
            " FROM unnest(%(numbers)s::bigint[], %(revisions)s::bigint[])"
            " AS n (number, revision) WHERE s.number = n.number",
            {
                "numbers": list(made.sources),
                "revisions": list(made.sources.values()),
            },
        )


def _replaced(db: Postgres, made: Derivation) -> list[int]:
    rows = db.rows(
        "SELECT number FROM booked WHERE source = ANY(%(sources)s) UNION"
        " SELECT number FROM session WHERE session = ANY(%(sessions)s) AND holder IN"
        " (SELECT holder FROM holder WHERE person = %(person)s)",
        {
            "sources": list(made.sources),
            "sessions": [one.session for one in made.sessions],
            "person": made.person,
        },
    )
    return [row[0] for row in rows]


def remove_sessions(db: Postgres, numbers: Sequence[int]) -> int:
    """Remove every row of sessions; return how many there were."""
    if not numbers:
        return 0
    _recount(db, _counted(db, numbers), {})
    removed = _remove(db, numbers)
    leave_segments(db, numbers)
    return removed


def _remove(db: Postgres, numbers: Sequence[int]) -> int:
    chosen = {"numbers": list(numbers)}
    return sum(
        db.execute(f"DELETE FROM {table} WHERE number = ANY(%(numbers)s)", chosen)  # noqa: S608 (our names)
        for table in (*TABLES, "said", "stand")
    )


def _put(
    db: Postgres, made: Derivation, holders: Mapping[int, int], old: Sequence[int]
) -> None:
    """Write sessions, and remove those in whose place they are."""
    numbers = new_numbers(len(made.sessions))
    whose = _holders(db, made, holders)
    families: dict[int, int] = {}
    rows: dict[str, list[tuple[object, ...]]] = {table: [] for table in TABLES}
    words: dict[int, _Texts] = {}
    before = _counted(db, old)
    if old:
        _remove(db, old)
        leave_segments(db, old)
    for number, holder, one in zip(numbers, whose, made.sessions, strict=True):
        family = families.setdefault(one.family, number)
        for table, found in one.rows.items():
            first = (holder, number, family) if table == "session" else (holder, number)
            rows[table] += [(*first, *row) for row in found]
        words.setdefault(holder, _Texts(db, holder)).add(number, one)
    for table, found in rows.items():
        names = [column.name for column in columns_of(table)]
        first_names = ["holder", "number", *(["family"] if table == "session" else [])]
        db.copy(table, [*first_names, *names], found)
    for texts in words.values():
        texts.finish()
    _recount(db, before, {holder: texts.tallied for holder, texts in words.items()})


def _holders(db: Postgres, made: Derivation, holders: Mapping[int, int]) -> list[int]:
    """Return whose each session is: the person's, with teams that may see all of it."""
    rows = db.rows(
        "SELECT holder, teams FROM holder WHERE holder = ANY(%(holders)s)",
        {"holders": list(set(holders.values()))},
    )
    teams = {holder: set(named) for holder, named in rows}
    known: dict[tuple[str, ...], int] = {}
    found: list[int] = []
    for one in made.sessions:
        shared = [teams[holders[row[0]]] for row in one.rows["booked"]]
        named = tuple(sorted(set.intersection(*shared))) if shared else ()
        if named not in known:
            known[named] = holder_of(db, made.person, named)
        found.append(known[named])
    return found


class _Texts:
    """What a holder's sessions say, on its way to the words."""

    def __init__(self, db: Postgres, holder: int) -> None:
        self._db = db
        self._holder = holder
        self._numbers: list[int] = []
        self._said: list[str] = []
        self._stand: list[tuple[object, ...]] = []
        self._weight = 0
        self.tallied = Tallied()

    def add(self, number: int, one: Harvest) -> None:
        """Take in what a session says; what has become much is written."""
        if not one.texts:
            return
        said = Said(one.texts)
        for at, (text, terms) in enumerate(zip(one.texts, said.terms, strict=True)):
            for piece, vector in enumerate(vectors_of(terms)):
                length = len(terms) if not piece else 0
                # Numbers and terms: nothing of it needs to be escaped.
                self._said.append(
                    f"{self._holder}\t{number}\t{at}\t{piece}\t{text.record}"
                    f"\t{text.kind}\t{length}\t{vector}\n"
                )
                self._weight += len(vector)
        slots = slots_of(said)
        whose = (self._holder, number)
        self._stand += [(*whose, at, len(slots) - 1, o) for at, o in enumerate(slots)]
        self._numbers.append(number)
        self.tallied.add(number, said)
        if self._weight > _WEIGHT:
            self._write()

    def _write(self) -> None:
        self._db.copy_lines("said", _SAID, self._said)
        self._db.copy("stand", _STAND, self._stand, _STAND_TYPES)
        self._said, self._stand, self._weight = [], [], 0

    def finish(self) -> None:
        """Write everything but how often words are there."""
        self._write()
        add_segment(self._db, self._holder, self._numbers, self.tallied.packed)


def _counted(db: Postgres, numbers: Sequence[int]) -> dict[int, Tallied]:
    """Return how much sessions say that are there, by holder."""
    found: dict[int, Tallied] = {}
    if numbers:
        sql = "SELECT holder, slot, packed FROM stand WHERE number = ANY(%(numbers)s)"
        for holder, slot, packed in db.rows(sql, {"numbers": list(numbers)}):
            found.setdefault(holder, Tallied()).take(slot, packed)
    return found


def _recount(
    db: Postgres, old: Mapping[int, Tallied], new: Mapping[int, Tallied]
) -> None:
    """Count words and texts anew: those of some sessions go, those of others come."""
    changed: list[tuple[str, int, int]] = []
    for holder in sorted({*old, *new}):
        before, after = old.get(holder, Tallied()), new.get(holder, Tallied())
        changed += [
            (term, holder, more)
            for term in before.words.keys() | after.words.keys()
            if (more := after.words[term] - before.words[term])
        ]
        db.execute(
            "INSERT INTO total VALUES (%(holder)s, %(texts)s, %(terms)s, 1)"
            " ON CONFLICT (holder) DO UPDATE SET texts = total.texts + excluded.texts,"
            " terms = total.terms + excluded.terms, version = total.version + 1",
            {
                "holder": holder,
                "texts": after.texts - before.texts,
                "terms": after.terms - before.terms,
            },
        )
    changed.sort()
    terms = {term for term, _, _ in changed}
    forms = dict(zip(terms, Tallied.groups(terms), strict=True))
    db.execute(
        "CREATE TEMPORARY TABLE recounted (LIKE word INCLUDING DEFAULTS) ON COMMIT DROP"
    )
    lines = [f"{holder}\t{t}\t{forms[t]}\t{more}\n" for t, holder, more in changed]
    db.copy_lines("recounted", _WORD, lines)
    db.execute(
        "INSERT INTO word SELECT * FROM recounted"
        " ON CONFLICT (term, holder) DO UPDATE SET texts = word.texts + excluded.texts"
    )
    db.execute("DROP TABLE recounted")
    db.execute("DELETE FROM word WHERE texts <= 0")


_WORD = ("holder", "term", "forms", "texts")
_SAID = ("holder", "number", "text", "piece", "record", "kind", "length", "tsv")
_STAND = ("holder", "number", "slot", "slots", "packed")
_STAND_TYPES = ("int4", "int8", "int4", "int4", "bytea")
