"""Classes of transcripts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bygones.inspection import classify_transcript
from bygones.model.base import AgentId
from bygones.model.reports import FileClass, FileFacts

AGENT = FileFacts(nodes=2, messages=2, sidechains=2, first_prompt="Count the lines")

CASES = {
    FileClass.EMPTY: FileFacts(),
    FileClass.SUMMARY_ONLY: FileFacts(summaries=3),
    FileClass.HISTORY_ONLY: FileFacts(snapshots=2),
    FileClass.METADATA_ONLY: FileFacts(summaries=1, snapshots=1),
    FileClass.MIXED: FileFacts(
        summaries=2, nodes=5, messages=4, begins_with_summary=True
    ),
    FileClass.CONVERSATION: FileFacts(nodes=5, messages=4, metadata=2),
    FileClass.AGENT_TASK: AGENT,
    FileClass.AGENT_WARMUP: FileFacts(
        nodes=2, messages=2, sidechains=2, first_prompt="Warmup"
    ),
    FileClass.AGENT_REPLAY: FileFacts(
        nodes=2,
        messages=2,
        sidechains=2,
        first_prompt="Hello",
        agent_id=AgentId("acompact-f3a1"),
    ),
    FileClass.AGENT_INCOMPLETE: FileFacts(nodes=1, messages=1, sidechains=1),
    FileClass.UNKNOWN: FileFacts(unknown=4),
}


@pytest.mark.req("F4")
@pytest.mark.parametrize(("expected", "facts"), CASES.items())
def test_file_class_depends_on_the_records(
    expected: FileClass, facts: FileFacts
) -> None:
    assert classify_transcript(facts) is expected


@pytest.mark.req("F4")
def test_every_class_has_a_case() -> None:
    assert set(CASES) == set(FileClass)


@pytest.mark.req("F4")
@pytest.mark.parametrize(
    "kind", ["acompact-1", "aside_question-2", "aprompt_suggestion-3"]
)
def test_agent_of_the_harness_is_a_replay(kind: str) -> None:
    facts = FileFacts(
        nodes=2, messages=2, sidechains=2, first_prompt="Warmup", agent_id=AgentId(kind)
    )

    assert classify_transcript(facts) is FileClass.AGENT_REPLAY


@pytest.mark.req("F4")
@pytest.mark.parametrize("prompt", ["warmup", "Warmup the oven", "", " Warmup"])
def test_warm_up_has_exactly_that_prompt(prompt: str) -> None:
    facts = FileFacts(nodes=2, messages=2, sidechains=2, first_prompt=prompt)

    assert classify_transcript(facts) is FileClass.AGENT_TASK


@pytest.mark.req("F4")
def test_conversation_in_a_file_named_like_an_agent_is_a_conversation() -> None:
    facts = FileFacts(nodes=4, messages=4, sidechains=1, is_named_like_agent=True)

    assert classify_transcript(facts) is FileClass.CONVERSATION


@pytest.mark.req("F4")
def test_agent_in_a_file_named_like_a_session_is_an_agent() -> None:
    assert AGENT.is_named_like_agent is False
    assert classify_transcript(AGENT) is FileClass.AGENT_TASK


@pytest.mark.req("F4")
def test_agent_file_without_messages_is_incomplete() -> None:
    facts = FileFacts(metadata=1, is_named_like_agent=True)

    assert classify_transcript(facts) is FileClass.AGENT_INCOMPLETE


@pytest.mark.req("F4")
def test_system_records_alone_are_not_a_conversation() -> None:
    assert classify_transcript(FileFacts(nodes=2)) is FileClass.METADATA_ONLY


@pytest.mark.req("F4")
def test_unreadable_lines_make_a_file_unknown_not_empty() -> None:
    assert classify_transcript(FileFacts(problems=1)) is FileClass.UNKNOWN


@pytest.mark.req("F4")
def test_metadata_with_unknown_records_is_an_unknown_file() -> None:
    assert classify_transcript(FileFacts(metadata=3, unknown=1)) is FileClass.UNKNOWN


counts = st.integers(0, 2)


@given(
    st.builds(
        FileFacts,
        summaries=counts,
        snapshots=counts,
        metadata=counts,
        nodes=counts,
        messages=counts,
        sidechains=counts,
        unknown=counts,
        problems=counts,
        begins_with_summary=st.booleans(),
        first_prompt=st.sampled_from([None, "", "Warmup", "Go"]),
        agent_id=st.sampled_from([None, AgentId("a1"), AgentId("acompact-1")]),
        is_named_like_agent=st.booleans(),
    )
)
def test_every_file_has_a_class(facts: FileFacts) -> None:
    assert classify_transcript(facts) in FileClass
