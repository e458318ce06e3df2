"""Bring the knowledge base to what Readwise, a bucket and the files on disk say."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.bucket.sync import follow_bucket
from functions.jobs.ingest.path import count, read_path
from functions.jobs.ingest.readwise.sync import DEAD_LETTERS, follow_readwise
from shared.core.errors import CarrelError, InvalidInput
from shared.core.log import error_fields, log
from shared.firestore.database import LeaseLost
from shared.runtime.capabilities import Capability
from shared.runtime.job import Job, Report

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from shared.core.settings import Settings
    from shared.runtime.context import Context
    from shared.runtime.job import Budget

    Origin = Callable[[Context, Budget, Report], Awaitable[None]]

_NOTHING: Final = (
    "Nothing to ingest: set INGEST_PATH to a file or a folder, READWISE_TOKEN to the access token"
    " of a library, or INGEST_BUCKET to gs://bucket/prefix."
)


async def ingest(ctx: Context, budget: Budget) -> Report:
    """Read each origin that is configured, and write what differs from the database.

    Readwise and a bucket are followed: what changed since the last complete run is read, and what
    was deleted there goes. Of a path all is read, and nothing goes with a file. Exports of Readwise
    are left out where Readwise itself is followed.

    One that fails keeps none of the others out.

    Raises:
        InvalidInput: Nothing is configured, or an origin cannot be read as it is.
        Unavailable: An origin does not answer, or the database.
    """
    origins = _configured(ctx.settings)
    if not origins:
        raise InvalidInput(_NOTHING)
    report = Report()
    errors: list[CarrelError] = []
    for name, origin in origins.items():
        try:
            await origin(ctx, budget, report)
        except LeaseLost:
            raise
        except CarrelError as error:
            log.error("origin_failed", origin=name, **error_fields(error))
            errors.append(error)
    if errors:
        raise errors[0]
    return report


async def readable(ctx: Context) -> int:
    """How many texts a run would read; 0, where only Readwise or Cloud Storage knows."""
    settings = ctx.settings
    origins = _configured(settings)
    if not origins:
        raise InvalidInput(_NOTHING)
    if settings.ingest_path and len(origins) == 1:
        return await count(settings.ingest_path)
    return 0


def _configured(settings: Settings) -> dict[str, Origin]:
    """The origins, the path last: all of it is read every time, and might leave them no time."""
    origins: dict[str, Origin] = {}
    if settings.readwise_token:
        origins["readwise"] = follow_readwise
    if settings.ingest_bucket:
        origins["bucket"] = partial(follow_bucket, settings.ingest_bucket)
    if settings.ingest_path:
        origins["path"] = partial(read_path, settings.ingest_path)
    return origins


JOB = Job(
    name="ingest",
    title="Ingest texts",
    run=ingest,
    total=readable,
    schedule="0 4 * * *",
    dead_letters=DEAD_LETTERS,
    capabilities=frozenset({Capability.READWISE, Capability.INGEST_BUCKET}),
    settings=("ingest_path",),
)
