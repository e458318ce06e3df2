"""The adapter between a tool's declaration and a Cloud Function."""

from __future__ import annotations

from shared.core import cold_start

# isort: split
from typing import TYPE_CHECKING, Any, cast

import functions_framework.aio
from pydantic import ValidationError
from starlette.responses import JSONResponse

from shared.core import telemetry
from shared.core.errors import CarrelError, InvalidInput, get_http_status
from shared.core.http import parse_media_type
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
    """Make a Cloud Function of a tool: `POST` runs a `CallRequest`, `GET` checks health.

    Cloud Run lets only the gateway's service account invoke the function.
    """
    app = App(Settings())
    telemetry.start(app.settings, tool.name)

    async def answer(request: Request) -> JSONResponse:
        if request.method == "GET":
            return await answer_health_check(tool.name, app)
        # On a laptop, any web page can reach this function. But a page may send JSON only after a
        # preflight, which this function never grants.
        is_json = parse_media_type(request.headers.get("content-type")) == "application/json"
        try:
            call_request = CallRequest.model_validate_json(await request.body() if is_json else b"")
        except ValidationError:
            error = InvalidInput("This function takes call requests of Carrel's gateway only.")
            return JSONResponse({"error": error.to_wire()}, status_code=error.status)
        return _to_response(await invoke(tool, call_request, app))

    return register_handler(answer, app)


def register_handler(answer: Handler, app: App) -> Handler:
    """Register a handler with the functions framework, and end the cold start."""

    # The framework finds the function by its name, which must be the name of the deployed target.
    async def handle(request: Request) -> JSONResponse:
        with bind_trace(request.headers, app.settings.google_cloud_project):
            response = await answer(request)
            await telemetry.flush()
            return response

    entry = cast("Handler", functions_framework.aio.http(handle))
    cold_start.end()
    return entry


async def answer_health_check(name: str, app: App) -> JSONResponse:
    """Answer whether the function can reach the database. Costs one round trip."""
    try:
        await app.ping()
    except CarrelError as error:
        body = {"name": name, "status": "unavailable", "error": error.to_wire()}
        return JSONResponse(body, status_code=error.status)
    return JSONResponse({"name": name, "status": "ok"})


def _to_response(answer: CallAnswer) -> JSONResponse:
    status = get_http_status(answer.error.code) if answer.error else 200
    return JSONResponse(answer.model_dump(mode="json"), status_code=status)
