"""Texts of attachments."""

from __future__ import annotations

import pytest

from bygones.model.metadata import Attachment, AttachmentRecord
from bygones.parse.full import parse_line
from bygones.parse.light import build_node
from bygones.parse.metadata import attachment_text
from tests.build import Written, attachment, lines, sketches, tool_result


def text(record: Written) -> str:
    (found,) = parse_line(lines([record])[0])
    assert isinstance(found, AttachmentRecord)
    assert isinstance(found.attachment, Attachment)
    return attachment_text(found.attachment)


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (attachment("queued_command", prompt="Hm"), "Hm"),
        (attachment("hook_blocking_error", blockingError="Hm"), "Hm"),
        (
            attachment("hook_blocking_error", blockingError={"blockingError": "Hm"}),
            "Hm",
        ),
        (
            attachment("hook_non_blocking_error", stderr="bad", stdout="out"),
            "bad\nout",
        ),
        (attachment("hook_success", content=[1]), "[1]"),
        (attachment("structured_output", content={"a": 1}), '{"a":1}'),
        (attachment("structured_output"), ""),
        (attachment("file", filename="x", content="y"), ""),
        (attachment("session_context", email="x"), ""),
    ],
)
def test_attachment_text_is_what_is_shown(record: Written, words: str) -> None:
    assert text(record) == words


@pytest.mark.req("R6")
@pytest.mark.parametrize(
    ("said", "place"),
    [
        ("<persisted-output>\nFull output saved to: /x/t.txt\n\nPreview", "/x/t.txt"),
        ("<persisted-output>\nSaved to: C:\\x\\t.txt\n", "C:\\x\\t.txt"),
        ("<persisted-output>\nnowhere", None),
        ("saved to: /x/t.txt", None),
    ],
)
def test_text_may_contain_the_path_of_a_stored_output(
    said: str, place: str | None
) -> None:
    (sketched,) = sketches([tool_result("t", said)])
    result = build_node(sketched).result

    assert (result.stored_path if result else None) == place
