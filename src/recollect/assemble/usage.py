"""Who spent what: the tokens of each answer, counted once wherever it stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from recollect.model.ids import RecordId
from recollect.model.nodes import Node
from recollect.model.sessions import Message, Spend
from recollect.model.usage import Usage

__all__ = ["Ledger", "settle", "spends_of", "usages_of"]


class Ledger(Struct, frozen=True):
    """The usage of every answer, and the account that it is booked to.

    An account is a session or an agent run. The first to name an answer pays for
    it: forks, resumed copies and replays repeat what was paid before.
    """

    requests: Mapping[str, frozenset[str]]
    usage: Mapping[str, Usage]
    owner: Mapping[str, str]

    def key(self, node: Node) -> str:
        """Return what all records of one answer have in common, in any file.

        That is the API's message id, unless a gateway gives one id to many requests:
        then the request counts too. Where there is neither, the record stands alone.
        """
        if not node.message:
            return f"record {node.uuid}"
        if len(self.requests.get(node.message, ())) > 1:
            return f"{node.message} {node.request}"
        return node.message


def settle(accounts: Iterable[tuple[str, Sequence[Node]]]) -> Ledger:
    """Return the ledger of accounts that come in the order in which they began.

    Of the records of one answer, the larger of each count is taken.
    """
    books = [(name, [n for n in nodes if _is_priced(n)]) for name, nodes in accounts]
    requests: dict[str, set[str]] = {}
    for _, nodes in books:
        for node in nodes:
            if node.message and node.request:
                requests.setdefault(node.message, set()).add(node.request)
    usage: dict[str, Usage] = {}
    owner: dict[str, str] = {}
    ledger = Ledger({m: frozenset(r) for m, r in requests.items()}, usage, owner)
    for name, nodes in books:
        for node in nodes:
            key = ledger.key(node)
            owner.setdefault(key, name)
            spent = node.usage or Usage()
            usage[key] = usage[key] | spent if key in usage else spent
    return ledger


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
