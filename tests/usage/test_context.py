"""The context of a session, turn by turn."""

from __future__ import annotations

from tests.build import compact, prompt, session_id, thread
from tests.usage.usage_archive import UsageArchive, answer

FIRST, SECOND = session_id(1), session_id(2)


def test_turn_has_the_context_of_its_last_answer(usage_archive: UsageArchive) -> None:
    records = thread(
        prompt("go"),
        answer(1, input=10, write_1h=90, output=5),
        answer(2, input=20, read=100, output=6),
        prompt("on"),
        answer(3, input=30, read=170, output=7),
    )
    usage_archive.home.session(FIRST, records)

    report = usage_archive.context(FIRST)

    rows = [
        (row.turn_number, row.prompt, row.tokens, row.replies) for row in report.rows
    ]
    assert rows == [(0, "go", 120, 2), (1, "on", 200, 1)]
    assert [row.output_tokens for row in report.rows] == [11, 7]
    assert report.peak_tokens == 200
    assert report.cache_hit_rate == 270 / 420
    assert report.compaction_count == 0


def test_compaction_is_a_row_of_its_own(usage_archive: UsageArchive) -> None:
    before = thread(prompt("go"), answer(1, read=150_000, output=5))
    boundary = compact(before[-1]["uuid"], tokens=155_000)
    after = thread(boundary, prompt("on"), answer(2, read=20_000, output=1), start=60)
    usage_archive.home.session(FIRST, [*before, *after])

    report = usage_archive.context(FIRST)

    rows = [(row.tokens, row.compacted_from, row.trigger) for row in report.rows]
    assert rows == [
        (150_000, None, None),
        (0, 155_000, "auto"),
        (20_000, None, None),
    ]
    assert (report.compaction_count, report.peak_tokens) == (1, 150_000)


def test_resumed_session_includes_copied_answers(
    usage_archive: UsageArchive,
) -> None:
    records = thread(
        prompt("go"),
        answer(1, read=500, output=5),
        prompt("on"),
        answer(2, read=600, output=5),
    )
    usage_archive.home.session(FIRST, records[:2])
    usage_archive.home.session(SECOND, records)

    assert [row.tokens for row in usage_archive.context(SECOND).rows] == [500, 600]


def test_session_without_answers_has_no_context(usage_archive: UsageArchive) -> None:
    usage_archive.home.session(FIRST, [prompt("go")])

    report = usage_archive.context(FIRST)

    assert (report.rows, report.peak_tokens, report.cache_hit_rate) == ((), 0, 0.0)
