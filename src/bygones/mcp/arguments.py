"""What agents may ask: the arguments of each tool, with their limits."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

__all__ = [
    "MAX_BYTES",
    "MIN_BYTES",
    "FileHistoryArguments",
    "OutlineArguments",
    "ReadArguments",
    "RecentArguments",
    "SearchArguments",
    "ToolArguments",
]

MIN_BYTES = 1_000
MAX_BYTES = 60_000

_MaxBytes = Annotated[
    int,
    Meta(
        ge=MIN_BYTES,
        le=MAX_BYTES,
        description="Length of the answer, at most; 4 are about a token.",
    ),
]
_Cursor = Annotated[
    str,
    Meta(
        max_length=100,
        description="Ends a cut answer; with the same other arguments it goes on.",
    ),
]
_Session = Annotated[
    str,
    Meta(
        min_length=4,
        max_length=200,
        description="A session's id, or its beginning.",
    ),
]
_Scope = Annotated[
    Literal["project", "all"],
    Meta(description="This project, or every project."),
]


class ToolArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every tool may be told."""

    max_bytes: _MaxBytes = 6_000
    cursor: _Cursor = ""


class SearchArguments(
    ToolArguments, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """What to search for."""

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
    """Which session to outline."""

    session: _Session
    branch: Annotated[
        int, Meta(ge=1, description="A branch's number; 1 is the live one.")
    ] = 1


class ReadArguments(
    ToolArguments, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """Which part of a session to read."""

    session: _Session
    at: Annotated[
        str,
        Meta(
            max_length=100,
            description="Where to begin: a record as answers cite it (#1a2b3c4d), or a"
            " turn (t12). Without it, the beginning.",
        ),
    ] = ""
    before: Annotated[
        int, Meta(ge=0, le=20, description="Messages to begin earlier.")
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
            " well; full: also thinking, inputs and outputs. Lines behind | were"
            " said, those behind ~ thought."
        ),
    ] = "calls"


class FileHistoryArguments(
    ToolArguments, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """Which file is meant."""

    path: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=4_000,
            description="A file or folder: its whole path, or how that ends.",
        ),
    ]


class RecentArguments(
    ToolArguments, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """Which sessions to list."""

    max_bytes: _MaxBytes = 3_000

    scope: _Scope = "project"
