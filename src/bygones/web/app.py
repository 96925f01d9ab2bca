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
    AmbiguousSelector,
    ArchiveError,
    ArchiveInUse,
    BadRequest,
    BygonesError,
    NotInArchive,
    QueryError,
)
from bygones.render.html.markup import Html, escape_line, tag
from bygones.web import api
from bygones.web.context import AppState, RequestContext
from bygones.web.layout import ASSETS, PageMeta, load_asset, render_page
from bygones.web.live import live_events
from bygones.web.openapi import openapi
from bygones.web.pages import (
    about,
    files,
    home,
    search,
    session,
    session_map,
    usage,
)

__all__ = ["ROUTES", "RouteSpec", "create_app"]

_MAX_CONCURRENT_REQUESTS = 4
"""Answers that are made at once: each keeps a core busy, so more would only wait."""
_MAX_CONCURRENT_SESSION_PAGES = 2
"""Of pages of sessions, which are short work: more would keep each other from it."""


class RouteSpec(NamedTuple):
    """A path, what answers there, and how it may be asked."""

    path: str
    handler: Callable[[RequestContext], Response]
    method: str = "GET"

    @property
    def is_session_page(self) -> bool:
        """Whether that is the page of a session, or of an agent run in it."""
        return self.handler is session.session_page

    @property
    def is_api(self) -> bool:
        """Whether programs ask here, who want JSON also when something is wrong."""
        return self.path.startswith("/api/")


def static_file(context: RequestContext) -> Response:
    """Answer with a file that pages load; its address changes when it does."""
    name = context.path_param("name")
    if name not in ASSETS:
        raise HTTPException(404)
    kind = "text/css" if name.endswith(".css") else "text/javascript"
    forever = {"Cache-Control": "private, max-age=31536000, immutable"}
    return Response(load_asset(name), media_type=kind, headers=forever)


def favicon(context: RequestContext) -> Response:  # noqa: ARG001 (whoever asks)
    """Answer that there is no picture, for browsers that show what is no page."""
    return Response(status_code=204)


ROUTES = (
    RouteSpec("/", home.home_page),
    RouteSpec("/more", home.older_sessions),
    RouteSpec("/session/{id}", session.session_page),
    RouteSpec("/session/{id}/window", session.message_window),
    RouteSpec("/session/{id}/message", session.full_message),
    RouteSpec("/session/{id}/picture/{name}", session.message_image),
    RouteSpec("/session/{id}/outline", session.session_outline),
    RouteSpec("/session/{id}/raw", session.raw_records),
    RouteSpec("/session/{id}/markdown", session.session_markdown),
    RouteSpec("/session/{id}/find", session.find_in_session),
    RouteSpec("/session/{id}/map", session_map.session_map_page),
    RouteSpec("/session/{id}/agent/{agent}", session.session_page),
    RouteSpec("/session/{id}/agent/{agent}/window", session.message_window),
    RouteSpec("/session/{id}/agent/{agent}/message", session.full_message),
    RouteSpec("/session/{id}/agent/{agent}/picture/{name}", session.message_image),
    RouteSpec("/session/{id}/agent/{agent}/outline", session.session_outline),
    RouteSpec("/session/{id}/agent/{agent}/raw", session.raw_records),
    RouteSpec("/session/{id}/agent/{agent}/markdown", session.session_markdown),
    RouteSpec("/session/{id}/agent/{agent}/find", session.find_in_session),
    RouteSpec("/search", search.search_page),
    RouteSpec("/search/answer", search.search_results),
    RouteSpec("/search/facets", search.search_facets),
    RouteSpec("/search/hints", search.query_hints),
    RouteSpec("/projects", home.projects_page),
    RouteSpec("/files", files.files_page),
    RouteSpec("/usage", usage.usage_page),
    RouteSpec("/usage.csv", usage.usage_csv),
    RouteSpec("/problems", about.problems_page),
    RouteSpec("/about", about.about_page),
    RouteSpec("/static/{version}/{name}", static_file),
    RouteSpec("/favicon.ico", favicon),
    RouteSpec("/api/openapi.json", openapi),
    RouteSpec("/api/sessions", api.sessions),
    RouteSpec("/api/sessions/{id}", api.session),
    RouteSpec("/api/sessions/{id}/annotations", api.annotate, "POST"),
    RouteSpec("/api/projects", api.projects),
    RouteSpec("/api/search", api.search),
    RouteSpec("/api/usage", api.usage),
    RouteSpec("/api/files", api.files),
    RouteSpec("/api/problems", api.problems),
)


def create_app(app_state: AppState) -> Starlette:
    """Return the application, without its gate."""

    @asynccontextmanager
    async def living(app: Starlette) -> AsyncIterator[None]:
        app_state.broadcaster.start()
        app.state.limiter = anyio.CapacityLimiter(_MAX_CONCURRENT_REQUESTS)
        app.state.pages = anyio.CapacityLimiter(_MAX_CONCURRENT_SESSION_PAGES)
        yield
        app_state.broadcaster.close()
        app_state.pool.close()

    def route(row: RouteSpec) -> Route:
        async def endpoint(request: Request) -> Response:
            body = await request.body() if row.method != "GET" else b""
            visit = RequestContext(
                request=request, app_state=app_state, now=app_state.clock(), body=body
            )
            state = request.app.state
            # Whoever has rooms of their own, as a hub, may have one bound for all.
            pages = getattr(state, "pages", state.limiter)
            limiter = pages if row.is_session_page else state.limiter
            return await anyio.to_thread.run_sync(
                _handle_request, row, visit, limiter=limiter
            )

        return Route(row.path, endpoint, methods=[row.method], name=row.path)

    routes = [*map(route, ROUTES), Route("/api/live", live_events, name="/api/live")]
    app = Starlette(
        routes=routes,
        lifespan=living,
        exception_handlers={HTTPException: _handle_http_error},
    )
    app.router.redirect_slashes = False
    app.state.app_state = app_state
    app.state.rows = ROUTES
    return app


def _handle_request(route: RouteSpec, context: RequestContext) -> Response:
    """Answer, with a sentence where that cannot be done."""
    try:
        if route.is_api:
            api.check_parameters(context, route.handler.__name__)
        return route.handler(context)
    except HTTPException:
        raise
    except BygonesError as error:
        return _error_response(
            route.is_api, _status_code(error), str(error), error.hint
        )
    except Exception:
        if os.environ.get("BYGONES_DEBUG"):
            raise
        sentence = "This should not have happened."
        return _error_response(
            route.is_api, 500, sentence, "start with BYGONES_DEBUG=1 to see why"
        )


def _status_code(error: BygonesError) -> int:
    match error:
        case NotInArchive():
            return 404
        case QueryError() | BadRequest() | AmbiguousSelector():
            return 400
        case ArchiveInUse():
            return 503
        case ArchiveError():
            return 503
        case _:
            return 500


def _error_response(is_api: bool, status: int, message: str, hint: str) -> Response:
    if is_api:
        return JSONResponse({"error": message, "hint": hint}, status)
    message = message[:1].upper() + message[1:]
    main = (
        tag("h1", escape_line(message)),
        tag("p", escape_line(hint), kind="note"),
        Html(f'<p><a href="/">{escape("All sessions")}</a></p>'),
    )
    return render_page(
        PageMeta(title=message[:80], css_class="plain lost"), main, status
    )


_ErrorHandler = Callable[[Request, Exception], Awaitable[Response]]


async def _handle_http_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    sentence = {404: "There is nothing here.", 405: "That cannot be done here."}
    is_api = request.url.path.startswith("/api/")
    hint = "the list of sessions is a good place to begin"
    return _error_response(
        is_api, status, sentence.get(status, "That went wrong."), hint
    )
