"""`carrel backup` and `carrel restore`: one archive with all that a base of this machine holds."""

from __future__ import annotations

import os
from pathlib import Path

import click

from infra.local import local_database


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
def backup(file: Path) -> None:
    """Write the databases and the secret to FILE, a new archive, also while Carrel runs.

    `carrel restore FILE` brings back everything: texts with their vectors, users' data, accounts
    and keys. Who has FILE can read it all.
    """
    from infra.local.backup import write_backup

    _require_files()
    try:
        write_backup(file)
    except OSError as error:
        raise _explain(error, file) from error
    megabytes = file.stat().st_size / 1e6
    click.echo(
        f"Backed up {local_database.STATE} to {file} ({megabytes:,.1f} MB). Keep it private."
    )


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--replace", is_flag=True, help="Put the base that is there aside, into a folder beside it."
)
def restore(file: Path, *, replace: bool) -> None:
    """Restore the base from the backup FILE. Carrel must not be running."""
    from infra.local.backup import restore_backup

    _require_files()
    try:
        restored = restore_backup(file, replace=replace)
    except OSError as error:
        raise _explain(error, file) from error
    created = f"{restored.created.astimezone():%Y-%m-%d %H:%M}"
    click.echo(f"Restored the base of {created} to {local_database.STATE}.")
    if restored.former:
        click.echo(f"The former base is in {restored.former}. Delete it when you do not need it.")


def _require_files() -> None:
    if os.environ.get("FIRESTORE_EMULATOR_HOST"):
        raise click.ClickException(
            "The data of an emulator is not in files. Unset FIRESTORE_EMULATOR_HOST to work on"
            f" those in {local_database.STATE}."
        )


def _explain(error: OSError, file: Path) -> click.ClickException:
    reason = (
        local_database.explain_os_error(error) or f"{error.filename or file}: {error.strerror}."
    )
    return click.ClickException(reason)
