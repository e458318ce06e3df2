"""`--cloud` is accepted by the commands that work on a deployment, and refused by all others."""

import click
import pytest
from click.testing import CliRunner

from infra.cli.main import PLANS, Place, main, read_summary

COMMANDS = main.list_commands(click.Context(main))


@pytest.fixture(autouse=True)
def no_deployment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkout that was never deployed: a command that accepts --cloud asks for its project."""
    monkeypatch.setattr("infra.cloud.environment.load_deployment", lambda _: None)
    for name in ("GOOGLE_CLOUD_PROJECT", "EMBEDDING_PROVIDER"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_says_what_cloud_means_for_it(command: str) -> None:
    result = CliRunner().invoke(main, ["--cloud", command])
    if PLANS[command].place is Place.EITHER:
        assert result.exit_code == 1
        assert "With --cloud, set GOOGLE_CLOUD_PROJECT" in result.output
    else:
        assert result.exit_code == 2
        assert f"`carrel {command}` " in result.output
        assert "Leave out --cloud." in result.output


@pytest.mark.parametrize(
    "command",
    ["backup", "doctor", "generate", "init", "restore", "stage", "stdio", "up"],
)
def test_a_command_of_this_machine_is_declared_so(command: str) -> None:
    assert PLANS[command].place is Place.MACHINE


def test_every_plan_names_a_command() -> None:
    for name, plan in PLANS.items():
        command = main.get_command(click.Context(main), name)
        assert command is not None
        assert (name in main.commands) == (plan.module == "main")
        assert read_summary(name) == command.get_short_help_str(limit=1_000)
