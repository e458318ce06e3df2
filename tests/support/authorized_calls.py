"""Calling functions that answer only whom they should."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import httpx2

if TYPE_CHECKING:
    from tests.support.cloud_run.cloud import Cloud

_IDENTITY = "/computeMetadata/v1/instance/service-accounts/default/identity"


def token(running: Cloud, account: str, audience: str) -> str:
    """An ID token, as the metadata server gives it to who runs as this service account."""
    response = httpx2.get(
        f"http://{running.metadata[account]}{_IDENTITY}",
        params={"audience": audience, "format": "full"},
        headers={"Metadata-Flavor": "Google"},
    )
    return response.raise_for_status().text


def bearer(running: Cloud, account: str, name: str) -> dict[str, str]:
    """The header by which a service account calls a function."""
    return {"authorization": f"Bearer {token(running, account, running.urls[name])}"}


def trusting(running: Cloud) -> ssl.SSLContext:
    """What a client needs to know to believe that a function is one."""
    return ssl.create_default_context(cafile=running.trusted)
