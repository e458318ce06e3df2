"""Bring the knowledge base up to date with links, Readwise, a bucket and files on disk."""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.bucket import follow_bucket
from functions.jobs.ingest.folder import count_texts, follow_path
from functions.jobs.ingest.links.queue import DEAD_LETTERS as DEAD_LINKS
from functions.jobs.ingest.links.queue import fetch_links
from functions.jobs.ingest.missing_sources import describe_removed
from functions.jobs.ingest.origin import sync
from functions.jobs.ingest.readwise.library import DEAD_LETTERS as DEAD_BOOKS
from functions.jobs.ingest.readwise.library import follow_library
from functions.jobs.ingest.uploads import read_upload
from shared.core.errors import CarrelError, InvalidInput
from shared.core.log import error_fields, log
from shared.firestore.database import LeaseLost
from shared.links.model import SCHEDULE
from shared.links.repository import SavedLinks
from shared.runtime.capabilities import Capability
from shared.runtime.job import DeadLetters, Failure, Job, Report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from functions.jobs.ingest.origin import FollowedOrigin
    from shared.core.settings import Settings
    from shared.runtime.context import Context
    from shared.runtime.job import Budget

    OpenOrigin = Callable[[Context, Budget], AbstractAsyncContextManager[FollowedOrigin]]
    """Opens a configured origin."""

_NOTHING_TO_INGEST: Final = (
    "There is nothing to ingest, and no link is waiting. Set INGEST_PATH to a file or a folder,"
    " READWISE_TOKEN to the access token of a library, or INGEST_BUCKET to gs://bucket/prefix."
)
_LINK_SECONDS: Final = 60.0
"""How long a run on this machine fetches links before it goes on."""
_DEAD_LETTERS: Final = (DEAD_LINKS, DEAD_BOOKS)
"""How to list and retry the links, and the books of a Readwise library, that failed too often."""


async def ingest(ctx: Context, budget: Budget) -> Report:
    """Fetch saved links, read each configured origin, and write what differs from the database.

    From Readwise and a bucket, a run reads only what changed since the last complete run. The path
    is read completely each time. Sources that an origin no longer contains are forgotten. If a
    Readwise library is an origin, Readwise exports in files are skipped.

    An origin that fails does not stop the other origins, and is a failure in their report. If more
    than a third of a bucket or the path is gone, that is a failure in the report, too, and nothing
    is forgotten.

    Raises:
        InvalidInput: No origin is configured and no link is waiting, or an origin cannot be read
            and no other one has anything to report.
        Unavailable: The same, because an origin or the database does not answer.
    """
    return await _ingest(ctx, budget)


async def ingest_confirmed(ctx: Context, budget: Budget) -> Report:
    """Do the same as `ingest`, but forget missing sources even if more than a third is gone.

    The user has confirmed that. Readwise needs no confirmation, because it names deleted books.
    """
    return await _ingest(ctx, budget, lambda _: True)


async def _ingest(
    ctx: Context, budget: Budget, is_confirmed: Callable[[str], bool] | None = None
) -> Report:
    """Fetch saved links, and then read the configured origins; see `sync`."""
    origins = _collect_origins(ctx.settings)
    if not origins:
        _require_work(await SavedLinks(ctx.database).count_waiting())
    return await _read(origins, ctx, budget, is_confirmed)


async def ingest_here(
    folders: Iterable[Path],
    uploads: Iterable[Path],
    ctx: Context,
    budget: Budget,
    *,
    is_scheduled: bool,
) -> Report:
    """Fetch saved links, and read uploads, changed folders and, if scheduled, other origins.

    If many links are due, the other jobs get a turn after a minute, and a later run continues.
    """
    uploaded = {f"upload {path.name}": partial(read_upload, path) for path in uploads}
    changed = {str(path): partial(follow_path, str(path)) for path in folders}
    origins = _collect_origins(ctx.settings) if is_scheduled else {}
    return await _read({**uploaded, **origins, **changed}, ctx, budget, link_seconds=_LINK_SECONDS)


async def _read(
    origins: Mapping[str, OpenOrigin],
    ctx: Context,
    budget: Budget,
    is_confirmed: Callable[[str], bool] | None = None,
    link_seconds: float = math.inf,
) -> Report:
    """Fetch saved links, for at most `link_seconds`, and then read the origins."""
    report = Report()
    errors: dict[str, CarrelError] = {}
    turn = replace(budget, deadline=min(budget.deadline, time.monotonic() + link_seconds))
    with _collect_error("links", errors):
        await fetch_links(ctx, turn, report)
    report.finished = not budget.spent  # the end of the turn does not end the run
    for name, open_origin in origins.items():
        with _collect_error(name, errors):
            async with open_origin(ctx, budget) as origin:
                await sync(origin, ctx, budget, report, is_confirmed)
    if errors and errors.keys() >= origins.keys() and not any(report.counts.values()):
        raise next(iter(errors.values()))  # there is nothing to report of any other origin
    report.failures += [Failure.of(name, error) for name, error in errors.items()]
    report.note = f"{report.note} {describe_removed(report, ctx.zone)}".strip()
    return report


@contextmanager
def _collect_error(name: str, errors: dict[str, CarrelError]) -> Iterator[None]:
    """Log an error of an origin, and add it to the errors, so that other origins are read."""
    try:
        yield
    except LeaseLost:
        raise  # another run has taken over, so this one must stop
    except CarrelError as error:
        log.error("origin_failed", origin=name, **error_fields(error))
        errors[name] = error


async def count(ctx: Context) -> int:
    """Count the waiting links, and the texts at the path if the path is the only origin.

    The number of texts in a Readwise library or a bucket is not known before a run reads it. With
    such an origin, the number of texts at the path would be mistaken for the total.

    Raises:
        InvalidInput: No origin is configured and no link is waiting, or the path cannot be read.
    """
    settings = ctx.settings
    origins = _collect_origins(settings)
    waiting_count = await SavedLinks(ctx.database).count_waiting()
    if not origins:
        _require_work(waiting_count)
    if settings.ingest_path and len(origins) == 1:
        return waiting_count + await count_texts(settings.ingest_path)
    return waiting_count


def _require_work(waiting_count: int) -> None:
    """Raise `InvalidInput` if no link is waiting, although links are the only origin."""
    if not waiting_count:
        raise InvalidInput(_NOTHING_TO_INGEST)


def _collect_origins(settings: Settings) -> dict[str, OpenOrigin]:
    """Return the configured origins by name. Links are not among them, as they are always read.

    The path is last, because it may take all the time.
    """
    origins: dict[str, OpenOrigin] = {}
    if settings.readwise_token:
        origins["readwise"] = follow_library
    if settings.ingest_bucket:
        origins["bucket"] = follow_bucket
    if settings.ingest_path:
        origins["path"] = partial(follow_path, settings.ingest_path)
    return origins


async def _load_dead_letters(ctx: Context, limit: int) -> list[Failure]:
    """Load up to `limit` of the links and books that are no longer retried."""
    by_origin = await asyncio.gather(*(letters.load(ctx, limit) for letters in _DEAD_LETTERS))
    return list(chain.from_iterable(by_origin))[:limit]


async def _retry(ctx: Context) -> int:
    """Queue all dead-lettered links and books for the next run, and return their number."""
    return sum(await asyncio.gather(*(letters.retry(ctx) for letters in _DEAD_LETTERS)))


JOB = Job(
    name="ingest",
    title="Ingest texts",
    run=ingest,
    run_confirmed=ingest_confirmed,
    total=count,
    schedule=SCHEDULE,
    dead_letters=DeadLetters(load=_load_dead_letters, retry=_retry),
    # Readwise and a bucket are external services. A path is only a setting.
    capabilities=frozenset({Capability.READWISE, Capability.INGEST_BUCKET}),
    settings=("ingest_path", "embedding_provider"),
)
