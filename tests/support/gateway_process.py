"""A running Carrel: the gateway and its tools as processes of their own."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from infra.build.discovery import ROOT
from infra.local.processes import checkout_program, serve
from tests.support.cloud_run.cloud import deployed
from tests.support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from infra.local.processes import Program, ServerProcess
    from shared.knowledge.chunk import Chunk
    from tests.support.cloud_run.cloud import Cloud

INLINE = ROOT / "infra" / "local" / "gateway_main.py"
ALLOWED_ORIGIN = "https://notebook.example"
SECRET = "a-secret-of-tests-that-opens-nothing"
"""What the gateways of tests sign and hash with."""
MARK = "zyzzyva"
"""A word that stands nowhere but in what people wrote."""


@dataclass(frozen=True, slots=True)
class Library:
    """A filled knowledge base that tests only read.

    Attributes:
        project: Its Google Cloud project.
        chunks: What it holds.
    """

    project: str
    chunks: list[Chunk]

    @property
    def environment(self) -> dict[str, str]:
        """What a function needs to serve it."""
        return {"GOOGLE_CLOUD_PROJECT": self.project}


@dataclass(frozen=True, slots=True)
class Running:
    """A gateway that answers.

    Attributes:
        gateway: Its process.
        tools: The tools that are processes of their own, by name.
        log: Where all of them write.
    """

    gateway: ServerProcess
    tools: Mapping[str, ServerProcess]
    log: Path

    @property
    def url(self) -> str:
        """The gateway's address."""
        return self.gateway.url

    @property
    def endpoint(self) -> str:
        """The MCP endpoint."""
        return f"{self.gateway.url}/mcp"


@contextmanager
def run_gateway(source: Path, environment: Mapping[str, str], log: Path) -> Iterator[Running]:
    """Serve a gateway of the checkout until the block ends, with its tools in its process.

    Args:
        source: Its `main.py`.
        environment: Beats what would be set for it.
        log: Where it writes.
    """
    with _running(
        lambda all_of_it: checkout_program(source, all_of_it), environment, log
    ) as gateway:
        yield Running(gateway, {}, log)


@contextmanager
def run_deployed_gateway(
    environment: Mapping[str, str], log: Path, tools: Cloud | None = None
) -> Iterator[Running]:
    """Serve the gateway that is deployed until the block ends, with its tools in a cloud."""
    program = tools.gateway if tools else lambda all_of_it: deployed("gateway", all_of_it)
    with _running(program, environment, log) as gateway:
        yield Running(gateway, tools.functions if tools else {}, log)


@contextmanager
def _running(
    program: Callable[[Mapping[str, str]], Program], environment: Mapping[str, str], log: Path
) -> Iterator[ServerProcess]:
    port = free_port()
    usual = {
        "PUBLIC_URL": f"http://127.0.0.1:{port}",
        "ACCESS_SECRETS": json.dumps([SECRET]),
        "LOCAL_USER": "local",
        "ALLOWED_ORIGINS": json.dumps([ALLOWED_ORIGIN]),
    }
    with serve(program({**usual, **environment}), port=port, log=log) as gateway:
        yield gateway
