"""Totals are the same for every grouping, and in every command."""

from __future__ import annotations

import pytest

from bygones.archive import Archive
from bygones.model.reports import Grouping, UsageRow
from bygones.model.usage import Cost, Usage
from bygones.render.session_tree import TreeLineKind, iter_tree_lines
from bygones.usage.prices import load_prices
from tests.cases.archives import CaseArchives
from tests.cases.make import stories
from tests.usage.usage_archive import NOW, usages

every_case = pytest.mark.parametrize("name", sorted(stories()))


@pytest.mark.req("U1", "U3")
@every_case
def test_every_grouping_has_the_same_total(
    name: str, case_archives: CaseArchives, step: int
) -> None:
    sessions = case_archives.sessions(name)
    first = sorted(stories()).index(name) % step
    spent = sum((session.total_usage for session in sessions), Usage())

    with Archive.open(case_archives.archive(name)) as archive:
        for by in list(Grouping)[first::step]:
            report = archive.usage(by, now=NOW)
            rows = [row for row in report.rows if isinstance(row, UsageRow)]

            assert usages(report.total) == (
                spent.input,
                spent.output,
                spent.cache_write_5m,
                spent.cache_write_1h,
                spent.cache_read,
            )
            if by is not Grouping.TOOL:
                assert sum(row.tokens for row in rows) == spent.total
                assert sum(row.replies for row in rows) == report.total.replies
                costs = sum(row.cost or 0 for row in rows)
                assert abs(costs - (report.total.cost or 0)) <= len(rows)


@pytest.mark.req("L1", "U2")
@every_case
def test_list_tree_and_report_agree_on_the_cost_of_a_session(
    name: str, case_archives: CaseArchives
) -> None:
    prices = load_prices()

    with Archive.open(case_archives.archive(name)) as archive:
        report = archive.usage(Grouping.SESSION, now=NOW, prices=prices)
        rows = {row.key: row for row in report.rows if isinstance(row, UsageRow)}
        listed = list(archive.sessions(include_empty=True))
        costs = archive.costs(listed, prices)

        assert rows.keys() <= costs.keys()
        for one in listed:
            session, row = archive.session(one.id), rows.get(one.id)
            assert costs[one.id] == prices.compute_cost(session.message_usages)
            assert costs[one.id] == (
                Cost(nano_usd=row.cost, unpriced_tokens=row.unpriced_tokens)
                if row
                else Cost(nano_usd=0)
            )
            # An agent that another session began is drawn here, and paid for there.
            own = {None, *(run.id for run in session.all_agents)}
            parts = [
                mark.cost
                for mark in iter_tree_lines(session, prices.compute_cost)
                if mark.kind is not TreeLineKind.BRANCH
                and mark.cost
                and mark.agent in own
            ]
            total = sum(part.nano_usd or 0 for part in parts)
            assert total <= (costs[one.id].nano_usd or 0) + len(parts)
