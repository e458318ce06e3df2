"""Bring the knowledge base up to date with links, Readwise, a bucket and files on disk."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.bucket.sync import sync_bucket
from functions.jobs.ingest.links import queue as links
from functions.jobs.ingest.path import count_texts, ingest_path
from functions.jobs.ingest.readwise import sync as readwise
from shared.core.errors import CarrelError, InvalidInput
from shared.core.log import error_fields, log
from shared.firestore.database import LeaseLost
from shared.links.model import SCHEDULE
from shared.links.repository import SavedLinks
from shared.runtime.capabilities import Capability
from shared.runtime.job import DeadLetters, Job, Report

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from shared.core.settings import Settings
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Failure

    IngestOrigin = Callable[[Context, Budget, Report], Awaitable[None]]

_NOTHING: Final = (
    "There is nothing to ingest, and no link is waiting. Set INGEST_PATH to a file or a folder,"
    " READWISE_TOKEN to the access token of a library, or INGEST_BUCKET to gs://bucket/prefix."
)


async def ingest(ctx: Context, budget: Budget) -> Report:
    """Fetch saved links, read each configured origin, and write what differs from the database.

    From Readwise and a bucket, a run reads only what changed since the last complete run. A path is
    read completely each time. Sources that an origin no longer contains are forgotten. If a
    Readwise library is an origin, Readwise exports in files are skipped.

    An origin that fails does not stop the other origins. If more than a third of a bucket or a path
    is gone, that is a failure, and nothing is forgotten.

    Raises:
        InvalidInput: No origin is configured and no link waits, or an origin cannot be read.
        Unavailable: An origin or the database does not answer.
    """
    return await _ingest_origins(_collect_origins(ctx.settings), ctx, budget)


async def ingest_confirmed(ctx: Context, budget: Budget) -> Report:
    """Do the same as `ingest`, but forget all missing sources, however many they are."""
    origins = _collect_origins(ctx.settings, forgets_all=True)
    return await _ingest_origins(origins, ctx, budget)


async def _ingest_origins(
    origins: Mapping[str, IngestOrigin], ctx: Context, budget: Budget
) -> Report:
    if not origins:
        await _count_links(origins, ctx)
    report = Report()
    errors: list[CarrelError] = []
    for name, ingest_origin in {"links": links.fetch_links, **origins}.items():
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
    """Count the texts that a run would read: waiting links and the texts at the path.

    The path is counted only if it is the only origin. How many texts a Readwise library or a bucket
    contains is not known before a run reads it.
    """
    settings = ctx.settings
    origins = _collect_origins(settings)
    waiting = await _count_links(origins, ctx)
    if settings.ingest_path and len(origins) == 1:
        return waiting + await count_texts(settings.ingest_path)
    return waiting


async def _count_links(origins: Collection[str], ctx: Context) -> int:
    """Count the links that wait to be fetched.

    Raises:
        InvalidInput: No link waits, and no origin is configured.
    """
    waiting = await SavedLinks(ctx.database).count_waiting()
    if not origins and not waiting:
        raise InvalidInput(_NOTHING)
    return waiting


async def _load_dead_letters(ctx: Context, limit: int) -> list[Failure]:
    """Load up to `limit` of the links and books that were given up."""
    by_origin = await asyncio.gather(*(origin.load(ctx, limit) for origin in _DEAD_LETTERS))
    return [letter for letters in by_origin for letter in letters][:limit]


async def _retry(ctx: Context) -> int:
    """Queue all dead-lettered links and books for the next run; return how many they are."""
    return sum(await asyncio.gather(*(origin.retry(ctx) for origin in _DEAD_LETTERS)))


def _collect_origins(settings: Settings, *, forgets_all: bool = False) -> dict[str, IngestOrigin]:
    """Return the configured origins. The path is last, because it may take all the time."""
    origins: dict[str, IngestOrigin] = {}
    if settings.readwise_token:
        origins["readwise"] = readwise.sync_readwise
    if settings.ingest_bucket:
        origins["bucket"] = partial(sync_bucket, settings.ingest_bucket, forgets_all=forgets_all)
    if settings.ingest_path:
        origins["path"] = partial(ingest_path, settings.ingest_path, forgets_all=forgets_all)
    return origins


_DEAD_LETTERS: Final = (links.DEAD_LETTERS, readwise.DEAD_LETTERS)

JOB = Job(
    name="ingest",
    title="Ingest texts",
    run=ingest,
    run_confirmed=ingest_confirmed,
    total=count,
    schedule=SCHEDULE,
    dead_letters=DeadLetters(load=_load_dead_letters, retry=_retry),
    capabilities=frozenset({Capability.READWISE, Capability.INGEST_BUCKET}),
    settings=("ingest_path",),
)
