"""The gateway records calls, and refuses those that nobody pays for."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from pydantic import SecretStr

from functions.gateway.access import Access
from functions.gateway.auth.visitor import Visitor
from functions.gateway.calls.pipeline import make_call_id
from shared.accounts.repositories.access_store import AccessStore
from shared.core.caller import Caller, Scope
from shared.core.errors import PaymentRequired
from shared.core.settings import Settings
from shared.runtime.tool import Effect
from tests.support.clock import NOON, SettableClock
from tests.support.fake_catalog import FakeDispatcher, make_tool

WRITING_TOOL = make_tool("write_down", effect=Effect.WRITE)
PRICED_TOOL = make_tool("look_up", price=1_000)


@pytest.fixture
async def access(project: str) -> AsyncIterator[Access]:
    """The access control of the gateway, at noon."""
    settings = Settings(google_cloud_project=project, access_secrets=(SecretStr("s" * 32),))
    access = Access(settings, SettableClock(NOON))
    yield access
    await access.aclose()


@pytest.fixture
def dispatcher() -> FakeDispatcher:
    """A dispatcher that answers all calls with an empty result."""
    return FakeDispatcher(lambda *_: {})


async def test_a_call_is_recorded_with_the_gateways_clock(
    access: Access, dispatcher: FakeDispatcher
) -> None:
    anna = Visitor(Caller.of("anna"), None)
    arguments = {"idempotency_key": "k"}
    await access.make_pipeline(dispatcher).call(WRITING_TOOL, arguments, anna)
    call_id = make_call_id(WRITING_TOOL, arguments, anna)
    record = await AccessStore(access.connection).calls.get(call_id)
    assert record
    assert record.bill.entry.started_at == NOON
    assert record.bill.entry.outcome == "ok"


async def test_an_anonymous_call_with_a_price_must_sign_in(
    access: Access, dispatcher: FakeDispatcher
) -> None:
    stranger = Visitor(Caller(), None)
    answer = await access.make_pipeline(dispatcher).call(PRICED_TOOL, {}, stranger)
    assert answer.error
    assert answer.error.code == "UNAUTHORIZED"
    assert stranger.response.challenge == (401, None, frozenset({Scope.READ}))
    assert dispatcher.calls == []


async def test_a_user_without_funds_is_not_asked_to_sign_in(
    access: Access, dispatcher: FakeDispatcher
) -> None:
    anna = Visitor(Caller.of("anna"), None)
    answer = await access.make_pipeline(dispatcher).call(PRICED_TOOL, {}, anna)
    assert answer.error
    assert answer.error.code == PaymentRequired.code
    assert anna.response.challenge is None
    assert dispatcher.calls == []
