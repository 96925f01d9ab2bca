"""SQL over an archive: the same numbers and texts, and nothing but reading."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path

import apsw
import pytest

from bygones.archive import Archive
from bygones.cli.main import main
from bygones.data.sql import SqlLimits
from bygones.data.views import VIEW_NAMES, VIEWS
from bygones.errors import SqlError, SqlForbidden, SqlLimitExceeded
from bygones.model.nodes import parse_user_text
from bygones.model.reports import NANOS_PER_DOLLAR, UsageRow
from bygones.render.walk import SHOW_ALL
from bygones.schema.sessions import MessageObject, session_objects
from tests.build import (
    Home,
    prompt,
    reply,
    session_id,
    thread,
    tool_result,
    tool_use,
)
from tests.cases.archives import CaseArchives
from tests.cases.make import stories
from tests.corpus import CORPUS, needs_corpus

SECRET = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
LOGIN = "margarethe"
CENT = 0.01
some_cases = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if at % 4 == 0 else pytest.mark.full)
        for at, name in enumerate(sorted(stories()))
    ],
)
"""Every fourth case, or with `--full` all."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sql")
    home = Home(folder / ".claude")
    command = f"git -C /home/{LOGIN}/shop commit -m 'token {SECRET}'"
    cwd = f"/home/{LOGIN}/shop"
    home.session(
        session_id(1),
        thread(
            prompt(f"use {SECRET} in {cwd}", cwd=cwd),
            reply([tool_use("Bash", command=command)], cwd=cwd),
            tool_result(
                "toolu_1", "[main 1234567] add checkout", outcome=_outcome(), cwd=cwd
            ),
            reply(f"done, {LOGIN}", cwd=cwd),
        ),
    )
    Archive.ingest(folder / "archive", [home.path])
    return folder / "archive"


def _outcome() -> dict[str, object]:
    return {
        "stdout": "[main 1234567] add checkout\n",
        "stderr": "",
        "interrupted": False,
    }


@pytest.fixture(scope="module")
def archive(folder: Path) -> Iterator[Archive]:
    with Archive.open(folder) as opened:
        yield opened


def assert_sums_equal_usage(archive: Archive) -> None:
    """Compare sums of the views with the report, in total and by day, model, session."""
    report = archive.usage("day", timezone=UTC)
    cost, tokens, answers = archive.sql(
        "SELECT total(cost_usd), ifnull(sum(total_tokens), 0), count(*) FROM usage",
        redact=False,
    ).rows[0]
    assert cost == pytest.approx((report.total.cost or 0) / NANOS_PER_DOLLAR, abs=CENT)
    assert (tokens, answers) == (report.total.tokens, report.total.replies)
    for by, key in (
        ("day", "ifnull(date(sent_at), '')"),
        ("model", "ifnull(model, '')"),
        ("session", "session_id"),
    ):
        summed = archive.sql(
            f"SELECT {key}, sum(total_tokens), total(cost_usd) FROM usage GROUP BY 1",
            redact=False,
        )
        rows = archive.usage(by, timezone=UTC).rows
        expected = {
            row.key: (row.tokens, (row.cost or 0) / NANOS_PER_DOLLAR)
            for row in rows
            if isinstance(row, UsageRow)
        }
        found = {row[0]: row[1:] for row in summed}
        if by != "day":  # the report has its own name for answers without a time
            assert found.keys() == expected.keys()
        for name, (total, dollars) in expected.items():
            if name in found:
                assert found[name][0] == total
                assert found[name][1] == pytest.approx(dollars, abs=CENT)
    by_session = archive.sql(
        "SELECT sum(total_tokens), total(cost_usd) FROM sessions", redact=False
    ).rows[0]
    assert by_session[0] in {tokens, None}
    assert by_session[1] == pytest.approx(cost, abs=CENT)


@pytest.mark.req("DA2")
@some_cases
def test_views_have_the_sums_and_texts_of_the_sessions(
    name: str, case_archives: CaseArchives
) -> None:
    with Archive.open(case_archives.archive(name)) as archive:
        assert_sums_equal_usage(archive)
        found = {
            (row[0], row[1], row[2]): row[3:]
            for row in archive.sql(
                "SELECT session_id, agent_id, message_id, branch, turn, role, text"
                " FROM messages",
                redact=False,
            )
        }
        shown = {}
        for summary in archive.sessions(include_empty=True):
            session = archive.session(summary.id)
            # A run that another session started and this one continued is there.
            runs = {None, *(run.id for run in session.all_agents)}
            for one in session_objects(session, SHOW_ALL, parse_user_text):
                if isinstance(one, MessageObject) and one.agent_id in runs:
                    key = (summary.id, one.agent_id, one.message_id)
                    shown[key] = (one.branch, one.turn, str(one.role), one.text)
        assert {key: found.get(key) for key in shown} == shown


@pytest.mark.full
@needs_corpus
@pytest.mark.req("DA2")
def test_sums_equal_usage_on_real_transcripts(tmp_path: Path) -> None:
    Archive.ingest(tmp_path / "archive", [CORPUS])

    with Archive.open(tmp_path / "archive") as archive:
        assert_sums_equal_usage(archive)


def test_tool_calls_have_input_and_output(archive: Archive) -> None:
    rows = archive.sql(
        "SELECT name, json_extract(input, '$.command') AS command, output, is_failed"
        " FROM tool_calls",
        redact=False,
    ).to_dicts()

    assert rows == [
        {
            "name": "Bash",
            "command": f"git -C /home/{LOGIN}/shop commit -m 'token {SECRET}'",
            "output": "[main 1234567] add checkout",
            "is_failed": 0,
        }
    ]


def test_lone_surrogates_are_replaced(tmp_path: Path) -> None:
    home = Home(tmp_path / ".claude")
    records = thread(prompt("before"), reply("a lone \udcff surrogate"))
    lines = [json.dumps(record).encode() for record in records]
    home.session(session_id(1), lines)
    Archive.ingest(tmp_path / "archive", [home.path])

    with Archive.open(tmp_path / "archive") as opened:
        rows = opened.sql("SELECT text FROM messages WHERE role = 'assistant'").rows
    assert rows == (("a lone \ufffd surrogate",),)


def test_commits_are_found(archive: Archive) -> None:
    rows = archive.sql("SELECT sha, summary, turn FROM commits").rows

    assert rows == (("1234567", "add checkout", 1),)


@pytest.mark.req("DA2")
def test_every_column_of_every_view_is_redacted_by_default(archive: Archive) -> None:
    for view in VIEW_NAMES:
        shown = repr(archive.sql(f"SELECT * FROM {view}").rows)
        assert SECRET not in shown, view
        assert LOGIN not in shown, view
    plain = repr(archive.sql("SELECT * FROM messages", redact=False).rows)
    assert SECRET in plain
    assert LOGIN in plain


def test_a_filter_does_not_see_what_redaction_hides(archive: Archive) -> None:
    where = f"SELECT count(*) FROM messages WHERE text LIKE '%{SECRET}%'"

    assert archive.sql(where).rows == ((0,),)
    assert archive.sql(where, redact=False).rows == ((1,),)


FORBIDDEN = (
    "ATTACH '{file}' AS other",
    "ATTACH 'file:{file}?mode=rwc' AS other",
    "DETACH main",
    "VACUUM INTO '{file}'",
    "VACUUM",
    "PRAGMA table_info(session)",
    "PRAGMA temp_store_directory = '{file}'",
    "PRAGMA writable_schema = 1",
    "BEGIN IMMEDIATE",
    "SAVEPOINT x",
    "ANALYZE",
    "REINDEX",
    "INSERT INTO main.session VALUES (1)",
    "DELETE FROM main.session",
    "UPDATE main.session SET title = ''",
    "DROP TABLE main.session",
    "DROP VIEW sessions",
    "CREATE TABLE x (y)",
    "CREATE TEMP TABLE x (y)",
    "CREATE TEMP VIEW x AS SELECT * FROM main.session",
    "CREATE TEMP TRIGGER x INSTEAD OF INSERT ON sessions BEGIN SELECT 1; END",
    "CREATE VIRTUAL TABLE temp.x USING dbstat(main)",
    "CREATE VIRTUAL TABLE temp.x USING fts5(y)",
    "ALTER TABLE main.session RENAME TO x",
    "EXPLAIN SELECT 1",
    "EXPLAIN QUERY PLAN SELECT * FROM sessions",
    "SELECT 1; SELECT 2",
    "SELECT 1; DELETE FROM main.session",
    "SELECT load_extension('{file}')",
    "SELECT fts3_tokenizer('simple')",
    "SELECT sqlite_log(1, 'x')",
    "SELECT redacted('x')",
    "SELECT message_text(1, '', 0, 0, x'', 'user', NULL, NULL, x'')",
    "SELECT call_output(1, '', 0, 0, 0, 0, 0, 0, 0, 0)",
    "SELECT * FROM main.session",
    "SELECT summary FROM session",
    "SELECT text_head FROM prompt",
    "SELECT (SELECT text_head FROM prompt)",
    "SELECT * FROM (SELECT path FROM edit) AS file_changes",
    "WITH sessions AS (SELECT * FROM session) SELECT * FROM sessions",
    "WITH file_changes AS (SELECT path FROM edit) SELECT * FROM file_changes",
    "WITH x AS (SELECT redacted(path) FROM edit) SELECT * FROM x",
    "SELECT 1 FROM sessions WHERE EXISTS (SELECT path FROM edit)",
    "SELECT 1 ORDER BY (SELECT path FROM edit)",
    "SELECT * FROM sqlite_schema",
    "SELECT * FROM sqlite_temp_schema",
    "SELECT * FROM temp.sqlite_schema",
    "SELECT * FROM pragma_database_list",
    "SELECT * FROM pragma_function_list",
    "SELECT * FROM dbstat",
    "SELECT * FROM bytecode('SELECT 1')",
)


@pytest.mark.req("DA2")
def test_a_query_can_only_read_views(archive: Archive, tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    allowed = []
    for query in FORBIDDEN:
        try:
            archive.sql(query.format(file=file))
            allowed.append(query)
        except SqlError:
            pass
    assert not allowed
    assert not file.exists()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT readfile('/etc/passwd')",
        "SELECT writefile('x', 'y')",
        "SELECT edit('x')",
        "SELECT * FROM fsdir('.')",
        "SELECT * FROM csv",
        "SELECT",
        "",
        "  -- nothing",
        "SELECT 1\0",
        "SELECT no_such FROM sessions",
        "SELECT text FROM messages WHERE text REGEXP '('",
        "SELECT '\ud800'",
    ],
)
def test_an_invalid_query_is_our_error(archive: Archive, query: str) -> None:
    with pytest.raises(SqlError):
        archive.sql(query)


def test_a_query_that_is_too_long_is_named_in_the_error(archive: Archive) -> None:
    with pytest.raises(SqlError, match="longer than 100,000 characters"):
        archive.sql(f"SELECT '{'a' * 100_000}'")
    long_text = "ö" * 99_000
    assert archive.sql(f"SELECT '{long_text}'").rows == ((long_text,),)


ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) "


@pytest.mark.parametrize(
    "query",
    [
        f"{ENDLESS} SELECT count(*) FROM c",
        f"{ENDLESS} SELECT max(x) FROM c",
        f"{ENDLESS} SELECT 1 FROM c, c AS d WHERE c.x < 0",
        f"{ENDLESS} SELECT x FROM c ORDER BY -x",
    ],
)
def test_an_endless_query_is_stopped(archive: Archive, query: str) -> None:
    limits = SqlLimits(seconds=0.2, memory_bytes=1 << 28)

    with pytest.raises(SqlLimitExceeded):
        archive.sql(query, limits=limits)


@pytest.mark.parametrize(
    "query",
    [
        f"{ENDLESS} SELECT group_concat(hex(zeroblob(100000))) FROM c LIMIT 1",
        f"{ENDLESS} SELECT hex(zeroblob(100000)) || x AS y FROM c ORDER BY y",
        f"{ENDLESS} SELECT DISTINCT hex(zeroblob(100000)) || x FROM c",
        f"{ENDLESS} SELECT hex(zeroblob(1000000)) FROM c",
        "SELECT zeroblob(1000000000)",
        "SELECT printf('%.*c', 1000000000, 'x')",
        "SELECT replace(hex(zeroblob(10000)), '0', hex(zeroblob(100000)))",
    ],
)
def test_a_query_that_needs_much_memory_is_stopped(
    archive: Archive, query: str
) -> None:
    limits = SqlLimits(seconds=1, memory_bytes=1 << 24)

    with pytest.raises(SqlLimitExceeded):
        archive.sql(query, limits=limits)
    assert archive.sql("SELECT 1").rows == ((1,),)  # the limit is gone


def test_patterns_that_backtrack_take_linear_time(archive: Archive) -> None:
    text = "hex(zeroblob(100000))"
    pattern = "0%" * 30 + "x"
    limits = SqlLimits(seconds=5)

    for operator, value in (
        ("LIKE", pattern),
        ("GLOB", pattern.replace("%", "*")),
        ("REGEXP", "(0+)+x$"),
    ):
        query = f"SELECT {text} {operator} '{value}'"
        assert archive.sql(query, limits=limits).rows == ((0,),)


LONG = "printf('%.*c', 8000000, 'a')"
LONG_PART = "printf('%.*c', 4000000, 'a')"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (f"instr({LONG}, {LONG_PART} || 'b')", 0),
        (f"length(replace({LONG}, {LONG_PART} || 'b', 'x'))", 8_000_000),
        (f"length(trim({LONG}, 'b' || replace({LONG_PART}, 'a', 'c') || 'a'))", 0),
    ],
)
def test_functions_that_compare_long_texts_take_linear_time(
    archive: Archive, expression: str, expected: int
) -> None:
    # SQLite's own would need 10^13 steps, and could not be stopped.
    assert archive.sql(f"SELECT {expression}").rows == ((expected,),)


@pytest.mark.parametrize("function", ["json_patch", "jsonb_patch"])
def test_functions_of_quadratic_cost_are_forbidden(
    archive: Archive, function: str
) -> None:
    with pytest.raises(SqlForbidden, match=function):
        archive.sql(f"SELECT {function}('{{}}', '{{}}')")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("instr('abc', 'c')", 3),
        ("instr('abc', 'x')", 0),
        ("instr('äbc', 'c')", 3),
        ("instr(x'c3a462', x'62')", 3),
        ("instr(NULL, 'x')", None),
        ("instr(123, 2)", 2),
        ("replace('abcabc', 'b', 'xy')", "axycaxyc"),
        ("replace('abc', '', 'x')", "abc"),
        ("replace('abc', NULL, 'x')", None),
        ("trim('xyaxy', 'yx')", "a"),
        ("ltrim('xyaxy', 'yx')", "axy"),
        ("rtrim('xyaxy', 'yx')", "xya"),
        ("trim('xx', 'x')", ""),
        ("trim('a', NULL)", None),
        ("trim('  a ')", "a"),
    ],
)
def test_text_functions_work_as_in_sqlite(
    archive: Archive, expression: str, expected: str | int | None
) -> None:
    plain = apsw.Connection(":memory:").execute(f"SELECT {expression}").fetchone()

    assert archive.sql(f"SELECT {expression}").rows == ((expected,),) == (plain,)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("'Checkout' LIKE 'check%'", 1),
        ("'a%b' LIKE 'a!%b' ESCAPE '!'", 1),
        ("'axb' LIKE 'a!%b' ESCAPE '!'", 0),
        ("'a\nb' LIKE 'a_b'", 1),
        ("'a.b' LIKE 'a.b'", 1),
        ("'axb' LIKE 'a.b'", 0),
        ("NULL LIKE 'a'", None),
        ("12 LIKE '1%'", 1),
        ("'src/a.py' GLOB '*/[ab].py'", 1),
        ("'src/c.py' GLOB '*/[^ab].py'", 1),
        ("'src/A.py' GLOB '*/[ab].py'", 0),
        ("'x-1' REGEXP '\\d'", 1),
    ],
)
def test_patterns_match_as_in_sqlite(
    archive: Archive, expression: str, expected: int | None
) -> None:
    assert archive.sql(f"SELECT {expression}").rows == ((expected,),)


def test_values_replace_parameters(archive: Archive) -> None:
    assert archive.sql("SELECT ? + ?", (1, 2)).rows == ((3,),)
    assert archive.sql("SELECT :a", {"a": "x"}).rows == (("x",),)
    for query, values in (
        ("SELECT :a", {"b": 1}),
        ("SELECT ?", ()),
        ("SELECT 1", (1,)),
    ):
        with pytest.raises(SqlError):
            archive.sql(query, values)


def test_repeated_columns_get_numbers(archive: Archive) -> None:
    assert archive.sql("SELECT 1 AS a, 2 AS a").to_dicts() == [{"a": 1, "a_2": 2}]


def test_columns_have_names_without_rows(archive: Archive) -> None:
    found = archive.sql("SELECT session_id, title FROM sessions WHERE 0")

    assert (found.columns, len(found)) == (("session_id", "title"), 0)


def test_columns_of_views_are_the_documented_ones(archive: Archive) -> None:
    for view in VIEWS:
        found = archive.sql(f"SELECT * FROM {view.name} LIMIT 0").columns
        assert found == tuple(column.name for column in view.columns)


def test_forbidden_queries_say_what_is_forbidden(archive: Archive) -> None:
    with pytest.raises(SqlForbidden, match="ATTACH is not allowed"):
        archive.sql("ATTACH 'x' AS y")
    with pytest.raises(SqlForbidden, match=r"the function load_extension\(\)"):
        archive.sql("SELECT load_extension('x')")
    for query in ("DROP TABLE session", "CREATE TEMP VIEW x AS SELECT 1"):
        with pytest.raises(SqlForbidden, match="changing tables or views"):
            archive.sql(query)
    for query in ("UPDATE sessions SET title = 'x'", "DELETE FROM sessions"):
        with pytest.raises(SqlForbidden, match="writing is not allowed"):
            archive.sql(query)
    with pytest.raises(SqlForbidden, match="reading prompt"):
        archive.sql("SELECT record FROM prompt")


def run(folder: Path, *arguments: str) -> int:
    return main(["sql", "--archive", str(folder), "--no-ingest", *arguments])


def test_command_prints_a_table_json_and_csv(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query = "SELECT 1.5 AS n, '=1+1' || char(27) AS t, NULL AS none, x'00ff' AS raw"

    assert run(folder, query) == 0
    table = capsys.readouterr().out
    assert run(folder, "--json", query) == 0
    row = json.loads(capsys.readouterr().out)
    assert run(folder, "--csv", query) == 0
    csv = capsys.readouterr().out

    assert "\x1b" not in table
    assert table.splitlines()[0].split() == ["n", "t", "none", "raw"]
    assert row == {"n": 1.5, "t": "=1+1\x1b", "none": None, "raw": "00ff"}
    assert csv.startswith("n,t,none,raw\n1.5,'=1+1\\x1b,")


def test_command_redacts_unless_told_otherwise(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(folder, "SELECT text FROM prompts") == 0
    assert SECRET not in capsys.readouterr().out
    assert run(folder, "--no-redact", "SELECT text FROM prompts") == 0
    assert SECRET in capsys.readouterr().out


def test_command_explains_errors(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(folder, "SELECT absent FROM sessions") == 2
    assert capsys.readouterr().err.startswith("error: SQL: no such column: absent")
    assert run(folder, "--timeout", "0.2", f"{ENDLESS} SELECT sum(x) FROM c") == 1
    assert "0.2 seconds" in capsys.readouterr().err


def test_command_lists_views_and_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", "--schema"]) == 0
    listed = capsys.readouterr().out
    assert main(["sql", "--schema", "usage"]) == 0
    columns = capsys.readouterr().out

    assert all(name in listed for name in VIEW_NAMES)
    assert "cost_usd" in columns


@pytest.mark.parametrize("suffix", ["md", "html", "json", "txt"])
def test_a_long_prompt_is_whole_after_redaction(suffix: str, tmp_path: Path) -> None:
    # Redaction makes the start that the index keeps shorter than the limit.
    text = f"see /home/{LOGIN}/shop/a.py, " + "word " * 100 + "the last word"
    home = Home(tmp_path / ".claude")
    home.session(session_id(1), thread(prompt(text), reply("ok")))
    Archive.ingest(tmp_path / "archive", [home.path])
    with Archive.open(tmp_path / "archive") as archive:
        for view in ("messages", "prompts"):
            found = archive.sql(f"SELECT text FROM {view} ORDER BY sent_at").rows[0][0]
            assert found == text.replace(f"/home/{LOGIN}", "~")
    target = tmp_path / f"out.{suffix}"
    archive_option = ["--archive", str(tmp_path / "archive")]
    main([*archive_option, "export", session_id(1), "--to", str(target)])
    assert "the last word" in target.read_text("utf-8")
    assert LOGIN not in target.read_text("utf-8")
