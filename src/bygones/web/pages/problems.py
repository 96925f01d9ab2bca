"""The page of problems and drift: what could not be read, and what is not known."""

from __future__ import annotations

from collections import Counter

from starlette.responses import Response

from bygones.archive import Archive
from bygones.model.ids import SessionId
from bygones.model.problems import PROBLEM_KINDS, Problem
from bygones.model.surveys import DriftRow
from bygones.render.html.markup import Html, joined, tag, words
from bygones.web.frame import Frame, address, empty, framed, link, table
from bygones.web.visit import Visit

__all__ = ["found_drift", "found_problems", "problems"]

_MOST = 500


def found_problems(archive: Archive) -> tuple[tuple[SessionId, Problem], ...]:
    """Return what is odd about sessions."""
    return tuple(archive.problems())


def found_drift(archive: Archive) -> tuple[DriftRow, ...]:
    """Return what this version knows nothing of."""
    return archive.drift()


def problems(visit: Visit) -> Response:
    """Answer with what is odd, by kind and one by one."""
    told = visit.readers.told("problems", found_problems)
    drift = visit.readers.told("drift", found_drift)
    kind = visit.text("kind", 40)
    parts = [
        tag("h1", words("Problems and drift")),
        tag(
            "p",
            words(
                "Nothing here is lost: every byte is kept, and what could be read is "
                "shown. Problems are what is odd about the files; drift is what this "
                "version of Bygones has not met before."
            ),
            kind="note",
        ),
        tag("h2", words("Problems")),
        _kinds(told),
    ]
    if kind:
        parts.append(_places(told, kind))
    parts += [tag("h2", words("Drift")), _drift(drift)]
    frame = Frame(title="Problems and drift", way="/problems", kind="wide")
    return framed(frame, parts)


def _kinds(told: tuple[tuple[SessionId, Problem], ...]) -> Html:
    counts = Counter(problem.kind for _, problem in told)
    if not counts:
        return empty("There are none.")
    lines = [
        (
            link(address("problems", kind=kind), words(kind), "word"),
            words(PROBLEM_KINDS[kind].meaning),
            words(f"{count:,}"),
        )
        for kind, count in counts.most_common()
    ]
    return table(("Kind", "Means", "How often"), lines, texts=2)


def _places(told: tuple[tuple[SessionId, Problem], ...], kind: str) -> Html:
    fitting = [one for one in told if one[1].kind == kind]
    lines = [
        (
            link(address("session", session), words(session[:8])),
            words(problem.position.source),
            words(problem.detail),
            words(f"{problem.position.offset:,}"),
        )
        for session, problem in fitting[:_MOST]
    ]
    shown = table(("Session", "File", "Detail", "Byte"), lines, texts=3)
    return joined((tag("h2", words(f"{kind}: {len(fitting):,}")), shown))


def _drift(rows: tuple[DriftRow, ...]) -> Html:
    if not rows:
        return empty("There is none: every type and field is known.")
    lines = [
        (
            words(row.kind),
            tag("code", words(row.name)),
            words(row.version or ""),
            words(f"{row.records:,}"),
        )
        for row in rows
    ]
    return table(("What", "Name", "Claude Code", "Records"), lines, texts=3)
