"""`carrel links`: counts the links that files list, fetches their pages, and drops them."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

import click

from infra.cli.database import run_with_context
from infra.cli.formatting import format_table
from infra.terminal import make_printable
from shared.core.installation import carrel
from shared.links.model import LinkState
from shared.links.repository import SavedLinks
from shared.text.counts import format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.links.model import Link
    from shared.runtime.context import Context

_MAX_ROWS: Final = 20
"""Each table has at most this many rows, unless the user asks for all."""
_INTERRUPTED: Final = (
    "\nInterrupted. Fetched pages are kept. Carrel fetches the others while it runs, or with the"
    " same command."
)
_INTERRUPTED_STATUS: Final = 130
"""The conventional exit status after Ctrl-C."""
_FOLDER: Final = click.option("--folder", help="Only links in this folder, or below it.")
_TAG: Final = click.option("--tag", help="Only links with this tag.")


@click.group(invoke_without_command=True)
@click.option("--all", "show_all", is_flag=True, help="Show all folders and tags.")
@click.pass_context
def links(ctx: click.Context, *, show_all: bool) -> None:
    """Count the links from bookmarks and reading lists, by folder and tag. Fetch or drop them.

    `carrel ingest FILE` lists the links of such a file, and fetches none of them.
    """
    if ctx.invoked_subcommand is None:
        stored = run_with_context(lambda context: SavedLinks(context.database).load_all())
        click.echo(make_printable(_describe(stored, None if show_all else _MAX_ROWS)))


@links.command("fetch")
@_FOLDER
@_TAG
@click.option("--limit", type=click.IntRange(min=1), help="Fetch at most this many pages.")
def fetch(folder: str | None, tag: str | None, limit: int | None) -> None:
    """Fetch the pages of listed links, those that were saved last first.

    Several hosts are asked at a time, and each of them once a second. A page that cannot be fetched
    is named, and `carrel jobs retry ingest` tries it again.
    """
    from infra.cloud.environment import set_job_secrets
    from infra.local.jobs import fetch_pages

    async def request(ctx: Context) -> list[str]:
        return await SavedLinks(ctx.database).request_listed(ctx.clock(), folder, tag, limit)

    set_job_secrets(["embed"])
    source_ids = run_with_context(request)
    if not source_ids and (folder or tag):
        raise click.ClickException(f"0 links to fetch match. {carrel('links')} lists the folders.")
    click.echo(f"Links to fetch: {len(source_ids)}.")
    is_selected = folder or tag or limit
    try:
        complete = fetch_pages(source_ids=source_ids if is_selected else None)
    except KeyboardInterrupt:
        click.echo(_INTERRUPTED, err=True)
        sys.exit(_INTERRUPTED_STATUS)
    sys.exit(not complete)


@links.command("drop")
@_FOLDER
@_TAG
def drop(folder: str | None, tag: str | None) -> None:
    """Drop listed links, except those whose pages somebody asked for.

    The files stay, and reading them again lists their links again.
    """
    count = run_with_context(lambda ctx: SavedLinks(ctx.database).drop_listed(folder, tag))
    click.echo(f"Dropped {format_count(count, 'link')}.")


def _describe(stored: Sequence[Link], max_rows: int | None) -> str:
    """Format tables of the lists and of the tags, with the number of links in each state."""
    folders: defaultdict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    tags: defaultdict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for link in stored:
        folders[link.list_name or "save_link", link.folder or ""][link.state] += 1
        for tag in link.tags:
            tags[(tag,)][link.state] += 1
    if not folders:
        return f"No links are listed. To list those of a file: {carrel('ingest FILE')}"
    lines = _format_counts(("LIST", "FOLDER"), folders, max_rows)
    if tags:
        lines += ["", *_format_counts(("TAG",), tags, max_rows)]
    if listed := sum(link.state is LinkState.LISTED for link in stored):
        count = format_count(listed, "link")
        lines += ["", f"{count} not fetched. To fetch the pages: {carrel('links fetch')}"]
    return "\n".join(lines)


def _format_counts(
    names: tuple[str, ...], groups: dict[tuple[str, ...], Counter[str]], max_rows: int | None
) -> list[str]:
    header = (*names, *(state.upper() for state in LinkState))
    largest = sorted(groups.items(), key=lambda group: (-group[1].total(), group[0]))
    rows = [
        (*name, *(str(counts[state] or "") for state in LinkState))
        for name, counts in largest[:max_rows]
    ]
    more = len(largest) - len(rows)
    note = f"... and {more} more: {carrel('links --all')}"
    return [format_table(header, rows), *([note] if more else [])]
