"""All JSON objects, their JSON Schemas, and `to_dict` for values of the library."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
from msgspec import Struct

from bygones.assemble.summary import summarize_session
from bygones.model import reports
from bygones.model.sessions import Session
from bygones.model.summary import IndexedPrompt, Project, SessionMatch, SessionSummary
from bygones.model.usage import Cost
from bygones.schema import commands, files, sessions, summaries
from bygones.schema.encoding import JsonObject, encode_object_as_dict

OBJECT_GROUPS: dict[str, tuple[type[Struct], ...]] = {
    "Sessions and lists": (
        summaries.SessionObject,
        summaries.ProjectObject,
        summaries.PromptObject,
        summaries.FileChangeObject,
        summaries.FileReadObject,
        summaries.AnnotationsObject,
        summaries.TagObject,
        summaries.SessionChangeObject,
    ),
    "Messages": (
        sessions.TurnObject,
        sessions.MessageObject,
        sessions.ToolCallObject,
        sessions.CompactionObject,
        sessions.AgentRunObject,
        sessions.BranchObject,
        sessions.TreeLineObject,
        commands.RequestObject,
    ),
    "Files": (
        files.BlameLineObject,
        files.FileAtObject,
        files.FileDiffObject,
        files.CommitObject,
        files.UndoFileObject,
        files.UndoObject,
    ),
    "Search": (summaries.SearchObject, summaries.MatchObject, summaries.HitObject),
    "Usage": (
        commands.UsageObject,
        commands.ToolUsageObject,
        commands.UsageReportObject,
        commands.ContextObject,
        commands.ContextReportObject,
        commands.FailureObject,
    ),
    "Archive": (
        commands.IngestReportObject,
        commands.DamageObject,
        commands.VerificationObject,
        commands.RepairObject,
        commands.BackupObject,
        commands.FileObject,
        commands.RestoreObject,
        commands.PurgeObject,
        commands.DoctorObject,
        commands.RetentionObject,
        commands.ExpiringSessionObject,
    ),
    "Inspection": get_args(reports.SurveyObject),
    "Other commands": (
        commands.ResumeObject,
        commands.ForkObject,
        commands.MoveObject,
        commands.SyncObject,
        commands.ExportObject,
        commands.LinkObject,
        commands.IntegrationObject,
        commands.DemoObject,
        commands.HelpObject,
    ),
    "Hub": (
        commands.PushObject,
        commands.TokenObject,
        commands.HubProjectObject,
        commands.AuditEventObject,
        commands.ErasureObject,
    ),
}
OBJECT_TYPES: dict[str, type[Struct]] = {
    str(object_type.__struct_config__.tag): object_type
    for group in OBJECT_GROUPS.values()
    for object_type in group
}
"""The class of each object by its `type`."""


def json_schema(type_name: str | None = None) -> dict[str, Any]:
    """Return the JSON Schema of one type, or of any object if none is named."""
    if type_name is not None:
        return msgspec.json.schema(OBJECT_TYPES[type_name])
    refs, definitions = msgspec.json.schema_components(
        OBJECT_TYPES.values(), ref_template="#/$defs/{name}"
    )
    return {"anyOf": list(refs), "$defs": definitions}


Convertible = Session | SessionSummary | Project | IndexedPrompt | SessionMatch


def to_dict(value: Convertible, *, cost: Cost | None = None) -> dict[str, Any]:
    """Return a value as the dict that `--json` prints for it.

    `cost` is the cost of a session, as `Archive.costs` returns it.
    """
    return encode_object_as_dict(_to_object(value, cost))


def _to_object(value: Convertible, cost: Cost | None) -> JsonObject:
    match value:
        case Session():
            return summaries.SessionObject.from_summary(summarize_session(value), cost)
        case SessionSummary():
            return summaries.SessionObject.from_summary(value, cost)
        case Project():
            return summaries.ProjectObject.from_project(value)
        case IndexedPrompt():
            return summaries.PromptObject.from_prompt(value, None)
        case SessionMatch():
            return summaries.MatchObject.from_match(1, value)
        case _:
            raise TypeError(f"{type(value).__name__} has no JSON object")
