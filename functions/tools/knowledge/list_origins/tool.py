"""List what is followed, and what could not be read or processed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Literal

from pydantic import Field

from shared.core.caller import Role, Tier
from shared.firestore.queries import Query
from shared.firestore.runs import Runs
from shared.knowledge.chunk_repository import STEPS
from shared.knowledge.followed import DISK, UPLOADS
from shared.knowledge.followed_folders import read_folders
from shared.knowledge.queue import ChunkQueue
from shared.links.repository import SavedLinks
from shared.runtime.schemas import Arguments, Result
from shared.runtime.tool import Effect, Tool

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from shared.firestore.documents import Document
    from shared.firestore.runs import Run
    from shared.knowledge.followed_folders import Root
    from shared.runtime.context import Context

MAX_LINKS: Final = 50
MAX_PROBLEMS: Final = 20
"""The maximum number of problems of an origin or a job."""
SCHEDULED: Final = (
    *("ingest", "embed", "cards", "cluster", "extract", "index"),
    *("ingest_materials", "purge", "repair"),
)
"""The jobs that run on a schedule."""
_JOBS: Final = {"card": "cards"}
"""The jobs whose names are not those of their steps."""
_FIELDS: Final = ("address", "roots", "watched", "read_at", "problems")


class In(Arguments):
    """No arguments."""


class Origin(Result):
    """A folder, a bucket or a library that was read, or all uploaded files."""

    kind: Literal["folder", "bucket", "readwise", "uploads"] = Field(description="What it is.")
    name: str = Field(description="The path of the folder, or the address of the bucket.")
    watched: bool = Field(description="Whether it is read when it changes.")
    read_at: str | None = Field(description="When all of it was last read: an ISO 8601 time.")
    problems: list[str] = Field(
        description=f"Up to {MAX_PROBLEMS} problems with files, such as why one was left out."
    )


class FailedLink(Result):
    """A link whose page could not be stored. save_link tries again now."""

    url: str = Field(description="Its address.")
    state: Literal["waiting", "failed"] = Field(description="waiting: it is tried again later.")
    title: str | None = Field(description="The title that the user gave, if any.")
    error: str | None = Field(description="Why, the last time.")


class FailedRun(Result):
    """The last run of a job, if it did not process everything."""

    job: str = Field(description="The job's name.")
    started_at: str = Field(description="When it started: an ISO 8601 time.")
    problems: list[str] = Field(
        description=f"Up to {MAX_PROBLEMS} reasons that no origin or link has."
    )


class Out(Result):
    """What is followed, and what failed."""

    origins: list[Origin] = Field(description="What was read, folders first.")
    waiting_links: int = Field(description="How many links wait to be fetched.")
    listed_links: int = Field(description="How many links a file lists and nobody asked for yet.")
    failed_links: list[FailedLink] = Field(
        description=f"Up to {MAX_LINKS} links that failed the last time."
    )
    failed_runs: list[FailedRun] = Field(description="Of each job, the last run if it failed.")
    parked: dict[str, int] = Field(
        description="How many passages a job gave up on after five tries, by the job's name."
    )


async def list_origins(_args: In, ctx: Context) -> Out:
    """List what is followed, and what could not be read or processed.

    Costs one round trip: a read for each origin, failed link, step and scheduled job.
    """
    links, runs, queue = SavedLinks(ctx.database), Runs(ctx.database), ChunkQueue(ctx.database)
    documents, waiting, listed, failed, latest, parked = await asyncio.gather(
        ctx.database.find(Query("followed").select(_FIELDS)),
        links.count_waiting(),
        links.count_listed(),
        links.list_tried(MAX_LINKS),
        asyncio.gather(*(runs.load_latest(job, 1) for job in SCHEDULED)),
        asyncio.gather(*map(queue.count_dead_letters, STEPS)),
    )
    origins = [origin for document in documents for origin in _to_origins(document)]
    shown_problems = {problem for origin in origins for problem in origin.problems}
    shown_problems.update(f"{link.url}: {link.error}" for link in failed)
    failed_runs = [_to_failed_run(run, shown_problems) for [run] in filter(None, latest)]
    return Out(
        origins=sorted(origins, key=lambda origin: (origin.kind != "folder", origin.name)),
        waiting_links=waiting,
        listed_links=listed,
        failed_links=[FailedLink.of(link, state=link.state.value) for link in failed],
        failed_runs=[run for run in failed_runs if run.problems],
        parked={
            _JOBS.get(step, step): count for step, count in zip(STEPS, parked, strict=True) if count
        },
    )


def _to_origins(document: Document) -> Iterator[Origin]:
    """Yield the origin that a document is about; of the disk, each whole folder."""
    fields = document.fields
    address: str = fields["address"]
    if address == DISK:
        folders = read_folders(fields, is_current=True)
        yield from (_to_folder(root) for root in folders if root.whole)
        return
    yield Origin(
        kind="uploads" if address == UPLOADS else "bucket" if "://" in address else "readwise",
        name=address,
        watched=False,
        read_at=_format_time(fields.get("read_at")),
        problems=fields.get("problems", []),
    )


def _to_folder(root: Root) -> Origin:
    return Origin(
        kind="folder",
        name=str(root.path).encode("utf-8", "replace").decode(),
        watched=root.watched,
        read_at=_format_time(root.read_at),
        problems=root.list_problems()[:MAX_PROBLEMS],
    )


def _to_failed_run(run: Run, shown_problems: AbstractSet[str]) -> FailedRun:
    """Make the result of a run, without the problems that an origin or a link shows."""
    reasons = [run.error] if run.error else []
    reasons += [failure for failure in run.failures if failure not in shown_problems]
    started_at = f"{run.started_at:%Y-%m-%dT%H:%M:%SZ}"
    return FailedRun(job=run.job, started_at=started_at, problems=reasons)


def _format_time(time: datetime | None) -> str | None:
    return f"{time:%Y-%m-%dT%H:%M:%SZ}" if time else None


TOOL = Tool(
    name="list_origins",
    title="List what is followed",
    description=(
        "List the folders, buckets and libraries that are followed, and what could not be read. The"
        " web console shows it; models do not call it."
    ),
    input=In,
    output=Out,
    run=list_origins,
    effect=Effect.READ,
    tier=Tier.REGISTERED,
    role=Role.OWNER,
    internal=True,
)
