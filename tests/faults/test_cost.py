"""Twice as many records cost about twice as much, whatever shape a session has.

Calls are counted, not seconds: the result is the same on a busy machine.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from bygones import Archive
from bygones.export.formats import ExportFormat, ExportOptions, render_session
from bygones.model.sessions import Session
from bygones.redact.engine import Redactor
from bygones.redact.session import RedactionLog, redact_session
from bygones.render.session_tree import iter_branch_tree_lines, iter_tree_lines
from bygones.store.archive_dir import ArchiveDir
from bygones.store.derived_tables import DerivedTables
from tests.build import Home, jsonl
from tests.faults.hostile import SESSION, SHAPES
from tests.faults.mutations import MUTATIONS
from tests.faults.sizes import reached, sized
from tests.web.archives import WebArchive
from tests.web.client import web_client

N = sized(50, 300, 1_000)
MAX_RATIO = 2.5
"""How much more twice as many further records may cost; linear: 2, squared: 4."""
KNOWN_RATIOS = {
    ("inline_warm_up", "import"): 4.0,
    ("branches_of_one_turn", "request"): 4.0,
    ("nested_branches_of_one_turn", "request"): 4.0,
}
"""Each further block of a file with warm-ups inside it reads the nodes of all before.
Each request of a turn contains all messages before it.
"""


def count_calls(function: Callable[[], object]) -> int:
    """Count the calls of functions, those in C and in new threads included."""
    count = 0

    def add_one(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    threading.setprofile(add_one)
    sys.setprofile(add_one)
    try:
        function()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return count


def count_stages(shape: str, n: int, folder: Path) -> dict[str, int]:
    """Return the calls that each stage needs for a session of about ``n`` records."""
    home = folder / "home"
    path = home / "projects" / "-srv-app" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    # Other texts for each size: some results are cached.
    path.write_bytes(jsonl(SHAPES[shape](n)).replace(b'"text ', b'"size %d ' % n))
    counts = {"import": count_calls(lambda: Archive.ingest(folder / "archive", [home]))}
    with Archive(folder / "archive") as archive:
        session = archive.session(SESSION)
        counts["load"] = count_calls(lambda: archive.session(SESSION))
        for kind in (ExportFormat.HTML, ExportFormat.MARKDOWN, ExportFormat.TEXT):
            options = ExportOptions(format=kind, redactor=Redactor())
            counts[kind] = count_calls(partial(_render, session, options))
        counts["JSON"] = count_calls(session.to_dicts)
        counts["redaction"] = count_calls(lambda: redact_session(session, Redactor()))
        counts["tree"] = count_calls(lambda: [*iter_tree_lines(session)])
        counts["branches"] = count_calls(lambda: _list_branches(archive))
        counts["messages in SQL"] = count_calls(
            lambda: archive.sql("SELECT * FROM messages")
        )
        counts["request"] = count_calls(lambda: archive.turn_requests(session, 0))
        counts["search"] = count_calls(lambda: archive.search("size"))
        counts["usage"] = count_calls(archive.usage)
    page = web_client(WebArchive(Home(home), folder / "archive"))
    for name in ("", "/map"):
        address = f"/session/{SESSION}{name}"
        counts[f"page{name}"] = count_calls(partial(page.get, address))
    return counts


def _list_branches(archive: Archive) -> list[object]:
    conversation = archive.conversation(SESSION)
    windows = [
        conversation.window(one.number, one.shared_count, one.message_count)
        for one in conversation.facts.branches
    ]
    return [*iter_branch_tree_lines(conversation.facts, windows[0].turns)]


def _render(session: Session, options: ExportOptions) -> list[str]:
    return [*render_session(session, options, RedactionLog())]


pytestmark = pytest.mark.full


def measure_growth(shape: str, n: int, folder: Path) -> dict[str, float]:
    """Return how much more 2n and 4n further records cost than the n and 2n before them.

    Of the two ratios the smaller one: a stage that handles long sessions in parts costs
    more per record from some length on, once. What grows faster has two large ratios.
    """
    count_stages(shape, 4, folder / "4")  # imports modules and compiles patterns
    counts = [
        count_stages(shape, size, folder / str(size))
        for size in (n, 2 * n, 4 * n, 8 * n)
    ]
    growth: dict[str, float] = {}
    for stage in counts[0]:
        steps = [after[stage] - before[stage] for before, after in pairwise(counts)]
        if steps[-1] > 40 * n:  # more than ten calls per record
            growth[stage] = min(b / (a or 1) for a, b in pairwise(steps))
    return growth


@pytest.mark.parametrize("shape", SHAPES)
def test_cost_grows_with_the_size_of_a_session(shape: str, tmp_path: Path) -> None:
    growth = measure_growth(shape, N, tmp_path)

    too_much = {
        stage: ratio
        for stage, ratio in growth.items()
        if ratio > KNOWN_RATIOS.get((shape, stage), MAX_RATIO)
    }
    assert too_much == {}
    reached("shapes of sessions whose cost was counted", 1)


def test_branches_that_are_walked_from_their_start_are_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    MUTATIONS["store_whole_branches"](monkeypatch.setattr)

    assert measure_growth("comb", 200, tmp_path)["import"] > MAX_RATIO


def count_steps(line: bytes, n: int, folder: Path) -> int:
    """Return how many thousand steps SQLite takes to group ``n`` times some lines."""
    home = folder / "home"
    path = home / "projects" / "-srv-app" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(line * n)
    Archive.ingest(folder / "archive", [home])
    steps = 0

    def add_one() -> bool:
        nonlocal steps
        steps += 1
        return False

    with ArchiveDir(folder / "archive", write=True) as archive_dir:
        assert archive_dir.index is not None
        tables = DerivedTables(archive_dir.index)
        archive_dir.index.db.set_progress_handler(add_one, 1_000)
        tables.group_families([1])
        tables.leaf_titles([1])
        tables.all_leaf_titles()
        tables.has_summaries(2)
        tables.families_titled_by_others()
        tables.mark_titled_sessions_dirty()
        archive_dir.index.remove_source(1)
    return steps


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"x","uuid":"a"}\n',
        b'{"type":"assistant","uuid":"a","message":{"id":"b"}}\n',
        b'{"type":"x","uuid":"a"}\n{"type":"summary","summary":"s","leafUuid":"a"}\n',
    ],
)
def test_records_with_the_same_id_are_not_compared_in_pairs(
    line: bytes, tmp_path: Path
) -> None:
    few, many = (count_steps(line, n, tmp_path / str(n)) for n in (400, 1_600))

    assert many < 8 * few
