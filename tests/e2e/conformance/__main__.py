"""Runs the applicable scenarios of the public MCP conformance suite against the gateway.

Usage: python -m tests.e2e.conformance
"""

from __future__ import annotations

import os
import sys

import click

from infra.local.local_database import PROJECT, STATE
from infra.local.processes import StartError
from tests.e2e.conformance.run import REVISIONS, run_all, serve_gateways
from tests.e2e.conformance.suite import Outcome, Suite
from tests.support.emulator import run_emulator
from tests.support.emulator_programs import EmulatorError
from tests.support.npm import NotInstalled


def main() -> int:
    """Run all scenarios. Return 1 if one failed, else 0."""
    suite = Suite()
    log = STATE / "conformance.log"
    log.unlink(missing_ok=True)
    click.echo("Starting an emulator and the gateways ...")
    with run_emulator() as host:
        os.environ["FIRESTORE_EMULATOR_HOST"] = host
        with serve_gateways(PROJECT, log) as under_test:
            outcomes = run_all(suite, under_test)
    _print_outcomes(outcomes)
    has_faults = any(outcome.faults for row in outcomes.values() for outcome in row)
    if has_faults:
        click.echo(f"\nThe gateways' log: {log}")
    return int(has_faults)


def _print_outcomes(outcomes: dict[str, list[Outcome]]) -> None:
    rows = [("scenario", *REVISIONS), *((name, *map(str, row)) for name, row in outcomes.items())]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for line in rows:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(cells).rstrip())
    for name, row in outcomes.items():
        for revision, outcome in zip(REVISIONS, row, strict=True):
            for fault in outcome.faults:
                click.echo(f"\n{name} at {revision}\n  {fault}")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (NotInstalled, EmulatorError, StartError) as error:
        sys.exit(str(error))
