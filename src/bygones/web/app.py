"""The application: the table of routes, and what happens to every answer."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from html import escape
from typing import NamedTuple

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bygones.errors import (
    Ambiguous,
    ArchiveError,
    ArchiveInUse,
    BadRequest,
    BygonesError,
    NotArchived,
    QueryError,
)
from bygones.render.html.markup import Html, tag, words
from bygones.web import api
from bygones.web.frame import ASSETS, Frame, asset, framed
from bygones.web.live import live
from bygones.web.openapi import openapi
from bygones.web.pages import (
    about,
    facets,
    files,
    find,
    home,
    problems,
    projects,
    search,
    session,
    tree,
    usage,
)
from bygones.web.visit import House, Visit

__all__ = ["ROUTES", "RouteRow", "application"]

_THREADS = 4
"""Answers that are made at once: each keeps a core busy, so more would only wait."""
_PAGES = 2
"""Of pages of sessions, which are short work: more would keep each other from it."""


class RouteRow(NamedTuple):
    """A path, what answers there, and how it may be asked."""

    path: str
    answer: Callable[[Visit], Response]
    method: str = "GET"

    @property
    def is_page(self) -> bool:
        """Whether that is the page of a session, or of an agent run in it."""
        return self.answer is session.page

    @property
    def is_api(self) -> bool:
        """Whether programs ask here, who want JSON also when something is wrong."""
        return self.path.startswith("/api/")


def static(visit: Visit) -> Response:
    """Answer with a file that pages load; its address changes when it does."""
    name = visit.part("name")
    if name not in ASSETS:
        raise HTTPException(404)
    kind = "text/css" if name.endswith(".css") else "text/javascript"
    forever = {"Cache-Control": "private, max-age=31536000, immutable"}
    return Response(asset(name), media_type=kind, headers=forever)


def favicon(visit: Visit) -> Response:  # noqa: ARG001 (whoever asks)
    """Answer that there is no picture, for browsers that show what is no page."""
    return Response(status_code=204)


ROUTES = (
    RouteRow("/", home.home),
    RouteRow("/more", home.more),
    RouteRow("/session/{id}", session.page),
    RouteRow("/session/{id}/window", session.window),
    RouteRow("/session/{id}/message", session.message),
    RouteRow("/session/{id}/picture/{name}", session.picture),
    RouteRow("/session/{id}/outline", session.outline),
    RouteRow("/session/{id}/raw", session.raw),
    RouteRow("/session/{id}/markdown", session.as_markdown),
    RouteRow("/session/{id}/find", find.find),
    RouteRow("/session/{id}/map", tree.tree),
    RouteRow("/session/{id}/agent/{agent}", session.page),
    RouteRow("/session/{id}/agent/{agent}/window", session.window),
    RouteRow("/session/{id}/agent/{agent}/message", session.message),
    RouteRow("/session/{id}/agent/{agent}/picture/{name}", session.picture),
    RouteRow("/session/{id}/agent/{agent}/outline", session.outline),
    RouteRow("/session/{id}/agent/{agent}/raw", session.raw),
    RouteRow("/session/{id}/agent/{agent}/markdown", session.as_markdown),
    RouteRow("/session/{id}/agent/{agent}/find", find.find),
    RouteRow("/search", search.search),
    RouteRow("/search/answer", search.answer),
    RouteRow("/search/facets", facets.facets),
    RouteRow("/search/hints", search.hint_rows),
    RouteRow("/projects", projects.projects),
    RouteRow("/files", files.files),
    RouteRow("/usage", usage.usage),
    RouteRow("/usage.csv", usage.sheet),
    RouteRow("/problems", problems.problems),
    RouteRow("/about", about.about),
    RouteRow("/static/{version}/{name}", static),
    RouteRow("/favicon.ico", favicon),
    RouteRow("/api/openapi.json", openapi),
    RouteRow("/api/sessions", api.sessions),
    RouteRow("/api/sessions/{id}", api.session),
    RouteRow("/api/sessions/{id}/annotations", api.annotate, "POST"),
    RouteRow("/api/projects", api.projects),
    RouteRow("/api/search", api.search),
    RouteRow("/api/usage", api.usage),
    RouteRow("/api/files", api.files),
    RouteRow("/api/problems", api.problems),
)


def application(house: House) -> Starlette:
    """Return the application, without its gate."""

    @asynccontextmanager
    async def living(app: Starlette) -> AsyncIterator[None]:
        house.herald.begin()
        app.state.limiter = anyio.CapacityLimiter(_THREADS)
        app.state.pages = anyio.CapacityLimiter(_PAGES)
        yield
        house.herald.end()
        house.readers.close()

    def route(row: RouteRow) -> Route:
        async def endpoint(request: Request) -> Response:
            body = await request.body() if row.method != "GET" else b""
            visit = Visit(request=request, house=house, now=house.clock(), body=body)
            state = request.app.state
            # Whoever has rooms of their own, as a hub, may have one bound for all.
            pages = getattr(state, "pages", state.limiter)
            limiter = pages if row.is_page else state.limiter
            return await anyio.to_thread.run_sync(
                _answered, row, visit, limiter=limiter
            )

        return Route(row.path, endpoint, methods=[row.method], name=row.path)

    routes = [*map(route, ROUTES), Route("/api/live", live, name="/api/live")]
    app = Starlette(
        routes=routes, lifespan=living, exception_handlers={HTTPException: _lost}
    )
    app.router.redirect_slashes = False
    app.state.house = house
    app.state.rows = ROUTES
    return app


def _answered(row: RouteRow, visit: Visit) -> Response:
    """Answer, with a sentence where that cannot be done."""
    try:
        return row.answer(visit)
    except HTTPException:
        raise
    except BygonesError as error:
        return _told(row.is_api, _status(error), str(error), error.hint)
    except Exception:
        if os.environ.get("BYGONES_DEBUG"):
            raise
        sentence = "This should not have happened."
        return _told(row.is_api, 500, sentence, "start with BYGONES_DEBUG=1 to see why")


def _status(error: BygonesError) -> int:
    match error:
        case NotArchived():
            return 404
        case QueryError() | BadRequest() | Ambiguous():
            return 400
        case ArchiveInUse():
            return 503
        case ArchiveError():
            return 503
        case _:
            return 500


def _told(is_api: bool, status: int, sentence: str, hint: str) -> Response:
    if is_api:
        return JSONResponse({"error": sentence, "hint": hint}, status)
    sentence = sentence[:1].upper() + sentence[1:]
    main = (
        tag("h1", words(sentence)),
        tag("p", words(hint), kind="note"),
        Html(f'<p><a href="/">{escape("All sessions")}</a></p>'),
    )
    return framed(Frame(title=sentence[:80], kind="plain lost"), main, status)


_Lost = Callable[[Request, Exception], Awaitable[Response]]


async def _lost(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    sentence = {404: "There is nothing here.", 405: "That cannot be done here."}
    is_api = request.url.path.startswith("/api/")
    hint = "the list of sessions is a good place to begin"
    return _told(is_api, status, sentence.get(status, "That went wrong."), hint)
