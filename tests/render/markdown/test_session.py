"""A session as Markdown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from bygones.model.nodes import parse_user_text
from bygones.model.sessions import Session
from bygones.render.markdown import render_session_markdown
from bygones.render.step_renderer import RenderOptions
from bygones.render.walk import SessionView
from tests.build import prompt, reply, summary, thread, tool_result, tool_use
from tests.render.html.outline import attributes, tags
from tests.render.shared import session_of
from tests.render.stories import HOSTILE, STORIES, hostile

HERE = Path(__file__).parent / "pages"
FULL = SessionView(
    include_branches=True,
    include_agents=True,
    include_thinking=True,
    include_tools=True,
)
CARELESS = MarkdownIt("commonmark", {"html": True}).enable("table")
OURS = {"details", "summary"}
PLAIN = {
    *("p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre"),
    *("code", "em", "strong", "a", "hr", "br", "table", "thead", "tbody", "tr", "th"),
    "td",
}


def render(session: Session, view: SessionView = FULL) -> str:
    return "".join(
        render_session_markdown(
            session, view, RenderOptions(text_parser=parse_user_text)
        )
    )


@pytest.mark.parametrize("name", STORIES)
def test_story_matches_its_golden_file(
    name: str, tmp_path: Path, golden: Callable[[Path, str], None]
) -> None:
    golden(HERE / f"{name}.md", render(STORIES[name](tmp_path)))


@pytest.mark.parametrize(
    "bad",
    [
        HOSTILE,
        "<script>alert(1)</script>",
        "</summary></details><img src=x onerror=alert(1)>",
        "![x](https://evil.dev/a.png) [y](javascript:alert(1))",
        "```\n~~~\n<b>",
    ],
    ids=range(5),
)
def test_hostile_text_stays_text(bad: str, tmp_path: Path) -> None:
    html = CARELESS.render(render(hostile(tmp_path, bad)))

    assert tags(html) <= OURS | PLAIN
    for _, name, value in attributes(html):
        assert name in {"href", "class", "start"}
        assert name != "href" or value.startswith(("https:", "http:", "mailto:", "#"))


def test_calls_have_details_only_with_tools(tmp_path: Path) -> None:
    session = session_of(
        tmp_path,
        thread(
            prompt("go"),
            reply([tool_use("Bash", command="ls `x`")]),
            tool_result("toolu_1", "\n".join(f"line {n}" for n in range(99))),
        ),
    )

    assert "- **$** `` ls `x` ``" in render(session, SessionView())
    assert "line 39" in render(session)
    assert "line 40" not in render(session)
    assert "more characters" in render(session)


def test_todos_are_a_checklist(tmp_path: Path) -> None:
    todos = [
        {"content": "Look <b>", "status": "completed"},
        {"content": "Mend *it*", "status": "in_progress"},
    ]
    records = thread(
        prompt("Go"),
        reply([tool_use("TodoWrite", todos=todos)]),
        tool_result("toolu_1", "Todos have been modified"),
    )

    markdown = render(session_of(tmp_path, records))

    assert "\n- [x] Look &lt;b>\n- [ ] Mend \\*it\\*\n" in markdown
    assert "modified" not in markdown


def test_html_in_a_summary_stays_text(tmp_path: Path) -> None:
    records = thread(prompt("one"), reply("two"), prompt("three"), reply("four"))
    rewound = thread(prompt("five"), reply("six"))
    rewound[0]["parentUuid"] = records[1]["uuid"]
    bad = [
        summary(f"<script>alert({number})</script>", record["uuid"])
        for number, record in enumerate([*records, *rewound])
    ]

    markdown = render(session_of(tmp_path, [*records, *rewound, *bad]))

    assert "Summary up to" in markdown
    assert "<script" not in markdown
