"""The web console: pages for people, rendered on the server from the results of tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.routing import Route, Router, request_response

from functions.gateway.console import export, history, passage_map, search, sources
from functions.gateway.console.account import AccountPage, show_connecting
from functions.gateway.console.add import AddPage
from functions.gateway.console.keys import KeyPages
from functions.gateway.console.rendering import PAGE_HEADERS, serve_static_file
from functions.gateway.console.saving import FORM_PATH, PAGE_PATH, PageEndpoint, SaveForm
from functions.gateway.console.sessions import KEY_PATH
from functions.gateway.console.visits import ADD_PATH, REVIEW_PATH, UPLOAD_PATH, Visits

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

    from functions.gateway.access import Access
    from functions.gateway.calls.pipeline import CallPipeline
    from functions.gateway.catalog import Catalog
    from functions.gateway.console.local_services import LocalServices


def make_console_app(
    access: Access,
    catalog: Catalog,
    pipeline: CallPipeline,
    local: LocalServices,
) -> Console:
    """Make the ASGI app of the console."""
    visits = Visits(access, catalog, pipeline, local.find_file)
    account = AccountPage(access)
    keys = KeyPages(access, visits.sessions)
    save_form = SaveForm(access)
    add = AddPage(visits.sessions, local.uploads)
    export_page = export.ExportPage(local.stream_export)
    pages = {
        "/": search.show,
        "/search": search.forward,
        ADD_PATH: add.show,
        "/sources": sources.show_list,
        "/sources/{source_id}": sources.show,
        "/passages/{chunk_id}": sources.show_passage,
        "/forgotten": sources.show_forgotten,
        "/changes": history.show,
        "/you": account.show,
        "/connect": show_connecting,
        export.PATH: export_page.show,
        KEY_PATH: keys.complete,
        FORM_PATH: save_form.show,
        passage_map.PATH: passage_map.show,
        "/clusters/{cluster_id}": passage_map.show_cluster,
    }
    # Pages are not compressed. They contain the form token next to text that others may choose, so
    # the size of a compressed page would reveal the token piece by piece (BREACH).
    points = GZipMiddleware(request_response(visits.wrap_data(passage_map.get_points)))
    static_files = GZipMiddleware(request_response(serve_static_file))
    router = Router(
        [
            *(Route(path, visits.wrap_page(show), methods=["GET"]) for path, show in pages.items()),
            Route("/map/points", points, methods=["GET"]),
            Route("/map/hits", visits.wrap_data(passage_map.get_hits), methods=["GET"]),
            Route("/map/passages/{chunk_id}", visits.wrap_data(passage_map.get_passage)),
            Route(export.PATH, visits.wrap_form(export_page.download), methods=["POST"]),
            Route(REVIEW_PATH, visits.wrap_form(search.review), methods=["POST"]),
            Route(ADD_PATH, visits.wrap_form(add.change), methods=["POST"]),
            Route(UPLOAD_PATH, visits.wrap_upload(add.upload), methods=["POST"]),
            Route("/sources/{source_id}", visits.wrap_form(sources.change), methods=["POST"]),
            Route("/forgotten", visits.wrap_form(sources.change_forgotten), methods=["POST"]),
            Route("/changes", visits.wrap_form(history.undo), methods=["POST"]),
            Route("/you", visits.wrap_form(account.change), methods=["POST"]),
            Route(KEY_PATH, visits.wrap_form(keys.begin), methods=["POST"]),
            Route(FORM_PATH, visits.wrap_form(save_form.save), methods=["POST"]),
            Route(PAGE_PATH, PageEndpoint(access, catalog, pipeline), methods=["POST"]),
            *visits.make_session_routes(),
            Route("/static/{name}", static_files, methods=["GET"]),
        ],
        default=visits.answer_not_found,
        redirect_slashes=False,
    )
    return Console(router, visits)


class Console:
    """The pages, with the headers that all of their responses have."""

    def __init__(self, router: Router, visits: Visits) -> None:
        self.routes = router.routes
        self._router = router
        self._visits = visits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in PAGE_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            await self._router(scope, receive, send_with_headers)
        except HTTPException as error:
            response = self._visits.answer_wrong_method(error, Request(scope))
            await response(scope, receive, send_with_headers)
