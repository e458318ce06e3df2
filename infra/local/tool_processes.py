"""Each tool as a process of its own on loopback, as `make run TOPOLOGY=functions` has them.

They are served from the checkout, each by the `main.py` that its bundle has, and answer whoever
knows the secret of the run: the gateway.
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
from infra.local.processes import LOOPBACK, await_answer, end_soon, in_checkout, start
from infra.local.serve_function import REQUIRED_SECRET

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from infra.local.processes import Program, Served

GATEWAY: Final = Path(__file__).with_name("gateway_main.py")
FUNCTION_SECRET: Final = "CARREL_FUNCTION_SECRET"  # noqa: S105 - the variable's name
"""The environment variable with the secret that a local gateway sends to functions."""


class SecretOfRun(IdTokens):
    """Stands where the cloud's gateway proves by ID tokens who it is."""

    def __init__(self, secret: str) -> None:
        """Send this secret."""
        super().__init__()
        self._header = {"authorization": f"Bearer {secret}"}

    async def header(self, url: str) -> dict[str, str]:  # noqa: ARG002 - the same for all
        """The `Authorization` header for a function of this run."""
        return self._header


@dataclass(frozen=True, slots=True)
class LocalFunctions:
    """Tools that answer on loopback.

    Attributes:
        served: Their processes, by name.
        secret: What each request to them carries as its bearer token.
    """

    served: Mapping[str, Served]
    secret: str

    def gateway(self, environment: Mapping[str, str]) -> Program:
        """The gateway that calls them, with variables beside our own."""
        urls = {name: one.url for name, one in self.served.items()}
        proxied = os.environ.get("no_proxy") or os.environ.get("NO_PROXY")
        added = {
            "TOOL_URLS": json.dumps(urls),
            FUNCTION_SECRET: self.secret,
            "no_proxy": f"{proxied},{LOOPBACK}" if proxied else LOOPBACK,
        }
        return in_checkout(GATEWAY, {**added, **environment})

    def dead(self) -> str:
        """The first function that has ended, in words; empty where all live."""
        ended = (name for name, one in self.served.items() if one.process.poll() is not None)
        return next((f"The function of {name}" for name in ended), "")


@contextmanager
def serve_tools(
    names: Collection[str], environment: Mapping[str, str], *, log: Path | None = None
) -> Iterator[LocalFunctions]:
    """Serve tools until the block ends; they answer when it begins.

    Args:
        names: Theirs.
        environment: Variables beside our own.
        log: The file that takes what they print; by default they print where this process does.

    Raises:
        NotStarted: One does not answer.
    """
    secret = secrets.token_urlsafe(32)
    variables = {**environment, REQUIRED_SECRET: secret}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="carrel-")))
        programs = {
            function.name: in_checkout(_written(folder / function.key, function.main), variables)
            for function in functions()
            if function.name in names
        }
        served = {name: start(stack, program, log=log) for name, program in programs.items()}
        stack.callback(end_soon, served.values())
        for name, program in programs.items():
            await_answer(served[name], program)
        yield LocalFunctions(served, secret)


def _written(folder: Path, main: str) -> Path:
    folder.mkdir()
    path = folder / "main.py"
    path.write_text(main, "utf-8")
    return path
