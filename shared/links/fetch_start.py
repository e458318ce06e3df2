"""Starts the job that fetches links, so that a saved link does not wait for the job's schedule."""

from __future__ import annotations

import asyncio
from typing import Final

from shared.core.log import error_fields, log

_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
_TIMEOUT_SECONDS: Final = 5.0


async def start_fetching(url: str) -> bool:
    """Ask Cloud Scheduler to run the job now, and return whether it accepted the request.

    A failure is logged, and the job runs on its schedule.

    Args:
        url: The address that runs the job, see https://cloud.google.com/scheduler/docs/reference/
            rest/v1/projects.locations.jobs/run
    """
    from google.auth.exceptions import GoogleAuthError
    from requests import RequestException

    try:
        await asyncio.to_thread(_post, url)
    except (GoogleAuthError, RequestException) as error:
        log.warning("job_not_started", job="ingest", **error_fields(error))
        return False
    return True


def _post(url: str) -> None:
    import google.auth
    from google.auth.transport.requests import AuthorizedSession

    credentials, _ = google.auth.default(scopes=[_SCOPE])
    with AuthorizedSession(credentials) as session:  # type: ignore[no-untyped-call]
        session.post(url, timeout=_TIMEOUT_SECONDS).raise_for_status()
