"""Bygones keeps, finds and shows what you and Claude Code have said."""

from __future__ import annotations

# The name is what type checkers look for; importing it takes as long as Python does.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from bygones.archive import Archive
    from bygones.reader import read_sessions

__all__ = ["Archive", "__version__", "read_sessions"]

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Import what is asked for when it is asked for: most of it is heavy."""
    if name == "Archive":
        from bygones.archive import Archive

        return Archive
    if name == "read_sessions":
        from bygones.reader import read_sessions

        return read_sessions
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
