"""All JSON objects, and their JSON Schemas."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
from msgspec import Struct

from bygones.model import reports
from bygones.schema import commands, sessions, summaries

OBJECT_GROUPS: dict[str, tuple[type[Struct], ...]] = {
    "Sessions and lists": (
        summaries.SessionObject,
        summaries.ProjectObject,
        summaries.PromptObject,
        summaries.FileChangeObject,
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
    ),
    "Search": (summaries.SearchObject, summaries.MatchObject, summaries.HitObject),
    "Usage": (
        commands.UsageObject,
        commands.ToolUsageObject,
        commands.UsageReportObject,
        commands.ContextObject,
        commands.ContextReportObject,
    ),
    "Archive": (
        commands.IngestReportObject,
        commands.DamageObject,
        commands.VerificationObject,
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
        commands.ExportObject,
        commands.LinkObject,
        commands.IntegrationObject,
        commands.DemoObject,
        commands.HelpObject,
    ),
    "Hub": (commands.PushObject, commands.TokenObject, commands.ErasureObject),
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
