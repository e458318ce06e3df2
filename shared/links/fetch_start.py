"""Starts the job that fetches links, so that a saved link does not wait for the job's schedule.

Google's libraries are imported late, to keep cold starts short.
"""

from __future__ import annotations

import asyncio
from typing import Final

from shared.core.log import error_fields, log

_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
"""The OAuth scope that Cloud Scheduler requires."""
_TIMEOUT_SECONDS: Final = 5.0
"""A response is awaited for this long, because the user waits for the tool's answer meanwhile."""


async def start_fetching(url: str) -> bool:
    """Ask Cloud Scheduler to run the job now, and return whether it accepted the request.

    A failure is logged but not raised, because the job also runs on its schedule.

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
    """Send the request with the credentials of this function.

    Raises:
        GoogleAuthError: There are no credentials.
        RequestException: Cloud Scheduler does not answer, or rejects the request.
    """
    import google.auth
    from google.auth.transport.requests import AuthorizedSession

    credentials, _ = google.auth.default(scopes=[_SCOPE])
    with AuthorizedSession(credentials) as session:
        session.post(url, timeout=_TIMEOUT_SECONDS).raise_for_status()
