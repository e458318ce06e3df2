"""A fake Cloud Run in front of functions on this machine, with its callers' service accounts.

Usage: python -m tests.support.cloud_run.server < INPUT

The first line of the input is a `Plan`. This process ends when the input is closed.

Each function has a TLS address. Each service account has a metadata server that issues its ID
tokens, signed with a key of this process.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import uvicorn
from pydantic import BaseModel

from infra.local.serve_function import end_with_parent
from tests.support.cloud_run.front_end import FrontEnd, Service
from tests.support.cloud_run.google_accounts import Accounts, MetadataServers

if TYPE_CHECKING:
    from collections.abc import Generator

    from starlette.types import ASGIApp

_KEEP_ALIVE_SECONDS: Final = 620
"""How long idle connections stay open: longer than callers keep them, as at Google."""


class Plan(BaseModel):
    """The services and accounts to serve.

    Attributes:
        certificate: The key and certificate of all addresses, as PEM.
        services: The services by file descriptors of bound sockets.
        accounts: The accounts by file descriptors of their metadata servers' sockets.
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
    fronts = {
        socket.socket(fileno=descriptor): service for descriptor, service in plan.services.items()
    }
    metadata_sockets = {
        socket.socket(fileno=descriptor): account for descriptor, account in plan.accounts.items()
    }
    front = FrontEnd({_get_port(front): service for front, service in fronts.items()}, accounts)
    metadata = MetadataServers(
        accounts, {_get_port(listener): name for listener, name in metadata_sockets.items()}
    )
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(plan.certificate)
        file.flush()
        public = _make_config(front, file.name)
        public.load()
    await asyncio.gather(
        _Server(public).serve(list(fronts)),
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
