"""Fixtures of the tests of access: gateways, and keys for them.

Some gateways serve all tools. Others serve only a notebook, whose few tools read and write notes.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pydantic import SecretStr

from shared.accounts.access_key import new_key
from shared.accounts.keyring import Keyring
from shared.accounts.repositories.access_store import AccessStore
from shared.core.caller import FULL_ACCESS, Role, Scope
from shared.firestore.connection import Connection
from tests.e2e.access.all_tools_gateway import Carrel
from tests.support.console_person import Person
from tests.support.fakes.google import CLIENT_ID, CLIENT_SECRET, FakeGoogle
from tests.support.gateway_process import ACCESS_SECRET, INLINE_MAIN, RunningGateway, run_gateway
from tests.support.google_sign_in import ADA
from tests.support.mcp_wire import make_call, post

NOTEBOOK = Path(__file__).with_name("gateway_main.py")
"""The program of a gateway that serves only the notebook."""
WITH_FAKE_GOOGLE = Path(__file__).with_name("fake_google_main.py")
"""The program of a gateway where people sign in at the fake Google that FAKE_GOOGLE names."""
CLOUD_SETTINGS = {
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
"""The type of the fixture `make_key`: `make_key(user, scopes=FULL_ACCESS)` returns a key."""


@pytest.fixture(scope="session")
def project() -> str:
    """The Google Cloud project that the gateways of these tests share."""
    return f"access-{uuid.uuid4().hex[:16]}"


@pytest.fixture(scope="session")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file to which these gateways log."""
    return tmp_path_factory.mktemp("access") / "gateway.log"


@pytest.fixture(scope="session")
def gateway(project: str, log: Path) -> Iterator[RunningGateway]:
    """A gateway of the notebook that requires a credential."""
    with run_gateway(NOTEBOOK, {"GOOGLE_CLOUD_PROJECT": project, **CLOUD_SETTINGS}, log) as gateway:
        yield gateway


@pytest.fixture(scope="session")
def open_gateway(project: str, log: Path) -> Iterator[RunningGateway]:
    """A gateway of the notebook that lets anonymous callers use public tools."""
    environment = {"GOOGLE_CLOUD_PROJECT": project, **CLOUD_SETTINGS, "PUBLIC_ACCESS": "true"}
    with run_gateway(NOTEBOOK, environment, log) as gateway:
        yield gateway


@pytest.fixture(scope="session")
def laptop(project: str, log: Path) -> Iterator[RunningGateway]:
    """A local gateway of the notebook, which requires no credential."""
    with run_gateway(NOTEBOOK, {"GOOGLE_CLOUD_PROJECT": project}, log) as gateway:
        yield gateway


@pytest.fixture(scope="session")
def carrel(project: str, log: Path) -> Iterator[Carrel]:
    """All tools behind a gateway that requires a credential for everything but public tools."""
    environment = {"GOOGLE_CLOUD_PROJECT": project, **CLOUD_SETTINGS, **UNLIMITED}
    with run_gateway(INLINE_MAIN, environment, log) as gateway, httpx2.Client(timeout=60) as http:
        yield Carrel(gateway.endpoint, http)


@pytest.fixture(scope="session")
def url(project: str, log: Path) -> Iterator[str]:
    """The URL of a gateway with all tools, which requires a credential for each of them."""
    with run_gateway(
        INLINE_MAIN, {"GOOGLE_CLOUD_PROJECT": project, **CLOUD_SETTINGS}, log
    ) as gateway:
        yield gateway.url


@pytest.fixture
def google_url(project: str, log: Path) -> Iterator[str]:
    """The URL of a gateway with all tools, where Ada signs in with Google."""
    with FakeGoogle() as google:
        environment = {
            "GOOGLE_CLOUD_PROJECT": project,
            **CLOUD_SETTINGS,
            "GOOGLE_CLIENT_ID": CLIENT_ID,
            "GOOGLE_CLIENT_SECRET": CLIENT_SECRET,
            "FAKE_GOOGLE": google.issuer,
            "ALLOWED_EMAILS": json.dumps([ADA]),
        }
        with run_gateway(WITH_FAKE_GOOGLE, environment, log) as gateway:
            yield gateway.url


def make_key_with_role(make_key: MakeKey, project: str, user: str, role: Role) -> str:
    """Return a key of a user who has this role."""
    key = make_key(user)
    run_on_access_store(project, lambda store: store.accounts.set_role(user, role))
    return key


def get_call_status(url: str, key: str, tool: str = "list_tasks", **arguments: str) -> int:
    """Call a tool with a key at the gateway with this URL; return the HTTP status."""
    headers: dict[str, str | None] = {"authorization": f"Bearer {key}"}
    return post(f"{url}/mcp", make_call(tool, arguments), headers).status_code


def post_form(person: Person, path: str, /, **fields: str) -> httpx2.Response:
    """Post any fields, with the form token of the open page and from its own origin."""
    token = person.select("[name=form]")[0].get("value")
    origin = str(person.http.base_url).rstrip("/")
    return person.http.post(path, data={**fields, "form": token}, headers={"origin": origin})


def run_on_access_store(project: str, work: Callable[[AccessStore], Awaitable[Any]]) -> Any:
    """Run `work` on the database of credentials in its own event loop; return its result."""

    async def run() -> Any:
        connection = Connection(project, "access")
        try:
            return await work(AccessStore(connection))
        finally:
            await connection.aclose()

    with ThreadPoolExecutor(1) as thread:  # the test itself may run on a loop
        return thread.submit(asyncio.run, run()).result()


def build_key_maker(project: str) -> MakeKey:
    """Return a function that makes keys for this project: `make_key("anna", scopes=...)`."""

    def make(user: str, scopes: frozenset[Scope] = FULL_ACCESS) -> str:
        text, key = new_key(
            Keyring([SecretStr(ACCESS_SECRET)]), user, "tests", scopes, created_at=datetime.now(UTC)
        )

        async def store_key(store: AccessStore) -> None:
            await store.keys.add(key)
            await store.accounts.credit(user, FUNDS, key.created_at)

        run_on_access_store(project, store_key)
        return text

    return make


@pytest.fixture(scope="session")
def make_key(project: str) -> MakeKey:
    """A function that makes keys for the gateways of `project`, and gives each user `FUNDS`."""
    return build_key_maker(project)
