"""Gateways in processes of their own, with their tools in the same process or in others."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from infra.build.discovery import ROOT
from infra.local.processes import (
    ServerProcess,
    make_checkout_program,
    serve,
)
from infra.local.tool_processes import serve_tools
from shared.knowledge.chunk import Chunk
from tests.support.cloud_run.cloud import Cloud, make_deployed_program
from tests.support.forked_functions import serve_fork
from tests.support.ports import find_free_port

INLINE_MAIN = ROOT / "infra" / "local" / "gateway_main.py"
"""The `main.py` of a gateway with all tools in its own process."""
ALLOWED_ORIGIN = "https://notebook.example"
"""The only web site whose scripts may call the gateways."""
ACCESS_SECRET = "a-secret-of-tests-that-opens-nothing"
"""The secret with which the gateways of tests sign tokens and hash keys."""
PRIVATE_WORD = "zyzzyva"
"""A word that tests put only into private text, and then search for in logs."""


@dataclass(frozen=True, slots=True)
class FilledProject:
    """A filled knowledge base that tests only read.

    Attributes:
        project: The Google Cloud project.
        chunks: The stored chunks.
    """

    project: str
    chunks: list[Chunk]

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a function that serves the knowledge base."""
        return {"GOOGLE_CLOUD_PROJECT": self.project}


@dataclass(frozen=True, slots=True)
class RunningGateway:
    """A running gateway.

    Attributes:
        gateway: The gateway's process.
        tools: The processes of tools by name; empty if the tools run in the gateway's process.
        log: The log file of all processes.
    """

    gateway: ServerProcess
    tools: Mapping[str, ServerProcess]
    log: Path

    @property
    def url(self) -> str:
        """The gateway's URL."""
        return self.gateway.url

    @property
    def endpoint(self) -> str:
        """The URL of the MCP endpoint."""
        return f"{self.gateway.url}/mcp"


@contextmanager
def run_gateway(
    source: Path, environment: Mapping[str, str], log: Path
) -> Iterator[RunningGateway]:
    """Serve a gateway from the checkout, with its tools in the same process.

    Args:
        source: The gateway's `main.py`.
        environment: Variables that override the defaults.
        log: The file for the gateway's output.
    """
    port = find_free_port()
    program = make_checkout_program(source, {**make_gateway_environment(port), **environment})
    with serve_fork(program, port, log) as gateway:
        yield RunningGateway(gateway, {}, log)


@contextmanager
def run_local_functions(
    names: Sequence[str], environment: Mapping[str, str], log: Path
) -> Iterator[RunningGateway]:
    """Serve a gateway from the checkout, with these tools in processes of their own."""
    port = find_free_port()
    with serve_tools(names, environment, log=log) as tools:
        program = tools.make_gateway_program({**make_gateway_environment(port), **environment})
        with serve_fork(program, port, log) as gateway:
            yield RunningGateway(gateway, tools.servers, log)


@contextmanager
def run_deployed_gateway(
    environment: Mapping[str, str], log: Path, tools: Cloud | None = None
) -> Iterator[RunningGateway]:
    """Serve the gateway's bundle, as it is deployed.

    Args:
        environment: Variables that override the defaults.
        log: The file for the gateway's output.
        tools: The fake cloud with the tools; None for a gateway that reaches no tools.
    """
    port = find_free_port()
    variables = {**make_gateway_environment(port), **environment}
    program = (
        tools.make_gateway_program(variables)
        if tools
        else make_deployed_program("gateway", variables)
    )
    with serve(program, port=port, log=log) as gateway:
        yield RunningGateway(gateway, tools.functions if tools else {}, log)


def make_gateway_environment(port: int) -> dict[str, str]:
    """Return the variables of a gateway at a port that answers the local user without a key."""
    return {
        "PUBLIC_URL": f"http://127.0.0.1:{port}",
        "ACCESS_SECRETS": json.dumps([ACCESS_SECRET]),
        "LOCAL_USER": "local",
        "ALLOWED_ORIGINS": json.dumps([ALLOWED_ORIGIN]),
    }
