"""Gateways that require credentials: their settings, keys for them, and clients with keys."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx2
from pydantic import SecretStr

from infra.build.discovery import ROOT
from shared.accounts.access_key import new_key
from shared.accounts.keyring import Keyring
from shared.accounts.repositories.access_store import AccessStore
from shared.core.caller import FULL_ACCESS, Role, Scope
from shared.firestore.connection import Connection
from tests.support.console_person import Person
from tests.support.gateway_process import ACCESS_SECRET
from tests.support.mcp_wire import HEADERS, make_call, make_request, post

NOTEBOOK = ROOT / "tests" / "support" / "notebook_gateway.py"
"""The program of a gateway that serves only the notebook."""
WITH_FAKE_GOOGLE = ROOT / "tests" / "support" / "google_gateway.py"
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


@dataclass(frozen=True, slots=True)
class Carrel:
    """A gateway, with one HTTP client for all callers.

    Attributes:
        endpoint: The URL of the MCP endpoint.
        http: The HTTP client.
    """

    endpoint: str
    http: httpx2.Client

    def call_tool(self, key: str | None, tool: str, /, **arguments: Any) -> httpx2.Response:
        """Call a tool with a key, or anonymously."""
        return self.send_request(key, "tools/call", name=tool, arguments=arguments)

    def send_request(self, key: str | None, method: str, /, **params: Any) -> httpx2.Response:
        """Send a request with a key, or anonymously."""
        headers = HEADERS | ({"authorization": f"Bearer {key}"} if key else {})
        return self.http.post(self.endpoint, json=make_request(method, **params), headers=headers)


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
