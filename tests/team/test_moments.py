"""An answer is of one moment, where the engine can hold one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.errors import StoreError
from bygones.team.contract import Objects, Scope, TeamStore
from bygones.team.deriving import derive
from tests.build import Home, prompt, reply, session_id, thread
from tests.team.homes import send

Made = tuple[TeamStore, Objects]


def say(made: Made, home: Home, number: int) -> None:
    lines = thread(prompt(f"walrus {number}"), reply("tusk"), start=number * 10)
    home.session(session_id(number), lines)
    send(*made, "ann", [home.path])
    derive(*made)


def test_what_comes_while_an_answer_is_made_is_in_the_next(
    engine: Callable[[], Made], tmp_path: Path
) -> None:
    made = store, objects = engine()
    home = Home(tmp_path / "claude")
    say(made, home, 1)

    with Archive.on(store.shelf(Scope(person="ann"), objects)) as archive:
        with archive.at_once():
            before = [one.id for one in archive.sessions()]
            say(made, home, 2)
            with archive.at_once():
                meanwhile = [one.id for one in archive.sessions()]
        after = [one.id for one in archive.sessions()]

    assert len(before) == 1
    assert len(after) == 2
    if type(store).__name__ == "PostgresStore":
        assert meanwhile == before
    store.close()


def test_an_answer_that_fails_leaves_the_next_one_as_limited(
    engine: Callable[[], Made], tmp_path: Path
) -> None:
    made = store, objects = engine()
    say(made, Home(tmp_path / "claude"), 1)
    shelf = store.shelf(Scope(person="zoe"), objects)

    with Archive.on(shelf) as archive:
        with pytest.raises(StoreError), archive.at_once():
            shelf.places._sight.db.rows("SELECT nothing_of_this FROM session", {})

        assert list(archive.sessions()) == []
        plain = "SELECT count(*) FROM session"
        assert shelf.places._sight.db.rows(plain, {}) == [(0,)]
    store.close()
