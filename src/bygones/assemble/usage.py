"""Books the usage of each answer once, however many files contain it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from functools import lru_cache

from msgspec import Struct, structs

from bygones.assemble.dedupe import get_record_id, last_timestamp
from bygones.model.base import RecordId, SessionId
from bygones.model.nodes import AgentProgressFacts, RecordNode, ReportedCostFacts
from bygones.model.sessions import Message
from bygones.model.summary import MessageUsage
from bygones.model.usage import Billing, ReportedCost, Usage

_UNIQUE_ID = re.compile(r"[0-9A-Za-z]{16}|[0-9a-f]{8}-[0-9a-f]{4}-")
"""Matches ids of the API and of well-behaved gateways, which are never reused."""
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_FINAL_COUNTS_VERSION = (2, 1, 97)
"""Since this version records contain the final output count."""
_BYTES_PER_TOKEN = 4
"""Average length of a token in text."""
_PLACEHOLDER_RATIO = 2
"""A count is a placeholder if the text has more than this many times as many tokens."""


class Ledger(Struct, frozen=True):
    """The usage of every answer, and the account that it is booked to.

    An account is a session or an agent run. The first account that contains an answer
    pays for it; forks, resumed copies and replays repeat it.
    """

    usage: Mapping[str, Usage]
    owner: Mapping[str, str]
    billing: Mapping[str, Billing] = {}
    """Of answers with special terms or additional calls."""


def answer_key(node: RecordNode) -> str:
    """Return a key that all records of one answer share, in any file.

    That is the API's message id: a replay may repeat it with a new request id. If the id
    does not look unique (some gateways reuse ids), the request id is added, or the
    size of the context. Without a message id the key is the request id, or the
    record itself.
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
    """Return the ledger of accounts; the first account with an answer pays for it.

    Of several records of one answer the maximum of each count is used. Answers in
    `paid_keys` are not booked to any account.
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
    """Merge the terms of two records of an answer; the longer list of calls wins."""
    calls = max(one.sub_calls, other.sub_calls, key=len)
    return Billing(tuple(sorted({*one.terms, *other.terms})), calls)


def _context_size(node: RecordNode) -> int:
    return node.usage.context if node.usage else 0


def _has_usage(node: RecordNode) -> bool:
    """Whether a record has counts; some gateways write them in the last record only."""
    return node.usage is not None and node.usage != _NO_USAGE and not node.is_synthetic


_NO_USAGE = Usage()


def collect_message_usages(
    account: str,
    nodes: Iterable[RecordNode],
    branch: Mapping[RecordId, int],
    ledger: Ledger,
) -> tuple[MessageUsage, ...]:
    """Return the usages that an account pays for, at the first record of each answer.

    Additional calls that the API made for an answer follow as usages of their own.
    """
    usages: dict[str, MessageUsage] = {}
    text_sizes: dict[str, dict[str | int, int]] = {}
    for node in nodes:
        if not _has_usage(node):
            continue
        key = answer_key(node)
        if ledger.owner.get(key) != account:
            continue
        if _has_partial_counts(node.version):
            sizes = text_sizes.setdefault(key, {})
            for block in node.blocks:
                sizes[block.id or block.digest] = block.size
        if key in usages:
            continue
        usages[key] = MessageUsage(
            key=key,
            record_id=get_record_id(node),
            model=node.model,
            usage=ledger.usage[key],
            sent_at=node.timestamp,
            branch_number=branch.get(get_record_id(node), 0),
            entrypoint=node.entrypoint,
        )
    for key, sizes in text_sizes.items():
        tokens = sum(sizes.values()) // _BYTES_PER_TOKEN
        if usages[key].usage.output * _PLACEHOLDER_RATIO < tokens:
            usages[key] = structs.replace(usages[key], estimated_output=tokens)
    for key in ledger.billing.keys() & usages.keys() if ledger.billing else ():
        usages[key] = structs.replace(usages[key], terms=ledger.billing[key].terms)
    return tuple(_with_side_calls(usages, ledger.billing))


def _with_side_calls(
    usages: Mapping[str, MessageUsage], billing: Mapping[str, Billing]
) -> Iterator[MessageUsage]:
    for key, usage in usages.items():
        yield usage
        for number, call in enumerate(billing[key].sub_calls if key in billing else ()):
            yield structs.replace(
                usage,
                key=f"{key} +{number}",
                model=call.model or usage.model,
                usage=call.usage,
                estimated_output=0,
            )


@lru_cache(maxsize=256)
def _has_partial_counts(version: str | None) -> bool:
    """Whether a version recorded answers before their output was counted."""
    numbers = _VERSION.match(version) if version else None
    return numbers is None or tuple(map(int, numbers.groups())) < _FINAL_COUNTS_VERSION


def answers_from_progress(nodes: Iterable[RecordNode]) -> list[RecordNode]:
    """Return the answers of agents that progress records repeat, as assistant records.

    They are all that is left if the agent's own file is gone.
    """
    return [
        structs.replace(
            node,
            message_id=answer.message_id,
            request_id=answer.request_id,
            model=answer.model,
            usage=answer.usage,
            billing=answer.billing,
        )
        for node in nodes
        if node.kind == "progress"
        and isinstance(node.extra, AgentProgressFacts)
        and (answer := node.extra.answer)
    ]


def progress_account(session: SessionId) -> str:
    """Return the account of answers that only progress records contain."""
    return f"{session} progress"


def usage_by_message(
    messages: Sequence[Message], message_usages: Iterable[MessageUsage]
) -> dict[RecordId, Usage]:
    """Sum the usages of each message, by the message's id."""
    message_ids = {
        ref.record_id: message.id for message in messages for ref in message.record_refs
    }
    totals: dict[RecordId, Usage] = {}
    for usage in message_usages:
        message_id = message_ids.get(usage.record_id)
        if message_id is not None:
            totals[message_id] = totals.get(message_id, Usage()) + usage.usage
    return totals


def last_reported_cost(
    nodes: Sequence[RecordNode],
) -> tuple[ReportedCost | None, datetime | None]:
    """Return the last total that Claude Code reported, and the last time before it.

    The total continues when a session is resumed, so the last one is complete.
    """
    for index in range(len(nodes) - 1, -1, -1):
        facts = nodes[index].extra
        if isinstance(facts, ReportedCostFacts):
            return facts.reported_cost, last_timestamp(nodes[: index + 1])
    return None, None


def find_inherited_cost(
    reported: ReportedCost, nodes: Iterable[RecordNode], parent: Sequence[RecordNode]
) -> ReportedCost | None:
    """Return the part of a fork's reported cost that its parent spent before the fork.

    After `--fork-session` the client continues the parent's total, which shows in the
    time at which the total started; after `/branch` it starts at zero.
    """
    known = {node.uuid for node in parent if node.uuid}
    own_times = (
        node.timestamp for node in nodes if node.timestamp and node.uuid not in known
    )
    forked_at = min(own_times, default=None)
    inherited = None
    for node in parent:
        if forked_at and node.timestamp and node.timestamp > forked_at:
            break
        facts = node.extra
        if (
            isinstance(facts, ReportedCostFacts)
            and facts.reported_cost.start_time == reported.start_time
        ):
            inherited = facts.reported_cost
    return inherited
