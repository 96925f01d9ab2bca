"""The arguments of each tool, with their limits and descriptions for a model."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

MIN_BYTES = 1_000
MAX_BYTES = 60_000

_MaxBytes = Annotated[
    int,
    Meta(
        ge=MIN_BYTES,
        le=MAX_BYTES,
        description="Maximum length of the answer; a token is about 4 bytes.",
    ),
]
_Cursor = Annotated[
    str,
    Meta(
        max_length=100,
        description="The cursor at the end of a truncated answer; pass it with the"
        " same arguments to get the next part.",
    ),
]
_Session = Annotated[
    str,
    Meta(
        min_length=4,
        max_length=200,
        description="A session id or a unique prefix of it.",
    ),
]
_Scope = Annotated[
    Literal["project", "all"],
    Meta(description="This project, or every project."),
]


class ToolArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments that all tools have."""

    max_bytes: _MaxBytes = 6_000
    cursor: _Cursor = ""


class SearchArguments(
    ToolArguments, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    max_bytes: _MaxBytes = 3_000

    query: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=2_000,
            description="Words and fields, as described above.",
        ),
    ]
    scope: Annotated[
        Literal["project", "all"],
        Meta(
            description="all (default): this project's sessions first, then others;"
            " project: only this project's."
        ),
    ] = "all"
    hits: Annotated[int, Meta(ge=1, le=10, description="Excerpts per session.")] = 2


class OutlineArguments(
    ToolArguments, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    session: _Session
    branch: Annotated[
        int, Meta(ge=1, description="A branch number; 1 is the live branch.")
    ] = 1


class ReadArguments(
    ToolArguments, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    session: _Session
    at: Annotated[
        str,
        Meta(
            max_length=100,
            description="Where to start: a record as answers cite it (#1a2b3c4d), or a"
            " turn (t12). By default, the start of the session.",
        ),
    ] = ""
    before: Annotated[
        int, Meta(ge=0, le=20, description="Start this many messages earlier.")
    ] = 0
    branch: Annotated[
        int, Meta(ge=1, description="A branch number; 1 is the live branch.")
    ] = 1
    agent: Annotated[
        str,
        Meta(
            max_length=100,
            description="The id of an agent run, to read it instead of the session.",
        ),
    ] = ""
    detail: Annotated[
        Literal["talk", "calls", "full"],
        Meta(
            description="talk: prompts and replies; calls: also one line per tool call;"
            " full: also thinking, inputs and outputs. Lines that start with | are"
            " text, those with ~ are thinking."
        ),
    ] = "calls"


class FileHistoryArguments(
    ToolArguments, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    path: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=4_000,
            description="A file or folder: its full path, or the end of it.",
        ),
    ]


class RecentArguments(
    ToolArguments, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    max_bytes: _MaxBytes = 3_000

    scope: _Scope = "project"
