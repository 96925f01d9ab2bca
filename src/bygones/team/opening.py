"""Opening a team's store by its address, and what somebody may read of it.

An address names the engine as the engine's own clients do; behind the question mark
stands who asks (``person``, ``teams``, ``role``) and where the raw store is (``raw``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode, urlsplit

from bygones.errors import ExtraMissing, PlaceUnreadable
from bygones.team.contract import Objects, Role, Scope, TeamStore

if TYPE_CHECKING:
    from bygones.store.shelf import Shelf

__all__ = ["RAW_NOTE", "objects_of", "open_shelf", "open_store", "scope_of"]

RAW_NOTE = ("hub", "raw")
"""The note under which a hub keeps where its raw store is."""
_OURS = ("person", "teams", "role", "raw")


def open_store(address: str) -> TeamStore:
    """Return the store at an address; its schema is not touched."""
    plain, _ = _parted(address)
    scheme = plain.partition(":")[0]
    if scheme in {"postgresql", "postgres"}:
        try:
            from bygones.team.postgres import PostgresStore  # noqa: PLC0415
        except ImportError as error:
            raise ExtraMissing(error.name or "psycopg") from error
        return PostgresStore(plain)
    if scheme in {"clickhouse", "chdb"}:
        try:
            from bygones.team.clickhouse import ClickHouseStore  # noqa: PLC0415
        except ImportError as error:
            raise ExtraMissing(error.name or "clickhouse-connect") from error
        return ClickHouseStore(plain)
    raise PlaceUnreadable(f"{scheme}: is no engine that is known")


def open_shelf(address: str) -> Shelf:
    """Return what an address lets somebody read."""
    scope = scope_of(address)
    _, ours = _parted(address)
    store = open_store(address)
    try:
        objects = objects_of(store, ours.get("raw"))
        shelf = store.shelf(scope, objects)
    except BaseException:
        store.close()
        raise
    shelf.also_close(store.close)
    return shelf


def scope_of(address: str) -> Scope:
    """Return who asks, as an address says it."""
    _, ours = _parted(address)
    if not ours.get("person"):
        raise PlaceUnreadable("it does not say who asks: add ?person=…")
    teams = tuple(team for team in ours.get("teams", "").split(",") if team)
    try:
        role = Role(ours.get("role", Role.TEAM if teams else Role.OWN))
    except ValueError as error:
        raise PlaceUnreadable("role is own, team or auditor") from error
    return Scope(person=ours["person"], teams=teams, role=role)


def _parted(address: str) -> tuple[str, dict[str, str]]:
    """Return an address as the engine knows it, and what is ours of it."""
    split = urlsplit(_as_address(address))
    given = parse_qsl(split.query, keep_blank_values=True)
    theirs = urlencode([(key, value) for key, value in given if key not in _OURS])
    ours = {key: value for key, value in given if key in _OURS}
    plain = f"{split.scheme}://{split.netloc}{split.path}"
    return plain + f"?{theirs}" * bool(theirs), ours


def _as_address(told: str) -> str:
    """Return an address that may have come as a path, which has one slash only.

    What names no server has a third one: ``postgresql:///database`` is on this machine.
    """
    scheme, _, rest = told.partition(":/")
    if rest.startswith("/"):
        return told
    is_here = scheme == "chdb" or "/" not in rest.partition("?")[0]
    return (
        f"{scheme}:///{rest}" if is_here and rest[:1] != "?" else f"{scheme}://{rest}"
    )


def objects_of(store: TeamStore, raw: str | None = None) -> Objects:
    """Return the raw store that a store stands on, or its own."""
    noted = store.note(*RAW_NOTE)
    place = raw or (noted.decode() if noted else None)
    if place is None:
        return store.objects()
    from bygones.team.objects import open_objects  # noqa: PLC0415 (where there is one)

    return open_objects(place)
