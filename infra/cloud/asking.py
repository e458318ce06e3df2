"""What a deployment needs to be told, where nobody has told it yet."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, TypeVar

import click

from infra.cloud.deployment import (
    NAME,
    Deployment,
    checked,
    valid_email,
    valid_location,
    valid_project,
    valid_region,
)
from infra.cloud.failures import NotDone

if TYPE_CHECKING:
    from collections.abc import Callable

AnswerT = TypeVar("AnswerT")

EXAMPLE: Final = "infra/terraform/example.tfvars.json"
_REGION: Final = "europe-west1"
_BUDGET: Final = "Warn when a month costs more than (whole number, empty for no budget)"


def at_a_terminal() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin.isatty()


def described(project: str | None) -> Deployment:
    """A new deployment, as somebody at the terminal describes it.

    Raises:
        NotDone: Nobody is there, or the project's id cannot be one.
    """
    if not at_a_terminal():
        raise NotDone(
            f"There is no {NAME}, and nobody to ask. Next: cp {EXAMPLE} {NAME}, and fill it in"
        )
    if project:
        try:
            valid_project(project)
        except ValueError as error:
            raise NotDone(f"--project: {error}") from None
    click.echo("This checkout has not been deployed yet. Some questions first.\n")
    project = project or _answer("The project's id", valid_project)
    region = _answer("Region of the functions", valid_region, default=_REGION)
    deployment = Deployment(
        project=project,
        region=region,
        firestore_location=_answer(
            "Location of the databases, for ever", valid_location, default=region
        ),
        settings={"EMBEDDING_PROVIDER": "vertex", "VERTEX_LOCATION": region},
        alert_email=_answer("E-mail address for alerts, if any", _optional_email, default=""),
        monthly_budget=_answer(_BUDGET, _whole_number, default=""),
    )
    return checked(deployment.to_json(), NAME)


def _answer(question: str, check: Callable[[str], AnswerT], default: str | None = None) -> AnswerT:
    """Ask until the check lets an answer through; its ValueError says what is wanted."""

    def checked_answer(text: str) -> AnswerT:
        try:
            return check(text.strip())
        except ValueError as error:
            raise click.UsageError(str(error)) from None  # click shows it and asks again

    answer: AnswerT = click.prompt(
        question, default=default, show_default=bool(default), value_proc=checked_answer
    )
    return answer


def _optional_email(text: str) -> str | None:
    return valid_email(text) if text else None


def _whole_number(text: str) -> int | None:
    if text and not (text.isdecimal() and int(text)):
        raise ValueError("write a whole number, such as 10, or nothing")
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
