"""The adapter between a tool's declaration and a Cloud Function."""

from __future__ import annotations

from shared.core import cold_start

# isort: split
from typing import TYPE_CHECKING, Any, cast

import functions_framework.aio
from pydantic import ValidationError
from starlette.responses import JSONResponse

from shared.core.errors import CarrelError, InvalidInput, http_status
from shared.core.http import media_type
from shared.core.log import bind_trace
from shared.core.settings import Settings
from shared.runtime.context import App
from shared.runtime.invocation import invoke
from shared.runtime.messages import CallAnswer, CallRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

    from shared.runtime.tool import Tool

    Handler = Callable[[Request], Awaitable[JSONResponse]]


def serve(tool: Tool[Any, Any]) -> Handler:
    """Make a function of a tool: `POST` takes a `CallRequest`, `GET` answers its health.

    Only the gateway's service account may invoke it; Cloud Run checks that before the function.
    """
    app = App(Settings())

    async def answer(request: Request) -> JSONResponse:
        if request.method == "GET":
            return await health(tool.name, app)
        # A web page can send anything but this without asking first: on a laptop it could reach us.
        is_json = media_type(request.headers.get("content-type")) == "application/json"
        try:
            call_request = CallRequest.model_validate_json(await request.body() if is_json else b"")
        except ValidationError:
            refusal = InvalidInput("This function takes a call request from Carrel's gateway.")
            return JSONResponse({"error": refusal.to_wire()}, status_code=refusal.status)
        return _response(await invoke(tool, call_request, app))

    return entry_point(answer, app)


def entry_point(answer: Handler, app: App) -> Handler:
    """Register a handler with the functions framework, and end the cold start."""

    # The framework looks functions up by their own name, which must be the deployed target's.
    async def handle(request: Request) -> JSONResponse:
        with bind_trace(request.headers, app.settings.google_cloud_project):
            return await answer(request)

    entry = cast("Handler", functions_framework.aio.http(handle))
    cold_start.end()
    return entry


async def health(name: str, app: App) -> JSONResponse:
    """Answer whether the database can be reached."""
    try:
        await app.ping()
    except CarrelError as error:
        body = {"name": name, "status": "unavailable", "error": error.to_wire()}
        return JSONResponse(body, status_code=error.status)
    return JSONResponse({"name": name, "status": "ok"})


def _response(answer: CallAnswer) -> JSONResponse:
    status = http_status(answer.error.code) if answer.error else 200
    return JSONResponse(answer.model_dump(mode="json"), status_code=status)
