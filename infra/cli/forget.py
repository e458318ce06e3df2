"""`carrel forget`: takes sources out of the knowledge base, and restores them.

A forgotten source is left out by ingest, and can be restored for some time. The command also
handles the solved problems (traces) of the sample.
"""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from infra.cli.database import run_with_context
from infra.cli.formatting import format_table
from infra.local import local_database
from infra.terminal import make_printable
from shared.core.dates import format_day
from shared.core.errors import CarrelError, NotFound
from shared.core.installation import carrel
from shared.text.counts import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from shared.knowledge.source_repository import StoredSource
    from shared.pipeline.forgotten_list import ForgottenItem
    from shared.runtime.context import Context
    from shared.traces.model import Trace

_MAX_ROWS: Final = 20
"""The command lists at most this many sources."""
_CLOUD_USER: Final = "operator"
"""The record of what was forgotten with --cloud names this user."""
_PAGE: Final = 100
"""One read returns at most this many sources with a tag."""


@dataclass(frozen=True, slots=True)
class _Request:
    """The user's description of the sources to forget or restore.

    Attributes:
        source_ids: The ids of sources.
        folder: A folder from which sources were ingested, or None.
        tag: A tag of sources, or None.
        sample: Whether the sources and traces of the sample are included.
        run: The time of the run of ingest whose removals are to be restored, or None.
    """

    source_ids: Sequence[str]
    folder: Path | None
    tag: str | None
    sample: bool
    run: datetime | None = None

    def restore_command(self, source_ids: Sequence[str]) -> str:
        """Return the command that restores the sources that this request selected."""
        if self.tag:
            return carrel(shlex.join(["forget", "--restore", *source_ids]))
        options = ["--folder", str(self.folder)] if self.folder else []
        options += ["--sample"] if self.sample else []
        return carrel(shlex.join(["forget", "--restore", *options, *self.source_ids]))


@dataclass(frozen=True, slots=True)
class _Selection:
    """The sources that a request selects.

    Attributes:
        stored: The sources in the knowledge base.
        forgotten: The ids of forgotten sources.
        missing: The ids of sources that are forgotten only because their file is missing.
        partly_tagged: The number of sources that have the tag only in single passages.
        traces: The sample's solved problems, whether or not they are withdrawn.
        chunk_ids: The ids of passages that a run of ingest removed alone.
    """

    stored: Sequence[StoredSource]
    forgotten: Sequence[str]
    missing: Sequence[str]
    partly_tagged: int
    traces: Sequence[Trace] = ()
    chunk_ids: Sequence[str] = ()

    @property
    def passages(self) -> str:
        """The number of passages, for people."""
        return format_count(sum(source.chunk_count for source in self.stored), "passage")

    def trace_ids(self, *, withdrawn: bool) -> list[str]:
        """List the ids of the traces that are withdrawn or, with False, of those that are not."""
        return [
            trace.trace_id for trace in self.traces if (trace.withdrawn_at is not None) is withdrawn
        ]

    def count(self, *, restores: bool) -> str:
        """Format the numbers of sources and traces that would be forgotten or restored."""
        sources = format_count(len(self.forgotten if restores else self.stored), "source")
        if self.chunk_ids:
            sources += f" and {format_count(len(self.chunk_ids), 'single passage')}"
        traces = self.trace_ids(withdrawn=restores)
        return f"{sources} and {format_count(len(traces), 'solved problem')}" if traces else sources

    def describe(self) -> str:
        """Format a table of the sources in the knowledge base."""
        rows = [
            (source.source_id, make_printable(source.title), str(source.chunk_count))
            for source in self.stored[:_MAX_ROWS]
        ]
        lines = [format_table(("SOURCE_ID", "TITLE", "PASSAGES"), rows)]
        if len(self.stored) > _MAX_ROWS:
            lines.append(f"... and {len(self.stored) - _MAX_ROWS} more")
        return "\n".join(lines)


@dataclass(slots=True)
class _Receipt:
    """What was forgotten or restored, with the numbers of everything that depends on it.

    Attributes:
        source_ids: The sources.
        trace_ids: The solved problems.
        chunk_ids: The passages that were restored alone.
        counts: The numbers of passages (`chunks`), vectors, cards, extractions and postings.
        restorable_until: The last day on which a restore is possible, or None after a restore.
        failures: The ids of sources and traces that could not be forgotten or restored, each with
            the reason.
    """

    source_ids: list[str] = field(default_factory=list)
    trace_ids: list[str] = field(default_factory=list)
    chunk_ids: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    restorable_until: str | None = None
    failures: dict[str, str] = field(default_factory=dict)

    def describe(self, request: _Request, *, restores: bool) -> str:
        """Return the receipt as text."""
        if not self.source_ids and not self.trace_ids and not self.chunk_ids:
            return f"Nothing was {'restored' if restores else 'forgotten'}."
        names = {"chunks": "passages"}
        parts = [f"{count} {names.get(name, name)}" for name, count in self.counts.items()]
        verb = "Restored" if restores else "Forgot"
        lines = []
        if self.source_ids or self.chunk_ids:
            moved = [("source", self.source_ids), ("single passage", self.chunk_ids)]
            kinds = " and ".join(format_count(len(ids), name) for name, ids in moved if ids)
            lines.append(f"{verb} {kinds}: {', '.join(parts)}.")
        if self.trace_ids:
            lines.append(f"{verb} {format_count(len(self.trace_ids), 'solved problem')}.")
        if not restores:
            command = request.restore_command(self.source_ids)
            lines.append(f"To restore until {self.restorable_until}: {command}")
        lines.append(
            "The index and all counts follow within 15 minutes while Carrel runs, or with:"
            f" {carrel('jobs run index')}"
        )
        return "\n".join(lines)


@click.command()
@click.argument("source_ids", metavar="[SOURCE_ID]...", nargs=-1)
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    help="All sources that were ingested from this folder.",
)
@click.option("--tag", help="All sources with this tag. Tags of single passages do not count.")
@click.option("--sample", is_flag=True, help="The sources and the solved problems of the sample.")
@click.option(
    "--run",
    type=click.DateTime(["%Y-%m-%dT%H:%M:%S.%fZ"]),
    help="With --restore: all that a run of ingest removed, whose last lines name the TIME.",
)
@click.option(
    "--restore", is_flag=True, help="Bring forgotten sources back, as long as they are kept."
)
@click.option("--reason", help="The reason, which is kept in the record.")
@click.option("--dry-run", is_flag=True, help="Show what would be forgotten; change nothing.")
@click.option("--yes", is_flag=True, help="Forget several sources without asking.")
@click.pass_context
def forget(  # noqa: PLR0913 - a command's options
    ctx: click.Context,
    source_ids: tuple[str, ...],
    folder: Path | None,
    tag: str | None,
    reason: str | None,
    *,
    run: datetime | None,
    sample: bool,
    restore: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Take sources out of the knowledge base, with everything that was made from them.

    Forgotten sources are not added again when their files or exports are read. The receipt says
    until when they can be restored. `carrel sources` shows the ids. The tool `forget` can also
    forget single passages.
    """
    from functions.gateway.auth.visitor import LOCAL_USER

    if not (source_ids or folder or tag or sample or run):
        raise click.UsageError("Name sources by SOURCE_ID, --folder, --tag or --sample.")
    if run and not restore:
        raise click.UsageError("--run restores what a run removed: add --restore.")
    if restore and tag:
        raise click.UsageError("Forgotten sources cannot be found by tag: give each SOURCE_ID.")
    user = _CLOUD_USER if ctx.find_root().params["cloud"] else LOCAL_USER
    run = run.replace(tzinfo=UTC) if run else None
    request = _Request(source_ids, folder, tag, sample, run)
    selection = run_with_context(lambda context: _select(context, request))
    count = selection.count(restores=restore)
    if not restore:
        _print_selection(selection)
    if dry_run:
        verb = "restored" if restore else "forgotten"
        click.echo(f"{count} would be {verb}.")
        return
    is_much = len(selection.stored) + len(selection.trace_ids(withdrawn=False)) > 1
    if is_much and not restore and not yes:
        click.confirm(f"Forget {count} with {selection.passages}?", abort=True, err=True)
    receipt = _forget_or_restore(selection, user, reason, restores=restore)
    click.echo(receipt.describe(request, restores=restore))
    for source_id, message in receipt.failures.items():
        click.echo(f"{source_id}: {message}", err=True)
    if folder and not restore:
        _stop_following(folder)
    sys.exit(bool(receipt.failures))


def _stop_following(folder: Path) -> None:
    """Stop reading a forgotten folder when it changes, because new files would bring it back."""
    from functions.jobs.ingest.folder import set_watched

    if run_with_context(lambda ctx: set_watched(folder, ctx.database, watched=False)):
        command = carrel(shlex.join(["ingest", str(folder)]))
        name = make_printable(str(folder))
        click.echo(f"{name} is no longer read when it changes. To follow it: {command}", err=True)


def _print_selection(selection: _Selection) -> None:
    if selection.stored:
        click.echo(selection.describe())
    if selection.partly_tagged:
        sources = format_count(selection.partly_tagged, "source")
        click.echo(f"In {sources} more, only single passages have the tag. They stay.", err=True)


async def _select(ctx: Context, request: _Request) -> _Selection:
    """Load the sources that the user named.

    Raises:
        NotFound: There is no such source, or nothing was ingested from the folder.
    """
    from shared.knowledge.forgotten_repository import ForgottenSources
    from shared.knowledge.source_repository import Sources

    source_ids = [*request.source_ids, *await _find_named_elsewhere(ctx, request)]
    removed = await _find_removed(ctx, request.run) if request.run else []
    source_ids += [item.source_id for item in removed if item.chunk_id is None]
    chunk_ids = [item.chunk_id for item in removed if item.chunk_id]
    tagged, partly_tagged = await _find_tagged(ctx, request.tag) if request.tag else ([], 0)
    source_ids = list(dict.fromkeys([*source_ids, *tagged]))
    stored = await Sources(ctx.database).get_all(source_ids)
    records = await ForgottenSources(ctx.database).get_many(source_ids)
    forgotten = [
        source_id for source_id in source_ids if source_id in records and records[source_id].whole
    ]
    existing = {*forgotten, *(source.source_id for source in stored)}
    if unknown := [source_id for source_id in request.source_ids if source_id not in existing]:
        raise NotFound(
            f"There is no source {', '.join(unknown)}. {carrel('sources')} shows the ids."
        )
    missing = [source_id for source_id in forgotten if records[source_id].missing]
    traces = await _load_sample_traces(ctx) if request.sample else []
    return _Selection(stored, forgotten, missing, partly_tagged, traces, chunk_ids)


async def _find_removed(ctx: Context, run: datetime) -> list[ForgottenItem]:
    """Find what a run of ingest removed.

    Raises:
        NotFound: It removed nothing, or all of it is restored or deleted for good.
    """
    from shared.pipeline.forgotten_list import list_removed_by_run

    removed = await list_removed_by_run(ctx.database, run)
    if not removed:
        raise NotFound(
            "There is nothing to restore of this run: it is restored already, or was removed too"
            " long ago."
        )
    return removed


async def _load_sample_traces(ctx: Context) -> list[Trace]:
    """Load the sample's traces that are stored."""
    from infra.local.sample.traces import load_sample_traces
    from shared.traces.repository import Traces

    stored = [await Traces(ctx.database).get(trace.trace_id) for trace in load_sample_traces(ctx)]
    return [trace.trace for trace in stored if trace]


async def _find_named_elsewhere(ctx: Context, request: _Request) -> list[str]:
    """Find the ids of the sources in the requested folder and in the sample."""
    from functions.jobs.ingest.folder import load_followed_source_ids
    from functions.jobs.ingest.listing import read
    from shared.knowledge.source import Source

    source_ids: list[str] = []
    if request.folder:
        source_ids = await load_followed_source_ids(request.folder, ctx.database)
        if not source_ids:
            raise NotFound(
                f"No ingest from {request.folder} is recorded. To see what is followed:"
                f" {carrel('ingest --list')}"
            )
    if request.sample:
        items = read(local_database.SAMPLE)
        source_ids += [item.source_id for item in items if isinstance(item, Source)]
    return source_ids


async def _find_tagged(ctx: Context, tag: str) -> tuple[list[str], int]:
    """Find the sources that have a tag.

    Returns:
        Their ids, and the number of other sources in which only single passages have the tag.

    Raises:
        NotFound: No source and no passage has the tag.
    """
    from shared.index.facets import Kind, make_named_facet
    from shared.knowledge.source_repository import SourceOrder, Sources

    facet = make_named_facet(Kind.TAG, tag)
    sources: list[StoredSource] = []
    cursor = None
    while page := await Sources(ctx.database).load_page(SourceOrder.TITLE, _PAGE, facet, cursor):
        sources += page
        cursor = page[-1].cursor(SourceOrder.TITLE)
    if not sources:
        raise NotFound(f"No source has the tag {tag}.")
    tagged = [
        source.source_id
        for source in sources
        if facet in {make_named_facet(Kind.TAG, name) for name in source.tags}
    ]
    return tagged, len(sources) - len(tagged)


def _forget_or_restore(
    selection: _Selection, user: str, reason: str | None, *, restores: bool
) -> _Receipt:
    """Forget or restore the sources one after another, as the tool `forget` does."""
    from shared.core.caller import Caller, Role

    # A source that is forgotten because its file is missing must not return with the file.
    stored = (source.source_id for source in selection.stored)
    source_ids = selection.forgotten if restores else dict.fromkeys([*stored, *selection.missing])
    owner = Caller.of(user, role=Role.OWNER)
    receipt = run_with_context(
        lambda context: _forget_or_restore_sources(
            context, source_ids, selection.chunk_ids, reason, restores=restores
        ),
        owner,
    )
    if trace_ids := selection.trace_ids(withdrawn=restores):
        from infra.local.sample.traces import CONTRIBUTOR

        run_with_context(
            lambda context: _withdraw_or_restore_traces(
                context, trace_ids, receipt, restores=restores
            ),
            Caller.of(CONTRIBUTOR),
        )
    return receipt


async def _withdraw_or_restore_traces(
    ctx: Context, trace_ids: Iterable[str], receipt: _Receipt, *, restores: bool
) -> None:
    """Withdraw or restore the sample's traces one after another, as their contributor does."""
    from functions.tools.traces.withdraw_trace.tool import In, withdraw_trace
    from shared.knowledge.forgotten_chunks import RESTORABLE_SOURCES

    for trace_id in trace_ids:
        try:
            await withdraw_trace(In(trace_id=trace_id, withdrawn=not restores), ctx)
        except CarrelError as error:
            receipt.failures[trace_id] = error.message
        else:
            receipt.trace_ids.append(trace_id)
            if not restores:
                receipt.restorable_until = format_day(
                    RESTORABLE_SOURCES.compute_purge_at(ctx.clock()), ctx.zone
                )


async def _forget_or_restore_sources(
    ctx: Context,
    source_ids: Iterable[str],
    chunk_ids: Iterable[str],
    reason: str | None,
    *,
    restores: bool,
) -> _Receipt:
    """Forget or restore sources and passages one after another, each even if another fails."""
    from functions.tools.knowledge.forget.tool import In, forget

    receipt = _Receipt()
    targets = [In(source_id=name, reason=reason, forgotten=not restores) for name in source_ids]
    targets += [In(chunk_id=name, reason=reason, forgotten=not restores) for name in chunk_ids]
    for arguments in targets:
        remaining: int | None = 1
        try:
            while remaining:  # one call of the tool works for at most twenty seconds
                out = await forget(arguments, ctx)
                remaining = out.remaining
                if moved := out.removed or out.restored:
                    receipt.counts.update(moved.model_dump())
                receipt.restorable_until = out.restorable_until or receipt.restorable_until
            if out.changed:
                ids = receipt.chunk_ids if out.chunk_id else receipt.source_ids
                ids.append(out.chunk_id or out.source_id)
        except CarrelError as error:
            receipt.failures[str(arguments.chunk_id or arguments.source_id)] = error.message
    return receipt
