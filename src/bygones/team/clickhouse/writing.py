"""Writing what was derived: under new numbers, which then take the old ones' place."""

from __future__ import annotations

from collections.abc import Sequence

from bygones.store.harvest import TABLES, Harvest
from bygones.team.clickhouse.connect import ClickHouse
from bygones.team.clickhouse.receiving import holder_of
from bygones.team.clickhouse.schema import DERIVED
from bygones.team.database import columns_of
from bygones.team.derivation import Derivation
from bygones.team.packing import new_numbers

__all__ = ["bury", "sweep", "write"]

_SAID = ("holder", "number", "text", "record", "kind", "length")
_POST = ("holder", "number", "text", "record", "kind", "length", "term", "places")
_DEAD = 2_000
"""Numbers that may be dead before their rows are removed."""
_AT_ONCE = 200_000


def write(db: ClickHouse, made: Derivation) -> None:
    """Put sessions in the place of what was derived of their sources before.

    For a moment there is neither: a session that is seen twice, or by who may no
    longer see it, would be worse. Whoever is stopped here leaves the sources touched.
    """
    rows = db.rows(
        "SELECT s.number, s.holder, c.clean FROM"
        " (SELECT number, holder FROM source FINAL WHERE number IN %(numbers)s) AS s"
        " LEFT JOIN (SELECT * FROM cleaned FINAL) AS c ON c.number = s.number",
        {"numbers": list(made.sources)},
    )
    holders = {number: holder for number, holder, _ in rows}
    if any(clean > made.sources[number] for number, _, clean in rows):
        return  # somebody has derived something newer meanwhile
    if set(made.sources) - set(holders):
        return  # erased meanwhile: what is left is derived when it is touched
    old = _replaced(db, made)
    teams = dict(db.rows("SELECT holder, teams FROM holder FINAL", {}))
    found: dict[str, list[tuple[object, ...]]] = {table: [] for table in TABLES}
    families: dict[int, int] = {}
    numbers = new_numbers(len(made.sessions))
    for number, one in zip(numbers, made.sessions, strict=True):
        shared = [set(teams[holders[row[0]]]) for row in one.rows["booked"]]
        common = sorted(set.intersection(*shared)) if shared else []
        holder = holder_of(db, made.person, common)
        family = families.setdefault(one.family, number)
        for table, some in one.rows.items():
            first = (holder, number, family) if table == "session" else (holder, number)
            found[table] += [(*first, *row) for row in some]
        _add_texts(db, one, (holder, number))
    sessions = found.pop("session")
    for table, some in found.items():
        names = [column.name for column in columns_of(table)]
        db.insert(table, ("holder", "number", *names), some)
    bury(db, old)
    names = [column.name for column in columns_of("session")]
    db.insert("session", ("holder", "number", "family", *names), sessions)
    db.insert("cleaned", ("number", "clean"), list(made.sources.items()))
    if len(old) and db.rows("SELECT count(*) FROM dead", {})[0][0] > _DEAD:
        sweep(db)


def _replaced(db: ClickHouse, made: Derivation) -> list[int]:
    rows = db.rows(
        "SELECT DISTINCT number FROM booked WHERE source IN %(sources)s UNION DISTINCT"
        " SELECT number FROM session WHERE session IN %(sessions)s AND holder IN"
        " (SELECT holder FROM holder WHERE person = %(person)s)",
        {
            "sources": list(made.sources),
            "sessions": [one.session for one in made.sessions],
            "person": made.person,
        },
    )
    return [row[0] for row in rows]


def _add_texts(db: ClickHouse, one: Harvest, whose: tuple[int, int]) -> None:
    said: list[tuple[object, ...]] = []
    waiting: list[tuple[object, ...]] = []
    for text, row in enumerate(one.texts):
        terms = row.terms
        facts = (*whose, text, row.record, row.kind, len(terms))
        said.append(facts)
        places: dict[str, list[int]] = {}
        for at, term in enumerate(terms):
            places.setdefault(term, []).append(at)
        waiting += [(*facts, term, found) for term, found in places.items()]
        if len(waiting) >= _AT_ONCE:
            db.insert("post", _POST, waiting)
            waiting = []
    db.insert("said", _SAID, said)
    db.insert("post", _POST, waiting)


def bury(db: ClickHouse, numbers: Sequence[int]) -> None:
    """Let sessions be seen by nobody from now on."""
    db.insert("dead", ("number",), [(number,) for number in numbers])


def sweep(db: ClickHouse) -> None:
    """Remove the rows of all that is dead, and wait until they are gone."""
    for table in DERIVED:
        db.execute(
            f"ALTER TABLE {table} DELETE WHERE number IN (SELECT number FROM dead)"  # noqa: S608 (our names)
            " SETTINGS mutations_sync = 2, allow_nondeterministic_mutations = 1"
        )
    db.execute("TRUNCATE TABLE dead")
