"""Pages that lie in one folder: sessions, parted where they are long, and lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import chain

import msgspec
from msgspec import structs

from bygones.export.making import Making
from bygones.export.rows import Row
from bygones.model.sessions import Branch, Session
from bygones.render.figures import several
from bygones.render.html import (
    Fragment,
    Shell,
    contents,
    fragments,
    heading,
    page,
    parts,
    static,
)
from bygones.render.html.markup import Html, facts, joined, tag, words
from bygones.render.safe import safe_line
from bygones.render.walk import View

__all__ = ["index_pages", "session_pages"]

_LONGEST = 1_500_000
"""Signs of a page behind which the next message begins another one."""
_NEWEST = 200
"""Sessions that the first list shows."""


def session_pages(
    session: Session, stem: str, making: Making
) -> Iterator[tuple[str, Iterator[Html]]]:
    """Yield a session's pages: the name of each, and its pieces.

    ``stem`` is the name of the first without its ending. One page is held at a time.
    """
    view = making.view
    branch = next(b for b in session.branches if b.number == view.branch)
    title = safe_line(session.title.text) or session.id
    found = fragments(session, view, making.setting)
    own = stem.rpartition("/")[2]
    number, first = 1, view.first
    part, rest = _part(found)
    while part:
        is_last = rest is None
        last = view.last if is_last or rest is None else _turn(rest, first) - 1
        shell = Shell(
            assets="../assets/",
            up="../index.html",
            foot=making.foot,
            before=_numbered(own, number - 1) if number > 1 else "",
            after="" if is_last else _numbered(own, number + 1),
            aside=_contents(branch, view, first, last),
        )
        top = heading(session, branch, making.setting)
        if number > 1:
            top = joined((top, tag("p", words(f"Part {number}"))))
        yield _numbered(stem, number), page(title, top, parts(part), shell)
        if rest is None:
            return
        first = _turn(rest, first)
        number += 1
        part, rest = _part(chain([rest], found))
    if number == 1:
        shell = Shell(assets="../assets/", up="../index.html", foot=making.foot)
        top = heading(session, branch, making.setting)
        yield _numbered(stem, 1), page(title, top, (), shell)


def _part(found: Iterable[Fragment]) -> tuple[list[Fragment], Fragment | None]:
    """Return the pieces of one page, and the one with which the next begins."""
    part: list[Fragment] = []
    size = 0
    for piece in found:
        is_start = bool(piece.message) or piece.turn is not None
        if is_start and size > _LONGEST:
            return part, piece
        part.append(piece)
        size += len(piece.html)
    return part, None


def _turn(piece: Fragment, before: int) -> int:
    return before if piece.turn is None else piece.turn


def _contents(branch: Branch, view: View, first: int, last: int | None) -> Html:
    return contents(branch, structs.replace(view, first=first, last=last))


def _numbered(stem: str, number: int) -> str:
    return f"{stem}.html" if number == 1 else f"{stem}-{number}.html"


def index_pages(rows: Sequence[Row], making: Making) -> Iterator[tuple[str, bytes]]:
    """Yield the lists of a folder, newest first, and what they need beside them."""
    yield "assets/style.css", static("style.css").encode()
    yield "assets/index.js", _index(rows)
    projects: dict[str, list[Row]] = {}
    for row in rows:
        projects.setdefault(row.project, []).append(row)
    shell = Shell(assets="assets/", foot=making.foot, scripts=("find.js",))
    title = _title(projects)
    top = joined((tag("h1", words(title)), tag("p", words(_counts(rows, projects)))))
    named = _projects(projects) if len(projects) > 1 else Html("")
    main = (_FIND, _list(rows[:_NEWEST], ""), named)
    yield "index.html", _encoded(page(title, top, main, shell))
    below = Shell(assets="../assets/", up="../index.html", foot=making.foot)
    for project, own in projects.items() if len(projects) > 1 else ():
        told = project or "No project"
        count = tag("p", words(several(len(own), "session")))
        top = joined((tag("h1", words(told)), count))
        whole = page(told, top, (_list(own, "../"),), below)
        yield _project_page(project), _encoded(whole)


_FIND = Html(
    '<form role="search" hidden><label class="skip" for="find">Find sessions</label>'
    '<input class="find" id="find" type="search" placeholder="Find sessions by words" '
    'autocomplete="off"><p class="status" role="status"></p></form>'
)


def _title(projects: dict[str, list[Row]]) -> str:
    names = list(projects)
    return names[0] or "Sessions" if len(names) == 1 else "Sessions"


def _counts(rows: Sequence[Row], projects: dict[str, list[Row]]) -> str:
    told = several(len(rows), "session")
    if len(projects) > 1:
        told += f" of {several(len(projects), 'project')}"
    return f"{told}; the newest {_NEWEST} are listed" if len(rows) > _NEWEST else told


def _list(rows: Sequence[Row], above: str) -> Html:
    lines = (
        tag(
            "li",
            joined(
                (
                    tag("a", words(row.title), href=f"{above}{row.page}"),
                    tag("p", facts(row.facts)),
                )
            ),
        )
        for row in rows
    )
    return tag("ul", joined(lines), kind="sessions")


def _projects(projects: dict[str, list[Row]]) -> Html:
    lines = (
        tag(
            "li",
            joined(
                (
                    tag("a", words(name or "No project"), href=_project_page(name)),
                    tag("p", words(several(len(own), "session"))),
                )
            ),
        )
        for name, own in sorted(projects.items())
    )
    heading = tag("h2", words("Projects"))
    return joined((heading, tag("ul", joined(lines), kind="projects")))


def _project_page(project: str) -> str:
    return f"projects/{sha256(project.encode()).hexdigest()[:16]}.html"


def _index(rows: Sequence[Row]) -> bytes:
    told = [
        (row.page, row.title, " · ".join(filter(None, row.facts)), row.words)
        for row in rows
    ]
    # A script of ours: what is in it are strings, and none of them can end it.
    encoded = msgspec.json.encode(told).replace(b"<", b"\\u003c")
    return b"globalThis.bygonesIndex = " + encoded + b";\n"


def _encoded(pieces: Iterable[Html]) -> bytes:
    return "".join(pieces).encode("utf-8", "replace")
