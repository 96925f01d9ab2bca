"""The page of projects: what was worked on."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from msgspec import Struct
from starlette.responses import Response

from bygones.archive import Archive
from bygones.assemble.projects import projects_of
from bygones.model.ids import SessionId
from bygones.model.listing import Listed
from bygones.model.parts import Project
from bygones.render.figures import size, tokens
from bygones.render.html.markup import joined, tag, words
from bygones.web.frame import Frame, address, framed, link, stamp, table
from bygones.web.visit import Visit

__all__ = ["ProjectFacts", "project_facts", "projects"]

_LONGEST_AGO = datetime.min.replace(tzinfo=UTC)


class ProjectFacts(Struct, frozen=True):
    """A project, when it was last worked on, and what was spent on it."""

    project: Project
    last: datetime | None
    tokens: int


def project_facts(archive: Archive) -> tuple[ProjectFacts, ...]:
    """Return all projects, the one last worked on first."""
    known: dict[SessionId, tuple[datetime | None, int]] = {}

    def noted() -> Iterator[Listed]:
        # One by one: all of them at once would take much memory.
        for one in archive.sessions():
            known[one.id] = one.ended, one.usage.total
            yield one

    rows = []
    for project in projects_of(noted()):
        own = [known[name] for name in project.sessions]
        last = max((ended for ended, _ in own if ended), default=None)
        rows.append(ProjectFacts(project, last, sum(spent for _, spent in own)))
    return tuple(sorted(rows, key=lambda row: row.last or _LONGEST_AGO, reverse=True))


def projects(visit: Visit) -> Response:
    """Answer with the list of projects."""
    rows = visit.readers.told("projects", project_facts)
    lines = []
    for row in rows:
        project = row.project
        path = project.path or ""
        name = words(project.name)
        to = address(project=path) if path else ""
        lines.append(
            (
                joined(
                    (
                        link(to, name) if to else name,
                        tag("div", words(path), kind="note"),
                    )
                ),
                words(f"{len(project.sessions):,}"),
                words(tokens(row.tokens)),
                words(size(project.size)),
                stamp(row.last, visit.now),
            )
        )
    heads = ("Project", "Sessions", "Tokens", "Size", "Last")
    frame = Frame(title="Projects", way="/projects", kind="wide")
    return framed(frame, (tag("h1", words("Projects")), table(heads, lines)))
