"""The adapter between a job's declaration and a Cloud Function.

It is separate from `serving`, so that tools' bundles contain no code of jobs.
"""

from __future__ import annotations

# First: this import times the cold start.
from shared.runtime.serving import answer_health_check, register_handler

# isort: split
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from starlette.responses import JSONResponse

from shared.core import telemetry
from shared.core.errors import CarrelError, PlatformFault
from shared.core.log import error_fields, log
from shared.core.settings import Settings
from shared.runtime.context import App
from shared.runtime.job import AlreadyRunning, run_job

if TYPE_CHECKING:
    from starlette.requests import Request

    from shared.runtime.job import Job
    from shared.runtime.serving import Handler

MAX_FAILURES: Final = 100
"""The maximum number of failures in the response to a run."""


def serve_job(job: Job) -> Handler:
    """Make a Cloud Function of a job: `POST` runs the job, `GET` checks health.

    The answer to `POST` has the state `busy` if the job is already running.
    """
    app = App(Settings())
    telemetry.start(app.settings, job.name)

    async def answer(request: Request) -> JSONResponse:
        if request.method == "GET":
            return await answer_health_check(job.name, app)
        try:
            outcome = await run_job(job, app)
        except Exception as error:  # noqa: BLE001 - the boundary: no error message reaches the log
            log.error("job_stopped", job=job.name, **error_fields(error))
            public = error if isinstance(error, CarrelError) else PlatformFault("The job failed.")
            return JSONResponse({"error": public.to_wire()}, status_code=public.status)
        if isinstance(outcome, AlreadyRunning):
            return JSONResponse({"state": "busy", "until": outcome.until.isoformat()})
        state = "finished" if outcome.finished else "out of time"
        failures = [asdict(failure) for failure in outcome.failures[:MAX_FAILURES]]
        return JSONResponse({"state": state, "counts": outcome.counts, "failures": failures})

    return register_handler(answer, app)
