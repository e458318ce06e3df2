"""`carrel doctor`: checks this machine and prints the command to run for each problem."""

from __future__ import annotations

import sys
from typing import Final

import click

from infra.cli.formatting import PORT
from infra.doctor import CHECKS, CheckResult, CheckStatus, Machine, run_check

_STATUS_WIDTH: Final = 10
"""The width of the column with the status, in characters."""
_NAME_WIDTH: Final = 20
"""The width of the column with the name of the check."""


@click.command()
@click.option(
    "--port", type=PORT, default=8080, show_default=True, help="Port of the local gateway."
)
def doctor(port: int) -> None:
    """Check Carrel on this machine.

    The command changes nothing. For each problem it prints the command to run next, and it exits
    with 1 if there is a problem. `carrel smoke` tests a deployment.
    """
    is_healthy = True
    for check in CHECKS:
        result = run_check(check, Machine(port=port))
        click.echo(_format(check.name, result))
        is_healthy = is_healthy and result.status is not CheckStatus.WRONG
    click.echo(
        "Everything works." if is_healthy else "There are problems. Run the commands after `next`."
    )
    sys.exit(not is_healthy)


def _format(name: str, result: CheckResult) -> str:
    """Format the result of a check as a line, with a line below it for the next command."""
    indent = " " * (_STATUS_WIDTH + _NAME_WIDTH)
    line = f"{result.status.value:<{_STATUS_WIDTH}}{name:<{_NAME_WIDTH}}{result.message}"
    return f"{line}\n{indent}next: {result.next_command}" if result.next_command else line
