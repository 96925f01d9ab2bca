"""Statistics of all sessions: groups of equal sessions, and titles."""

from __future__ import annotations

from pathlib import Path

import pytest

from bygones.model.summary import Annotations
from bygones.search import title_index
from bygones.search.scoring import SearchStats
from bygones.store.local_reader import LocalReader
from tests.build import Home, prompt, reply, session_id, thread, title
from tests.search.searching import open_archive
from tests.store.sandbox import Sandbox

WORDS = ("alpha", "beta", "gamma", "delta")


def written(home: Home) -> None:
    """Write sessions that differ in their titles, and some in their entrypoints."""
    for number, word in enumerate(WORDS, 1):
        chain = thread(prompt(f"about {word}"), reply("yes"), start=60.0 * number)
        entrypoint = "cli" if number % 2 else "sdk-py"
        records = [one | {"entrypoint": entrypoint} for one in chain]
        home.session(session_id(number), [*records, title(f"The {word} word")])


def test_sessions_with_other_entrypoints_are_in_other_groups(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    written(home)
    with open_archive(home, tmp_path / "archive") as archive:
        assert sorted(archive.titles("entrypoint:cli")) == [
            "The alpha word",
            "The gamma word",
        ]
        assert sorted(archive.titles("entrypoint:sdk-* about")) == [
            "The beta word",
            "The delta word",
        ]
        assert archive.titles("entrypoint:cli title:gamma") == ["The gamma word"]


def test_groups_and_time_spans_are_loaded_once(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path)
    written(sandbox.home)
    sandbox.ingest()
    with sandbox.open_dir() as opened:
        reader = LocalReader(opened)
        known = SearchStats(reader)
        alike = known.session_groups(reader.search_facts)
        assert known.session_groups(reader.search_facts) is alike
        assert known.time_spans(reader.search_facts) is known.time_spans(
            reader.search_facts
        )

        found = [len(one.numbers) for one in alike]
        named = {
            (number, alike_.text_at(at, Annotations(tags=("more",))))
            for alike_ in alike
            for at, number in enumerate(alike_.numbers)
        }
    assert sorted(found) == [1, 1, 2]  # one has a model
    assert sorted(subject.session.title.text for _, subject in named) == sorted(
        f"The {word} word" for word in WORDS
    )
    assert {subject.session.tags for _, subject in named} == {("more",)}
    assert {number for number, _ in named} == set(known.ended_ms)


def test_titles_are_found_with_small_caches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(title_index, "_MAX_CACHED_STEMS", 1)
    home = Home(tmp_path / "home")
    written(home)
    with open_archive(home, tmp_path / "archive") as archive:
        for _ in range(2):
            assert len(archive.titles("word")) == len(WORDS)
            for word in WORDS:
                assert archive.titles(f'"the {word}"') == [f"The {word} word"]
