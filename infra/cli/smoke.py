"""`carrel smoke`: whether a gateway answers."""

from __future__ import annotations

import asyncio
import os
import sys

import click


@click.command()
@click.argument("url")
def smoke(url: str) -> None:
    """Call the gateway at URL as a client does, with the key in CARREL_KEY, and say what came."""
    from infra.cloud.smoke import smoke as tested

    key = os.environ.get("CARREL_KEY", "").strip()
    if not key:
        raise click.ClickException(
            "CARREL_KEY holds no key. `carrel keys create --user YOU --name terminal` makes one."
        )
    found = asyncio.run(tested(url, key))
    for line in found.said:
        click.echo(line, err=not found.well)
    click.echo("It works." if found.well else "It does not work.", err=not found.well)
    sys.exit(not found.well)
