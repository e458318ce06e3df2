"""The key of a caller is passed to the tool that embeds with it, and nowhere else."""

import json
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
KEYS_OF_CALLERS = {"embedding_provider": "openai", "openai_key_of_caller": True}
TOOL = make_tool("try_out")


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Settings by which the deployment has a key, and calls use those of their callers."""
    changes = {**KEYS_OF_CALLERS, "openai_api_key": SecretStr("of the deployment")}
    return settings.model_copy(update=changes)


async def create_key(access: Access) -> str:
    """Create a key of Anna and return its text."""
    text, key = new_key(access.keyring, "anna", "laptop", FULL_ACCESS, created_at=access.clock())
    await AccessStore(access.connection).keys.add(key)
    return text


async def call_tool(access: Access, visitor: Visitor, reply: Reply) -> object:
    """Call a tool whose function sends this reply; return the embedding key that it receives."""
    with FakeToolServer(reply) as server:
        dispatcher = HttpDispatcher(Settings(tool_urls={TOOL.name: server.url}))
        await access.make_pipeline(dispatcher).call(TOOL, {}, visitor)
        await dispatcher.aclose()
    return json.loads(server.bodies[0])["embedding_key"]


@pytest.mark.requirement("001-G8")
@pytest.mark.parametrize(
    "reply", [Reply(), Reply(500, b"no"), Reply(missing=9)], ids=["success", "failure", "cut off"]
)
async def test_a_key_is_sent_to_the_function_and_never_logged(
    access: Access, capfd: pytest.CaptureFixture[str], reply: Reply
) -> None:
    text = await create_key(access)
    for task in (None, "thesis"):
        visitor = await access.callers.identify(Credential(text, task), ADDRESS)
        assert text not in f"{visitor} {visitor!r}"
        assert await call_tool(access, visitor, reply) == text
    logged = capfd.readouterr().err
    assert '"message": "tool_call"' in logged
    assert text not in logged


async def test_callers_without_a_key_have_no_embedding_key(settings: Settings) -> None:
    public = Access(settings.model_copy(update={"public_access": True}))
    token = public.tokens.issue(user_id="anna", client_id="c", scopes=FULL_ACCESS, grant_id="g")
    for credential in (Credential(token), None):
        visitor = await public.callers.identify(credential, ADDRESS)
        assert visitor.embedding_key is None
    await public.aclose()


@pytest.mark.requirement("001-G7")
@pytest.mark.parametrize(
    "changes", [{"openai_key_of_caller": False}, {"embedding_provider": "vertex"}]
)
async def test_a_key_is_passed_on_only_if_configured(
    settings: Settings, changes: dict[str, Any]
) -> None:
    access = Access(settings.model_copy(update=changes))
    visitor = await access.callers.identify(Credential(await create_key(access)), ADDRESS)
    assert await call_tool(access, visitor, Reply()) is None
    assert visitor.embedding_key is None
    await access.aclose()
