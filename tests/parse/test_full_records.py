"""Records of the tree, including unknown types."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from bygones.model.records import (
    SYSTEM_SUBTYPES,
    AssistantRecord,
    HookContextRecord,
    ProgressData,
    ProgressRecord,
    SystemRecord,
    UnknownRecord,
    UserRecord,
)
from bygones.parse.full import unknown_fields
from tests.build import (
    CWD,
    SESSION,
    Written,
    compact,
    line,
    progress,
    prompt,
    reply,
    system,
)
from tests.parse.helpers import full, light, pieces

ENVELOPE: Written = {
    "logicalParentUuid": "l",
    "session_id": SESSION,
    "agentId": "a1",
    "entrypoint": "cli",
    "slug": "brave-green-fox",
    "sessionKind": "bg",
    "teamName": "team",
    "agentName": "ann",
    "promptId": "p",
    "forkedFrom": {"sessionId": "s", "messageUuid": "m"},
    "isMeta": True,
}
USER: Written = {
    "toolUseResult": {"stdout": ""},
    "sourceToolAssistantUUID": "b",
    "sourceToolUseID": "toolu_1",
    "toolDenialKind": "user-rejected",
    "permissionMode": "plan",
    "origin": {"kind": "human"},
    "promptSource": "typed",
    "turnOrigin": "typed",
    "isCompactSummary": True,
    "isVisibleInTranscriptOnly": True,
    "interruptedMessageId": "msg_1",
    "imagePasteIds": [1],
    "todos": [],
    "thinkingMetadata": {"level": "high", "disabled": False, "triggers": []},
    "mcpMeta": {"_meta": {}, "structuredContent": {}},
    "planContent": "first, then",
    "queuePriority": "next",
}
RARE: Written = dict.fromkeys(
    (
        "queueSkipAttachments",
        "classifierMetaLines",
        "toolEndsTurn",
        "turnCompanion",
        "serverClassifierContext",
        "bashEditDiff",
        "quotaLimits",
        "stackedExpansion",
        "stackedOriginalInput",
        "userFeedback",
        "summarizeMetadata",
        "apiErrorIsTransient",
    ),
    1,
)
ASSISTANT: Written = {
    "apiBlockIndex": 2,
    "apiError": "max_output_tokens",
    "effort": "high",
    "perTurnEffort": "high",
    "wireToolInputs": {},
    "attributionAgent": "x",
    "attributionSkill": "x",
    "attributionPlugin": "x",
    "attributionMcpServer": "x",
    "attributionMcpTool": "x",
    "isApiErrorMessage": True,
    "error": "rate_limit",
    "apiErrorStatus": 429,
    "errorDetails": "slow down",
    "isAbortedMidStream": True,
    "supersedesUuids": ["a", "b"],
    "advisorModel": "claude-opus-4-5",
    "costUSD": 0.25,
    "durationMs": 1200,
}
COMPACTION: Written = {
    "trigger": "manual",
    "preTokens": 155341,
    "postTokens": 4000,
    "durationMs": 900,
    "cumulativeDroppedTokens": 151341,
    "preCompactDiscoveredTools": ["Bash"],
    "preservedSegment": {"headUuid": "h", "anchorUuid": "a", "tailUuid": "t"},
    "preservedMessages": {"anchorUuid": "a", "uuids": ["x"], "allUuids": ["x", "y"]},
}
SYSTEM: dict[str | None, Written] = {
    None: {"toolUseID": "toolu_1", "systemType": "note", "message": "old words"},
    "compact_boundary": {"logicalParentUuid": "z", "compactMetadata": COMPACTION},
    "microcompact_boundary": {
        "microcompactMetadata": {
            "trigger": "auto",
            "preTokens": 9,
            "tokensSaved": 5,
            "compactedToolIds": ["toolu_1"],
            "clearedAttachmentUUIDs": [],
        }
    },
    "local_command": {},
    "turn_duration": {
        "durationMs": 61000,
        "messageCount": 12,
        "pendingBackgroundAgentCount": 1,
        "pendingWorkflowCount": 0,
    },
    "stop_hook_summary": {
        "hookCount": 1,
        "hookInfos": [{"command": "lint", "durationMs": 3}],
        "hookErrors": ["bad"],
        "hookAdditionalContext": [],
        "preventedContinuation": False,
        "stopReason": "",
        "hasOutput": True,
        "toolUseID": "toolu_1",
    },
    "api_error": {
        "error": {"status": 529, "requestID": None, "error": {}, "headers": {}},
        "cause": {"code": "ECONNRESET"},
        "retryInMs": 512.7,
        "retryAttempt": 1,
        "maxRetries": 10,
    },
    "error": {"error": {}},
    "away_summary": {},
    "informational": {},
    "bridge_status": {"url": "https://example.com", "upgradeNudge": ""},
    "scheduled_task_fire": {},
    "agents_killed": {},
    "model_refusal_fallback": {
        "trigger": "refusal",
        "direction": "down",
        "scope": "turn",
        "originalModel": "m1",
        "fallbackModel": "m2",
        "requestId": "req_1",
        "apiRefusalCategory": "c",
        "apiRefusalExplanation": "e",
        "refusedUserMessageUuid": "u",
        "retractedMessageUuids": ["b", "c"],
    },
    "model_refusal_no_fallback": {"originalModel": "m1"},
    "model_consent_fallback": {"fallbackModel": "m2"},
}
PROGRESS: dict[str, Written] = {
    "hook_progress": {"hookEvent": "Stop", "hookName": "h", "command": "c"},
    "agent_progress": {
        "agentId": "a1",
        "prompt": "look",
        "message": {"type": "user"},
        "normalizedMessages": [],
        "resume": None,
    },
    "bash_progress": {
        "output": "o",
        "fullOutput": "oo",
        "elapsedTimeSeconds": 3,
        "totalLines": 2,
        "timeoutMs": 120000,
    },
    "powershell_progress": {"output": "o"},
    "mcp_progress": {
        "status": "started",
        "serverName": "s",
        "toolName": "t",
        "elapsedTimeMs": 12,
    },
    "query_update": {"query": "q"},
    "search_results_received": {"resultCount": 3, "query": "q"},
    "waiting_for_task": {"taskDescription": "d", "taskType": "local_bash"},
    "skill_progress": {},
    "repl_tool_call": {},
}


@pytest.mark.req("R1", "R10")
def test_envelope_is_decoded() -> None:
    written = prompt("hello", uuid="a", parent="z", **ENVELOPE)

    record = full(written)

    assert isinstance(full(written), UserRecord)
    assert (record.uuid, record.parent_uuid) == ("a", "z")
    assert record.logical_parent_uuid == "l"
    assert record.timestamp == datetime(2026, 1, 5, 9, tzinfo=UTC)
    assert record.session_id == record.session_id_again == SESSION
    assert (record.cwd, record.git_branch, record.version) == (CWD, "main", "2.1.200")
    assert (record.entrypoint, record.slug) == ("cli", "brave-green-fox")
    assert (record.session_kind, record.team_name) == ("bg", "team")
    assert (record.agent_id, record.agent_name, record.prompt_id) == ("a1", "ann", "p")
    assert record.forked_from.session_id == "s"
    assert record.is_meta
    assert not record.is_sidechain


@pytest.mark.req("R10")
def test_light_decoder_keeps_version_branch_directory_and_entrypoint() -> None:
    sketch = light(prompt("hello", **ENVELOPE))

    assert (sketch.cwd, sketch.git_branch, sketch.version) == (CWD, "main", "2.1.200")
    assert (sketch.slug, sketch.entrypoint, sketch.session_kind) == (
        "brave-green-fox",
        "cli",
        "bg",
    )


@pytest.mark.req("R1", "R10")
@pytest.mark.parametrize(
    "record",
    [
        prompt("hello", **ENVELOPE, **USER, **RARE),
        reply("hello", **ENVELOPE, **ASSISTANT),
        *(system(subtype, "said", **fields) for subtype, fields in SYSTEM.items()),
        *(progress(kind, **fields) for kind, fields in PROGRESS.items()),
    ],
    ids=lambda record: f"{record['type']} {record.get('subtype', '')}",
)
def test_every_documented_field_is_known(record: Written) -> None:
    assert unknown_fields(line(record)) == ()
    assert full(record).type == record["type"]


@pytest.mark.req("R1", "R10")
def test_unknown_fields_and_types_are_drift() -> None:
    new = {"glow": 1, "message": {"role": "user", "content": "x", "shine": 2}}

    assert unknown_fields(line(prompt("hello") | new)) == ("glow", "message.shine")
    assert unknown_fields(line({"type": "from-tomorrow", "x": 1})) == ()
    assert unknown_fields(b'{"type":"user","sh\xffine":1}') == ("sh\ufffdine",)


@pytest.mark.req("R1")
def test_fields_of_user_records_are_decoded() -> None:
    record = full(prompt("hello", **USER))

    assert bytes(record.tool_use_result) == b'{"stdout":""}'
    assert record.source_tool_assistant == "b"
    assert record.source_tool_use == "toolu_1"
    assert record.tool_denial_kind == "user-rejected"
    assert record.permission_mode == "plan"
    assert record.origin.kind == "human"
    assert record.prompt_source == "typed"
    assert record.interrupted_message_id == "msg_1"
    assert record.plan_content == "first, then"
    assert bytes(record.image_paste_ids) == b"[1]"


@pytest.mark.req("C2")
def test_sender_of_a_peer_message_is_decoded() -> None:
    sender = {
        "kind": "peer",
        "from": "ann",
        "name": "Ann",
        "fromSession": "s",
        "senderTaskId": "t",
        "body": "hi",
        "handback": True,
    }

    origin = full(prompt("hi", origin=sender)).origin

    assert (origin.kind, origin.name, origin.from_session) == ("peer", "Ann", "s")
    assert (bytes(origin.sender), bytes(origin.body)) == (b'"ann"', b'"hi"')
    assert light(prompt("hi", origin=sender)).origin is not None


@pytest.mark.req("R1", "R3")
def test_records_of_one_message_share_its_id_in_order() -> None:
    first = reply("one", message_id="msg_1", apiBlockIndex=0)
    second = reply("two", message_id="msg_1", apiBlockIndex=1)

    for number, record in enumerate([first, second]):
        assert full(record).message.id == "msg_1"
        assert full(record).api_block_index == number
        sketch = light(record)
        assert sketch.message is not None
        assert sketch.message.id == "msg_1"
        assert sketch.request_id == "req_msg_1"


@pytest.mark.req("R1")
def test_fields_of_answers_are_decoded() -> None:
    record = full(reply("hello", model="m", **ASSISTANT))

    assert isinstance(full(reply("hello")), AssistantRecord)
    assert (record.message.model, record.message.role) == ("m", "assistant")
    assert record.message.usage.cache_read_input_tokens == 3000
    assert record.supersedes_uuids == ("a", "b")
    assert (record.cost_usd, record.duration_ms) == (0.25, 1200)
    assert record.is_aborted_mid_stream


@pytest.mark.req("R7")
def test_meta_errors_and_synthetic_answers_are_marked_in_both_decoders() -> None:
    failed = reply("API Error", model="<synthetic>", isApiErrorMessage=True)
    injected = prompt("body of a skill", isMeta=True, sourceToolUseID="toolu_1")

    assert full(failed).is_api_error_message
    assert light(failed).is_api_error_message
    assert full(failed).message.model == "<synthetic>"
    assert full(injected).is_meta
    assert light(injected).is_meta
    assert light(injected).source_tool_use == "toolu_1"


@pytest.mark.req("R7")
def test_superseded_and_retracted_records_are_named() -> None:
    again = reply("better", supersedesUuids=["b"])
    fallback = system("model_refusal_fallback", retractedMessageUuids=["b", "c"])

    assert full(again).supersedes_uuids == light(again).supersedes_uuids == ("b",)
    assert full(fallback).retracted_message_uuids == ("b", "c")


@pytest.mark.req("R1")
def test_every_documented_subtype_is_known() -> None:
    assert set(SYSTEM_SUBTYPES) == set(SYSTEM)
    assert set(ProgressData.types) == set(PROGRESS)


@pytest.mark.req("R1")
@pytest.mark.parametrize("subtype", SYSTEM_SUBTYPES, ids=str)
def test_every_system_subtype_is_decoded(subtype: str | None) -> None:
    record = full(system(subtype, "said", **SYSTEM[subtype]))

    assert isinstance(record, SystemRecord)
    assert (record.subtype, record.content, record.level) == (subtype, "said", "info")
    assert light(system(subtype, "said")).subtype == subtype


@pytest.mark.req("R1")
def test_unknown_system_subtype_shows_its_text() -> None:
    record = full(system("from_tomorrow", "said", level="suggestion"))

    assert (record.subtype, record.content) == ("from_tomorrow", "said")
    assert record.level == "suggestion"


@pytest.mark.req("R8")
def test_compaction_has_logical_parent_trigger_and_counts() -> None:
    written = compact("z", trigger="manual", tokens=155_341)

    record = full(written | {"compactMetadata": COMPACTION})

    assert (record.parent_uuid, record.logical_parent_uuid) == (None, "z")
    assert light(written).logical_parent_uuid == "z"
    assert (record.compaction.trigger, record.compaction.pre_tokens) == (
        "manual",
        155_341,
    )
    assert record.compaction.preserved_segment.anchor_uuid == "a"
    assert record.compaction.preserved_messages.all_uuids == ("x", "y")


@pytest.mark.req("R8")
def test_summary_of_a_compaction_is_marked_in_both_decoders() -> None:
    written = prompt("This session is being continued", isCompactSummary=True)

    assert full(written).is_compact_summary
    assert light(written).is_compact_summary


@pytest.mark.req("R8")
def test_microcompaction_has_counts_and_parent() -> None:
    fields = SYSTEM["microcompact_boundary"]

    record = full(system("microcompact_boundary", parent="a", **fields))

    assert (record.parent_uuid, record.microcompaction.tokens_saved) == ("a", 5)


@pytest.mark.req("R1")
def test_failed_request_may_have_a_fractional_delay() -> None:
    record = full(system("api_error", **SYSTEM["api_error"]))

    assert (record.retry_in_ms, record.retry_attempt) == (512.7, 1)
    assert b'"status":529' in bytes(record.error)


@pytest.mark.req("R1")
@pytest.mark.parametrize("kind", ProgressData.types)
def test_progress_records_are_part_of_the_tree(kind: str) -> None:
    written = progress(kind, uuid="p", parent="b", call="toolu_9", **PROGRESS[kind])

    record = full(written)

    assert isinstance(record, ProgressRecord)
    assert record.progress is not None
    assert record.progress.type == kind
    assert (record.uuid, record.parent_uuid) == ("p", "b")
    assert record.parent_tool_use == light(written).parent_tool_use == "toolu_9"


@pytest.mark.req("R1")
def test_progress_names_its_agent_in_both_decoders() -> None:
    written = progress("agent_progress", agentId="a1", prompt="look")

    sketch = light(written)

    assert full(written).progress.agent_id == "a1"
    assert sketch.progress is not None
    assert sketch.progress.agent_id == "a1"


@pytest.mark.req("R1")
def test_saved_hook_context_is_part_of_the_tree() -> None:
    record = full(
        prompt("")
        | {
            "type": "saved_hook_context",
            "content": ["x"],
            "hookName": "h",
            "hookEvent": "SessionStart",
            "toolUseID": "t",
        }
    )

    assert isinstance(record, HookContextRecord)
    assert (record.hook_name, record.tool_use_ref) == ("h", "t")
    assert record.uuid


@pytest.mark.req("R1")
def test_record_of_an_unknown_type_is_kept_raw_without_problem() -> None:
    written = {"type": "from-tomorrow", "uuid": "x", "parentUuid": "a", "glow": [1]}

    record = full(written)

    assert record == UnknownRecord("from-tomorrow", line(written))
    assert not record.is_private
    assert (light(written).uuid, light(written).parent_uuid) == ("x", "a")


@pytest.mark.req("R10")
def test_record_of_an_unknown_version_is_decoded() -> None:
    assert full(prompt("hello", version="9.9.9")).version == "9.9.9"
    assert len(pieces(prompt("hello", version="9.9.9"))) == 1
