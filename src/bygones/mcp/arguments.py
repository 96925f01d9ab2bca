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
        description="From the end of a cut answer; pass it with the same other"
        " arguments to get the next part.",
    ),
]
_Session = Annotated[
    str,
    Meta(
        min_length=4,
        max_length=200,
        description="A session id, or a unique prefix of it.",
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
            description="Words as you would type them, and fields; see above.",
        ),
    ]
    scope: Annotated[
        Literal["project", "all"],
        Meta(
            description="all (default): this project's sessions first, then others;"
            " project: only this project's."
        ),
    ] = "all"
    hits: Annotated[
        int, Meta(ge=1, le=10, description="Quotations for each session.")
    ] = 2


class OutlineArguments(
    ToolArguments, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    session: _Session
    branch: Annotated[
        int, Meta(ge=1, description="A branch's number; 1 is the live one.")
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
        int, Meta(ge=0, le=20, description="How many messages to start earlier.")
    ] = 0
    branch: Annotated[
        int, Meta(ge=1, description="A branch's number; 1 is the live one.")
    ] = 1
    agent: Annotated[
        str,
        Meta(max_length=100, description="An agent run's id: read it, not its caller."),
    ] = ""
    detail: Annotated[
        Literal["talk", "calls", "full"],
        Meta(
            description="talk: prompts and replies; calls: a line for each tool call as"
            " well; full: also thinking, inputs and outputs. Lines that start with"
            " | were said, those with ~ are thinking."
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
            description="A file or folder: its whole path, or the end of it.",
        ),
    ]


class RecentArguments(
    ToolArguments, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    max_bytes: _MaxBytes = 3_000

    scope: _Scope = "project"
