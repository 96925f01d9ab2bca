"""The HTML of all pages."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.render.numbers import format_usd
from bygones.usage.prices import load_prices
from bygones.web.app import ROUTES
from bygones.web.conversation_view import MAX_FIRST_MESSAGES, WINDOW_SIZE
from tests.build import (
    SESSION,
    Home,
    prompt,
    reply,
    summary,
    thread,
    tool_result,
    tool_use,
)
from tests.web.archives import (
    AGENT,
    EDITED,
    EDITED_PATH,
    LONG,
    LONG_TURNS,
    LOUD,
    PLAIN,
    REWOUND,
    WebArchive,
    build_archive,
)
from tests.web.client import WebClient, web_client


class _Outline(HTMLParser):
    """Collects ids, scripts, styles and attributes that would run something."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.bad: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        result = dict(attrs)
        if "id" in result:
            self.ids.append(result["id"] or "")
        if "style" in result or any(name.startswith("on") for name in result):
            self.bad.append(self.get_starttag_text() or "")
        if tag == "style" or (tag == "script" and not result.get("src")):
            self.bad.append(tag)


def outline(text: str) -> _Outline:
    parser = _Outline()
    parser.feed(text)
    return parser


PATHS = [
    "/",
    "/about",
    "/search",
    "/search?q=lines",
    "/projects",
    "/files",
    f"/files?session={EDITED}",
    f"/files?path={EDITED_PATH}",
    f"/files?session={EDITED}&path={EDITED_PATH}",
    f"/file?path={EDITED_PATH}",
    "/usage",
    "/usage?by=session",
    "/usage?by=tool",
    "/usage?by=block",
    "/problems",
    f"/session/{PLAIN}",
    f"/session/{LONG}?from=80",
    f"/session/{REWOUND}/map",
    f"/session/{REWOUND}/compare",
    f"/session/{AGENT}/timeline",
    "/?sort=-cost&starred=0",
    "/prompts",
    f"/share?session={PLAIN}",
    "/nothing",
]


@pytest.mark.parametrize("path", PATHS)
def test_pages_have_no_inline_script_or_style(path: str, page: WebClient) -> None:
    parsed = outline(page.get(path).text)

    assert parsed.bad == []
    assert len(parsed.ids) == len(set(parsed.ids))


@pytest.mark.parametrize("path", PATHS)
def test_pages_load_nothing_from_other_sites(path: str, page: WebClient) -> None:
    text = page.get(path).text

    loaded = re.findall(r'(?:src|<link[^>]*href)="([^"]*)"', text)
    assert loaded or "/timeline" in path
    assert all(url.startswith(("/static/", "data:")) for url in loaded)
    for url in loaded:
        if url.startswith("/static/"):
            assert page.get(url).status == 200


def test_static_files_are_immutable(page: WebClient) -> None:
    text = page.get("/").text
    (sheet,) = re.findall(r'"(/static/[^"]*/web.css)"', text)

    answer = page.get(sheet)

    assert "immutable" in answer.headers["cache-control"]
    assert answer.headers["content-type"].startswith("text/css")


def test_home_page_groups_sessions_by_day(page: WebClient) -> None:
    text = page.get("/").text

    assert "Counting lines" in text
    assert text.index("Today") < text.index("Counting lines")
    assert f'href="/session/{PLAIN}"' in text


@pytest.mark.parametrize(
    ("query", "visible", "hidden"),
    [
        ("text=counting", "Counting lines", "Question number 0"),
        ("project=/work/other", "Question number 0", "Counting lines"),
        ("on=2026-01-05", "Counting lines", "No sessions match"),
        ("on=2026-01-06", "No sessions match", "Counting lines"),
        ("days=1", "Counting lines", "No sessions match"),
        ("model=haiku", "No sessions match", "Counting lines"),
        ("since=2026-01-06", "No sessions match", "Counting lines"),
        ("since=2026-01-05&until=2026-01-05", "Counting lines", "No sessions"),
        ("until=2026-01-04", "No sessions match", "Counting lines"),
        ("starred=1", "No sessions match", "Counting lines"),
        ("tag=x", "No sessions match", "Counting lines"),
        ("errors=1", "No sessions match", "Counting lines"),
        ("cost=1000", "No sessions match", "Counting lines"),
        ("cost=0.0001", "Counting lines", "No sessions match"),
    ],
)
def test_home_page_applies_filters(
    query: str, visible: str, hidden: str, page: WebClient
) -> None:
    timeline = page.get(f"/?{query}").text.partition('id="bulk"')[2]
    timeline = timeline or page.get(f"/?{query}").text

    assert visible in timeline
    assert hidden not in timeline


@pytest.mark.parametrize("query", ["on=tomorrow", "days=x", "offset=x"])
def test_invalid_filter_is_an_error_page(query: str, page: WebClient) -> None:
    answer = page.get(f"/more?{query}")

    assert answer.status == 400
    assert "must be" in answer.text


def test_session_is_loaded_in_windows(page: WebClient) -> None:
    first = page.get(f"/session/{LONG}")
    second = page.get(f"/session/{LONG}/window?from={WINDOW_SIZE}")

    assert f'data-total="{2 * LONG_TURNS}"' in first.text
    assert first.text.count("<article") == MAX_FIRST_MESSAGES
    assert "Question number 0<" in first.text
    assert f"Question number {MAX_FIRST_MESSAGES // 2}<" not in first.text
    assert second.headers["x-total"] == str(2 * LONG_TURNS)
    assert second.text.count("<article") == WINDOW_SIZE
    assert f"Question number {WINDOW_SIZE // 2}<" in second.text


def test_first_window_can_be_completed(page: WebClient) -> None:
    query = page.get(f"/session/{LONG}?from=20").text
    (start, stop) = re.findall(r'data-from="(\d+)" data-until="(\d+)"', query)[0]
    own = f"/session/{LONG}/window"

    above = page.get(f"{own}?from={WINDOW_SIZE}&until={start}").text
    below = page.get(f"{own}?from={stop}&until={2 * WINDOW_SIZE}").text

    whole = page.get(f"{own}?from={WINDOW_SIZE}").text
    window = query.partition('<section class="window"')[2].partition("</section>")[0]
    ids = re.compile(r'id="([mt]-[^"]*)"')
    assert int(start) == 20
    assert all(map(ids.search, (above, window, below)))
    assert ids.findall(above + window + below) == ids.findall(whole)


def test_all_messages_are_reachable_without_scripts(page: WebClient) -> None:
    numbers: list[str] = []
    there: str | None = f"/session/{LONG}"
    while there:
        text = page.get(there.replace("&amp;", "&")).text
        numbers += re.findall(r"Question number (\d+)<", text.partition("<section")[2])
        later = re.search(r'href="([^"]*)">Later', text)
        there = later[1] if later else None

    assert numbers == [str(number) for number in range(LONG_TURNS)]
    assert "Earlier" in text


def test_rest_of_a_long_output_is_in_the_full_message(page: WebClient) -> None:
    text = page.get(f"/session/{LOUD}/window?from=0").text
    (article,) = re.findall(r'<article class="answer" id="([^"]*)"', text)

    whole = page.get(f"/session/{LOUD}/message?at={article}").text

    assert len(text) < 20_000
    assert "line 3 of many" in text
    assert "line 9000 of many" not in text
    assert text.count("data-rest") == 2
    assert "data-rest" not in whole
    assert "line 9000 of many" in whole
    assert "new 900 words" in whole


def test_outline_can_start_at_a_message(page: WebClient) -> None:
    whole = page.get(f"/session/{LONG}/outline").json

    assert page.get(f"/session/{LONG}/outline?from=100").json == [
        mark for mark in whole if mark[1] >= 100
    ]


def test_windows_joined_are_the_whole_session(page: WebClient) -> None:
    windows = [
        page.get(f"/session/{LONG}/window?from={at}").text
        for at in range(0, 2 * LONG_TURNS, WINDOW_SIZE)
    ]

    matches = re.findall(r"Question number (\d+)<", "".join(windows))
    assert matches == [str(number) for number in range(LONG_TURNS)]


def test_message_is_found_by_its_record(page: WebClient) -> None:
    marks = page.get(f"/session/{LONG}/outline").json
    kind, at, anchor, text = marks[30]

    answer = page.get(f"/session/{LONG}/window?at={anchor}")

    assert (kind, text) == ("prompt", "Question number 30")
    assert answer.headers["x-window"] == str(at // WINDOW_SIZE)
    assert f'id="{anchor}"' in answer.text
    to = page.get(f"/session/{LONG}?at={anchor[2:]}").headers["location"]
    assert to == f"/session/{LONG}?at={anchor}#{anchor}"
    assert page.get(f"/session/{LONG}?at=nowhere").status == 404


def test_fork_links_to_the_other_branch(page: WebClient) -> None:
    live = page.get(f"/session/{REWOUND}").text
    (other,) = set(re.findall(r'class="mark fork"><a href="([^"]*)"', live))

    text = page.get(other.replace("&amp;", "&")).text

    assert "2 branches" in live
    assert "Second way" in live
    assert "First way" in text
    assert page.get(f"/session/{REWOUND}?branch=7").status == 404


def test_agent_run_has_its_own_page(page: WebClient) -> None:
    text = page.get(f"/session/{AGENT}").text
    (agent,) = set(re.findall(r'<p class="agent"[^>]*><a href="([^"]*)"', text))

    own = page.get(agent).text

    assert "Nothing odd." not in text
    assert "Nothing odd." in own
    assert "Agent of" in own
    assert page.get(f"/session/{AGENT}/agent/nobody").status == 404


def test_raw_record_is_shown_unchanged(page: WebClient) -> None:
    answer = page.get(f"/session/{PLAIN}/raw?from=0")

    assert answer.headers["content-type"].startswith("text/plain")
    assert '"content": "Please count the lines"' in answer.text


def test_what_claude_was_sent_is_shown_for_a_message(page: WebClient) -> None:
    answer = page.get(f"/session/{PLAIN}/sent?from=1")

    assert "derived from the conversation" in answer.text
    assert "Please count the lines" in answer.text
    assert "Three lines." not in answer.text
    assert 'data-sent="1"' in page.get(f"/session/{PLAIN}").text


def test_commands_to_continue_from_a_prompt_are_shown(page: WebClient) -> None:
    later = page.get(f"/session/{LONG}/fork?from=4").text
    abandoned = page.get(f"/session/{REWOUND}/fork?from=0&branch=1").text

    assert f"bygones fork {LONG}:3 --run" in later
    assert f"bygones fork {LONG}:3 --through --run" in later
    assert f"bygones fork {REWOUND}:1 --branch 2 --through --run" in abandoned
    assert "Before this prompt" not in abandoned


def test_id_prefix_is_sufficient(page: WebClient) -> None:
    assert page.get(f"/session/{PLAIN}").status == 200
    assert page.get("/session/5e551000").status == 400
    assert page.get("/session/ffff").status == 404


def test_error_page_has_a_message(page: WebClient) -> None:
    answer = page.get("/session/ffff")

    assert "<h1>" in answer.text
    assert "Traceback" not in answer.text


def test_error_page_links_to_all_sessions() -> None:
    assert len({row.path for row in ROUTES}) == len(ROUTES)


def test_search_results_highlight_the_query(page: WebClient) -> None:
    text = page.get("/search/answer?q=count+lines").text

    assert "<mark>" in text
    assert f"/session/{PLAIN}" in text
    assert "Counting" in text


def test_search_can_be_narrowed_by_facets(page: WebClient) -> None:
    text = page.get("/search/facets?q=question").text
    (narrower,) = re.findall(r'<a href="([^"]*)" title="/work/other"', text)

    narrowed = page.get(narrower.replace("/search?", "/search/facets?"))

    assert "project%3A%2Fwork%2Fother" in narrower
    assert 'aria-current="true"' in narrowed.text


@pytest.mark.parametrize("typed", ["tool:", "(((", "/[/", "x" * 3000])
def test_invalid_query_shows_the_reason(typed: str, page: WebClient) -> None:
    assert page.get(f"/search/answer?q={typed}").status == 200


def test_hints_are_the_fields_of_the_query_language(page: WebClient) -> None:
    rows = page.get("/search/hints").json

    assert {"tool:", "is:", "after:"} <= {row["insert"] for row in rows}


def test_record_on_another_branch_redirects_there(page: WebClient) -> None:
    branch = page.get(f"/session/{REWOUND}?at=p1")
    assert branch.status == 303
    assert "branch=1" in branch.headers["location"]
    assert page.get(branch.headers["location"].partition("#")[0]).status == 200


def test_message_as_markdown(page: WebClient) -> None:
    answer = page.get(f"/session/{PLAIN}/markdown?from=0")

    assert "Please count the lines" in answer.text
    assert "Three lines" not in answer.text
    assert "Three lines" in page.get(f"/session/{PLAIN}/markdown").text


def test_problems_are_grouped_by_kind(page: WebClient) -> None:
    text = page.get("/problems?kind=not-json").text

    assert "is not valid JSON" in text
    assert "odd-new-kind" in text


def test_map_links_to_every_part(page: WebClient) -> None:
    text = page.get(f"/session/{REWOUND}/map").text

    assert "First way" in text
    assert "branch 2" in text
    matches = re.findall(r'<li class="k-[^"]*"><a href="([^"]*)"', text)
    assert len(matches) >= 3
    for to in matches:
        assert page.get(to.replace("&amp;", "&")).status == 200
    agents = page.get(f"/session/{AGENT}/map").text
    assert f"/session/{AGENT}/agent/a-a1" in agents


def test_about_page_lists_sessions_deleted_next(page: WebClient) -> None:
    text = page.get("/about").text

    assert "Claude Code deletes sessions after 30 days" in text
    assert "Counting lines" in text


def test_about_page_shows_the_last_verification(tmp_path: Path) -> None:
    web_archive = build_archive(tmp_path)
    page = web_client(web_archive)
    assert "not yet; run <code>bygones verify</code>" in page.get("/about").text

    Archive.verify(web_archive.folder, now=web_archive.now)

    assert "just now: " in page.get("/about").text


def test_lists_show_annotations(tmp_path: Path) -> None:
    page = web_client(build_archive(tmp_path))
    added = {"tags": ["one", "two"], "note": "look <again>", "is_starred": True}

    answer = page.post(f"/api/sessions/{PLAIN}/annotations", added)

    line = (
        page.get("/").text.partition(f'data-session="{PLAIN}"')[2].partition("</li>")[0]
    )
    assert answer.status == 200
    assert re.findall(r'class="chip">([^<]*)<', line) == ["one", "two"]
    assert "look &lt;again&gt;" in line
    assert "starred" in line


def test_session_with_one_branch_has_nothing_to_compare(page: WebClient) -> None:
    answer = page.get(f"/session/{PLAIN}/compare")

    assert answer.status == 200
    assert "This session has only one branch." in answer.text


def test_search_without_results_says_so_once(page: WebClient) -> None:
    text = page.get("/search?q=zzqqxy").text

    assert "No match for zzqqxy." in text
    assert "No results" not in text
    assert "Best match" not in text


def test_turns_agents_and_header_show_costs(tmp_path: Path) -> None:
    home = Home(tmp_path / ".claude")
    much = {"input_tokens": 100_000, "output_tokens": 0}
    task = tool_use("Task", id="toolu_9", description="Explore")
    inner = tool_use("Task", id="toolu_8", description="Further")
    again = [reply(f"More {number}", usage=much) for number in range(40)]
    home.session(
        AGENT,
        thread(
            prompt("Look"),
            reply([task], usage=much),
            tool_result("toolu_9", "Found", toolUseResult={"agentId": "a1"}),
            *again,
        ),
    )
    records = thread(
        prompt("Go"),
        reply([inner], usage=much),
        tool_result("toolu_8", "Found", toolUseResult={"agentId": "a2"}),
        reply("Nothing odd.", usage=much),
    )
    home.agent(AGENT, "a1", records)
    home.agent(AGENT, "a2", thread(prompt("Go on"), reply("Nothing.", usage=much)))
    folder = tmp_path / "archive"
    Archive.ingest(folder, [home.path])
    page = web_client(WebArchive(home, folder))
    text = page.get(f"/session/{AGENT}").text
    with Archive.open(folder) as archive:
        (listed,) = archive.sessions()
        total = archive.costs([listed], load_prices())[listed.id].nano_usd
        spent = archive.session_costs(listed.id, load_prices())

    assert total
    assert spent is not None
    each = total // 44  # answers, of which the session has 41, its agents 2 and 1
    assert spent.total.nano_usd == total
    assert {run: cost.nano_usd for run, cost in spent.by_agent.items()} == {
        "a1": 2 * each,
        "a2": each,
    }
    head, _, rest = text.partition('id="conversation"')
    assert format_usd(total) in head
    (turn,) = re.findall(r'<h2 class="turn".*?</h2>', rest)
    # Although most of it is outside the window.
    assert f"{format_usd(41 * each)}, {format_usd(total)} with 2 agents" in turn
    (agent,) = re.findall(r'<p class="agent".*?</p>', rest)
    assert f"{format_usd(2 * each)}, {format_usd(3 * each)} with 1 agent" in agent
    inside, _, rest = page.get(f"/session/{AGENT}/agent/a1").text.partition("window")
    assert format_usd(3 * each) in inside
    assert format_usd(each) in rest


def test_fork_links_to_where_branches_diverge(tmp_path: Path) -> None:
    home = Home(tmp_path / ".claude")
    query = [prompt("Begin", uuid="p1"), reply("Begun", uuid="r1")]
    first = thread(*query, prompt("First way", uuid="p2"), reply("One", uuid="r2"))
    second = thread(
        prompt("Second way", uuid="p3", parent="r1"), reply("Two", uuid="r3"), start=60
    )
    home.session(REWOUND, [*first, *second])
    Archive.ingest(tmp_path / "archive", [home.path])
    page = web_client(WebArchive(home, tmp_path / "archive"))

    live = page.get(f"/session/{REWOUND}").text
    (to,) = set(re.findall(r'class="mark fork"><a href="([^"]*)"', live))
    there = page.get(to.replace("&amp;", "&")).text
    (back,) = set(re.findall(r'class="mark fork"><a href="([^"]*)"', there))

    assert to.endswith("at=m-r1")
    assert back.endswith("at=m-r1")
    assert "First way" in there
    assert 'data-from="1"' in there


def test_window_shows_the_date_only_when_it_changes(page: WebClient) -> None:
    turns = re.findall(
        r'<h2 class="turn".*?</h2>', page.get(f"/session/{LONG}/window?from=16").text
    )

    assert turns
    assert not any(re.search(r"\d{4}-\d\d-\d\d", turn) for turn in turns)


def test_icon_is_where_browsers_ask_for_it(page: WebClient) -> None:
    answer = page.get("/favicon.ico")

    assert answer.status == 200
    assert answer.headers["content-type"].startswith("image/svg+xml")


def test_resume_command_names_an_archive_that_is_not_the_default(
    page: WebClient,
) -> None:
    text = page.get(f"/session/{PLAIN}").text

    assert re.search(rf'data-copy="bygones resume {PLAIN} --run --archive /', text)


def test_session_without_messages_has_a_page(tmp_path: Path) -> None:
    home = Home(tmp_path / ".claude")
    home.session(SESSION, [summary("Old work", "leaf")])
    Archive.ingest(tmp_path / "archive", [home.path])
    page = web_client(WebArchive(home, tmp_path / "archive"))

    answer = page.get(f"/session/{SESSION}")

    assert answer.status == 200
    assert "only summaries" in answer.text


def _titles(text: str) -> list[str]:
    return re.findall(r'class="row-title"[^>]*>([^<]*)<', text)


def test_sessions_are_sorted_by_any_column(page: WebClient) -> None:
    newest = _titles(page.get("/").text)
    by_title = _titles(page.get("/?sort=title").text)
    costliest = _titles(page.get("/?sort=-cost").text)
    prompts = re.findall(
        r'c-prompts number"><span[^>]*>([0-9]+)<', page.get("/?sort=-prompts").text
    )

    assert by_title == sorted(newest, key=str.casefold)
    assert costliest[0] == "Question number 0"
    assert [int(count) for count in prompts] == [60, 1, 1, 1, 1, 1]
    assert page.get("/?sort=luck").status == 400


def test_sorted_columns_follow_what_they_show(tmp_path: Path) -> None:
    home = Home(tmp_path / ".claude")
    rows = (("/z/alpha", "**Bold**"), ("/a/omega", "able"), ("/b/mid", "zoo"))
    for number, (folder, title) in enumerate(rows):
        record = prompt(title, cwd=folder)
        home.session(f"{number}0000000-0000-4000-8000-000000000000", [record])
    Archive.ingest(tmp_path / "archive", [home.path])
    page = web_client(WebArchive(home, tmp_path / "archive"))

    def projects(sort: str) -> list[str]:
        return re.findall(
            r'<td class="c-project">.*?>([^<]*)</a>', page.get(f"/?sort={sort}").text
        )

    assert projects("project") == ["alpha", "mid", "omega"]
    assert projects("-project") == ["omega", "mid", "alpha"]
    assert projects("title") == ["omega", "alpha", "mid"]


def test_sessions_without_a_model_are_sorted_last(tmp_path: Path) -> None:
    home = Home(tmp_path / ".claude")
    home.session(SESSION, [prompt("first")])
    home.session(
        "20000000-0000-4000-8000-000000000000",
        thread(prompt("second"), reply("yes")),
    )
    Archive.ingest(tmp_path / "archive", [home.path])
    page = web_client(WebArchive(home, tmp_path / "archive"))

    assert _titles(page.get("/?sort=model").text) == ["second", "first"]
    assert _titles(page.get("/?sort=-model").text) == ["second", "first"]
    assert _titles(page.get("/?sort=tokens").text) == ["second", "first"]
    assert _titles(page.get("/?sort=cost").text) == ["second", "first"]


def test_several_sessions_are_starred_and_tagged_at_once(tmp_path: Path) -> None:
    page = web_client(build_archive(tmp_path))
    form = {"content-type": "application/x-www-form-urlencoded"}
    chosen = f"session={PLAIN}&session={LONG}"
    for action in ("action=star", "action=tag&tag=later"):
        answer = page.ask(
            "POST",
            "/sessions/change?sort=title",
            page.default_headers | form,
            f"{action}&{chosen}".encode(),
        )
        assert answer.status == 303
        assert answer.headers["location"] == "/?sort=title"

    assert sorted(_titles(page.get("/?starred=1").text)) == sorted(
        _titles(page.get("/?tag=later").text)
    )
    assert len(_titles(page.get("/?starred=1").text)) == 2
