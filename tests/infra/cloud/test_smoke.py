"""The smoke test, of a real gateway."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from pydantic import SecretStr

from infra.cloud.failures import NotDone
from infra.cloud.smoke import smoke
from infra.commands.smoke import smoke as command
from infra.local.emulator import LOOPBACK
from shared.access_keys import new_key
from shared.caller import Scope
from shared.clock import utc_now
from shared.keyring import Keyring
from shared.store import Connection
from shared.store.access import AccessStore
from tests.e2e.running import INLINE, SECRET, run_gateway
from tests.infra.doctor.ward import FakeGateway
from tests.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.running import Running

PROJECT = f"test-smoke-{os.getpid()}"


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A gateway with an empty base, that lets nobody in without a credential."""
    log: Path = tmp_path_factory.mktemp("smoke") / "log"
    environment = {"GOOGLE_CLOUD_PROJECT": PROJECT, "LOCAL_USER": ""}
    with run_gateway(INLINE, environment, log) as running:
        yield running


@pytest.fixture(scope="module")
def key() -> str:
    """A key of that gateway, which may only read."""
    return asyncio.run(_made())


async def _made() -> str:
    scopes = frozenset({Scope.READ})
    keyring = Keyring([SecretStr(SECRET)])
    text, kept = new_key(keyring, "smoke", "test", scopes, created_at=utc_now())
    connection = Connection(PROJECT, "access")
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
    assert found.said[0].endswith("tools are listed")
    assert list(found.said[1:3]) == [
        "get_stats counts 0 passages of 0 sources",
        "search_kb found 0 passages",
    ]


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
