"""The page of usage, its charts and numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.render.numbers import format_tokens, format_usd
from tests.build import (
    SESSION,
    Home,
    prompt,
    reply,
    thread,
)
from tests.web.archives import (
    WebArchive,
)
from tests.web.client import WebClient, web_client


def test_usage_as_csv(page: WebClient) -> None:
    answer = page.get("/usage.csv?by=model")

    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.text.splitlines()[0].startswith("key,title,replies")


def test_numbers_of_the_usage_chart_follow_its_range_and_split(page: WebClient) -> None:
    links = re.findall(
        r'href="(/usage-chart.csv[^"]*)"',
        page.get("/usage?since=all&split=project&measure=tokens").text,
    )
    whole = page.get(links[0].replace("&amp;", "&"))
    days = [line.split(",") for line in whole.text.splitlines()[1:]]
    by_model = page.get("/usage-chart.csv?since=all").text.splitlines()

    assert whole.text.splitlines()[0] == "from,to,project,tokens,cost"
    assert 'filename="usage-by-project-over-time.csv"' in str(whole.headers)
    assert by_model[0] == "from,to,model,tokens,cost"
    total = sum(int(line.split(",")[3]) for line in by_model[1:])
    assert sum(int(day[3]) for day in days) == total > 0
    later = f"since={days[-1][1]}&until={days[-1][1]}"
    assert {
        line.split(",")[0]
        for line in page.get(f"/usage-chart.csv?{later}").text.splitlines()[1:]
    } == {days[-1][1]}


def test_chart_has_axes_and_links_to_its_sessions(page: WebClient) -> None:
    text = page.get("/usage").text
    chart = text.partition('<svg class="chart"')[2].partition("</svg>")[0]

    assert '<text class="y"' in chart
    assert ">Jan 5</text>" in chart
    assert "on=2026-01-05&amp;model=claude-sonnet-4-5-20250929" in chart
    assert text.count(">Jan ") + text.count(">Dec ") >= 10  # also days without usage


def test_figures_of_the_usage_page_are_those_of_the_library(
    page: WebClient, web_archive: WebArchive
) -> None:
    with Archive.open(web_archive.folder) as archive:
        total = archive.usage("day", now=web_archive.now, query="after:30d").total
    text = page.get("/usage?since=30d").text
    tiles = dict(re.findall(r'class="label">([^<]*)</span><b>([^<]*)</b>', text))

    assert tiles["Cost"] == format_usd(total.cost or 0)
    assert tiles["Replies"] == f"{total.replies:,}"
    assert tiles["Tokens"] == format_tokens(total.tokens)
    assert tiles["Cache hit rate"] == f"{total.cache_hit_rate:.0%}"


@pytest.mark.parametrize("split", ["model", "project", "tool", "agent"])
@pytest.mark.parametrize("measure", ["cost", "tokens"])
def test_usage_is_drawn_for_every_split(
    split: str, measure: str, page: WebClient
) -> None:
    query = f"since=all&split={split}&measure={measure}"
    answer = page.get(f"/usage.svg?{query}")

    assert page.get(f"/usage?{query}").status == 200
    assert answer.headers["content-type"] == "image/svg+xml"
    assert '<rect class="s0"' in answer.text
    assert "<a " not in answer.text
    assert page.get(f"/usage?{query}&since=2026-01-05&until=2026-01-05").status == 200


def test_downloaded_chart_names_its_colors(page: WebClient) -> None:
    text = page.get("/usage.svg?since=all&split=model").text
    shown = page.get("/usage?since=all&split=model").text
    legend = re.search(r'<ul class="legend".*?</ul>', shown)

    assert legend
    names = re.findall(r"<a [^>]*>([^<]+)</a>", legend[0])
    assert names
    assert (
        re.findall(r'rx="2"/><text [^>]*>([^<]+)</text>', text)[: len(names)] == names
    )


def test_weeks_of_two_years_are_labeled_with_the_year(page: WebClient) -> None:
    text = page.get("/usage.svg?since=2025-07-01&until=2026-03-01").text

    assert ", 2025</text>" in text
    assert ", 2026</text>" in text


def test_axis_of_small_costs_has_different_labels(tmp_path: Path) -> None:
    home = Home(tmp_path / ".claude")
    home.session(SESSION, thread(prompt("One"), reply("Yes.")))
    Archive.ingest(tmp_path / "archive", [home.path])
    page = web_client(WebArchive(home, tmp_path / "archive"))

    labels = re.findall(r'class="y"[^>]*>([^<]+)<', page.get("/usage").text)

    assert len(labels) > 2
    assert len(set(labels)) == len(labels)


def test_usage_without_matches_names_the_filter(page: WebClient) -> None:
    text = page.get("/usage?q=project:nope").text

    assert "No usage matches project:nope in this period." in text
    assert "Clear filters" in text


@pytest.mark.parametrize(
    "query", ["split=day", "split=x", "measure=x", "by=x", "since=x", "until=x"]
)
def test_wrong_parameters_of_usage_are_rejected(query: str, page: WebClient) -> None:
    assert page.get(f"/usage?{query}").status == 400
