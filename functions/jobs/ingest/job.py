"""Bring the knowledge base up to date with Readwise, a bucket and files on disk."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.bucket.sync import sync_bucket
from functions.jobs.ingest.path import count_texts, ingest_path
from functions.jobs.ingest.readwise.sync import DEAD_LETTERS, sync_readwise
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

    IngestOrigin = Callable[[Context, Budget, Report], Awaitable[None]]

_NOTHING: Final = (
    "There is nothing to ingest. Set INGEST_PATH to a file or a folder, READWISE_TOKEN to the"
    " access token of a library, or INGEST_BUCKET to gs://bucket/prefix."
)


async def ingest(ctx: Context, budget: Budget, *, forgets_all: bool = False) -> Report:
    """Read each configured origin, and write what differs from the database.

    Of Readwise and a bucket, a run reads the changes since the last complete run; a path is read
    completely each time. What an origin no longer has is forgotten. Readwise exports in files are
    skipped if Readwise itself is an origin.

    An origin that fails does not stop the others.

    Args:
        ctx: The context of the run.
        budget: The time of the run.
        forgets_all: Whether it also forgets more than a third of a bucket or a path, which is a
            failure by default.

    Raises:
        InvalidInput: No origin is configured, or one cannot be read.
        Unavailable: An origin or the database does not answer.
    """
    origins = _configured(ctx.settings, forgets_all=forgets_all)
    if not origins:
        raise InvalidInput(_NOTHING)
    report = Report()
    errors: list[CarrelError] = []
    for name, ingest_origin in origins.items():
        try:
            await ingest_origin(ctx, budget, report)
        except LeaseLost:
            raise
        except CarrelError as error:
            log.error("origin_failed", origin=name, **error_fields(error))
            errors.append(error)
    if errors:
        raise errors[0]
    return report


async def count(ctx: Context) -> int:
    """Count the texts that a run would read; 0 if only Readwise or Cloud Storage knows."""
    settings = ctx.settings
    origins = _configured(settings)
    if not origins:
        raise InvalidInput(_NOTHING)
    if settings.ingest_path and len(origins) == 1:
        return await count_texts(settings.ingest_path)
    return 0


def _configured(settings: Settings, *, forgets_all: bool = False) -> dict[str, IngestOrigin]:
    """Return the origins. The path comes last, because reading it might take all the time."""
    origins: dict[str, IngestOrigin] = {}
    if settings.readwise_token:
        origins["readwise"] = sync_readwise
    if settings.ingest_bucket:
        origins["bucket"] = partial(sync_bucket, settings.ingest_bucket, forgets_all=forgets_all)
    if settings.ingest_path:
        origins["path"] = partial(ingest_path, settings.ingest_path, forgets_all=forgets_all)
    return origins


JOB = Job(
    name="ingest",
    title="Ingest texts",
    run=ingest,
    run_confirmed=partial(ingest, forgets_all=True),
    total=count,
    schedule="0 4 * * *",
    dead_letters=DEAD_LETTERS,
    capabilities=frozenset({Capability.READWISE, Capability.INGEST_BUCKET}),
    settings=("ingest_path",),
)
