"""Fixtures of the tests of access: gateways that serve a notebook, and keys for them."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from pydantic import SecretStr

from shared.accounts.access_key import new_key
from shared.accounts.keyring import Keyring
from shared.accounts.repositories.access_store import AccessStore
from shared.core.caller import FULL_ACCESS, Scope
from shared.firestore.database import Connection
from tests.e2e.access.all_tools_gateway import Carrel
from tests.support.fakes.google import CLIENT_ID, CLIENT_SECRET, FakeGoogle
from tests.support.gateway_process import ACCESS_SECRET, INLINE_MAIN, RunningGateway, run_gateway
from tests.support.google_sign_in import ADA

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

NOTEBOOK = Path(__file__).with_name("gateway_main.py")
"""The `main.py` of a gateway with the few tools of `tests.support.notebook_tools`."""
CLOUD = {
    "LOCAL_USER": "",
    "READS_PER_MINUTE": "1000",
    "WRITES_PER_MINUTE": "1000",
    "SIGN_INS_PER_TEN_MINUTES": "1000",
    "REGISTRATIONS_PER_HOUR": "1000",
    "REQUESTS_PER_MINUTE": "1000000",
}
"""The settings of a gateway that requires credentials, as in the cloud, with high rate limits."""

UNLIMITED = {"PUBLIC_ACCESS": "true", "ANONYMOUS_PER_MINUTE": "100000"}
"""The settings that let anonymous callers read, with a high rate limit."""

FUNDS = 1_000_000
"""The balance of each user of these tests, in micro-dollars."""

MakeKey = Callable[..., str]
"""A function that makes an access key for a user: `make_key("anna", scopes=...)`."""


@pytest.fixture(scope="session")
def realm() -> str:
    """The Google Cloud project that the gateways of these tests share."""
    return f"access-{uuid.uuid4().hex[:16]}"


@pytest.fixture(scope="session")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log file of these gateways, in place of Cloud Logging."""
    return tmp_path_factory.mktemp("access") / "gateway.log"


@pytest.fixture(scope="session")
def gateway(realm: str, log: Path) -> Iterator[RunningGateway]:
    """A gateway with the notebook tools, which requires a credential."""
    with run_gateway(NOTEBOOK, {"GOOGLE_CLOUD_PROJECT": realm, **CLOUD}, log) as gateway:
        yield gateway


@pytest.fixture(scope="session")
def open_gateway(realm: str, log: Path) -> Iterator[RunningGateway]:
    """A gateway with the notebook tools, which lets anonymous callers use public tools."""
    environment = {"GOOGLE_CLOUD_PROJECT": realm, **CLOUD, "PUBLIC_ACCESS": "true"}
    with run_gateway(NOTEBOOK, environment, log) as gateway:
        yield gateway


@pytest.fixture(scope="session")
def laptop(realm: str, log: Path) -> Iterator[RunningGateway]:
    """A local gateway with the notebook tools, which requires no credential."""
    with run_gateway(NOTEBOOK, {"GOOGLE_CLOUD_PROJECT": realm}, log) as gateway:
        yield gateway


@pytest.fixture(scope="session")
def carrel(realm: str, log: Path) -> Iterator[Carrel]:
    """All tools behind a gateway that requires a credential for everything but public tools."""
    environment = {"GOOGLE_CLOUD_PROJECT": realm, **CLOUD, **UNLIMITED}
    with run_gateway(INLINE_MAIN, environment, log) as gateway, httpx2.Client(timeout=60) as http:
        yield Carrel(gateway.endpoint, http)


@pytest.fixture(scope="session")
def url(realm: str, log: Path) -> Iterator[str]:
    """The URL of a gateway with all tools, which requires a credential for each of them."""
    with run_gateway(INLINE_MAIN, {"GOOGLE_CLOUD_PROJECT": realm, **CLOUD}, log) as gateway:
        yield gateway.url


@pytest.fixture
def google_url(realm: str, log: Path) -> Iterator[str]:
    """The URL of a gateway with all tools, where Ada signs in with Google."""
    with FakeGoogle() as google:
        environment = {
            "GOOGLE_CLOUD_PROJECT": realm,
            **CLOUD,
            "GOOGLE_CLIENT_ID": CLIENT_ID,
            "GOOGLE_CLIENT_SECRET": CLIENT_SECRET,
            "GOOGLE_ISSUER": google.issuer,
            "ALLOWED_EMAILS": json.dumps([ADA]),
        }
        with run_gateway(INLINE_MAIN, environment, log) as gateway:
            yield gateway.url


def in_access(realm: str, work: Callable[[AccessStore], Awaitable[Any]]) -> Any:
    """Run `work` on the database of credentials, and return its result.

    It runs in an event loop and a thread of its own.
    """

    async def run() -> Any:
        connection = Connection(realm, "access")
        try:
            return await work(AccessStore(connection))
        finally:
            await connection.aclose()

    with ThreadPoolExecutor(1) as thread:  # the test itself may run on a loop
        return thread.submit(asyncio.run, run()).result()


def key_maker(realm: str) -> MakeKey:
    """Return a function that stores a key in this project, with `FUNDS` for its user."""

    def make(user: str, scopes: frozenset[Scope] = FULL_ACCESS) -> str:
        text, key = new_key(
            Keyring([SecretStr(ACCESS_SECRET)]), user, "tests", scopes, created_at=datetime.now(UTC)
        )

        async def store_key(store: AccessStore) -> None:
            await store.keys.add(key)
            await store.accounts.credit(user, FUNDS, key.created_at)

        in_access(realm, store_key)
        return text

    return make


@pytest.fixture(scope="session")
def make_key(realm: str) -> MakeKey:
    """A function that makes keys for the gateways that share `realm`."""
    return key_maker(realm)
