"""ASSEMBLE: nodes to sessions; pure functions, no files, no SQL, no rendering."""

from __future__ import annotations

from recollect.assemble.edits import edits_of
from recollect.assemble.gather import is_named, session_of
from recollect.assemble.journals import Steps, steps_of
from recollect.assemble.listing import listed
from recollect.assemble.projects import projects_of
from recollect.assemble.sessions import assemble, begin
from recollect.assemble.titles import Summaries

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
