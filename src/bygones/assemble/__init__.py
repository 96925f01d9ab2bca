"""ASSEMBLE: nodes to sessions; pure functions, no files, no SQL, no rendering."""

from __future__ import annotations

from bygones.assemble.edits import edits_of
from bygones.assemble.gather import is_named, session_of
from bygones.assemble.journals import Steps, steps_of
from bygones.assemble.listing import listed
from bygones.assemble.projects import projects_of
from bygones.assemble.sessions import assemble, begin
from bygones.assemble.titles import Summaries

__all__ = [
    "Steps",
    "Summaries",
    "assemble",
    "begin",
    "edits_of",
    "is_named",
    "listed",
    "projects_of",
    "session_of",
    "steps_of",
]
