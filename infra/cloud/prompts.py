"""Asks the person at the terminal for values and confirmations."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, TypeVar

import click

from infra.cloud.deployment import (
    FILE_NAME,
    Deployment,
    parse_valid_deployment,
    validate_email,
    validate_location,
    validate_project,
    validate_region,
)
from infra.cloud.errors import CommandFailed

if TYPE_CHECKING:
    from collections.abc import Callable

AnswerT = TypeVar("AnswerT")

EXAMPLE: Final = "infra/terraform/example.tfvars.json"
"""The example of a deployment file, as a path in the repository."""
_DEFAULT_REGION: Final = "europe-west1"
_BUDGET_QUESTION: Final = "Monthly cost that raises an alert (whole number, empty for no budget)"


def is_interactive() -> bool:
    """Return whether a person can answer prompts."""
    return sys.stdin.isatty()


def ask_for_deployment(project: str | None) -> Deployment:
    """Ask the person at the terminal to describe the deployment.

    Raises:
        CommandFailed: There is no terminal, or the project id is not valid.
    """
    if not is_interactive():
        raise CommandFailed(
            f"There is no {FILE_NAME}, and this command cannot ask questions without a terminal."
            f" Run `cp {EXAMPLE} {FILE_NAME}` and edit the copy."
        )
    if project:
        try:
            validate_project(project)
        except ValueError as error:
            raise CommandFailed(f"--project: {error}") from None
    click.echo("This checkout has no deployment yet. Answer some questions to describe one.\n")
    project = project or _ask("Project id", validate_project)
    region = _ask("Region of the functions", validate_region, default=_DEFAULT_REGION)
    deployment = Deployment(
        project=project,
        region=region,
        firestore_location=_ask(
            "Location of the databases (cannot be changed later)", validate_location, default=region
        ),
        settings={"EMBEDDING_PROVIDER": "vertex", "VERTEX_LOCATION": region},
        alert_email=_ask("E-mail address for alerts (optional)", _parse_optional_email, default=""),
        monthly_budget=_ask(_BUDGET_QUESTION, _parse_whole_number, default=""),
    )
    return parse_valid_deployment(deployment.to_json(), FILE_NAME)


def _ask(question: str, check: Callable[[str], AnswerT], default: str | None = None) -> AnswerT:
    """Ask until `check` accepts the answer, and return what it returns.

    Args:
        question: The question.
        check: Parses an answer, or raises a ValueError that says what to write.
        default: The answer to an empty line, or None if there must be an answer.
    """

    def parse_answer(text: str) -> AnswerT:
        try:
            return check(text.strip())
        except ValueError as error:
            raise click.UsageError(str(error)) from None  # click prints it and asks again

    answer: AnswerT = click.prompt(
        question, default=default, show_default=bool(default), value_proc=parse_answer
    )
    return answer


def _parse_optional_email(text: str) -> str | None:
    return validate_email(text) if text else None


def _parse_whole_number(text: str) -> int | None:
    if text and not (text.isdecimal() and int(text)):
        raise ValueError("write a whole number, such as 10, or nothing")
    return int(text) if text else None


def ask_for_secret(name: str) -> str:
    """Read the value of a secret without echo, or the next line of standard input."""
    if is_interactive():
        return str(click.prompt(f"  {name} (not shown)", hide_input=True))
    return sys.stdin.readline()


def confirm(question: str, *, yes: bool) -> None:
    """Ask for a confirmation, unless `yes` gives it.

    Raises:
        CommandFailed: The answer is no, or there is no terminal.
    """
    if yes:
        return
    if not is_interactive():
        raise CommandFailed(
            "This may cost money, and there is no terminal to confirm at. To accept: --yes"
        )
    if not click.confirm(question):
        raise CommandFailed("Nothing was changed.")


def confirm_project(project: str) -> None:
    """Ask for the project id as a confirmation.

    Raises:
        CommandFailed: The answer is not the project id.
    """
    answer = click.prompt("Type the project id to continue", default="", show_default=False)
    if answer != project:
        raise CommandFailed("That is not the project id. Nothing was changed.")
