"""What agents may ask: the arguments of each tool, with their limits."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

__all__ = [
    "DEFAULT_BYTES",
    "LEAST_BYTES",
    "MOST_BYTES",
    "Asked",
    "FileHistoryAsked",
    "OutlineAsked",
    "ReadAsked",
    "RecentAsked",
    "SearchAsked",
]

DEFAULT_BYTES = 6_000
LEAST_BYTES = 1_000
MOST_BYTES = 60_000

_Bytes = Annotated[
    int,
    Meta(
        ge=LEAST_BYTES,
        le=MOST_BYTES,
        description="The whole answer is at most so long; 4 bytes are about a token.",
    ),
]
_Cursor = Annotated[
    str,
    Meta(
        max_length=100,
        description="To go on: the cursor at the end of the last answer, with all"
        " other arguments as they were.",
    ),
]
_Session = Annotated[
    str,
    Meta(
        min_length=4,
        max_length=200,
        description="A session's id, or its beginning, as answers give it.",
    ),
]
_Scope = Annotated[
    Literal["project", "all"],
    Meta(description="This project, or every project."),
]


class Asked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every tool may be told."""

    max_bytes: _Bytes = DEFAULT_BYTES
    cursor: _Cursor = ""


class SearchAsked(Asked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to search for."""

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


class OutlineAsked(Asked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which session to outline."""

    session: _Session
    branch: Annotated[
        int, Meta(ge=0, description="A branch's number; 0 is the live one.")
    ] = 0


class ReadAsked(Asked, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
        int, Meta(ge=0, description="A branch's number; 0 is the live one.")
    ] = 0
    agent: Annotated[
        str,
        Meta(max_length=100, description="An agent run's id: read it, not its caller."),
    ] = ""
    detail: Annotated[
        Literal["talk", "calls", "full"],
        Meta(
            description="talk: prompts and replies; calls: a line for each tool call as"
            " well; full: also thinking, inputs and outputs."
        ),
    ] = "calls"


class FileHistoryAsked(Asked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which file is meant."""

    path: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=4_000,
            description="A file or folder: its whole path, or how that ends.",
        ),
    ]


class RecentAsked(Asked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which sessions to list."""

    scope: _Scope = "project"
