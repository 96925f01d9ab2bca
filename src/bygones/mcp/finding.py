"""What a search tells an agent: sessions in order, with lines to cite."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from bygones.archive import Archive
from bygones.mcp.naming import plain_id, short_session
from bygones.mcp.quoting import NOTICE, Quoted
from bygones.mcp.telling import first_line, is_ours
from bygones.model.hits import Found, FoundSession, Hit
from bygones.model.query import And, Fact, Not, Part, Phrase, Query, Term
from bygones.query.tree import all_of
from bygones.render.figures import several
from bygones.render.remarks import remarks
from bygones.render.safe import safe_line

__all__ = ["Finding"]

_PAGE = 5
"""Sessions that are looked up at once."""
_SPARE = 3
"""Hits beyond those asked for, in place of such as are left out."""
_TITLE = 120


class Finding:
    """The answer to one query, looked up as far as it is told."""

    def __init__(
        self,
        archive: Archive,
        query: Query,
        *,
        hits: int,
        caller: str | None,
        hide: Callable[[str], str],
    ) -> None:
        self._archive = archive
        self._query = query
        self._hits = hits
        self._hide = hide
        # What was recalled before is no history, and who asks knows what was said. Who
        # quotes us in a prompt or an answer is heard all the same.
        self._apart: list[Term] = [Not(And((Fact("in", "result"), Phrase(NOTICE))))]
        self.left_out = "Left out: results that quote these tools"
        """What is not looked at, for whoever wonders."""
        if caller is not None:
            self._apart.append(Not(Fact("session", caller)))
            self.left_out += ", and your own session"

    def scopes(self, project: str | None, *, is_only: bool) -> list[list[Term]]:
        """Return what to ask for besides: the project first, then all others."""
        if project is None or _names_project(self._query.root):
            return [[]]
        here: list[Term] = [Fact("project", project)]
        return [here] if is_only else [here, [Not(here[0])]]

    def found(self, scope: Sequence[Term], offset: int) -> Found:
        """Return some of the sessions that fit, from an offset on."""
        terms = [*([self._query.root] if self._query.root else []), *self._apart]
        return self._archive.search(
            Query(all_of([*terms, *scope]), self._query.notes),
            limit=_PAGE,
            offset=offset,
            hits=self._hits + _SPARE,
            hide=self._hide,
        )

    def rows(
        self, scopes: Sequence[Sequence[Term]], known: Sequence[Found], start: int
    ) -> Iterator[Quoted]:
        """Yield rows from one on: how the query was read, then a session each.

        ``known`` is what the first scopes begin with; others are looked up when all of
        those is told.
        """
        if start == 0:
            yield Quoted("0", self._readings(known[0]))
        number = 1
        for place, scope in enumerate(scopes):
            begun = known[place] if place < len(known) else self.found(scope, 0)
            skipped = min(max(start - number, 0), begun.total)
            number += skipped
            while skipped < begun.total:
                page = self.found(scope, skipped) if skipped else begun
                if not page.sessions:
                    break
                for one in page.sessions:
                    head = "elsewhere:\n" if place and not skipped else ""
                    yield Quoted(str(number), head + self._session(one))
                    number += 1
                    skipped += 1

    def _readings(self, found: Found) -> str:
        told = map(self._hide, remarks(found))
        return "".join(f"({safe_line(one)})\n" for one in told)

    def _session(self, found: FoundSession) -> str:
        listed = found.listed
        facts = [
            short_session(self._archive, listed),
            f"{listed.ended:%Y-%m-%d}" if listed.ended else "",
            self._hide(listed.project or ""),
            first_line(self._hide(listed.title.text), _TITLE),
        ]
        told = [hit for hit in found.hits if not any(map(is_ours, hit.tools))]
        shown = [hit for hit in told if hit.part is not Part.TITLE][: self._hits]
        lines = [" · ".join(safe_line(fact) for fact in facts if fact)]
        lines += [f"  {self._hit(hit)}" for hit in shown]
        more = found.total - len(found.hits) + len(told) - len(shown)
        if more > 0:
            lines.append(f"  {found.bound.before(several(more, 'text'))} more")
        return "\n".join(lines) + "\n"

    def _hit(self, hit: Hit) -> str:
        facts = [
            f"#{plain_id(hit.record)}" if hit.record else "",
            f"{hit.time:%m-%d %H:%M}" if hit.time else "",
            "failed result" if hit.is_error else str(hit.part),
            ", rewound" if hit.is_rewound else "",
            f", agent {safe_line(hit.agent_type or hit.agent)}" if hit.agent else "",
        ]
        one = hit.excerpt
        text = ("…" if one.is_begun else "") + one.text + ("…" if one.is_cut else "")
        head = " ".join(filter(None, facts)).replace(" ,", ",")
        return f"{head}: {safe_line(text)}"


def _names_project(term: Term | None) -> bool:
    if isinstance(term, Not):
        return _names_project(term.term)
    terms = getattr(term, "terms", ())
    if any(map(_names_project, terms)):
        return True
    return isinstance(term, Fact) and term.field in {"project", "session"}
