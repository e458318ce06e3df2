"""Starts the job `ingest` in the cloud, so that a saved link does not wait for the schedule."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from shared.core.log import error_fields, log
from shared.runtime.capabilities import Capability

if TYPE_CHECKING:
    from shared.runtime.context import Context

_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
"""The OAuth scope that Cloud Scheduler requires."""
_TIMEOUT_SECONDS: Final = 5.0
"""A response is awaited for this long, because the user waits for the tool's answer meanwhile."""


async def start_ingest(ctx: Context) -> bool:
    """Ask Cloud Scheduler to run the job now, and return whether it accepted the request.

    A failure is logged but not raised, because the job also runs on its schedule. A laptop has no
    Cloud Scheduler. Google's libraries are imported late, to keep cold starts short.
    """
    ctx.require(Capability.INGEST_START)
    url = ctx.settings.ingest_start_url
    if url is None:
        return False
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

    See https://cloud.google.com/scheduler/docs/reference/rest/v1/projects.locations.jobs/run.

    Raises:
        GoogleAuthError: There are no credentials.
        RequestException: Cloud Scheduler does not answer, or rejects the request.
    """
    import google.auth
    from google.auth.transport.requests import AuthorizedSession

    credentials, _ = google.auth.default(scopes=[_SCOPE])
    with AuthorizedSession(credentials) as session:
        session.post(url, timeout=_TIMEOUT_SECONDS).raise_for_status()
