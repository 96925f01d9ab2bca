"""Who spent what: the tokens of each answer, counted once wherever it stands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from recollect.model.ids import RecordId
from recollect.model.nodes import Node
from recollect.model.sessions import Message, Spend
from recollect.model.usage import Usage

__all__ = ["Ledger", "settle", "spends_of", "usages_of"]


_UNIQUE = re.compile(r"[0-9A-Za-z]{16}|[0-9a-f]{8}-[0-9a-f]{4}-")
"""In every id that the API or a careful gateway gives: such an id is never reused."""


class Ledger(Struct, frozen=True):
    """The usage of every answer, and the account that it is booked to.

    An account is a session or an agent run. The first to name an answer pays for
    it: forks, resumed copies and replays repeat what was paid before.
    """

    reused: Mapping[str, bool]
    """Ids that a gateway gave to many answers, and whether requests part them."""
    usage: Mapping[str, Usage]
    owner: Mapping[str, str]

    def key(self, node: Node) -> str:
        """Return what all records of one answer have in common, in any file.

        That is the API's message id: a replay may tell it under a new request. Only
        where a gateway gives one id to many answers, the request counts too, or
        without requests the size of the context. Without an id, the request alone
        is the key; where there is neither, the record stands for itself.
        """
        if not node.message:
            return f"record {node.request or node.uuid or node.position}"
        by_request = self.reused.get(node.message)
        if by_request is None:
            return node.message
        return f"{node.message} {node.request if by_request else _context(node)}"


def settle(accounts: Iterable[tuple[str, Sequence[Node]]]) -> Ledger:
    """Return the ledger of accounts that come in the order in which they began.

    Of the records of one answer, the larger of each count is taken.
    """
    books = [(name, [n for n in nodes if _is_priced(n)]) for name, nodes in accounts]
    usage: dict[str, Usage] = {}
    owner: dict[str, str] = {}
    ledger = Ledger(_reused(n for _, nodes in books for n in nodes), usage, owner)
    for name, nodes in books:
        for node in nodes:
            key = ledger.key(node)
            owner.setdefault(key, name)
            spent = node.usage or Usage()
            usage[key] = usage[key] | spent if key in usage else spent
    return ledger


def _reused(nodes: Iterable[Node]) -> dict[str, bool]:
    """Return the ids that several answers bear, and whether requests part them.

    The pieces of one answer share its request; without requests they share its
    context, except that some gateways count nothing before the last piece.
    """
    requests: dict[str, set[str]] = {}
    contexts: dict[str, set[int]] = {}
    for node in nodes:
        if node.message and not _UNIQUE.search(node.message):
            said = {node.request} if node.request else set()
            requests.setdefault(node.message, set()).update(said)
            contexts.setdefault(node.message, set()).add(_context(node))
    return {
        message: bool(told)
        for message, told in requests.items()
        if len(told) > 1 or (not told and len(contexts[message] - {0}) > 1)
    }


def _context(node: Node) -> int:
    return node.usage.context if node.usage else 0


def _is_priced(node: Node) -> bool:
    return node.usage is not None and not node.is_synthetic


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
        key = ledger.key(node)
        if ledger.owner.get(key) != account or key in found:
            continue
        found[key] = Spend(
            key=key,
            record=node.uuid or RecordId(""),
            model=node.model,
            usage=ledger.usage[key],
            time=node.time,
            branch=branch.get(node.uuid, 0) if node.uuid else 0,
        )
    return tuple(found.values())


def usages_of(
    messages: Sequence[Message], spends: Iterable[Spend]
) -> dict[RecordId, Usage]:
    """Return what each message cost here, by the message's id."""
    by_record = {spend.record: spend.usage for spend in spends}
    return {
        message.id: by_record[piece.record]
        for message in messages
        for piece in message.pieces
        if piece.record in by_record
    }
