"""The index in a form in which two of them can be compared.

Numbers that depend on the order of events are put back into the ids they stand for.
"""

from __future__ import annotations

import hashlib

from bygones.store.vault import Vault

__all__ = ["dump"]

_QUERIES = {
    "seen": "SELECT source, generation, upto, n.session FROM seen"
    " LEFT JOIN name AS n ON n.number = seen.session",
    "record": "SELECT uuid, message, n.session, source, offset, length FROM record"
    " JOIN name AS n ON n.number = record.session",
    "problem": "SELECT source, offset, length, kind, detail FROM problem",
    "drift": "SELECT source, what, name, version, count FROM drift",
    "summary": "SELECT leaf, source, offset, record, text FROM summary",
    "said": "SELECT source, lengths FROM said",
    "rewound": "SELECT record, n.session FROM rewound"
    " JOIN name AS n ON n.number = rewound.session",
    "run": "SELECT n.session, agent, type FROM run"
    " JOIN name AS n ON n.number = run.session",
    "session": "SELECT n.session, project, started_ms, ended_ms, is_empty, title,"
    " lengths, listed FROM session JOIN name AS n ON n.number = session.number",
    "family": "SELECT a.session, b.session FROM session AS x"
    " JOIN session AS y ON x.family = y.family"
    " JOIN name AS a ON a.number = x.number JOIN name AS b ON b.number = y.number",
    "spend": "SELECT n.session, agent, agent_type, model, terms, entrypoint, record,"
    " time_ms, branch, input, output, write_5m, write_1h, read, searches, estimate"
    " FROM spend JOIN purse AS p ON p.number = spend.purse"
    " JOIN name AS n ON n.number = p.session",
    "spell": "SELECT n.session, agent, model, terms, entrypoint, quarter, step,"
    " rewound, answers, input, output, write_5m, write_1h, read, searches, guessed,"
    " first_ms, last_ms FROM spell JOIN purse AS p ON p.number = spell.purse"
    " JOIN name AS n ON n.number = p.session",
    "fill": "SELECT n.session, tool, quarter, calls, size FROM fill"
    " JOIN name AS n ON n.number = fill.session",
    "claim": "SELECT n.session, upto_ms, claim FROM claim"
    " JOIN name AS n ON n.number = claim.session",
    "edit": "SELECT n.session, path, record, branch, agent, time_ms, added, removed,"
    " is_new FROM edit JOIN name AS n ON n.number = edit.session",
    "talk": "SELECT n.session, agent, facts FROM talk"
    " JOIN name AS n ON n.number = talk.session",
    "reel": "SELECT n.session, agent, branch, start, frame FROM reel"
    " JOIN name AS n ON n.number = reel.session",
    "prompt": "SELECT n.session, record, time_ms, branch, head FROM prompt"
    " JOIN name AS n ON n.number = prompt.session",
}


def dump(vault: Vault) -> dict[str, str]:
    """Return a hash of each table, and of the nodes and the words."""
    index = vault.index
    if index is None:
        return {}
    found = {}
    for table, sql in _QUERIES.items():
        rows = sorted(map(repr, index.db.execute(sql)))
        found[table] = _hash(rows)
    sources = [row[0] for row in index.db.execute("SELECT source FROM seen")]
    found["node"] = _hash(repr(index.nodes(source)) for source in sorted(sources))
    places = {
        row[0]: (row[1], row[2], row[3])
        for row in index.db.execute(
            "SELECT record.id, source, offset, n.session FROM record"
            " JOIN name AS n ON n.number = record.session"
        )
    }
    names = dict(index.db.execute("SELECT number, session FROM name"))
    words = [
        repr((places.get(record), names.get(session), kind, digest))
        for record, session, kind, digest in vault.text.documents()
    ]
    found["text"] = _hash(sorted(words))
    return found


def _hash(rows: object) -> str:
    hashed = hashlib.sha256()
    for row in rows:  # type: ignore[attr-defined]
        hashed.update(row.encode("utf-8", "surrogatepass"))
        hashed.update(b"\n")
    return hashed.hexdigest()
