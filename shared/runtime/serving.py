"""The one adapter between a declaration and a Cloud Function."""

from __future__ import annotations

from shared.core import cold_start

# isort: split
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

import functions_framework.aio
from pydantic import ValidationError
from starlette.responses import JSONResponse

from shared.core.errors import CarrelError, InvalidInput, PlatformFault, status_of
from shared.core.http import media_type
from shared.core.log import describe, log, traced
from shared.core.settings import Settings
from shared.runtime.context import App
from shared.runtime.invocation import call
from shared.runtime.messages import CallAnswer, CallRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

    from shared.runtime.job import Job
    from shared.runtime.tool import Tool

    Handler = Callable[[Request], Awaitable[JSONResponse]]


SHOWN = 100
"""How many failures the answer of a job lists."""


def serve(tool: Tool[Any, Any]) -> Handler:
    """Make a tool a function: `POST` a `CallRequest`, get a `CallAnswer`; `GET` tells its health.

    Only the gateway's service account may invoke it; Cloud Run checks that before the function.
    """
    app = App(Settings())

    async def answer(request: Request) -> JSONResponse:
        if request.method == "GET":
            return await _health(tool.name, app)
        # A web page can send anything but this without asking first: on a laptop it could reach us.
        is_json = media_type(request.headers.get("content-type")) == "application/json"
        try:
            call_request = CallRequest.model_validate_json(await request.body() if is_json else b"")
        except ValidationError:
            refusal = InvalidInput("This function takes a call request from Carrel's gateway.")
            return JSONResponse({"error": refusal.to_wire()}, status_code=refusal.status)
        return _response(await call(tool, call_request, app))

    return _entry_point(answer, app)


def serve_job(job: Job) -> Handler:
    """Make a job a function: `POST` runs it once, or says that another run is under way."""
    from shared.runtime.job import Busy, run_job

    app = App(Settings())

    async def answer(request: Request) -> JSONResponse:
        if request.method == "GET":
            return await _health(job.name, app)
        try:
            outcome = await run_job(job, app)
        except Exception as error:  # noqa: BLE001 - the boundary: no error's words reach the log
            log.error("job_stopped", job=job.name, **describe(error))
            told = error if isinstance(error, CarrelError) else PlatformFault("The job failed.")
            return JSONResponse({"error": told.to_wire()}, status_code=told.status)
        if isinstance(outcome, Busy):
            return JSONResponse({"state": "busy", "until": outcome.until.isoformat()})
        state = "finished" if outcome.finished else "out of time"
        failures = [asdict(failure) for failure in outcome.failures[:SHOWN]]
        body = {"state": state, "counts": outcome.counts, "failures": failures}
        return JSONResponse(body)

    return _entry_point(answer, app)


def _entry_point(answer: Handler, app: App) -> Handler:
    # The framework looks functions up by their own name, which must be the deployed target's.
    async def handle(request: Request) -> JSONResponse:
        with traced(request.headers, app.settings.google_cloud_project):
            return await answer(request)

    entry = cast("Handler", functions_framework.aio.http(handle))
    cold_start.over()
    return entry


async def _health(name: str, app: App) -> JSONResponse:
    try:
        await app.ping()
    except CarrelError as error:
        body = {"name": name, "status": "unavailable", "error": error.to_wire()}
        return JSONResponse(body, status_code=error.status)
    return JSONResponse({"name": name, "status": "ok"})


def _response(answer: CallAnswer) -> JSONResponse:
    status = status_of(answer.error.code) if answer.error else 200
    return JSONResponse(answer.model_dump(mode="json"), status_code=status)
