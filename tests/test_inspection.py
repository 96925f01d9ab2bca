"""Counting the content of transcripts."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bygones.inspection import (
    FileStats,
    TranscriptStats,
    inspect_transcripts,
    total_transcript_size,
)
from bygones.model.base import SourceFile, SourceKind
from bygones.model.nodes import LocatedRecord
from bygones.model.reports import ContentKind, DriftKind, FileClass, ProblemRow, Survey
from bygones.parse.light import parse_line_light
from bygones.sources.walk import discover_sources
from tests import build
from tests.build import Home, jsonl, line, prompt, reply, session_id, source_line
from tests.corpus import CORPUS, corpus_lines, needs_corpus


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / ".claude")


def written(path: Path, records: Iterable[object]) -> Path:
    path.write_bytes(jsonl(records))
    return path


def of_file(tmp_path: Path, *records: object) -> Survey:
    return inspect_transcripts([written(tmp_path / "a.jsonl", records)])


def classes(found: Survey) -> dict[FileClass, int]:
    return {row.kind: row.files for row in found.files}


def sizes(found: Survey) -> dict[ContentKind, int]:
    return {row.kind: row.bytes for row in found.content if row.bytes}


def drift(found: Survey) -> list[tuple[DriftKind, str, str | None, int]]:
    return [(row.kind, row.name, row.version, row.records) for row in found.drift]


@pytest.mark.req("F4")
def test_each_file_of_a_home_is_classified_by_its_content(home: Home) -> None:
    summary = build.summary("Old work", "u")
    home.session(session_id(1), [prompt("hello"), reply("hi")])
    home.session(session_id(2), [summary, prompt("hello")])
    home.session(session_id(3), [summary])
    home.session(session_id(4), [build.snapshot("u")])
    home.session(session_id(5), [summary, build.snapshot("u")])
    home.session(session_id(6), [])
    home.session(session_id(7), [b"\n", b"  "])
    home.session(session_id(8), [b"not json"])
    home.session(session_id(9), [{"type": "brand-new"}])
    home.agent(session_id(1), "a1", [prompt("count"), reply("3")])
    home.agent(session_id(1), "a2", [prompt("Warmup"), reply("ready")], flat=True)
    home.agent(session_id(1), "acompact-3", [prompt("hello"), reply("hi")])
    home.agent(session_id(1), "a4", [reply("…")])

    assert classes(inspect_transcripts([home.path])) == {
        FileClass.CONVERSATION: 1,
        FileClass.MIXED: 1,
        FileClass.SUMMARY_ONLY: 1,
        FileClass.HISTORY_ONLY: 1,
        FileClass.METADATA_ONLY: 1,
        FileClass.EMPTY: 2,
        FileClass.UNKNOWN: 2,
        FileClass.AGENT_TASK: 1,
        FileClass.AGENT_WARMUP: 1,
        FileClass.AGENT_REPLAY: 1,
        FileClass.AGENT_INCOMPLETE: 1,
    }


@pytest.mark.req("F4")
def test_warm_up_may_be_a_block(home: Home) -> None:
    home.agent(session_id(1), "a1", [prompt([build.text("Warmup")]), reply("ready")])

    assert classes(inspect_transcripts([home.path])) == {FileClass.AGENT_WARMUP: 1}


def test_records_are_counted_by_type_and_subtype(tmp_path: Path) -> None:
    found = of_file(
        tmp_path,
        prompt("a"),
        prompt("b"),
        build.system("turn_duration"),
        build.system(None),
        build.attachment("hook_success"),
        build.progress("bash_progress"),
    )

    assert [(row.record_type, row.subtype, row.records) for row in found.records] == [
        ("system", None, 1),
        ("system", "turn_duration", 1),
        ("user", None, 2),
        ("attachment", "hook_success", 1),
        ("progress", "bash_progress", 1),
    ]
    assert all(row.is_known for row in found.records)
    assert found.drift == ()


def test_versions_are_sorted_numerically(tmp_path: Path) -> None:
    versions = ["2.0.10", "1.0.128", "2.0.9", "2.0.9", "2.1.0-beta"]

    found = of_file(tmp_path, *(prompt("a", version=version) for version in versions))

    assert [(row.version, row.records) for row in found.versions] == [
        ("1.0.128", 1),
        ("2.0.9", 2),
        ("2.0.10", 1),
        ("2.1.0-beta", 1),
    ]


def test_sessions_agents_and_time_span_are_counted(home: Home) -> None:
    home.session(session_id(1), build.thread(prompt("a"), reply("b")))
    home.session(session_id(2), build.thread(prompt("c"), start=60))
    home.agent(session_id(1), "a1", [prompt("d")])

    total = inspect_transcripts([home.path]).total

    assert (total.files, total.sessions, total.agents) == (3, 2, 1)
    assert total.first_at is not None
    assert total.last_at is not None
    assert (total.last_at - total.first_at).total_seconds() == 60


def test_unknown_names_are_listed_with_their_version(tmp_path: Path) -> None:
    found = of_file(
        tmp_path,
        {"type": "brand-new"},
        build.system("moon_phase"),
        build.attachment("parcel"),
        build.progress("dig_progress"),
        reply([{"type": "hologram"}]),
        build.tool_result("toolu_1", [{"type": "smell"}]),
        prompt("a", version="3.0.0", mood="good"),
    )

    assert drift(found) == [
        (DriftKind.RECORD, "brand-new", None, 1),
        (DriftKind.SUBTYPE, "moon_phase", build.VERSION, 1),
        (DriftKind.ATTACHMENT, "parcel", build.VERSION, 1),
        (DriftKind.PROGRESS, "dig_progress", build.VERSION, 1),
        (DriftKind.BLOCK, "hologram", build.VERSION, 1),
        (DriftKind.BLOCK, "smell", build.VERSION, 1),
        (DriftKind.FIELD, "user.mood", "3.0.0", 1),
        (DriftKind.VERSION, "3.0.0", "3.0.0", 1),
    ]


def test_unknown_fields_of_results_attachments_and_compactions_are_drift(
    tmp_path: Path,
) -> None:
    result = build.tool_result("toolu_1", "x", toolUseResult={"stdout": "", "hue": 1})
    boundary = build.system("compact_boundary") | {"compactMetadata": {"tide": 1}}

    found = of_file(
        tmp_path,
        result,
        build.tool_result("toolu_2", "x", toolUseResult={"of": "another tool"}),
        build.attachment("file", filename="a", aura=1),
        build.attachment("prompt_snapshot", systemPrompt="x"),
        boundary,
    )

    assert [name for _, name, _, _ in drift(found)] == [
        "attachment.attachment.ContextFile.aura",
        "system.compactMetadata.tide",
        "user.toolUseResult.hue",
    ]


def test_unknown_fields_of_an_agent_sidecar_are_drift(home: Home) -> None:
    agent = home.agent(session_id(0), "a1", [prompt("go")])
    agent.with_name("agent-a1.meta.json").write_text('{"agentType":"x","zeal":1}')

    found = inspect_transcripts([home.path])

    assert drift(found) == [(DriftKind.FIELD, "meta.json.zeal", None, 1)]


def test_invalid_attachment_is_counted_without_a_type(tmp_path: Path) -> None:
    broken = build.attachment("file") | {"attachment": "torn"}

    found = of_file(tmp_path, broken)

    assert drift(found) == [(DriftKind.ATTACHMENT, "", build.VERSION, 1)]


def test_bytes_are_counted_by_content_kind(tmp_path: Path) -> None:
    found = of_file(
        tmp_path,
        prompt("grüße"),
        reply([build.thinking("hm"), build.tool_use("Bash", command="ls")]),
        build.tool_result("toolu_1", "file", outcome={"stdout": "file"}),
        prompt([build.image("AAAA")]),
    )

    kinds = sizes(found)

    assert kinds[ContentKind.TEXT] == len("grüße".encode())
    assert kinds[ContentKind.THINKING] == len("hm")
    assert kinds[ContentKind.INPUT] == len('{"command":"ls"}')
    assert kinds[ContentKind.RESULT] == len('"file"')
    assert kinds[ContentKind.OUTCOME] == len('{"stdout":"file"}')
    assert kinds[ContentKind.IMAGE] == len(line(build.image("AAAA")["source"]))
    assert sum(kinds.values()) == found.total.bytes


def test_image_in_a_result_is_counted_as_image(tmp_path: Path) -> None:
    blocks = [build.text("see"), build.image("A" * 1000)]

    kinds = sizes(of_file(tmp_path, build.tool_result("toolu_1", blocks)))

    assert kinds[ContentKind.IMAGE] > 1000 > kinds[ContentKind.RESULT]


def test_metadata_records_are_counted_in_full(tmp_path: Path) -> None:
    snapshot, title, strange = build.snapshot("u"), build.title("T"), {"type": "new"}

    kinds = sizes(of_file(tmp_path, snapshot, title, strange))

    assert kinds == {
        ContentKind.SNAPSHOT: len(line(snapshot)),
        ContentKind.METADATA: len(line(title)),
        ContentKind.UNKNOWN: len(line(strange)),
        ContentKind.ENVELOPE: 3,
    }


def test_attachments_and_progress_have_their_own_kinds(tmp_path: Path) -> None:
    actual = build.progress("bash_progress", output="…")

    kinds = sizes(of_file(tmp_path, build.attachment("file", content="x"), actual))

    assert kinds[ContentKind.ATTACHMENT] == len('{"type":"file","content":"x"}')
    assert kinds[ContentKind.PROGRESS] == len(line(actual["data"]))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xef\xbb\xbf" + line(prompt("a")) + b"\n",
        b"\0\0\0" + line(prompt("a")) + b"\n",
        line(prompt("a")) + line(reply("b")) + b"\n" + line(prompt("c")),
        line(prompt("a"))[:40] + line(reply("b")) + b"\n",
        line(prompt("a")).replace(b'"a"', b'"\xff\\ud800"') + b"\r\n",
        b"[]\n7\nnull\n{}\n\n \n\0\n",
        line(prompt("a"))[:-9],
        b'{"type":"user","\xff":1}\n',
    ],
)
def test_bytes_add_up_in_damaged_files(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(raw)

    found = inspect_transcripts([path])

    assert found.total.bytes == len(raw) == sum(sizes(found).values())
    assert all(row.bytes >= 0 for row in found.content)


@given(st.lists(st.binary(max_size=40) | st.sampled_from([line(prompt("a")), b"{"])))
def test_every_byte_and_line_is_counted(raws: list[bytes]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.jsonl"
        path.write_bytes(b"\n".join(raws))
        found = inspect_transcripts([path])

    assert found.total.bytes == len(b"\n".join(raws)) == sum(sizes(found).values())
    assert found.total.unread_lines <= found.total.problems
    assert found.total.lines - found.total.unread_lines <= found.total.records


def test_problem_has_its_line_number(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", [prompt("a"), b"{torn", b"", prompt("b")])

    (torn, blank) = inspect_transcripts([path]).problems

    assert (blank.kind, torn.kind) == ("not-json", "blank")
    assert [(row.source, row.line) for row in (*torn.examples, *blank.examples)] == [
        (path.as_posix(), 3),
        (path.as_posix(), 2),
    ]


def test_first_problems_of_a_kind_are_kept_and_all_reported(
    tmp_path: Path,
) -> None:
    actual: list[ProblemRow] = []
    path = written(tmp_path / "a.jsonl", [b"{", b"x"] * 25)

    (row,) = inspect_transcripts([path], on_problem=actual.append).problems

    assert row.problems == len(actual) == 50
    assert [problem.line for problem in actual] == list(range(1, 51))
    assert row.examples == tuple(actual[:3])


def test_the_same_problem_on_adjacent_lines_is_one_row(tmp_path: Path) -> None:
    actual: list[ProblemRow] = []
    path = written(tmp_path / "a.jsonl", [b"{"] * 50 + [b"", b"", b"{"])

    rows = inspect_transcripts([path], on_problem=actual.append).problems

    assert [(row.kind, row.problems) for row in rows] == [
        ("blank", 2),
        ("not-json", 51),
    ]
    assert [(row.kind, row.line, row.count) for row in actual] == [
        ("not-json", 1, 50),
        ("blank", 51, 2),
        ("not-json", 53, 1),
    ]
    assert (actual[0].offset, actual[0].length) == (0, 99)


def test_problem_with_a_whole_file_has_no_line(home: Home) -> None:
    (home.path / "projects" / "p" / "x.jsonl").mkdir(parents=True)

    (row,) = inspect_transcripts([home.path]).problems

    assert (row.kind, row.examples[0].line) == ("not-a-file", None)


def test_other_files_are_counted_but_not_read(home: Home) -> None:
    home.session(session_id(1), [prompt("a")])
    home.agent(session_id(1), "a1", [prompt("b")], meta={"agentType": "x"})
    home.tool_result(session_id(1), "b1.txt", "much")

    found = inspect_transcripts([home.path])

    assert [(row.kind, row.files) for row in found.unread_files] == [
        (SourceKind.SIDECAR, 1),
        (SourceKind.TOOL_RESULT, 1),
    ]
    assert found.total.files == 2


def test_path_inside_another_is_counted_once(home: Home) -> None:
    path = home.session(session_id(1), [prompt("a")])
    link = home.path.parent / "link"
    link.symlink_to(home.path)

    assert inspect_transcripts([path, home.path, link, path.parent]).total.files == 1
    assert total_transcript_size([path, home.path, link]) == path.stat().st_size


def test_progress_is_reported(tmp_path: Path) -> None:
    passed: list[int] = []
    path = written(tmp_path / "a.jsonl", [prompt("x" * 1000)] * 10_000)

    inspect_transcripts([path], on_bytes_read=passed.append)

    assert len(passed) > 2
    assert sum(passed) == path.stat().st_size == total_transcript_size([path])


def test_unbounded_names_use_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bygones.inspection._MAX_NAMES", 10)
    records = [{"type": f"{'x' * 900}{number}"} for number in range(5)]
    records += [{"type": f"type-{number}"} for number in range(20)]

    found = of_file(tmp_path, *records)

    assert len(found.records) == 10
    assert max(len(row.record_type) for row in found.records) == 100
    assert found.total.records == 25
    assert found.total.overflow == 11


def test_long_ids_and_versions_use_little_memory(tmp_path: Path) -> None:
    long = {"version": "9" * 900, "sessionId": "s" * 900, "agentId": "a" * 900}
    item = line(prompt("a") | long | {"mood": "good"})
    (source,) = discover_sources(written(tmp_path / "a.jsonl", [item]))
    assert isinstance(source, SourceFile)
    counts, file = TranscriptStats(None), FileStats(source)

    counts.add_line(source_line(item), 1, file)
    counts.finish_file(file)

    names = {*counts.sessions.totals, *counts.agents.totals}
    names |= {
        version or "" for *_, version in (*counts.kinds.totals, *counts.drift.totals)
    }
    assert {len(name) for name in names} == {100}


@needs_corpus
def test_every_corpus_line_is_a_record_or_a_problem_and_bytes_add_up() -> None:
    size = number = records = odd_lines = 0
    problems: Counter[str] = Counter()
    for read in corpus_lines():
        number += 1
        size += len(read.raw) + read.has_newline
        found = parse_line_light(read)
        here = [part.kind for part in found if not isinstance(part, LocatedRecord)]
        records += len(found) - len(here)
        odd_lines += len(found) == len(here)
        problems.update(here)
        assert found
    on_disk = sum(path.stat().st_size for path in CORPUS.rglob("*.jsonl"))

    surveyed = inspect_transcripts([CORPUS])

    assert surveyed.total.bytes == on_disk == sum(sizes(surveyed).values())
    assert surveyed.total.records == records
    assert surveyed.total.lines == number
    assert surveyed.total.unread_lines == odd_lines
    assert {row.kind: row.problems for row in surveyed.problems} == problems


@pytest.mark.req("E3")
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is asked of Linux")
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    chunk = jsonl([prompt("x" * 10_000), reply("y" * 10_000)] * 50)
    with path.open("wb") as file:
        file.writelines(chunk for _ in range(200))

    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(path)],
        capture_output=True,
        text=True,
        check=True,
    )

    assert path.stat().st_size > 200_000_000
    assert int(done.stdout) < 100_000_000


PEAK = """
import re, sys
from pathlib import Path
from bygones.inspection import inspect_transcripts
inspect_transcripts([Path(sys.argv[1])])
status = Path("/proc/self/status").read_text()
print(int(re.search(r"VmHWM:\\s+(\\d+)", status)[1]) * 1024)
"""


@pytest.mark.req("E3")
def test_line_of_many_megabytes_is_one_record(tmp_path: Path) -> None:
    found = of_file(tmp_path, prompt("x" * 40_000_000), reply("b"))

    assert (found.total.lines, found.total.records, found.problems) == (2, 2, ())
    assert sizes(found)[ContentKind.TEXT] == 40_000_001
