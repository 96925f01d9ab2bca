"""Who spent what: the tokens of each answer, counted once wherever it stands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from functools import lru_cache

from msgspec import Struct, structs

from bygones.assemble.dedupe import name_of
from bygones.model.ids import RecordId, SessionId
from bygones.model.nodes import CostFacts, Node, ToldFacts
from bygones.model.sessions import Message, Spend
from bygones.model.usage import Billing, Claim, Usage

__all__ = [
    "Ledger",
    "claim_of",
    "settle",
    "spend_key",
    "spends_of",
    "told_account",
    "told_answers",
    "usages_of",
]


_UNIQUE = re.compile(r"[0-9A-Za-z]{16}|[0-9a-f]{8}-[0-9a-f]{4}-")
"""In every id that the API or a careful gateway gives: such an id is never reused."""
_NUMBERS = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_FINAL = (2, 1, 97)
"""The version from which on records hold the final count of the output."""
_BYTES = 4
"""Of text, that are about one token."""
_DOUBT = 2
"""A count of less than one part in so many of the text's tokens is a placeholder."""


class Ledger(Struct, frozen=True):
    """The usage of every answer, and the account that it is booked to.

    An account is a session or an agent run. The first to name an answer pays for
    it: forks, resumed copies and replays repeat what was paid before.
    """

    usage: Mapping[str, Usage]
    owner: Mapping[str, str]
    billing: Mapping[str, Billing] = {}
    """Of answers whose price is set apart, and of those that took further calls."""


def spend_key(node: Node) -> str:
    """Return what all records of one answer have in common, in any file.

    That is the API's message id: a replay may tell it under a new request. Only where
    the id does not look unique (a gateway may give one to many answers) the request
    counts too, or without requests the size of the context. Without an id, the request
    alone is the key; where there is neither, the record stands for itself.
    """
    if not node.message:
        return f"record {node.request or node.uuid or node.position}"
    if _is_unique(node.message):
        return node.message
    return f"{node.message} {node.request or _context(node)}"


@lru_cache(maxsize=4096)
def _is_unique(message: str) -> bool:
    return _UNIQUE.search(message) is not None


def settle(
    accounts: Iterable[tuple[str, Sequence[Node]]], paid: AbstractSet[str] = frozenset()
) -> Ledger:
    """Return the ledger of accounts that come in the order in which they began.

    Of the records of one answer, the larger of each count is taken. Answers that were
    paid before belong to nobody.
    """
    usage: dict[str, Usage] = {}
    owner: dict[str, str] = {}
    billing: dict[str, Billing] = {}
    for name, nodes in accounts:
        for node in nodes:
            spent = node.usage
            if spent is None or not _is_priced(node):
                continue
            key = spend_key(node)
            known = usage.get(key)
            if known is None:
                owner[key], usage[key] = "" if key in paid else name, spent
            elif known != spent:
                usage[key] = known | spent
            if node.billing is not None:
                billing[key] = _joined(billing.get(key, _USUAL), node.billing)
    return Ledger(usage, owner, billing)


_USUAL = Billing()


def _joined(one: Billing, other: Billing) -> Billing:
    """Return what two records of an answer say together; the longer list is whole."""
    calls = max(one.calls, other.calls, key=len)
    return Billing(tuple(sorted({*one.terms, *other.terms})), calls)


def _context(node: Node) -> int:
    return node.usage.context if node.usage else 0


def _is_priced(node: Node) -> bool:
    """Whether a record tells of tokens; some gateways count in the last piece only."""
    return node.usage is not None and node.usage != _NOTHING and not node.is_synthetic


_NOTHING = Usage()


def spends_of(
    account: str,
    nodes: Iterable[Node],
    branch: Mapping[RecordId, int],
    ledger: Ledger,
) -> tuple[Spend, ...]:
    """Return what an account pays for, at the record where each answer begins.

    Calls that the API made for an answer follow it as spends of their own.
    """
    found: dict[str, Spend] = {}
    said: dict[str, dict[str | int, int]] = {}
    for node in nodes:
        if not _is_priced(node):
            continue
        key = spend_key(node)
        if ledger.owner.get(key) != account:
            continue
        if _is_unfinished(node.version):
            sizes = said.setdefault(key, {})
            for block in node.blocks:
                sizes[block.id or block.digest] = block.size
        if key in found:
            continue
        found[key] = Spend(
            key=key,
            record=name_of(node),
            model=node.model,
            usage=ledger.usage[key],
            time=node.time,
            branch=branch.get(name_of(node), 0),
            entrypoint=node.entrypoint,
        )
    for key, sizes in said.items():
        tokens = sum(sizes.values()) // _BYTES
        if found[key].usage.output * _DOUBT < tokens:
            found[key] = structs.replace(found[key], estimate=tokens)
    for key in ledger.billing.keys() & found.keys() if ledger.billing else ():
        found[key] = structs.replace(found[key], terms=ledger.billing[key].terms)
    return tuple(_with_calls(found, ledger.billing))


def _with_calls(
    found: Mapping[str, Spend], billing: Mapping[str, Billing]
) -> Iterator[Spend]:
    for key, spend in found.items():
        yield spend
        for number, call in enumerate(billing[key].calls if key in billing else ()):
            yield structs.replace(
                spend,
                key=f"{key} +{number}",
                model=call.model or spend.model,
                usage=call.usage,
                estimate=0,
            )


@lru_cache(maxsize=256)
def _is_unfinished(version: str | None) -> bool:
    """Whether a version wrote answers down before their output was counted."""
    numbers = _NUMBERS.match(version) if version else None
    return numbers is None or tuple(map(int, numbers.groups())) < _FINAL


def told_answers(nodes: Iterable[Node]) -> list[Node]:
    """Return the answers of agents that progress records repeat, as agents write them.

    Where an agent's own file is gone they are all there is of it.
    """
    return [
        structs.replace(
            node,
            message=told.message,
            request=told.request,
            model=told.model,
            usage=told.usage,
            billing=told.billing,
        )
        for node in nodes
        if node.kind == "progress" and isinstance(told := node.extra, ToldFacts)
    ]


def told_account(session: SessionId) -> str:
    """Return the account of answers that only a session's progress tells of."""
    return f"{session} told"


def usages_of(
    messages: Sequence[Message], spends: Iterable[Spend]
) -> dict[RecordId, Usage]:
    """Return what each message cost here, by the message's id."""
    said = {p.record: message.id for message in messages for p in message.pieces}
    found: dict[RecordId, Usage] = {}
    for spend in spends:
        message = said.get(spend.record)
        if message is not None:
            found[message] = found.get(message, Usage()) + spend.usage
    return found


def claim_of(nodes: Sequence[Node]) -> tuple[Claim | None, datetime | None]:
    """Return Claude Code's own last total, and when the last thing before it was said.

    Totals go on growing when a session is resumed, so that the last has it all.
    """
    for at in range(len(nodes) - 1, -1, -1):
        told = nodes[at].extra
        if isinstance(told, CostFacts):
            times = [node.time for node in nodes[: at + 1] if node.time is not None]
            return told.claim, max(times, default=None)
    return None, None
