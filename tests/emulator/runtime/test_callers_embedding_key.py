"""Where calls embed with the keys of their callers: whose key it is, and who gets to see it."""

from __future__ import annotations

import pickle
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import SecretStr, ValidationError

from shared.ai.embedding import Purpose
from shared.core.caller import Caller
from shared.core.errors import Forbidden, InvalidInput
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.context import App
from shared.runtime.messages import CallRequest
from tests.support.fakes.openai import MODEL, FakeOpenAI

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from shared.runtime.context import Context

pytestmark = pytest.mark.anyio

ANNAS, BENS, OURS = "carrel_annas-own-key", "carrel_bens-own-key", "sk-the-deployments"


def request(key: str | None) -> CallRequest:
    return CallRequest(
        call_id="c",
        arguments={},
        caller=Caller.of("anna"),
        deadline=time.time() + 30,
        embedding_key=SecretStr(key) if key else None,
    )


@asynccontextmanager
async def opened(server: FakeOpenAI, **more: Any) -> AsyncIterator[App]:
    """A process whose calls embed with their callers' keys."""
    usual: dict[str, Any] = {
        "embedding_provider": "openai",
        "openai_base_url": server.base_url,
        "openai_model": MODEL,
        "openai_dimension": 8,
        "openai_api_key": SecretStr(OURS),
        "openai_key_of_caller": True,
    }
    app = App(Settings(**(usual | more)))
    yield app
    await app.aclose()


def call_context(app: App, key: str | None) -> Context:
    """What a call with this key is given."""
    return app.call_context(request(key), Meter())


async def test_a_job_without_a_key_is_told_to_have_one() -> None:
    with FakeOpenAI() as server:
        async with opened(server, openai_api_key=None) as app:
            job = app.context(Caller(), Meter())
            with pytest.raises(InvalidInput, match="needs OPENAI_API_KEY too"):
                _ = job.embedder


def test_a_key_goes_to_the_tool_and_is_shown_by_nothing_else() -> None:
    sent = request(ANNAS)
    assert sent == CallRequest.model_validate_json(sent.model_dump_json())
    assert ANNAS in sent.model_dump_json()
    for shown in (f"{sent!r}", f"{sent}", f"{sent.model_dump()}", f"{sent.__dict__}"):
        assert ANNAS not in shown


def test_what_is_wrong_with_a_request_is_said_without_its_key() -> None:
    with pytest.raises(ValidationError) as caught:
        CallRequest.model_validate({"call_id": 5, "embedding_key": [ANNAS]})
    assert ANNAS not in str(caught.value)


def test_a_request_has_no_key_unless_somebody_gives_it_one() -> None:
    of_before = '{"call_id": "c", "arguments": {}, "caller": {}, "deadline": 0}'
    assert CallRequest.model_validate_json(of_before).embedding_key is None
    without = request(None)
    assert without == CallRequest.model_validate_json(without.model_dump_json())


async def test_a_call_embeds_with_its_callers_key_and_a_job_does_not() -> None:
    with FakeOpenAI() as server:
        async with opened(server) as app:
            for ctx in (
                call_context(app, ANNAS),
                call_context(app, BENS),
                app.context(Caller(), Meter()),
            ):
                await ctx.embedder.embed(["bread"], Purpose.DOCUMENT)
    assert [ANNAS, BENS, OURS] == [call.key for call in server.calls]
    assert 1 == server.connections


async def test_without_a_key_a_call_learns_how_to_connect() -> None:
    with FakeOpenAI() as server:
        async with opened(server) as app:
            ctx = call_context(app, None)
            await app.context(Caller(), Meter()).query_vector("bread")
            with pytest.raises(Forbidden, match="connect with an access key"):
                await ctx.query_vector("bread")
    assert [OURS] == [call.key for call in server.calls]


async def test_a_vector_is_remembered_for_the_key_it_was_made_with() -> None:
    with FakeOpenAI() as server:
        server.keys = {ANNAS}
        async with opened(server) as app:
            first = await call_context(app, ANNAS).query_vector("bread")
            assert first == await call_context(app, ANNAS).query_vector("bread")
            with pytest.raises(Forbidden, match="refused your key"):
                await call_context(app, BENS).query_vector("bread")
            remembered = pickle.dumps(app.query_vectors)
    assert [ANNAS, BENS] == [call.key for call in server.calls]
    assert ANNAS.encode() not in remembered


@pytest.mark.parametrize(
    "settings", [{"openai_key_of_caller": False}, {"embedding_provider": "local"}]
)
async def test_by_default_all_calls_share_the_deployments_embedder(
    settings: dict[str, Any],
) -> None:
    with FakeOpenAI() as server:
        async with opened(server, **settings) as app:
            assert app.embedder is call_context(app, None).embedder
            assert app.embedder is call_context(app, ANNAS).embedder


async def test_an_endpoint_is_asked_as_configured() -> None:
    with FakeOpenAI() as server:
        server.shortens = False
        settings = {"openai_shortens": False, "openai_dimension": 64, "openai_key_of_caller": False}
        async with opened(server, **settings) as app:
            vector = await app.context(Caller(), Meter()).query_vector("bread")
    assert 64 == len(vector)
    assert [(OURS, MODEL)] == [(call.key, call.body["model"]) for call in server.calls]
