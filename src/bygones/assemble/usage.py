"""Who spent what: the tokens of each answer, counted once wherever it stands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from functools import lru_cache

from msgspec import Struct, structs

from bygones.assemble.dedupe import get_record_id
from bygones.model.base import RecordId, SessionId
from bygones.model.nodes import AgentProgressFacts, RecordNode, ReportedCostFacts
from bygones.model.sessions import Message
from bygones.model.summary import MessageUsage
from bygones.model.usage import Billing, ReportedCost, Usage

__all__ = [
    "Ledger",
    "answer_key",
    "answers_from_progress",
    "build_ledger",
    "collect_message_usages",
    "last_reported_cost",
    "progress_account",
    "usage_by_message",
]


_UNIQUE_ID = re.compile(r"[0-9A-Za-z]{16}|[0-9a-f]{8}-[0-9a-f]{4}-")
"""In every id that the API or a careful gateway gives: such an id is never reused."""
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_FINAL_COUNTS_VERSION = (2, 1, 97)
"""The version from which on records hold the final count of the output."""
_BYTES_PER_TOKEN = 4
"""Of text, that are about one token."""
_PLACEHOLDER_RATIO = 2
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


def answer_key(node: RecordNode) -> str:
    """Return what all records of one answer have in common, in any file.

    That is the API's message id: a replay may tell it under a new request. Only where
    the id does not look unique (a gateway may give one to many answers) the request
    counts too, or without requests the size of the context. Without an id, the request
    alone is the key; where there is neither, the record stands for itself.
    """
    if not node.message_id:
        return f"record {node.request_id or node.uuid or node.position}"
    if _is_unique(node.message_id):
        return node.message_id
    return f"{node.message_id} {node.request_id or _context_size(node)}"


@lru_cache(maxsize=4096)
def _is_unique(message: str) -> bool:
    return _UNIQUE_ID.search(message) is not None


def build_ledger(
    accounts: Iterable[tuple[str, Sequence[RecordNode]]],
    paid_keys: AbstractSet[str] = frozenset(),
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
            if spent is None or not _has_usage(node):
                continue
            key = answer_key(node)
            known = usage.get(key)
            if known is None:
                owner[key], usage[key] = "" if key in paid_keys else name, spent
            elif known != spent:
                usage[key] = known | spent
            if node.billing is not None:
                billing[key] = _merge_billing(
                    billing.get(key, _DEFAULT_BILLING), node.billing
                )
    return Ledger(usage, owner, billing)


_DEFAULT_BILLING = Billing()


def _merge_billing(one: Billing, other: Billing) -> Billing:
    """Return what two records of an answer say together; the longer list is whole."""
    calls = max(one.sub_calls, other.sub_calls, key=len)
    return Billing(tuple(sorted({*one.terms, *other.terms})), calls)


def _context_size(node: RecordNode) -> int:
    return node.usage.context if node.usage else 0


def _has_usage(node: RecordNode) -> bool:
    """Whether a record tells of tokens; some gateways count in the last piece only."""
    return node.usage is not None and node.usage != _NO_USAGE and not node.is_synthetic


_NO_USAGE = Usage()


def collect_message_usages(
    account: str,
    nodes: Iterable[RecordNode],
    branch: Mapping[RecordId, int],
    ledger: Ledger,
) -> tuple[MessageUsage, ...]:
    """Return what an account pays for, at the record where each answer begins.

    Calls that the API made for an answer follow it as spends of their own.
    """
    found: dict[str, MessageUsage] = {}
    said: dict[str, dict[str | int, int]] = {}
    for node in nodes:
        if not _has_usage(node):
            continue
        key = answer_key(node)
        if ledger.owner.get(key) != account:
            continue
        if _has_partial_counts(node.version):
            sizes = said.setdefault(key, {})
            for block in node.blocks:
                sizes[block.id or block.digest] = block.size
        if key in found:
            continue
        found[key] = MessageUsage(
            key=key,
            record_id=get_record_id(node),
            model=node.model,
            usage=ledger.usage[key],
            sent_at=node.timestamp,
            branch_number=branch.get(get_record_id(node), 0),
            entrypoint=node.entrypoint,
        )
    for key, sizes in said.items():
        tokens = sum(sizes.values()) // _BYTES_PER_TOKEN
        if found[key].usage.output * _PLACEHOLDER_RATIO < tokens:
            found[key] = structs.replace(found[key], estimated_output=tokens)
    for key in ledger.billing.keys() & found.keys() if ledger.billing else ():
        found[key] = structs.replace(found[key], terms=ledger.billing[key].terms)
    return tuple(_with_side_calls(found, ledger.billing))


def _with_side_calls(
    found: Mapping[str, MessageUsage], billing: Mapping[str, Billing]
) -> Iterator[MessageUsage]:
    for key, spend in found.items():
        yield spend
        for number, call in enumerate(billing[key].sub_calls if key in billing else ()):
            yield structs.replace(
                spend,
                key=f"{key} +{number}",
                model=call.model or spend.model,
                usage=call.usage,
                estimated_output=0,
            )


@lru_cache(maxsize=256)
def _has_partial_counts(version: str | None) -> bool:
    """Whether a version wrote answers down before their output was counted."""
    numbers = _VERSION.match(version) if version else None
    return numbers is None or tuple(map(int, numbers.groups())) < _FINAL_COUNTS_VERSION


def answers_from_progress(nodes: Iterable[RecordNode]) -> list[RecordNode]:
    """Return the answers of agents that progress records repeat, as agents write them.

    Where an agent's own file is gone they are all there is of it.
    """
    return [
        structs.replace(
            node,
            message_id=told.message_id,
            request_id=told.request_id,
            model=told.model,
            usage=told.usage,
            billing=told.billing,
        )
        for node in nodes
        if node.kind == "progress"
        and isinstance(told := node.extra, AgentProgressFacts)
    ]


def progress_account(session: SessionId) -> str:
    """Return the account of answers that only a session's progress tells of."""
    return f"{session} told"


def usage_by_message(
    messages: Sequence[Message], message_usages: Iterable[MessageUsage]
) -> dict[RecordId, Usage]:
    """Return what each message cost here, by the message's id."""
    said = {
        p.record_id: message.id for message in messages for p in message.record_refs
    }
    found: dict[RecordId, Usage] = {}
    for spend in message_usages:
        message = said.get(spend.record_id)
        if message is not None:
            found[message] = found.get(message, Usage()) + spend.usage
    return found


def last_reported_cost(
    nodes: Sequence[RecordNode],
) -> tuple[ReportedCost | None, datetime | None]:
    """Return Claude Code's own last total, and when the last thing before it was said.

    Totals go on growing when a session is resumed, so that the last has it all.
    """
    for at in range(len(nodes) - 1, -1, -1):
        told = nodes[at].extra
        if isinstance(told, ReportedCostFacts):
            times = [
                node.timestamp for node in nodes[: at + 1] if node.timestamp is not None
            ]
            return told.reported_cost, max(times, default=None)
    return None, None
