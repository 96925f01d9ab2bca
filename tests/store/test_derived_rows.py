"""The rows that are derived from a session."""

from __future__ import annotations

from pathlib import Path

from bygones.assemble.summary import summarize_session
from bygones.reader import read_sessions
from bygones.store.derived_rows import derive_rows
from bygones.store.encoding import id_key
from tests.build import Home, prompt, reply, session_id, thread


def test_derived_rows_contain_usage_prompts_and_abandoned_records(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path)
    first, answer, second, other = thread(
        prompt("one"),
        reply("yes"),
        prompt("two"),
        reply("no", model="claude-haiku-4-5"),
    )
    again = prompt("three") | {"parentUuid": answer["uuid"]}
    home.session(session_id(1), [first, answer, second, other, again])
    (session,) = read_sessions(tmp_path)

    sheet = derive_rows(session, summarize_session(session))

    assert sheet.session == session_id(1)
    assert [text for _, _, _, text, _ in sheet.prompts] == ["one", "three", "two"]
    left = {id_key(second["uuid"]), id_key(other["uuid"])}
    assert set(sheet.abandoned_keys) == left
    models = [model for _, _, model, _, _ in sheet.payers]
    assert len(models) == len(set(models)) == 2
    assert sorted(who for who, *_ in sheet.usage) == [0, 1]
    assert sheet.reported_cost is None
