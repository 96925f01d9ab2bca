"""Claude Code's own totals beside ours, and why they differ."""

from __future__ import annotations

from collections.abc import Mapping

from bygones.model.reports import ClaimRow
from bygones.model.usage import Claim
from bygones.prices import nanos, normal_name
from bygones.store.shelf import Summing
from bygones.usage.chosen import Chosen
from bygones.usage.pricing import Pricing

__all__ = ["claim_of"]

_NANOS_IN_MICRO = 1000


class _Ours:
    """What we count of one model in one session."""

    def __init__(self) -> None:
        self.tokens = self.cost = self.unpriced = 0


def claim_of(spending: Summing, pricing: Pricing, chosen: Chosen) -> ClaimRow | None:
    """Return both totals of the sessions that have one; nothing where none has.

    A part of a session has no total: nor has what a query limits so.
    """
    if not chosen.is_of_sessions:
        return None
    purses = {purse.session for purse in pricing.purses.values()}
    claims = {number: claim for number, claim in spending.claims() if number in purses}
    if not claims:
        return None
    ours: dict[int, dict[str, _Ours]] = {}
    where, among = chosen.where, chosen.among
    for one in spending.sums(
        where=where,
        among=among,
        steps=pricing.steps,
        ages=pricing.ages,
        only_claimed=True,
    ):
        purse, (cost, _) = pricing.purses[one.purse], pricing.cost(one)
        models = ours.setdefault(purse.session, {})
        mine = models.setdefault(normal_name(purse.model or ""), _Ours())
        tokens = sum(one.counts[:5])
        mine.tokens += tokens
        mine.cost += nanos(cost or 0)
        mine.unpriced += tokens if cost is None else 0
    found = [_compared(claims[number], models) for number, models in ours.items()]
    return _together(found) if found else None


def _compared(claim: Claim, ours: Mapping[str, _Ours]) -> ClaimRow:
    silent = counts = prices = 0
    models: list[str] = []
    told: set[str] = set()
    for name, micros, tokens in claim.models:
        normal, theirs = normal_name(name), micros * _NANOS_IN_MICRO
        mine = ours.get(normal)
        told.add(normal)
        if mine is None:
            silent += theirs
            models.append(name)
        elif mine.tokens == tokens:
            prices += theirs - mine.cost
        else:
            counts += theirs - mine.cost
    claimed = claim.micros * _NANOS_IN_MICRO
    counted = sum(mine.cost for mine in ours.values())
    return ClaimRow(
        sessions=1,
        claimed=claimed,
        counted=counted,
        silent=silent,
        silent_models=tuple(models),
        counts=counts,
        prices=prices,
        rest=claimed - counted - silent - counts - prices,
        unpriced_tokens=sum(mine.unpriced for mine in ours.values()),
    )


def _together(rows: list[ClaimRow]) -> ClaimRow:
    return ClaimRow(
        sessions=len(rows),
        claimed=sum(row.claimed for row in rows),
        counted=sum(row.counted for row in rows),
        silent=sum(row.silent for row in rows),
        silent_models=tuple(sorted({m for row in rows for m in row.silent_models})),
        counts=sum(row.counts for row in rows),
        prices=sum(row.prices for row in rows),
        rest=sum(row.rest for row in rows),
        unpriced_tokens=sum(row.unpriced_tokens for row in rows),
    )
