"""Texts that are too long for the text index."""

from __future__ import annotations

from pathlib import Path

import pytest

from bygones import Archive
from bygones.parse import texts
from tests.build import SESSION, prompt, reply, thread
from tests.store.sandbox import Sandbox, differing_tables


@pytest.mark.req("E3")
def test_text_beyond_the_limit_is_reported_as_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(texts, "TEXT_LIMIT", 100)
    sandbox = Sandbox(tmp_path)
    sandbox.home.session(SESSION, thread(prompt("a" * 90), reply("b" * 300)))

    sandbox.ingest()

    with Archive.open(sandbox.archive) as archive:
        problems = [problem.kind for _, problem in archive.problems()]
        assert problems == ["long-text"]
    assert differing_tables(sandbox) == []
