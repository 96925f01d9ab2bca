"""Links of search results: each leads to a page with its anchor and marked words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from bygones.archive import Archive
from bygones.render.html.markup import Html
from bygones.web.marking import HIT_MARK, mark_most_similar, mark_words
from tests.build import Home, prompt, reply, text, thread, tool_result, tool_use
from tests.cases.archives import CaseArchives
from tests.cases.make import stories
from tests.corpus import CORPUS, needs_corpus
from tests.web.archives import PLAIN, REWOUND, WebArchive
from tests.web.client import WebClient, web_client

HTTP_OK, HTTP_SEE_OTHER = 200, 303
_EXCERPT_LINK = re.compile(r'<a href="([^"]*)" class="excerpt">(.*?)</a>', re.DOTALL)


def excerpt_links(page: WebClient, query: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the links of the excerpts of a query that lead to a record."""
    answer = page.get(f"/search/answer?q={quote(query)}").text
    for url, content in _EXCERPT_LINK.findall(answer):
        if "at=" in url:
            yield unescape(url), re.findall("<mark>(.*?)</mark>", content)


def check_link(page: WebClient, url: str, words: list[str]) -> None:
    """Follow a link; the page has its anchor and a mark if the excerpt has one."""
    first = page.get(url)
    assert first.status == HTTP_SEE_OTHER, url
    to = first.headers["location"]
    response = page.get(to.partition("#")[0])
    assert response.status == HTTP_OK, to
    article = response.text.partition(f'id="{urlsplit(to).fragment}"')[2]
    assert article, to
    if words:
        assert '<mark id="hit">' in article.partition("</article>")[0], (to, words)


def titles_as_queries(folder: Path) -> Iterator[str]:
    with Archive.open(folder) as archive:
        for summary in archive.sessions():
            words = re.findall(r"[^\W_]{3,}", summary.title.text)
            yield " ".join(words[:3])
            yield from words[3:4]


def test_every_excerpt_of_the_cases_leads_to_its_place(
    case_archives: CaseArchives, step: int
) -> None:
    count = 0
    for name in sorted(stories())[::step]:
        folder = case_archives.archive(name)
        page = web_client(WebArchive(Home(case_archives.home(name)), folder))
        for query in {*filter(None, titles_as_queries(folder)), "the"}:
            for url, words in excerpt_links(page, query):
                check_link(page, url, words)
                count += 1
    assert count > 100 / step


@pytest.mark.full
@needs_corpus
def test_every_excerpt_of_the_corpus_leads_to_its_place(tmp_path: Path) -> None:
    Archive.ingest(tmp_path / "archive", [CORPUS])
    page = web_client(WebArchive(Home(tmp_path / ".claude"), tmp_path / "archive"))
    queries = sorted(set(filter(None, titles_as_queries(tmp_path / "archive"))))
    for query in queries[:100]:
        for url, words in list(excerpt_links(page, query))[:3]:
            check_link(page, url, words)


@pytest.fixture
def client(tmp_path: Path) -> WebClient:
    home = Home(tmp_path / ".claude")
    home.session(
        PLAIN,
        thread(
            prompt("Look at the otter", uuid="p"),
            reply([text("First")], message_id="msg_1", uuid="r1"),
            reply([tool_use("Bash", command="make")], message_id="msg_1", uuid="r2"),
            tool_result("toolu_1", "line\n" * 60 + "a wombat", uuid="result"),
            reply("Done", uuid="r3"),
        ),
    )
    Archive.ingest(tmp_path / "archive", [home.path])
    return web_client(WebArchive(home, tmp_path / "archive"))


@pytest.mark.parametrize("record", ["r1", "r2", "result"])
def test_each_record_of_a_message_leads_to_its_article(
    client: WebClient, record: str
) -> None:
    to = client.get(f"/session/{PLAIN}?at={record}").headers["location"]

    assert to == f"/session/{PLAIN}?at=m-r1#m-r1"


def test_folded_output_with_the_match_is_open(client: WebClient) -> None:
    url = f"/session/{PLAIN}?at=result&find=wombat"
    page = client.get(client.get(url).headers["location"].partition("#")[0]).text

    before, _, rest = page.partition('<mark id="hit">wombat</mark>')
    assert rest
    assert '<details class="call" id="c-toolu_1" open>' in before
    assert '<details class="more" open>' in before


def test_a_record_on_another_branch_leads_there(page: WebClient) -> None:
    to = page.get(f"/session/{REWOUND}?at=r1&find=one").headers["location"]

    assert "branch=1" in to
    assert '<mark id="hit">One</mark>' in page.get(to.partition("#")[0]).text


def test_a_record_of_an_unknown_agent_is_looked_for_everywhere(
    client: WebClient,
) -> None:
    to = client.get(f"/session/{PLAIN}/agent/a-gone?at=r3&find=done").headers[
        "location"
    ]

    assert to.startswith(f"/session/{PLAIN}?at=m-r3&")


def test_a_record_without_an_id_leads_to_the_message_before(client: WebClient) -> None:
    to = client.get(f"/session/{PLAIN}?at=@999999").headers["location"]

    assert to.endswith("#m-r3")


def test_an_unknown_record_is_not_found(client: WebClient) -> None:
    assert client.get(f"/session/{PLAIN}?at=nothing").status == 404


def test_words_are_marked_across_elements_and_beside_entities() -> None:
    html = Html("<p>a &lt;red</p><pre><span>re</span><b>d</b> x &amp; red</pre>")

    def find(where: str) -> list[tuple[int, int]]:
        return [match.span() for match in re.finditer("red|&", where)]

    assert mark_words(html, find) == (
        '<p>a &lt;<mark id="hit">red</mark></p><pre><span><mark>re</mark></span>'
        "<b><mark>d</mark></b> x <mark>&amp;</mark> <mark>red</mark></pre>"
    )


def test_hit_of_the_api_leads_to_its_article(client: WebClient) -> None:
    for query in ("otter", "make", "wombat", "done"):
        answer = client.get(f"/api/search?q={query}").text
        (record,) = re.findall('"record_id":"([^"]+)"', answer)
        check_link(client, f"/session/{PLAIN}?at={record}&find={query}", [query])


def test_the_match_of_the_excerpt_is_the_marked_one() -> None:
    html = Html("<p>red kite red kite</p><p>One <b>red</b> apple, then a bee</p>")

    def find(where: str) -> list[tuple[int, int]]:
        return [match.span() for match in re.finditer(r"\b(red|kite|app)\b", where)]

    assert HIT_MARK in mark_words(html, find).partition("</p>")[0]
    near = "a wing. one `red` apple, then"
    marked = mark_words(html, find, near=near).partition("</p>")[2]
    assert f"One <b>{HIT_MARK}red</mark></b>" in marked
    # The index may contain only the start of a word.
    marked = mark_words(html, find, near="One red app").partition("</p>")[2]
    assert f"<b>{HIT_MARK}red</mark></b> apple" in marked
    assert HIT_MARK not in mark_words(html, find, near="a red elephant's trunk")
    assert HIT_MARK in mark_most_similar(html, find, (), "a red elephant's trunk")


def test_a_match_in_a_part_that_is_not_shown_is_quoted(tmp_path: Path) -> None:
    home = Home(tmp_path / ".claude")
    call = tool_use("Bash", command="make all", description="Build the gnu parts")
    home.session(PLAIN, thread(prompt("Go"), reply([call], uuid="r1")))
    Archive.ingest(tmp_path / "archive", [home.path])
    client = web_client(WebArchive(home, tmp_path / "archive"))
    ((url, _),) = excerpt_links(client, "gnu")

    to = client.get(url).headers["location"]

    page = client.get(to.partition("#")[0]).text
    assert "Matches in a part that is not shown" in page
    assert f"make all Build the {HIT_MARK}gnu</mark> parts" in page
