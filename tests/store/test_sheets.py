"""The rows of a session: each told once, and by which purse it was paid."""

from __future__ import annotations

from pathlib import Path

from bygones.assemble import listed
from bygones.reading import read
from bygones.store.numbers import id_number
from bygones.store.sheets import sheet_of
from tests.build import Home, prompt, reply, session_id, thread


def test_a_sheet_says_what_a_session_spent_typed_and_left(tmp_path: Path) -> None:
    home = Home(tmp_path)
    first, answer, second, other = thread(
        prompt("one"),
        reply("yes"),
        prompt("two"),
        reply("no", model="claude-haiku-4-5"),
    )
    again = prompt("three") | {"parentUuid": answer["uuid"]}
    home.session(session_id(1), [first, answer, second, other, again])
    (session,) = read(tmp_path)

    sheet = sheet_of(session, listed(session), is_long=True)

    assert sheet.session == session_id(1)
    assert [text for _, _, _, text in sheet.prompts] == ["one", "three", "two"]
    left = {id_number(second["uuid"]), id_number(other["uuid"])}
    assert set(sheet.rewound) == left
    models = [model for _, _, model, _, _ in sheet.purses]
    assert len(models) == len(set(models)) == 2
    assert sorted(who for who, *_ in sheet.spends) == [0, 1]
    assert sheet.claim is None
