"""A fake Cloud Run in front of functions on this machine, with their callers' service accounts.

Usage: python -m tests.support.cloud_run.server < INPUT

The first line of the input is a `Plan` as JSON. This process ends when the input is closed.

Each function has a TLS port. Each service account has a metadata server that issues its ID tokens,
which are signed with a key of this process.
"""

import asyncio
import socket
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import uvicorn
from pydantic import BaseModel
from starlette.types import ASGIApp

from infra.local.serve_function import end_with_parent
from tests.support.cloud_run.front_end import FrontEnd, Service
from tests.support.cloud_run.google_accounts import Accounts, MetadataServers

_KEEP_ALIVE_SECONDS: Final = 620
"""The time for which idle connections stay open: longer than callers keep them, as at Google."""


class Plan(BaseModel):
    """The services and accounts to serve.

    Attributes:
        certificate: The key and certificate of all addresses, as PEM.
        services: The services by the file descriptors of their bound sockets.
        accounts: The service accounts by the file descriptors of their metadata servers' sockets.
    """

    certificate: str
    services: dict[int, Service]
    accounts: dict[int, str]


class _Server(uvicorn.Server):
    """A server without signal handlers, since two run in this process."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


async def _serve(plan: Plan) -> None:
    accounts = Accounts()
    service_sockets = {
        socket.socket(fileno=descriptor): service for descriptor, service in plan.services.items()
    }
    metadata_sockets = {
        socket.socket(fileno=descriptor): account for descriptor, account in plan.accounts.items()
    }
    front_end = FrontEnd(
        {_get_port(listener): service for listener, service in service_sockets.items()}, accounts
    )
    metadata = MetadataServers(
        accounts, {_get_port(listener): name for listener, name in metadata_sockets.items()}
    )
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(plan.certificate)
        file.flush()
        front_end_config = _make_config(front_end, file.name)
        front_end_config.load()  # reads the certificate, which is then deleted
    await asyncio.gather(
        _Server(front_end_config).serve(list(service_sockets)),
        _Server(_make_config(metadata)).serve(list(metadata_sockets)),
    )


def _make_config(app: ASGIApp, certificate: str | None = None) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        interface="asgi3",
        lifespan="off",
        log_level="error",
        ssl_certfile=certificate,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        proxy_headers=False,
    )


def _get_port(listener: socket.socket) -> int:
    port: int = listener.getsockname()[1]
    return port


if __name__ == "__main__":
    _plan = Plan.model_validate_json(sys.stdin.buffer.readline())
    end_with_parent()
    asyncio.run(_serve(_plan))
