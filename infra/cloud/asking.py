"""What a deployment needs to be told, where nobody has told it yet."""

from __future__ import annotations

import sys
from typing import Final

import click

from infra.cloud.deployment import NAME, Deployment, checked
from infra.cloud.failures import NotDone

EXAMPLE: Final = "infra/terraform/example.tfvars.json"
_REGION: Final = "europe-west1"
_BUDGET: Final = "Warn when a month costs more than (whole number, empty for no budget)"


def at_a_terminal() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin.isatty()


def described(project: str | None) -> Deployment:
    """A new deployment, as somebody at the terminal describes it.

    Raises:
        NotDone: Nobody is there.
    """
    if not at_a_terminal():
        raise NotDone(
            f"There is no {NAME}, and nobody to ask. Next: cp {EXAMPLE} {NAME}, and fill it in"
        )
    click.echo("This checkout has not been deployed yet. Some questions first.\n")
    project = project or click.prompt("The project's id")
    region = click.prompt("Region of the functions", default=_REGION)
    location = click.prompt("Location of the databases, for ever", default=region)
    email = click.prompt("E-mail address for alerts, if any", default="", show_default=False)
    budget = click.prompt(_BUDGET, default="", show_default=False, value_proc=_whole_number)
    settings = {"EMBEDDING_PROVIDER": "vertex", "VERTEX_LOCATION": region}
    deployment = Deployment(
        project=project,
        region=region,
        firestore_location=location,
        settings=settings,
        monthly_budget=budget,
        alert_email=email or None,
    )
    return checked(deployment.to_json(), NAME)


def _whole_number(text: str) -> int | None:
    if text and not (text.isdecimal() and int(text)):
        raise click.UsageError("a whole number, such as 10, or nothing")
    return int(text) if text else None


def secret_value(name: str) -> str:
    """The value of a secret: typed unseen, or the next line of standard input."""
    if at_a_terminal():
        return str(click.prompt(f"  {name} (unseen)", hide_input=True))
    return sys.stdin.readline()


def agreed(question: str, *, yes: bool) -> None:
    """Go on only with a yes.

    Raises:
        NotDone: There is none: nobody is there, or they decline.
    """
    if yes:
        return
    if not at_a_terminal():
        raise NotDone("This can cost money, and nobody is here to agree. To agree: --yes")
    if not click.confirm(question):
        raise NotDone("Nothing was changed.")


def named_in_full(project: str) -> None:
    """Go on only once the project's name is typed in full.

    Raises:
        NotDone: Something else is.
    """
    typed = click.prompt("Type the project's id to go on", default="", show_default=False)
    if typed != project:
        raise NotDone("That is not its id. Nothing was changed.")
