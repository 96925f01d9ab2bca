"""The class of a file, from what its records say."""

from __future__ import annotations

from bygones.model.surveys import FileClass, FileFacts

__all__ = ["classify"]

_REPLAYS = ("acompact-", "aside_question-", "aprompt_suggestion-")
"""How the ids of agents begin that replay the conversation for the harness."""
_WARMUP = "Warmup"


def classify(facts: FileFacts) -> FileClass:
    """Return the class of a file with these facts.

    A name alone decides nothing: a file named like an agent that holds an ordinary
    conversation is a conversation, and the other way round.
    """
    if not _records(facts) + facts.unknown:
        return FileClass.UNKNOWN if facts.oddities else FileClass.EMPTY
    if _is_agent(facts):
        return _agent(facts)
    if facts.nodes:
        return FileClass.MIXED if facts.begins_with_summary else FileClass.CONVERSATION
    return FileClass.UNKNOWN if facts.unknown else _metadata(facts)


def _records(facts: FileFacts) -> int:
    return facts.summaries + facts.snapshots + facts.metadata + facts.nodes


def _metadata(facts: FileFacts) -> FileClass:
    if facts.summaries == _records(facts):
        return FileClass.SUMMARY_ONLY
    if facts.snapshots == _records(facts):
        return FileClass.HISTORY_ONLY
    return FileClass.METADATA_ONLY


def _is_agent(facts: FileFacts) -> bool:
    if facts.messages:
        # Old versions wrote agent runs into the session's own file, among the rest.
        return facts.sidechains == facts.messages
    return facts.is_agent_by_name


def _agent(facts: FileFacts) -> FileClass:
    if (facts.agent or "").startswith(_REPLAYS):
        return FileClass.AGENT_REPLAY
    if facts.first_prompt is None:
        return FileClass.AGENT_INCOMPLETE
    if facts.first_prompt == _WARMUP:
        return FileClass.AGENT_WARMUP
    return FileClass.AGENT_TASK
