"""`carrel export`: writes the knowledge base to a folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from infra.local import local_database
from shared.core.installation import carrel
from shared.text.counts import format_count

if TYPE_CHECKING:
    from infra.export.exporting import ExportReport
    from shared.firestore.database import Database

_MAX_NAMED = 10
"""The warning about incomplete sources names at most this many."""


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--user",
    help="Also export the traces, to-dos and reviews of this user. By default `local`, the user of"
    " this machine; with --cloud, nobody.",
)
@click.option("--with-kept-out", is_flag=True, help="Also export what has the tag `keep-out`.")
@click.pass_context
def export(ctx: click.Context, folder: Path, user: str | None, *, with_kept_out: bool) -> None:
    """Write the knowledge base to FOLDER, to restore it, to read it, or to take it elsewhere.

    FOLDER must be new, empty or an earlier export, which is replaced when the new one is complete.
    `carrel ingest FOLDER` restores the sources unchanged, with ids, dates and knowledge cards.
    FOLDER/markdown contains the sources in a form for people.
    """
    from functions.gateway.auth.visitor import LOCAL_USER
    from infra.cli.database import run_with_database
    from infra.export.exporting import FILES, export_all
    from infra.export.replaced_folder import replace_folder
    from shared.core.caller import require_user_id
    from shared.core.dates import load_time_zone
    from shared.core.settings import Settings
    from shared.knowledge.export_lines import MANIFEST
    from shared.knowledge.source_repository import Sources

    if user is None and not ctx.find_root().params["cloud"]:
        user = LOCAL_USER
    if user:
        require_user_id(user)

    zone = load_time_zone(Settings().time_zone)

    async def write(database: Database, new: Path) -> ExportReport:
        total = await Sources(database).count()
        with click.progressbar(length=total, label="Export", file=sys.stderr) as bar:
            return await export_all(
                database, new, user, bar.update, zone, with_kept_out=with_kept_out
            )

    try:
        with replace_folder(folder, MANIFEST, FILES) as new:
            report = run_with_database(lambda database: write(database, new))
    except OSError as error:
        reason = local_database.explain_os_error(error) or f"{folder}: {error.strerror}."
        raise click.ClickException(reason) from error
    sources, passages, traces, tasks = (
        format_count(report.counts[name], noun)
        for name, noun in (
            ("sources", "source"),
            ("passages", "passage"),
            ("traces", "trace"),
            ("tasks", "to-do"),
        )
    )
    click.echo(f"Exported {sources} with {passages}, {traces} and {tasks} to {folder}.")
    if report.left_out:
        left_out = format_count(report.left_out, "passage")
        click.echo(f"Left out: {left_out} with the tag keep-out. --with-kept-out exports them.")
    if report.incomplete:
        named = ", ".join(report.incomplete[:_MAX_NAMED])
        click.echo(
            f"Warning: {format_count(len(report.incomplete), 'source')} changed during the export,"
            f" or are not ingested completely: {named}. Run"
            f" `{carrel('ingest PATH')}`, and export again.",
            err=True,
        )
