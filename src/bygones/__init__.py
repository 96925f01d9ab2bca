"""Bygones keeps, finds and shows your conversations with Claude Code.

Open the archive and look for something::

    from bygones import Archive

    with Archive.open() as archive:
        for match in archive.search("flaky test", limit=3):
            print(match.title, match.hits[0].excerpt)

Read transcripts without an archive::

    from bygones import read_sessions

    for session in read_sessions(Path.home() / ".claude"):
        print(session.title.text, len(session.messages))

Everything that goes wrong is a `bygones.errors.BygonesError`.
"""

from __future__ import annotations

# Type checkers know this name; importing it from typing takes as long as all of this.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from bygones.archive import Archive
    from bygones.data.sql import SqlResult
    from bygones.library import to_dict
    from bygones.model.reports import UsageReport
    from bygones.model.sessions import (
        AgentRun,
        Branch,
        FileEdit,
        Message,
        Session,
        ToolCall,
        Turn,
    )
    from bygones.model.summary import SearchResults, SessionMatch, SessionSummary
    from bygones.reader import read_sessions

__all__ = [
    "AgentRun",
    "Archive",
    "Branch",
    "FileEdit",
    "Message",
    "SearchResults",
    "Session",
    "SessionMatch",
    "SessionSummary",
    "SqlResult",
    "ToolCall",
    "Turn",
    "UsageReport",
    "__version__",
    "errors",
    "read_sessions",
    "to_dict",
]

__version__ = "0.1.0"

_MODULES = {
    "AgentRun": "bygones.model.sessions",
    "Archive": "bygones.archive",
    "Branch": "bygones.model.sessions",
    "Message": "bygones.model.sessions",
    "SearchResults": "bygones.model.summary",
    "Session": "bygones.model.sessions",
    "FileEdit": "bygones.model.sessions",
    "SessionMatch": "bygones.model.summary",
    "SessionSummary": "bygones.model.summary",
    "SqlResult": "bygones.data.sql",
    "UsageReport": "bygones.model.reports",
    "ToolCall": "bygones.model.sessions",
    "Turn": "bygones.model.sessions",
    "read_sessions": "bygones.reader",
    "to_dict": "bygones.library",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: most of them are heavy."""
    from importlib import import_module

    if name == "errors":
        return import_module("bygones.errors")
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
