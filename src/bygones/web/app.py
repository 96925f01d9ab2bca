"""The ASGI application: the route table, threads and error pages."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bygones.errors import (
    AmbiguousSelector,
    ArchiveError,
    BadRequest,
    BygonesError,
    NotInArchive,
    QueryError,
    StoreError,
)
from bygones.render.html.markup import escape_line, tag
from bygones.web import api
from bygones.web.api import openapi_document
from bygones.web.context import AppState, RequestContext, RouteSpec
from bygones.web.layout import (
    ASSETS,
    PageMeta,
    link,
    load_asset,
    render_commands,
    render_page,
)
from bygones.web.live import live_events
from bygones.web.pages import (
    about,
    file_versions,
    files,
    home,
    message_actions,
    palette,
    prompts,
    search,
    session,
    session_compare,
    session_find,
    session_header,
    session_map,
    session_table,
    session_timeline,
    share,
    usage,
    usage_dashboard,
)
from bygones.web.saved_searches import change_searches

__all__ = ["ROUTES", "RouteSpec", "create_app"]

_MAX_CONCURRENT_REQUESTS = 4
"""Each request keeps a core busy, so more at once would only slow each other down."""
_MAX_CONCURRENT_SESSION_PAGES = 2
"""Session pages of a hub wait for its database, not only for each other."""
_MAX_CONCURRENT_LOCAL_PAGES = 1
"""Those of an archive keep the interpreter busy: two at once take a fifth more CPU."""
_READING_METHODS = {"GET", "HEAD"}
"""Requests that can be answered again after the database was restarted."""


_MEDIA_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


def static_file(context: RequestContext) -> Response:
    """Return a static file; its URL contains a hash, so browsers may keep it."""
    name = context.path_param("name")
    if name not in ASSETS:
        raise HTTPException(404)
    media_type = _MEDIA_TYPES[name.rpartition(".")[2]]
    headers = {"Cache-Control": "private, max-age=31536000, immutable"}
    return Response(load_asset(name), media_type=media_type, headers=headers)


def favicon(_context: RequestContext) -> Response:
    """Return the icon to browsers that ask for it at its usual place."""
    return Response(load_asset("favicon.svg"), media_type=_MEDIA_TYPES["svg"])


_CONVERSATION_ROUTES = {
    "/window": session.message_window,
    "/message": session.full_message,
    "/picture/{name}": session.message_image,
    "/header": session_header.header_part,
    "/outline": session.session_outline,
    "/timeline": session_timeline.session_timeline,
    "/raw": message_actions.raw_records,
    "/sent": message_actions.sent_messages,
    "/fork": message_actions.fork_commands,
    "/markdown": message_actions.session_markdown,
    "/find": session_find.find_in_session,
}
ROUTES = (
    RouteSpec("/", home.home_page),
    RouteSpec("/more", home.older_sessions),
    RouteSpec("/sessions/change", session_table.change_sessions, "POST"),
    *(
        route
        for path in ("/session/{id}", "/session/{id}/agent/{agent}")
        for route in (
            RouteSpec(path, session.session_page, is_session_page=True),
            *(
                RouteSpec(path + end, handler)
                for end, handler in _CONVERSATION_ROUTES.items()
            ),
        )
    ),
    RouteSpec("/session/{id}/compare", session_compare.compare_page),
    RouteSpec("/session/{id}/beside", session.sessions_beside),
    RouteSpec("/session/{id}/map", session_map.session_map_page),
    RouteSpec("/search", search.search_page),
    RouteSpec("/search/answer", search.search_results),
    RouteSpec("/search/facets", search.search_facets),
    RouteSpec("/search/hints", search.query_hints),
    RouteSpec("/searches", change_searches, "POST"),
    RouteSpec("/palette", palette.palette_entries),
    RouteSpec("/prompts", prompts.prompts_page),
    RouteSpec("/share", share.share_page),
    RouteSpec("/share/download", share.download),
    RouteSpec("/projects", home.projects_page),
    RouteSpec("/files", files.files_page),
    RouteSpec("/file", file_versions.file_page),
    RouteSpec("/usage", usage_dashboard.usage_page),
    RouteSpec("/usage.svg", usage_dashboard.usage_svg),
    RouteSpec("/usage.csv", usage.usage_csv),
    RouteSpec("/usage-chart.csv", usage_dashboard.chart_csv),
    RouteSpec("/problems", about.problems_page),
    RouteSpec("/about", about.about_page),
    RouteSpec("/static/{version}/{name}", static_file),
    RouteSpec("/favicon.ico", favicon),
    RouteSpec("/api/openapi.json", openapi_document),
    RouteSpec("/api/sessions", api.list_sessions, name="sessions"),
    RouteSpec("/api/sessions/{id}", api.get_session, name="session"),
    RouteSpec(
        "/api/sessions/{id}/annotations", api.annotate_session, "POST", "annotate"
    ),
    RouteSpec("/api/projects", api.list_projects, name="projects"),
    RouteSpec("/api/search", api.search_sessions, name="search"),
    RouteSpec("/api/usage", api.get_usage, name="usage"),
    RouteSpec("/api/files", api.list_files, name="files"),
    RouteSpec("/api/problems", api.list_problems, name="problems"),
)


def create_app(app_state: AppState) -> Starlette:
    """Return the application, without the security middleware."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        app_state.broadcaster.start()
        app.state.limiter = anyio.CapacityLimiter(_MAX_CONCURRENT_REQUESTS)
        is_local = app_state.pool.folder is not None
        app.state.pages = anyio.CapacityLimiter(
            _MAX_CONCURRENT_LOCAL_PAGES if is_local else _MAX_CONCURRENT_SESSION_PAGES
        )
        yield
        app_state.broadcaster.close()
        app_state.pool.close()

    def make_route(spec: RouteSpec) -> Route:
        async def endpoint(request: Request) -> Response:
            body = await request.body() if spec.method != "GET" else b""
            context = RequestContext(
                request=request, app_state=app_state, now=app_state.clock(), body=body
            )
            state = request.app.state
            limiter = state.pages if spec.is_session_page else state.limiter
            return await anyio.to_thread.run_sync(
                _handle_request, spec, context, limiter=limiter
            )

        return Route(spec.path, endpoint, methods=[spec.method], name=spec.path)

    app = Starlette(
        routes=[
            *map(make_route, ROUTES),
            Route("/api/live", live_events, name="/api/live"),
        ],
        lifespan=lifespan,
        exception_handlers={HTTPException: _handle_http_error},
    )
    app.router.redirect_slashes = False
    app.state.app_state = app_state
    app.state.routes = ROUTES
    return app


def _handle_request(route: RouteSpec, context: RequestContext) -> Response:
    """Call the handler of a route; errors become pages, or JSON for the API."""
    try:
        if route.is_api:
            api.check_parameters(context, route.name)
        try:
            return route.handler(context)
        except StoreError as error:
            # The database of a hub was restarted, and the connection is a new one.
            if error.is_permanent or context.request.method not in _READING_METHODS:
                raise
            return route.handler(context)
    except HTTPException:
        raise
    except BygonesError as error:
        hint = _api_hint(error) if route.is_api else error.hint
        return _error_response(route.is_api, _status_code(error), str(error), hint)
    except Exception:
        if os.environ.get("BYGONES_DEBUG"):
            raise
        return _error_response(
            route.is_api,
            500,
            "Internal error.",
            "start the server with BYGONES_DEBUG=1 to see the cause",
        )


def _api_hint(error: BygonesError) -> str:
    """Return a hint for programs, which do not use the command line."""
    match error:
        case NotInArchive():
            return "/api/sessions lists sessions, /api/projects lists projects"
        case BadRequest():
            return "/api/openapi.json describes the parameters"
        case _:
            return error.hint


def _status_code(error: BygonesError) -> int:
    match error:
        case NotInArchive():
            return 404
        case QueryError() | BadRequest() | AmbiguousSelector():
            return 400
        case ArchiveError() | StoreError():
            return 503
        case _:
            return 500


def _error_response(is_api: bool, status: int, message: str, hint: str) -> Response:
    if is_api:
        return JSONResponse({"error": message, "hint": hint}, status)
    message = message[:1].upper() + message[1:]
    main = (
        tag("h1", escape_line(message.removesuffix("."))),
        tag("p", render_commands(f"{hint[:1].upper()}{hint[1:]}."), kind="note"),
        tag("p", link("/", escape_line("All sessions"))),
    )
    return render_page(
        PageMeta(title=message[:80], css_class="plain lost"), main, status
    )


async def _handle_http_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    messages = {404: "Page not found.", 405: "Method not allowed."}
    is_api = request.url.path.startswith("/api/")
    hint = (
        "/api/openapi.json describes the API"
        if is_api
        else "check the address, or start from the list of sessions"
    )
    message = messages.get(status, "The request failed.")
    return _error_response(is_api, status, message, hint)
