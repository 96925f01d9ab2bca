"""Metadata records and attachments."""

from __future__ import annotations

import pytest

from bygones.model.metadata import (
    ATTACHMENTS_BY_TYPE,
    METADATA_BY_TYPE,
    ApiRequestRecord,
    AttachmentRecord,
    ContextFile,
    HookReport,
    MetadataRecord,
    PrivateRecord,
    QueuedCommand,
    RequestBlobRecord,
    RequestShapeRecord,
    UnknownAttachment,
)
from bygones.parse.full import unknown_fields
from tests.build import (
    SESSION,
    Written,
    attachment,
    delta,
    line,
    meta,
    moment,
    queue,
    snapshot,
    summary,
    title,
)
from tests.parse.helpers import full, light, passages, pieces

MODEL_COST: Written = {
    "inputTokens": 1,
    "outputTokens": 2,
    "thinkingTokens": 3,
    "cacheReadInputTokens": 4,
    "cacheCreationInputTokens": 5,
    "webSearchRequests": 6,
    "costUSD": 0.5,
}
RECORDS: dict[str, Written] = {
    "summary": {"summary": "Mended it", "leafUuid": "z", "cwd": "/work/demo"},
    "ai-title": {"aiTitle": "Mending"},
    "custom-title": {"customTitle": "Mine", "uuid": "u", "timestamp": moment(0)},
    "agent-name": {"agentName": "ann"},
    "agent-color": {"agentColor": "red"},
    "agent-setting": {"agentSetting": "reviewer"},
    "tag": {"tag": ""},
    "last-prompt": {"lastPrompt": "go on", "leafUuid": "z", "explicit": True},
    "mode": {"mode": "normal"},
    "permission-mode": {"permissionMode": "plan"},
    "queue-operation": {"operation": "remove", "content": "hi", "reason": "r"},
    "pr-link": {"prNumber": 7, "prUrl": "https://x", "prRepository": "o/r"},
    "worktree-state": {
        "worktreeSession": {
            "originalCwd": "/work/demo",
            "worktreePath": "/w",
            "worktreeName": "n",
            "worktreeBranch": "b",
            "originalBranch": "main",
            "originalHeadCommit": "c0ffee",
            "sessionId": SESSION,
            "tmuxSessionName": "t",
            "hookBased": False,
        }
    },
    "relocated": {"relocatedCwd": "/elsewhere"},
    "continued-in": {"continuedInSessionId": "s2"},
    "fork-context-ref": {
        "agentId": "a1",
        "parentSessionId": SESSION,
        "parentLastUuid": "z",
        "contextLength": 12,
    },
    "history-suppression": {"cause": "fork_inherit"},
    "content-replacement": {
        "agentId": "a1",
        "replacements": [
            {"kind": "tool-result", "toolUseId": "toolu_1", "replacement": "[cut]"}
        ],
    },
    "cost-state": {
        "totalCostUSD": 1.25,
        "totalAPIDuration": 100,
        "totalAPIDurationWithoutRetries": 90,
        "totalToolDuration": 5,
        "totalDuration": 200,
        "totalLinesAdded": 3,
        "totalLinesRemoved": 1,
        "startTime": 1_767_600_000_000,
        "hasUnknownModelCost": False,
        "modelUsage": {"claude-sonnet-4-5": MODEL_COST},
    },
    "frame-link": {"path": "/f", "frameUrl": "u", "title": "t", "artifactCount": 1},
    "task-summary": {"summary": "did it", "timestamp": moment(0)},
    "attribution-snapshot": {"messageId": "z", "surface": "cli", "fileStates": {}},
    "speculation-accept": {"timestamp": moment(0), "timeSavedMs": 10},
    "atis-latch": {"atis": True},
    "launched": {"key": "k"},
    "started": {"key": "k", "agentId": "a1", "label": "l", "phase": 1},
    "result": {"key": "k", "agentId": "a1", "result": {"ok": True}},
    "failed": {"key": "k", "agentId": "a1", "error": "no"},
    "bridge-session": {
        "bridgeSessionId": "b",
        "lastSequenceNum": 4,
        "ownerAccountUuid": "o",
        "ownerOrganizationUuid": "p",
    },
    "artifact-autoreact-ledger": {"v": 1, "artifacts": [], "accountUuid": "o"},
}
ATTACHED: dict[str, Written] = {
    "queued_command": {
        "prompt": "and the tests",
        "commandMode": "prompt",
        "origin": {"kind": "human"},
        "imagePasteIds": [1],
    },
    "file": {"filename": "a.py", "content": {"type": "text"}, "displayPath": "a.py"},
    "edited_text_file": {"filename": "a.py", "snippet": "1\tx"},
    "read_truncation_notice": {"banner": "cut", "toolUseID": "toolu_1"},
    "already_read_file": {"filename": "a.py"},
    "hook_success": {
        "hookName": "h",
        "hookEvent": "Stop",
        "toolUseID": "t",
        "stdout": "o",
        "stderr": "e",
        "exitCode": 0,
        "command": "c",
        "durationMs": 12,
        "content": "said",
    },
    "hook_blocking_error": {"blockingError": {"blockingError": "no", "command": "c"}},
    "hook_cancelled": {"command": "c", "durationMs": 3},
    "hook_system_message": {"content": "said"},
    "async_hook_response": {"processId": "p1"},
    "deferred_tools_delta": {"addedNames": [], "addedLines": [], "removedNames": []},
    "mcp_instructions_delta": {"addedNames": [], "addedBlocks": []},
    "skill_listing": {"content": "- x", "skillCount": 1, "isInitial": True},
    "command_permissions": {"allowedTools": ["Bash"]},
    "team_context": {
        "agentId": "a1",
        "agentName": "ann",
        "teamName": "team",
        "teamConfigPath": "/t",
        "taskListPath": "/l",
    },
    "task_reminder": {"content": [], "itemCount": 0},
    "plan_mode": {
        "reminderType": "full",
        "isSubAgent": False,
        "planFilePath": "/p.md",
        "planExists": True,
    },
    "auto_mode": {"reminderType": "full"},
    "session_context": {"email": "ann@example.com"},
    "credential_org": {"org": "o"},
    "prompt_snapshot": {"systemPrompt": "You are"},
}


TYPES = """
summary ai-title custom-title agent-name agent-color agent-setting tag last-prompt mode
permission-mode queue-operation file-history-snapshot file-history-delta pr-link
worktree-state relocated continued-in fork-context-ref history-suppression
content-replacement cost-state bridge-session frame-link artifact-autoreact-ledger
artifact-comment-monitor task-summary attribution-snapshot speculation-accept
marble-origami-commit marble-origami-snapshot marble-origami-reset atis-latch
isolation-latch ended-by-model observer-ref dev-mods launched started result failed
agent_metadata tools-used api-request api-request-shape api-request-blob
"""
ATTACHMENT_TYPES = """
queued_command file edited_text_file compact_file_reference plan_file_reference
nested_memory instructions memory relevant_memories read_truncation_notice
already_read_file directory selected_lines_in_ide opened_file_in_ide hook_success
hook_non_blocking_error hook_blocking_error hook_cancelled hook_system_message
hook_additional_context hook_permission_decision async_hook_response
deferred_tools_delta deferred_tools_record mcp_instructions_delta agent_listing_delta
skill_listing dynamic_skill invoked_skills command_permissions team_context
workflow_keyword_request task_reminder todo_reminder total_tokens_reminder
silent_turn_reminder task_status date date_change model environment ultrathink_effort
budget_usd goal_status max_turns_reached thinking_drop companion_intro
remote_session_change diagnostics plan_mode plan_mode_exit plan_mode_reentry auto_mode
auto_mode_exit structured_output session_context credential_org prompt_snapshot
critical_system_reminder async_hook_response_batch at_mention_reference image document
teammate_shutdown_batch
"""


@pytest.mark.req("R1")
def test_every_documented_type_is_known() -> None:
    assert set(METADATA_BY_TYPE) == set(TYPES.split())
    assert set(ATTACHMENTS_BY_TYPE) == set(ATTACHMENT_TYPES.split())


@pytest.mark.req("R1")
@pytest.mark.parametrize("name", METADATA_BY_TYPE)
def test_every_metadata_type_has_its_struct(name: str) -> None:
    written = meta(name, **RECORDS.get(name, {}))

    record = full(written)

    assert isinstance(record, METADATA_BY_TYPE[name])
    assert (record.type, record.session_id) == (name, SESSION)
    assert unknown_fields(line(written)) == ()
    assert light(written).type == name


@pytest.mark.req("R1")
@pytest.mark.parametrize("name", ATTACHMENTS_BY_TYPE)
def test_every_attachment_type_has_its_struct(name: str) -> None:
    written = attachment(name, uuid="x", parent="a", **ATTACHED.get(name, {}))

    record = full(written)

    assert isinstance(record, AttachmentRecord)
    assert isinstance(record.attachment, ATTACHMENTS_BY_TYPE[name])
    assert record.attachment.type == name
    assert (record.uuid, record.parent_uuid) == ("x", "a")
    assert unknown_fields(line(written)) == ()


@pytest.mark.req("R1")
def test_fields_of_attachments_are_decoded() -> None:
    hook = full(attachment("hook_success", **ATTACHED["hook_success"])).attachment
    file = full(attachment("file", **ATTACHED["file"])).attachment

    assert isinstance(hook, HookReport)
    assert (hook.hook_name, hook.tool_use_ref, hook.exit_code) == ("h", "t", 0)
    assert isinstance(file, ContextFile)
    assert (file.filename, file.display_path) == ("a.py", "a.py")


@pytest.mark.req("R1")
def test_unknown_attachment_is_kept_raw() -> None:
    record = full(attachment("from_tomorrow", glow=1) | {"rendered": ["x"]})

    assert record.attachment == UnknownAttachment(
        type="from_tomorrow", raw=b'{"type":"from_tomorrow","glow":1}'
    )
    assert bytes(record.rendered) == b'["x"]'


@pytest.mark.req("R9")
def test_queued_command_is_a_prompt_with_mode_and_sender() -> None:
    written = attachment("queued_command", **ATTACHED["queued_command"])

    queued = full(written).attachment

    assert isinstance(queued, QueuedCommand)
    assert bytes(queued.prompt) == b'"and the tests"'
    assert queued.command_mode == "prompt"
    assert queued.origin is not None
    assert queued.origin.kind == "human"


@pytest.mark.req("R9")
@pytest.mark.parametrize("operation", ["enqueue", "dequeue", "remove", "popAll"])
def test_queue_operation_keeps_its_text_and_is_not_indexed(operation: str) -> None:
    record = full(queue(operation, "let me know the version"))

    assert record.operation == operation
    assert bytes(record.content) == b'"let me know the version"'
    assert record.timestamp is not None
    assert passages(queue(operation, "let me know the version")) == []


@pytest.mark.req("R9")
def test_queued_blocks_and_null_are_accepted() -> None:
    assert bytes(full(queue("enqueue", [{"type": "text"}])).content)[:1] == b"["
    assert bytes(full(queue("dequeue")).content) == b""


@pytest.mark.req("H1")
def test_snapshot_lists_file_versions_and_null_means_new() -> None:
    backup = "2ac9f4c88c39e759@v2"
    written = snapshot("z", {"src/main.go": backup, "new.go": None})

    record = full(written)

    assert (record.message_id, record.is_snapshot_update) == ("z", False)
    assert record.snapshot.message_id == "z"
    tracked = record.snapshot.tracked_file_backups
    assert tracked["src/main.go"].backup_file_name == backup
    assert tracked["src/main.go"].version == 2
    assert tracked["src/main.go"].backup_time == record.snapshot.timestamp
    assert tracked["new.go"].backup_file_name is None


@pytest.mark.req("H1")
def test_update_of_a_snapshot_is_marked() -> None:
    assert full(snapshot("z", update=True)).is_snapshot_update


@pytest.mark.req("H1")
def test_delta_adds_a_version_to_an_earlier_snapshot() -> None:
    record = full(delta("z", "y", "src/main.go", "2ac9f4c88c39e759@v3"))

    assert (record.message_id, record.snapshot_message_id) == ("z", "y")
    assert (record.tracking_path, record.backup.version) == ("src/main.go", 3)


@pytest.mark.req("H1", "E1")
def test_invalid_backup_is_left_out_alone() -> None:
    written = snapshot("z", {"a.py": "00@v1", "b.py": "00@v2"})
    written["snapshot"]["trackedFileBackups"]["a.py"] = "oops"

    problem, record = pieces(written)

    assert "snapshot.trackedFileBackups.a.py" in str(problem)
    assert list(record.snapshot.tracked_file_backups) == ["b.py"]  # type: ignore[union-attr]


@pytest.mark.req("R1")
def test_titles_summaries_and_totals_are_decoded() -> None:
    cost = full(meta("cost-state", **RECORDS["cost-state"]))

    assert full(summary("Mended it", "z")).leaf_uuid == "z"
    assert full(title("Mending")).ai_title == "Mending"
    assert full(title("Mine", custom=True)).custom_title == "Mine"
    assert (cost.total_cost_usd, cost.total_api_duration) == (1.25, 100)
    assert cost.model_usage["claude-sonnet-4-5"].cost_usd == 0.5


@pytest.mark.req("R1", "E1")
@pytest.mark.parametrize(
    "written",
    [
        meta("bridge-session", **RECORDS["bridge-session"]),
        meta("artifact-autoreact-ledger", v=1, accountUuid="o"),
        meta("artifact-comment-monitor"),
        attachment("session_context", email="ann@example.com"),
        attachment("session_context", email="ann", note='"queued_command"'),
        attachment("credential_org", org="o"),
        attachment("prompt_snapshot", systemPrompt="You are"),
        attachment("instructions", files=[{"content": "x"}]),
        {"type": "api-request", "id": "r", "params": {"model": "m"}, "tail": ["h"]},
        {"type": "api-request-shape", "shape": {"system": [{"text": "x"}]}},
        {"type": "api-request-blob", "message": {"role": "user", "content": "x"}},
    ],
    ids=lambda written: str(written.get("attachment", written)["type"]),
)
def test_case_32_private_records_are_recognized_and_never_indexed(
    written: Written,
) -> None:
    record = full(written)
    private = getattr(record, "attachment", record)

    assert private.is_private
    assert passages(written) == []


def test_other_records_are_not_private() -> None:
    kinds: list[type[MetadataRecord]] = [*METADATA_BY_TYPE.values()]

    assert {kind for kind in kinds if kind.is_private} == {
        PrivateRecord,
        ApiRequestRecord,
        RequestBlobRecord,
        RequestShapeRecord,
    }
