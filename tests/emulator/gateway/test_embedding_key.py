"""The key of a caller is passed to the tool that embeds with it, and nowhere else."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic import SecretStr

from functions.gateway.access import Access
from functions.gateway.auth.callers import Credential
from functions.gateway.auth.visitor import Visitor
from functions.gateway.calls.dispatch import HttpDispatcher
from shared.accounts.access_key import new_key
from shared.accounts.repositories.access_store import AccessStore
from shared.core.caller import FULL_ACCESS
from shared.core.settings import Settings
from tests.support.fake_catalog import make_tool
from tests.support.fakes.tool_server import FakeToolServer, Reply

ADDRESS = "1.2.3.4"
CALLER_KEY_SETTINGS = {
    "embedding_provider": "openai",
    "openai_key_of_caller": True,
    "openai_api_key": SecretStr("of the deployment"),
}
TOOL = make_tool("try_out")


@asynccontextmanager
async def open_access(project: str, **settings: Any) -> AsyncIterator[Access]:
    """Open the access control of the gateway."""
    secrets = (SecretStr("s" * 32),)
    access = Access(Settings(google_cloud_project=project, access_secrets=secrets, **settings))
    yield access
    await access.aclose()


async def create_key(access: Access) -> str:
    """Create a key of Anna and return its text."""
    text, key = new_key(access.keyring, "anna", "laptop", FULL_ACCESS, created_at=access.clock())
    await AccessStore(access.connection).keys.add(key)
    return text


async def identify_visitor(access: Access, text: str, task: str | None = None) -> Visitor:
    """Return the visitor with this key."""
    return await access.callers.identify(Credential(text, task), ADDRESS)


async def call_tool(access: Access, url: str, visitor: Visitor) -> None:
    """Call a tool whose function has this URL."""
    dispatcher = HttpDispatcher(Settings(tool_urls={TOOL.name: url}))
    await access.make_pipeline(dispatcher).call(TOOL, {}, visitor)
    await dispatcher.aclose()


async def test_a_valid_key_is_the_embedding_key(project: str) -> None:
    async with open_access(project, **CALLER_KEY_SETTINGS) as access:
        text = await create_key(access)
        for task in (None, "thesis"):
            visitor = await identify_visitor(access, text, task)
            assert visitor.embedding_key
            assert visitor.embedding_key.get_secret_value() == text
            assert text not in f"{visitor} {visitor!r}"


async def test_callers_without_a_key_have_no_embedding_key(project: str) -> None:
    async with open_access(project, public_access=True, **CALLER_KEY_SETTINGS) as access:
        token = access.tokens.issue(user_id="anna", client_id="c", scopes=FULL_ACCESS, grant_id="g")
        for credential in (Credential(token), None):
            visitor = await access.callers.identify(credential, ADDRESS)
            assert visitor.embedding_key is None


@pytest.mark.requirement("001-G7")
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"embedding_provider": "openai"},
        {"embedding_provider": "vertex", "openai_key_of_caller": True},
    ],
)
async def test_a_key_is_passed_on_only_if_configured(
    project: str, settings: dict[str, Any]
) -> None:
    async with open_access(project, **settings) as access:
        visitor = await identify_visitor(access, await create_key(access))
        with FakeToolServer() as server:
            await call_tool(access, server.url, visitor)
    assert visitor.embedding_key is None
    assert json.loads(server.bodies[0])["embedding_key"] is None


@pytest.mark.requirement("001-G8")
@pytest.mark.parametrize(
    "reply", [Reply(), Reply(500, b"no"), Reply(missing=9)], ids=["success", "failure", "cut off"]
)
async def test_a_key_is_sent_to_the_function_and_never_logged(
    project: str, capfd: pytest.CaptureFixture[str], reply: Reply
) -> None:
    async with open_access(project, **CALLER_KEY_SETTINGS) as access:
        text = await create_key(access)
        with FakeToolServer(reply) as server:
            await call_tool(access, server.url, await identify_visitor(access, text))
    assert json.loads(server.bodies[0])["embedding_key"] == text
    logged = capfd.readouterr().err
    assert '"message": "tool_call"' in logged
    assert text not in logged
