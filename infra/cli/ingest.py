"""`carrel ingest`: adds texts, forgets texts whose files are gone, and lists what is followed.

A folder, a bucket or a Readwise library is followed if it is compared with what was read of it
before. To forget a text is to take it out of the knowledge base; it can be restored for some time.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from infra.cli.database import run_with_database
from infra.cli.formatting import format_minute, format_table
from infra.terminal import make_printable
from shared.core.installation import carrel
from shared.core.target import is_local
from shared.text.counts import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from functions.jobs.ingest.folder import FollowedFolder
    from infra.cli.ingest_preview import PathContents
    from shared.firestore.database import Database
    from shared.knowledge.followed import FileState

_INTERRUPTED: Final = (
    "\nInterrupted. Stored results are kept. To continue, run the same command again."
)
_INTERRUPTED_STATUS: Final = 130
"""The conventional exit status after Ctrl-C."""
_URL_SCHEMES: Final = ("http://", "https://")
_MAX_NAMES: Final = 20
"""`--dry-run` prints at most this many new, edited, renamed or missing files each."""
_NOTHING_FORGOTTEN: Final = (
    "Nothing is forgotten. To forget these texts, run the command again with --yes; to keep them,"
    " with --keep-missing."
)

_WATCHED: Final = (
    "The folder is followed: while Carrel runs, changes in it are read automatically. To stop that:"
    " {command}"
)
_NOTHING_WRITTEN: Final = (
    "Nothing is written, because of --strict. Without it, all other texts are added."
)


@dataclass(frozen=True, slots=True)
class _Preview:
    """What a run would do.

    Attributes:
        folder: The files, and how they differ from those that were last ingested.
        sources: The number of stored sources that would be forgotten.
        passages: The number of passages in the sources that would be forgotten.
    """

    folder: FollowedFolder
    sources: int
    passages: int

    def read_contents(self, *, all_files: bool) -> PathContents:
        """Read the files without writing anything: all of them, or only new and edited ones."""
        from infra.cli.ingest_preview import PathContents, read_contents
        from shared.core.settings import Settings
        from shared.text.splitting import CHUNK_LIMITS

        folder = self.folder
        limits = CHUNK_LIMITS[Settings().embedding_provider]
        if folder.error:
            return PathContents(limits)
        unchanged = folder.states.keys() - {*folder.new, *folder.edited}
        return read_contents(folder.listing, limits, () if all_files else {*map(Path, unchanged)})

    def describe_missing(self) -> str:
        """Describe what is missing and would be forgotten."""
        folder, missing = self.folder, self.folder.find_missing()
        files = format_count(missing.former_file_count, "file")
        parts = [f"{len(missing.files)} of {files} disappeared"] if missing.files else []
        if dropped := {
            path: ids
            for path, former_ids in folder.dropped.items()
            if (ids := missing.ids.intersection(former_ids))
        }:
            texts = format_count(sum(map(len, dropped.values())), "text")
            names = ", ".join(sorted(Path(path).name for path in dropped)[:_MAX_NAMES])
            parts.append(f"{texts} disappeared from {names}")
        if not self.sources:
            return f"{' and '.join(parts)}: none of their texts are stored."
        texts = f"{format_count(self.sources, 'source')} ({format_count(self.passages, 'passage')})"
        return make_printable(f"{' and '.join(parts)}: {texts} will be forgotten.")


@click.command()
@click.argument("location", metavar="PATH|URL", required=False)
@click.option(
    "--keep-missing", is_flag=True, help="Forget nothing: texts of missing files stay as they are."
)
@click.option("--yes", is_flag=True, help="Forget texts of missing files without asking.")
@click.option("--strict", is_flag=True, help="Write nothing if a file or record cannot be read.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Show what changed, what would be read or left out, and how long it would take.",
)
@click.option("--no-watch", is_flag=True, help="Read a folder now, and then only on command.")
@click.option(
    "--list", "lists", is_flag=True, help="List what is followed, when it was read, what failed."
)
def ingest(  # noqa: PLR0913 - one for each option
    location: str | None,
    *,
    keep_missing: bool,
    yes: bool,
    strict: bool,
    dry_run: bool,
    no_watch: bool,
    lists: bool,
) -> None:
    """Add the texts in PATH to the knowledge base, and follow PATH if it is a folder.

    PATH is a folder, or a file in a format that docs/adding.md describes. With a URL, the page is
    added, or updated if it was added before.

    While Carrel runs on this machine, a followed folder is read again when it changes. Then,
    renamed and moved files keep their ids, and texts of files that disappeared are forgotten. If
    more than a third disappeared, only this command forgets them, and asks first. For 30 days,
    `carrel forget --restore` restores forgotten texts, and so does ingesting the files again.

    Files and records that cannot be read are named, and all other texts are added. The command
    exits with 1 if texts could not be read, or if missing texts were not forgotten.
    """
    if lists:
        click.echo(run_with_database(_list))
        return
    if location is None:
        raise click.UsageError("Missing argument 'PATH'.")
    is_url = location.lower().startswith(_URL_SCHEMES)
    if is_url and (keep_missing or yes or strict or dry_run or no_watch):
        raise click.UsageError("With a URL, no option is allowed.")
    path = Path(location)
    try:
        if is_url:
            complete = _ingest_page(location)
        elif dry_run:
            complete = _print_preview(path)
        else:
            complete = _ingest(path, keep=keep_missing, yes=yes, strict=strict, watch=not no_watch)
    except KeyboardInterrupt:
        click.echo(_INTERRUPTED, err=True)
        sys.exit(_INTERRUPTED_STATUS)
    sys.exit(not complete)


def _print_preview(path: Path) -> bool:
    """Print the changes and what would be read. Return whether everything can be read."""
    preview = run_with_database(lambda database: _load_preview(path, database))
    folder = preview.folder
    groups = _group_names_by_change(folder)
    for kind, names in groups.items():
        if names:
            click.echo(f"{kind}: {format_count(len(names), 'file')}")
            click.echo(make_printable("\n".join(f"  {name}" for name in names[:_MAX_NAMES])))
            if len(names) > _MAX_NAMES:
                click.echo(f"  ... and {len(names) - _MAX_NAMES} more")
    if folder.missing_ids:
        click.echo(preview.describe_missing())
    elif not any(groups.values()):
        click.echo("No file has changed since it was last ingested.")
    contents = preview.read_contents(all_files=False)
    contents.print()
    contents.print_problems()
    _print_duration(contents)
    return not contents.failures


def _group_names_by_change(folder: FollowedFolder) -> dict[str, Sequence[str]]:
    """Return the names of files by how they changed: new, edited, renamed or missing."""
    return {
        "new": _to_relative(folder.new, folder.scope),
        "edited": _to_relative(folder.edited, folder.scope),
        "renamed": [
            f"{old} -> {new}"
            for new, old in zip(
                _to_relative(folder.renamed.keys(), folder.scope),
                _to_relative(folder.renamed.values(), folder.scope),
                strict=True,
            )
        ],
        "missing": _to_relative(folder.find_missing().files, folder.scope),
    }


def _print_duration(contents: PathContents) -> None:
    """Print how long ingesting would take, if the texts are embedded on this computer."""
    from infra.cli.ingest_preview import estimate_seconds, format_duration
    from shared.core.settings import Settings
    from shared.runtime.context import App

    async def estimate() -> float:
        app = App(settings)
        try:
            return await estimate_seconds(contents, app.embedder)
        finally:
            await app.aclose()

    settings = Settings()
    if contents.sample and settings.embedding_provider == "local":
        click.echo(f"This takes {format_duration(asyncio.run(estimate()))} on this computer.")


def _ingest(path: Path, *, keep: bool, yes: bool, strict: bool, watch: bool) -> bool:
    """Ingest a path, and forget missing texts if the user confirms that.

    Args:
        path: The path.
        keep: Whether to keep missing texts without asking.
        yes: Whether to forget missing texts without asking.
        strict: Whether to read all files first, and write nothing if one cannot be read.
        watch: Whether to read the path again when it changes, if it is a folder.

    Returns:
        Whether everything was processed, and missing texts were forgotten or are to be kept.
    """
    from infra.cloud.environment import set_job_secrets
    from infra.local.jobs import ingest_all
    from infra.local.scheduler import wake

    if not watch and _set_watched(path, watched=False):
        click.echo(f"{make_printable(str(path))} is no longer read when it changes.")
        if not path.exists():
            return True
    preview = run_with_database(lambda database: _load_preview(path, database))
    folder = preview.folder
    if strict and (contents := preview.read_contents(all_files=True)).failures:
        contents.print_problems()
        click.echo(_NOTHING_WRITTEN, err=True)
        return False
    is_confirmed = True
    if folder.renamed:
        files = format_count(len(folder.renamed), "renamed or moved file")
        click.echo(f"{files}: the ids stay.")
    if folder.missing_ids and not keep:
        click.echo(preview.describe_missing())
        is_confirmed = (
            yes or not preview.sources or not folder.find_missing().is_alarming or _confirm()
        )
    if not is_confirmed:
        click.echo(_NOTHING_FORGOTTEN, err=True)
    forgets = is_confirmed and not keep
    if folder.error and not forgets:  # nothing can be read, and nothing is to be forgotten
        raise folder.error
    set_job_secrets(["embed"])
    # Nothing that runs on this machine reads folders for a deployment.
    can_change = path.is_dir() and is_local() and not folder.listing.is_export
    is_new = _set_watched(path, watched=watch and can_change)
    complete = ingest_all(path, folder.missing_ids if forgets else frozenset())
    if watch and is_new and can_change:
        command = carrel(f"ingest --no-watch {shlex.quote(str(path))}")
        click.echo(make_printable(_WATCHED.format(command=command)))
        wake()
    return complete and is_confirmed


def _set_watched(path: Path, *, watched: bool) -> bool:
    """Set whether a folder is read when it changes. Return whether that is new."""
    from functions.jobs.ingest.folder import set_watched

    return run_with_database(partial(set_watched, path, watched=watched))


def _ingest_page(url: str) -> bool:
    """Ingest the page at a URL, and return whether that succeeded."""
    from infra.cloud.environment import set_job_secrets
    from infra.local.jobs import ingest_page

    set_job_secrets(["embed"])
    return ingest_page(url)


def _confirm() -> bool:
    """Ask the user whether to forget texts. Without a terminal, the answer is no."""
    return sys.stdin.isatty() and click.confirm("Forget them?", err=True)


async def _load_preview(path: Path, database: Database) -> _Preview:
    """Compare a path with what was last ingested, and list its files. Their texts are not read."""
    from functions.jobs.ingest.folder import FollowedFolder
    from shared.core.settings import Settings
    from shared.knowledge.source_repository import Sources

    follows_readwise = Settings().readwise_token is not None
    folder = FollowedFolder(path, database, follows_readwise=follows_readwise)
    await folder.list_items()
    stored = await Sources(database).get_all(sorted(folder.missing_ids))
    passages = sum(source.chunk_count for source in stored)
    return _Preview(folder, len(stored), passages)


async def _list(database: Database) -> str:
    """Format a table of the followed folders, the bucket and the Readwise library."""
    from functions.jobs.ingest.folder import load_roots_with_files
    from functions.jobs.ingest.readwise.library import open_state
    from shared.core.settings import Settings
    from shared.knowledge.followed import FileState, Followed

    rows: list[tuple[str, str, str, str, str]] = []
    problems: list[str] = []
    for root, states in await load_roots_with_files(database):
        last_read = format_minute(root.read_at) if root.whole else "single files"
        when = "when it changes" if root.watched else "on command"
        rows.append((str(root.path), *_count(states), last_read, when))
        problems += [f"{root.path}: {problem}" for problem in root.list_problems()]
    if address := Settings().ingest_bucket:
        bucket = Followed(database, address.rstrip("/"), FileState)
        await bucket.load()
        rows.append((address, *_count(bucket.items.values()), "", "by the job ingest"))
    library = open_state(database)
    await library.load()
    if updated_after := library.fields.get("updated_after"):
        rows.append(("Readwise", "", "", format_minute(updated_after), "by the job ingest"))
    if not rows:
        return f"Nothing is followed. To follow a folder: {carrel('ingest FOLDER')}"
    header = ("FOLLOWED", "FILES", "SOURCES", "LAST READ (UTC)", "IS READ")
    return make_printable("\n".join([format_table(header, rows), *problems]))


def _count(files: Iterable[FileState]) -> tuple[str, str]:
    """Count the files that are not missing, and their sources, as texts for a table."""
    states = [state for state in files if not state.missing]
    return str(len(states)), str(len({name for state in states for name in state.ids}))


def _to_relative(names: Iterable[str], scope: Path) -> Sequence[str]:
    """Return the names of files relative to the ingested path `scope` if they are inside it."""
    return [
        str(Path(name).relative_to(scope)) if Path(name).is_relative_to(scope) else name
        for name in names
    ]
