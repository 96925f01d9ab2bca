"""Prompts, commands and notices as HTML."""

from __future__ import annotations

from pathlib import Path

import pytest

from bygones.model.nodes import parse_user_text
from bygones.render.html.session import HtmlSystemMessages
from tests import forms
from tests.build import compact, image, prompt, system, text, thread
from tests.render.html.outline import outline, tags
from tests.render.shared import session_of


def render_last(folder: Path, *records: object) -> tuple[str, str]:
    session = session_of(folder, thread(*records))  # type: ignore[arg-type]
    html = HtmlSystemMessages(parse_user_text).render(session.live_branch.messages[-1])
    assert html is not None
    return html.css_class, outline(html.html)


def test_prompt_is_not_interpreted_as_markdown(tmp_path: Path) -> None:
    kind, lines = render_last(tmp_path, prompt([text("a <b>\n  c"), image()]))

    assert kind == "prompt"
    assert lines.split() == [
        *(
            "<div.typed>",
            "a",
            "<b>",
            "c",
            "<img",
            "src=data:image/png;base64,iVBORw0KGgo=>",
        )
    ]


@pytest.mark.parametrize(
    ("text", "kind", "part"),
    [
        ("<command-name>/init</command-name>", "prompt command", "<code>\n    /init"),
        ("[Request interrupted by user]", "notice bad", "✗ interrupted"),
        ("<bash-input>ls -l</bash-input>", "prompt command", "! ls -l"),
        (
            "<task-notification><summary>it is done</summary></task-notification>",
            "notice",
            "• it is done",
        ),
    ],
)
def test_system_messages_have_their_own_class(
    text: str, kind: str, part: str, tmp_path: Path
) -> None:
    html, lines = render_last(tmp_path, prompt("hello"), prompt(text))

    assert html == kind
    assert part in lines


def test_summary_of_a_compaction_is_folded(tmp_path: Path) -> None:
    kind, lines = render_last(
        tmp_path,
        prompt("hello", uuid="p"),
        compact("p", uuid="cut"),
        forms.digest() | {"parentUuid": "cut"},
    )

    assert kind == "mark"
    assert "compacted automatically · 155k tokens" in lines
    assert "<details.more>" in lines


def test_notice_is_one_line(tmp_path: Path) -> None:
    kind, lines = render_last(
        tmp_path, prompt("hello"), system("informational", "<i>\nhm</i>")
    )

    assert kind == "notice"
    assert lines == "• <i> hm</i>\n"
    assert tags(lines.replace("<", "&lt;")) == set()
