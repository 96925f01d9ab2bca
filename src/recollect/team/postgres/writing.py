"""Writing what was derived: in the place of what there was, all at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from recollect.store.harvest import TABLES, Harvest
from recollect.team.database import columns_of
from recollect.team.derivation import Derivation
from recollect.team.packing import new_numbers
from recollect.team.postgres.connect import Postgres
from recollect.team.postgres.terms import vectors_of

__all__ = ["holder_of", "remove_sessions", "write"]


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
        remove_sessions(db, _replaced(db, made))
        _add(db, made, {row[0]: row[2] for row in rows})
        for number, revision in made.sources.items():
            db.execute(
                "UPDATE source SET clean = %(revision)s WHERE number = %(number)s",
                {"number": number, "revision": revision},
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
    chosen = {"numbers": list(numbers)}
    db.execute(
        "INSERT INTO word SELECT holder, lexeme, -count(DISTINCT (number, text))"
        " FROM said, unnest(tsv) WHERE number = ANY(%(numbers)s)"
        " GROUP BY holder, lexeme ORDER BY lexeme, holder"
        " ON CONFLICT (term, holder) DO UPDATE SET texts = word.texts + excluded.texts",
        chosen,
    )
    db.execute("DELETE FROM word WHERE texts <= 0")
    db.execute(
        "INSERT INTO total SELECT holder, -count(*), -sum(length) FROM said"
        " WHERE piece = 0 AND number = ANY(%(numbers)s) GROUP BY holder"
        " ON CONFLICT (holder) DO UPDATE SET texts = total.texts + excluded.texts,"
        " terms = total.terms + excluded.terms",
        chosen,
    )
    return sum(
        db.execute(f"DELETE FROM {table} WHERE number = ANY(%(numbers)s)", chosen)  # noqa: S608 (our names)
        for table in (*TABLES, "said")
    )


def _add(db: Postgres, made: Derivation, holders: Mapping[int, int]) -> None:
    teams = dict(
        db.rows(
            "SELECT holder, teams FROM holder WHERE holder = ANY(%(holders)s)",
            {"holders": list(set(holders.values()))},
        )
    )
    numbers = new_numbers(len(made.sessions))
    families: dict[int, int] = {}
    rows: dict[str, list[tuple[object, ...]]] = {table: [] for table in TABLES}
    said: list[tuple[object, ...]] = []
    counted: dict[int, _Counted] = {}
    for number, one in zip(numbers, made.sessions, strict=True):
        family = families.setdefault(one.family, number)
        shared = [set(teams[holders[row[0]]]) for row in one.rows["booked"]]
        holder = holder_of(
            db, made.person, sorted(set.intersection(*shared)) if shared else ()
        )
        for table, found in one.rows.items():
            first = (holder, number, family) if table == "session" else (holder, number)
            rows[table] += [(*first, *row) for row in found]
        counts = counted.setdefault(holder, _Counted())
        said += _said(one, (holder, number), counts)
    for table, found in rows.items():
        names = [column.name for column in columns_of(table)]
        first_names = ["holder", "number", *(["family"] if table == "session" else [])]
        db.copy(table, [*first_names, *names], found)
    db.copy("said", _SAID, said)
    for holder, counts in sorted(counted.items()):
        _count(db, holder, counts)


_SAID = ("holder", "number", "text", "piece", "record", "kind", "length", "tsv")


class _Counted:
    """How many texts a holder got, how many terms, and how many texts have each."""

    def __init__(self) -> None:
        self.texts = self.terms = 0
        self.words: Counter[str] = Counter()


def _said(
    one: Harvest, whose: tuple[int, int], counts: _Counted
) -> list[tuple[object, ...]]:
    found: list[tuple[object, ...]] = []
    for text, said in enumerate(one.texts):
        counts.texts += 1
        counts.terms += len(said.terms)
        counts.words.update(set(said.terms))
        for piece, vector in enumerate(vectors_of(said.terms)):
            place = (*whose, text, piece, said.record, said.kind)
            found.append((*place, len(said.terms) if not piece else 0, vector))
    return found


def _count(db: Postgres, holder: int, counts: _Counted) -> None:
    terms = sorted(counts.words)
    db.execute(
        "INSERT INTO word SELECT %(holder)s, term, texts"
        " FROM unnest(%(terms)s::text[], %(texts)s::bigint[]) AS new (term, texts)"
        " ON CONFLICT (term, holder) DO UPDATE SET texts = word.texts + excluded.texts",
        {
            "holder": holder,
            "terms": terms,
            "texts": [counts.words[term] for term in terms],
        },
    )
    db.execute(
        "INSERT INTO total VALUES (%(holder)s, %(texts)s, %(terms)s)"
        " ON CONFLICT (holder) DO UPDATE SET texts = total.texts + excluded.texts,"
        " terms = total.terms + excluded.terms",
        {"holder": holder, "texts": counts.texts, "terms": counts.terms},
    )
