"""The smoke test, of a real gateway."""

from __future__ import annotations

import asyncio
import json
import os
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from pydantic import SecretStr

from infra.build.discovery import ROOT, tools
from infra.cli.deploy import smoke as command
from infra.cloud.failures import NotDone
from infra.cloud.smoke import smoke
from infra.local.emulator import LOOPBACK
from shared.accounts.access_key import new_key
from shared.accounts.keyring import Keyring
from shared.accounts.repositories.access_store import AccessStore
from shared.core.caller import Caller, Scope
from shared.core.dates import utc_now
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.firestore.database import Connection
from shared.knowledge.ingestion import Ingestion
from shared.runtime.context import App
from tests.support.fakes.http_server import LoopbackServer
from tests.support.gateway_process import INLINE, SECRET, run_gateway
from tests.support.healthy_deployment import FakeGateway
from tests.support.knowledge import BAKING, in_chunks, index_all
from tests.support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.gateway_process import Running

PROJECT = f"test-smoke-{os.getpid()}"
INDEXED = f"{PROJECT}-indexed"


class Parts(LoopbackServer):
    """Functions that are well."""

    def __init__(self) -> None:
        """Open the port."""
        super().__init__(_Well)


class _Well(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A gateway with an empty base, that lets nobody in without a credential."""
    log = tmp_path_factory.mktemp("smoke") / "log"
    environment = {"GOOGLE_CLOUD_PROJECT": PROJECT, "LOCAL_USER": ""}
    with run_gateway(INLINE, environment, log) as running:
        yield running


@pytest.fixture(scope="module")
def key() -> str:
    """A key of that gateway, which may only read."""
    return asyncio.run(_made(PROJECT))


async def _made(project: str) -> str:
    scopes = frozenset({Scope.READ})
    keyring = Keyring([SecretStr(SECRET)])
    text, kept = new_key(keyring, "smoke", "test", scopes, created_at=utc_now())
    connection = Connection(project, "access")
    try:
        await AccessStore(connection).keys.add(kept)
    finally:
        await connection.aclose()
    return text


def test_a_gateway_that_works_lists_its_tools_counts_and_searches(
    closed: Running, key: str
) -> None:
    found = asyncio.run(smoke(closed.url, key))
    assert found.well
    assert "all parts are well" == found.said[0]
    assert found.said[1].endswith("tools are listed")
    assert list(found.said[2:4]) == [
        "get_stats counts 0 passages of 0 sources",
        "search_kb found 0 passages",
    ]


@pytest.fixture(scope="module")
def indexed() -> str:
    """The project of a base with texts that are indexed, and not embedded yet."""
    asyncio.run(_indexed(INDEXED))
    return INDEXED


async def _indexed(project: str) -> None:
    app = App(Settings(google_cloud_project=project))
    try:
        ctx = app.context(Caller(), Meter())
        await Ingestion(ctx.database).save([in_chunks(BAKING)], ctx.clock())
        await index_all(ctx)
    finally:
        await app.aclose()


@pytest.mark.slow
def test_that_nothing_is_embedded_yet_is_no_failure(indexed: str, tmp_path: Path) -> None:
    key = asyncio.run(_made(indexed))
    with run_gateway(INLINE, {"GOOGLE_CLOUD_PROJECT": indexed}, tmp_path / "log") as running:
        found = asyncio.run(smoke(running.url, key))
    assert found.well
    assert found.said[-1].startswith("it says: Nothing has been embedded yet.")


def test_an_embedding_provider_that_is_down_fails(indexed: str, tmp_path: Path) -> None:
    key = asyncio.run(_made(indexed))
    environment = {
        "GOOGLE_CLOUD_PROJECT": indexed,
        "EMBEDDING_PROVIDER": "openai",
        "OPENAI_BASE_URL": f"http://{LOOPBACK}:{free_port()}/v1",
    }
    with run_gateway(INLINE, environment, tmp_path / "log") as running:
        found = asyncio.run(smoke(running.url, key))
    assert not found.well
    assert "it says: The embedding provider cannot be reached right now." in found.said[-1]


def test_a_tool_that_is_down_is_named(tmp_path: Path) -> None:
    source = ROOT / "functions" / "gateway" / "main.py"
    with Parts() as parts:
        urls = {tool.name: f"http://{LOOPBACK}:{parts.server_port}" for tool in tools()}
        urls["list_clusters"] = f"http://{LOOPBACK}:{free_port()}"
        environment = {"GOOGLE_CLOUD_PROJECT": PROJECT, "TOOL_URLS": json.dumps(urls)}
        with run_gateway(source, environment, tmp_path / "log") as running:
            found = asyncio.run(smoke(running.url, "carrel_key"))
    expected = "/health answers 503: list_clusters (unreachable (ConnectError))"
    assert (False, [expected]) == (found.well, found.said)


def test_what_is_ill_without_saying_how_is_quoted() -> None:
    with FakeGateway() as gateway:
        gateway.health = 503
        found = asyncio.run(smoke(gateway.url, "carrel_key"))
    assert (False, ["/health answers 503: search_kb (it does not answer)"]) == (
        found.well,
        found.said,
    )


@pytest.mark.slow
def test_an_answer_that_lacks_what_it_should_have_fails(tmp_path: Path) -> None:
    key = asyncio.run(_made(PROJECT))
    source = ROOT / "tests" / "support" / "forgetful_gateway.py"
    with run_gateway(source, {"GOOGLE_CLOUD_PROJECT": PROJECT}, tmp_path / "log") as running:
        found = asyncio.run(smoke(running.url, key))
    assert not found.well
    assert "get_stats" in found.said[-1]


def test_a_key_that_opens_nothing_fails_with_what_the_gateway_said(closed: Running) -> None:
    found = asyncio.run(smoke(closed.endpoint, "carrel_no-key"))
    assert not found.well
    assert f"{closed.endpoint} did not answer as it should (HTTP 401)" in found.said[-1]


def test_where_nothing_answers_it_fails() -> None:
    url = f"http://{LOOPBACK}:{free_port()}"
    found = asyncio.run(smoke(url, "carrel_key"))
    assert not found.well
    assert f"{url}/mcp did not answer as it should" in found.said[-1]


def test_what_is_no_mcp_server_fails() -> None:
    with FakeGateway() as gateway:
        gateway.refusal = 200
        found = asyncio.run(smoke(gateway.url, "carrel_key"))
    assert not found.well


def test_a_key_is_never_sent_in_the_clear() -> None:
    with pytest.raises(NotDone, match="A key travels over https only"):
        asyncio.run(smoke("http://carrel.example.com", "carrel_key"))


def test_the_command_says_in_words_what_it_found(closed: Running, key: str) -> None:
    result = CliRunner().invoke(command, [closed.url], env={"CARREL_KEY": key})
    assert (0, "It works.") == (result.exit_code, result.output.splitlines()[-1])
    assert key not in result.output


def test_the_command_fails_where_it_does_not_work(closed: Running) -> None:
    result = CliRunner().invoke(command, [closed.url], env={"CARREL_KEY": "carrel_no-key"})
    assert (1, "It does not work.") == (result.exit_code, result.output.splitlines()[-1])


def test_the_command_without_a_key_says_how_to_make_one(closed: Running) -> None:
    result = CliRunner().invoke(command, [closed.url], env={"CARREL_KEY": ""})
    assert 1 == result.exit_code
    assert "carrel keys create" in result.output
