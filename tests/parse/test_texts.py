"""Which texts of a record are indexed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from bygones.model.nodes import IndexField, TextSpan
from bygones.parse import texts
from bygones.parse.decode import content_text
from tests.build import (
    Written,
    attachment,
    image,
    line,
    progress,
    prompt,
    queue,
    reply,
    snapshot,
    summary,
    system,
    text,
    thinking,
    title,
    tool_result,
    tool_use,
)
from tests.parse.helpers import passages


def indexed(record: object) -> list[tuple[str, str]]:
    return [(part.field.value, part.text) for part in passages(record)]


def test_text_and_thinking_are_indexed_in_full() -> None:
    long = "word " * 20_000

    assert indexed(prompt(long)) == [("text", long)]
    assert indexed(reply([thinking(long), text(long)])) == [
        ("thinking", long),
        ("text", long),
    ]


def test_call_has_name_paths_command_and_other_input() -> None:
    call = tool_use(
        "Bash", command="ls " * 200, description="List all", timeout=5, tags=["a", {}]
    )
    grep = tool_use("Grep", path="/src", pattern="x+", glob=["*.py", {"n": "*.md"}])

    assert indexed(reply([call])) == [
        ("tool", "Bash"),
        ("command", "ls " * 200),
        ("input", "List all a"),
    ]
    assert indexed(reply([grep])) == [
        ("tool", "Grep"),
        ("path", "/src"),
        ("input", "x+ *.py *.md"),
    ]


def test_paths_are_indexed_in_full_and_other_input_up_to_the_limit() -> None:
    path = "/deep" * 100
    call = tool_use("Write", file_path=path, content="x" * 10_000)

    found = passages(reply([call]))

    assert found[1:] == [
        TextSpan(IndexField.PATH, path),
        TextSpan(IndexField.INPUT, "x" * 200, is_truncated=True),
    ]


def test_files_that_a_command_changed_are_indexed() -> None:
    diff = {"files": [{"filePath": "/a"}], "changedFiles": ["/a", "/b"]}
    outcome = {"stdout": "", "bashEditDiff": diff}

    assert indexed(tool_result("t", "done", outcome=outcome)) == [
        ("result", "done"),
        ("tool", "Bash"),
        ("path", "/a"),
        ("path", "/b"),
    ]
    assert indexed(tool_result("t", "done", outcome={"bashEditDiff": 7})) == [
        ("result", "done")
    ]


@pytest.mark.parametrize("given", [b'"ls"', b"null", b"7", b'{"command":7}', b"[]"])
def test_malformed_input_is_indexed(given: bytes) -> None:
    raw = line(reply([tool_use("Bash") | {"input": "?"}])).replace(b'"?"', given)

    words = [("input", "ls")] if given == b'"ls"' else []
    assert indexed(raw) == [("tool", "Bash"), *words]


def test_result_is_indexed_up_to_the_limit_with_its_error() -> None:
    short, long = (
        tool_result("t", "x" * 500),
        tool_result("t", "x" * 501),
    )

    assert passages(short) == [TextSpan(IndexField.RESULT, "x" * 500)]
    assert passages(long) == [TextSpan(IndexField.RESULT, "x" * 500, is_truncated=True)]


@pytest.mark.req("X2")
@pytest.mark.parametrize("as_blocks", [False, True])
@pytest.mark.parametrize("length", [2_000, 50_000])
def test_end_of_a_failed_result_is_indexed(length: int, as_blocks: bool) -> None:
    output = "a" + "x" * length + "error: it failed"
    content = [text(output)] if as_blocks else output
    short = passages(tool_result("t", "x" * 1500, is_error=True))
    (found,) = passages(tool_result("t", content, is_error=True))

    assert short == [TextSpan(IndexField.RESULT, "x" * 1500, is_error=True)]
    assert found.text == f"{output[:500]} … {output[-1000:]}"
    assert found.is_truncated
    assert found.is_error


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ([text("one"), image(), text("two")], "one\ntwo"),
        (["bare", None, 7, {"type": "text", "text": 5}, text("two")], "bare\ntwo"),
        (text("alone"), "alone"),
    ],
)
def test_texts_of_result_blocks_are_indexed(content: object, expected: str) -> None:
    record = prompt([{"type": "tool_result", "tool_use_id": "t", "content": content}])

    assert indexed(record) == [("result", expected)]


@pytest.mark.parametrize("content", [None, "", [], {}, 7, [image()]])
def test_result_without_text_has_none(content: object) -> None:
    record = prompt([{"type": "tool_result", "tool_use_id": "t", "content": content}])

    assert passages(record) == []


def test_truncated_content_has_no_text() -> None:
    assert content_text(Raw(b'[{"text":"x"}')) == ""


@given(
    st.lists(
        st.sampled_from(["x", "ü", "😀", "\\", '"', "\n", "\0", "\\u"]), min_size=2
    ),
    st.booleans(),
    st.integers(0, 13),
    st.booleans(),
)
def test_beginning_and_end_of_a_long_result_are_exact(
    pattern: list[str], escape: bool, shift: int, is_error: bool
) -> None:
    words = "y" * shift + "".join(pattern) * 4000 + "z" * shift
    raw = line(tool_result("t", "?", is_error=is_error))
    said = line(words) if not escape else ascii_json(words)

    (found,) = passages(raw.replace(b'"?"', said))

    expected = f"{words[:500]} … {words[-1000:]}" if is_error else words[:500]
    assert found == TextSpan(
        IndexField.RESULT, expected, is_truncated=True, is_error=is_error
    )


def ascii_json(words: str) -> bytes:
    units = words.encode("utf-16-be")
    pairs = [units[at : at + 2].hex() for at in range(0, len(units), 2)]
    return b'"' + "".join(f"\\u{pair}" for pair in pairs).encode() + b'"'


@pytest.mark.parametrize("length", [10, 20_000])
def test_result_with_invalid_utf8_is_indexed(length: int) -> None:
    raw = line(tool_result("t", "?")).replace(b"?", b"bad \xff byte " * length)

    (found,) = passages(raw)

    assert found.text == ("bad � byte " * length)[:500]


def test_input_with_invalid_utf8_is_indexed() -> None:
    raw = line(reply([tool_use("Bash", command="?")])).replace(b"?", b"ls \xff")

    assert indexed(raw) == [("tool", "Bash"), ("command", "ls �")]


def test_typed_text_is_indexed_without_its_context() -> None:
    typed = prompt("fix it\n<system-reminder>be brief</system-reminder>")

    assert indexed(typed) == [("text", "fix it")]
    assert indexed(prompt("<command-name>/review</command-name>")) == [
        ("text", "/review")
    ]
    assert indexed(prompt("<bash-stdout>a.py</bash-stdout>")) == [("text", "a.py")]


@pytest.mark.parametrize(
    "record",
    [
        prompt("body of a skill", isMeta=True),
        prompt("[Request interrupted by user]"),
        prompt("<system-reminder>x</system-reminder>"),
        prompt("Warmup"),
        prompt([image()]),
        prompt("") | {"message": None},
        reply([{"type": "thinking", "thinking": "", "signature": "s"}]),
        snapshot("z", {"a.py": None}),
        queue("enqueue", "typed while it worked"),
        progress("bash_progress", output="o"),
        system("informational", "a notice"),
        system("away_summary"),
        attachment("file", filename="a.py", content="x"),
        attachment("queued_command", prompt="x", commandMode="task-notification"),
        attachment("queued_command", prompt=[7, image()]),
        attachment("file", note='"queued_command"', content="queued_command"),
        title(""),
        summary("", "z"),
        {"type": "from-tomorrow", "text": "x"},
    ],
    ids=lambda record: str(record["type"]),
)
def test_harness_records_have_no_text(record: Written) -> None:
    assert passages(record) == []


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (title("Mending"), ("title", "Mending")),
        (title("Mine", custom=True), ("title", "Mine")),
        (summary("Mended", "z"), ("title", "Mended")),
        ({"type": "task-summary", "summary": "Did it"}, ("title", "Did it")),
        (system("away_summary", "You were away"), ("text", "You were away")),
        (attachment("queued_command", prompt="and tests"), ("text", "and tests")),
        (
            attachment("queued_command", prompt=[text("x" * 900)]),
            ("text", "x" * 900),
        ),
        (
            prompt("This session is being continued from a previous conversation"),
            ("text", "This session is being continued from a previous conversation"),
        ),
    ],
    ids=lambda value: str(value["type"]) if isinstance(value, dict) else "",
)
def test_titles_summaries_and_queued_prompts_are_indexed(
    record: Written, expected: tuple[str, str]
) -> None:
    assert indexed(record) == [expected]


def test_ids_paths_and_times_are_not_indexed() -> None:
    record = reply("hello", gitBranch="secret-branch", slug="brave-fox")

    assert indexed(record) == [("text", "hello")]


def test_text_beyond_the_limit_is_left_out_and_marked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(texts, "TEXT_LIMIT", 10)

    found = passages(reply([thinking("123456"), text("7890ABC"), text("D")]))

    assert found == [
        TextSpan(IndexField.THINKING, "123456"),
        TextSpan(IndexField.TEXT, "7890", is_truncated=True),
    ]
    assert passages(prompt("1234567890")) == [TextSpan(IndexField.TEXT, "1234567890")]


def test_text_limit_is_16_mib() -> None:
    assert texts.TEXT_LIMIT == 16 * 1024 * 1024
