"""What a client needs to call functions in the fake cloud: ID tokens, and trust in its TLS."""

import ssl

import httpx2

from tests.support.cloud_run.cloud import Cloud

_IDENTITY = "/computeMetadata/v1/instance/service-accounts/default/identity"


def fetch_id_token(cloud: Cloud, account: str, audience: str) -> str:
    """Fetch an ID token of a service account from its metadata server."""
    response = httpx2.get(
        f"http://{cloud.metadata[account]}{_IDENTITY}",
        params={"audience": audience, "format": "full"},
        headers={"Metadata-Flavor": "Google"},
    )
    return response.raise_for_status().text


def make_authorization_header(cloud: Cloud, account: str, name: str) -> dict[str, str]:
    """Return the header with which a service account calls a function."""
    return {"authorization": f"Bearer {fetch_id_token(cloud, account, cloud.urls[name])}"}


def make_trusting_context(cloud: Cloud) -> ssl.SSLContext:
    """Make a TLS context that trusts the cloud's certificate."""
    return ssl.create_default_context(cafile=cloud.trusted)
