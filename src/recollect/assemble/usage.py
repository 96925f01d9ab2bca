"""Who spent what: the tokens of each answer, counted once wherever it stands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from recollect.assemble.dedupe import name_of
from recollect.model.ids import RecordId
from recollect.model.nodes import Node
from recollect.model.sessions import Message, Spend
from recollect.model.usage import Usage

__all__ = ["Ledger", "settle", "spend_key", "spends_of", "usages_of"]


_UNIQUE = re.compile(r"[0-9A-Za-z]{16}|[0-9a-f]{8}-[0-9a-f]{4}-")
"""In every id that the API or a careful gateway gives: such an id is never reused."""


class Ledger(Struct, frozen=True):
    """The usage of every answer, and the account that it is booked to.

    An account is a session or an agent run. The first to name an answer pays for
    it: forks, resumed copies and replays repeat what was paid before.
    """

    usage: Mapping[str, Usage]
    owner: Mapping[str, str]


def spend_key(node: Node) -> str:
    """Return what all records of one answer have in common, in any file.

    That is the API's message id: a replay may tell it under a new request. Only where
    the id does not look unique (a gateway may give one to many answers) the request
    counts too, or without requests the size of the context. Without an id, the request
    alone is the key; where there is neither, the record stands for itself.
    """
    if not node.message:
        return f"record {node.request or node.uuid or node.position}"
    if _UNIQUE.search(node.message):
        return node.message
    return f"{node.message} {node.request or _context(node)}"


def settle(accounts: Iterable[tuple[str, Sequence[Node]]]) -> Ledger:
    """Return the ledger of accounts that come in the order in which they began.

    Of the records of one answer, the larger of each count is taken.
    """
    usage: dict[str, Usage] = {}
    owner: dict[str, str] = {}
    for name, nodes in accounts:
        for node in nodes:
            spent = node.usage
            if spent is None or not _is_priced(node):
                continue
            key = spend_key(node)
            known = usage.get(key)
            if known is None:
                owner[key], usage[key] = name, spent
            elif known != spent:
                usage[key] = known | spent
    return Ledger(usage, owner)


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
    """Return what an account pays for, at the record where each answer begins."""
    found: dict[str, Spend] = {}
    for node in nodes:
        if not _is_priced(node):
            continue
        key = spend_key(node)
        if ledger.owner.get(key) != account or key in found:
            continue
        found[key] = Spend(
            key=key,
            record=name_of(node),
            model=node.model,
            usage=ledger.usage[key],
            time=node.time,
            branch=branch.get(name_of(node), 0),
        )
    return tuple(found.values())


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
