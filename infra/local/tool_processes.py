"""Runs each tool in its own process on loopback, for `make run TOPOLOGY=functions`.

In the cloud, each tool is a Cloud Function of its own, deployed as a bundle: the tool's code and a
generated `main.py`. Here, a process serves that `main.py` and imports the tool from the checkout.
It answers only requests with the run's secret, which only the gateway gets.
"""

from __future__ import annotations

import json
import os
import secrets
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from functions.gateway.calls.dispatch import IdTokens
from infra.build.functions import functions
from infra.local.processes import (
    GATEWAY,
    LOOPBACK,
    make_checkout_program,
    start,
    terminate_all,
    wait_until_serving,
)
from infra.local.serve_function import REQUIRED_SECRET
from shared.core.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from infra.local.processes import Program, ServerProcess

SENT_SECRET: Final = "CARREL_FUNCTION_SECRET"  # noqa: S105 - the variable's name
"""The environment variable that gives the run's secret to the gateway, which sends it to tools.

`REQUIRED_SECRET` gives the same secret to the tools, which require it."""
_USE_LOCAL_DATABASE: Final = """\
from infra.local.local_database import use_local_database

use_local_database()
"""
"""The first lines of the `main.py` of a local tool."""
_SETTINGS: Final = frozenset(name.upper() for name in Settings.model_fields)
"""The environment variables that a tool inherits only if it declares the setting, as in the
cloud."""


class SharedSecretTokens(IdTokens):
    """Authenticates the gateway with a secret instead of the cloud's ID tokens."""

    def __init__(self, secret: str) -> None:
        """Send this secret to every tool."""
        super().__init__()
        self._header = {"authorization": f"Bearer {secret}"}

    async def authorization(self, url: str) -> dict[str, str]:  # noqa: ARG002 - the same for all
        """Return the `Authorization` header for a tool of this run."""
        return self._header


@dataclass(frozen=True, slots=True)
class LocalTools:
    """Tools that run in processes on loopback."""

    servers: Mapping[str, ServerProcess]
    secret: str

    def make_gateway_program(self, environment: Mapping[str, str]) -> Program:
        """Make the program of a gateway that calls these tools."""
        urls = {name: server.url for name, server in self.servers.items()}
        no_proxy = os.environ.get("no_proxy") or os.environ.get("NO_PROXY")
        variables = {
            "TOOL_URLS": json.dumps(urls),
            SENT_SECRET: self.secret,
            "no_proxy": f"{no_proxy},{LOOPBACK}" if no_proxy else LOOPBACK,
        }
        return make_checkout_program(GATEWAY, {**variables, **environment})

    def describe_dead_tool(self) -> str:
        """Describe a tool whose process has ended, or return an empty string if all are running."""
        names = (name for name, server in self.servers.items() if server.process.poll() is not None)
        return next((f"The process of the tool {name}" for name in names), "")


@contextmanager
def serve_tools(
    names: Collection[str], environment: Mapping[str, str], *, log: Path | None = None
) -> Iterator[LocalTools]:
    """Serve tools until the `with` block ends. The block begins when all tools answer.

    Args:
        names: The names of the tools.
        environment: The environment variables to add to this process's own.
        log: The file for the tools' output, by default the output of this process.

    Raises:
        StartError: A tool died or did not answer in time.
    """
    secret = secrets.token_urlsafe(32)
    variables = {**environment, REQUIRED_SECRET: secret}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="carrel-")))
        programs = {
            function.name: make_checkout_program(
                _write_main(folder / function.key, _USE_LOCAL_DATABASE + function.main),
                variables,
                excluded=_SETTINGS - {*function.settings, *function.secrets},
            )
            for function in functions()
            if function.name in names
        }
        servers = {name: start(stack, program, log=log) for name, program in programs.items()}
        stack.callback(terminate_all, servers.values())
        for name, program in programs.items():
            wait_until_serving(servers[name], program)
        yield LocalTools(servers, secret)


def _write_main(folder: Path, main: str) -> Path:
    folder.mkdir()
    path = folder / "main.py"
    path.write_text(main, "utf-8")
    return path
