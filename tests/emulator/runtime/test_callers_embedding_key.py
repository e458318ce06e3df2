"""A call embeds with the key of its caller, which appears in no log or error."""

from __future__ import annotations

import pickle
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from shared.ai.embedding import Purpose
from shared.core.caller import Caller
from shared.core.errors import Forbidden, InvalidInput
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.context import App, Context
from shared.runtime.messages import CallRequest
from tests.support.fakes.openai import MODEL, FakeOpenAI

KEY_OF_ANNA, KEY_OF_BEN = "carrel_annas-own-key", "carrel_bens-own-key"
KEY_OF_DEPLOYMENT = "sk-the-deployments"


def make_request(key: str | None) -> CallRequest:
    """Return the request of a call by Anna that embeds with this key."""
    return CallRequest(
        call_id="c",
        arguments={},
        caller=Caller.of("anna"),
        deadline=time.time() + 30,
        embedding_key=SecretStr(key) if key else None,
    )


@asynccontextmanager
async def open_app(server: FakeOpenAI, **options: Any) -> AsyncIterator[App]:
    """Open an app whose calls embed with their callers' keys."""
    defaults: dict[str, Any] = {
        "embedding_provider": "openai",
        "openai_base_url": server.base_url,
        "embedding_model": MODEL,
        "embedding_dimension": 8,
        "openai_api_key": SecretStr(KEY_OF_DEPLOYMENT),
        "openai_key_of_caller": True,
    }
    app = App(Settings(**(defaults | options)))
    yield app
    await app.aclose()


def make_call_context(app: App, key: str | None) -> Context:
    """Make the context of a call with this key."""
    return app.call_context(make_request(key), Meter())


async def test_a_job_needs_the_deployments_key() -> None:
    with FakeOpenAI() as server:
        async with open_app(server, openai_api_key=None) as app:
            ctx = app.context(Caller(), Meter())  # as a job has it
            with pytest.raises(InvalidInput, match="also needs OPENAI_API_KEY"):
                _ = ctx.embedder


def test_only_the_json_for_the_tool_reveals_the_key() -> None:
    request = make_request(KEY_OF_ANNA)
    assert CallRequest.model_validate_json(request.model_dump_json()) == request
    assert KEY_OF_ANNA in request.model_dump_json()
    for text in (repr(request), str(request), str(request.model_dump()), str(request.__dict__)):
        assert KEY_OF_ANNA not in text


def test_validation_errors_do_not_quote_the_key() -> None:
    with pytest.raises(ValidationError) as caught:
        CallRequest.model_validate({"call_id": 5, "embedding_key": [KEY_OF_ANNA]})
    assert KEY_OF_ANNA not in str(caught.value)


def test_a_request_of_an_older_gateway_has_no_key() -> None:
    old_request = '{"call_id": "c", "arguments": {}, "caller": {}, "deadline": 0}'
    assert CallRequest.model_validate_json(old_request).embedding_key is None
    request = make_request(None)
    assert CallRequest.model_validate_json(request.model_dump_json()) == request


async def test_a_call_embeds_with_its_callers_key_and_a_job_does_not() -> None:
    with FakeOpenAI() as server:
        async with open_app(server) as app:
            context_of_job = app.context(Caller(), Meter())
            for ctx in (
                make_call_context(app, KEY_OF_ANNA),
                make_call_context(app, KEY_OF_BEN),
                context_of_job,
            ):
                await ctx.embedder.embed(["bread"], Purpose.DOCUMENT)
    assert [call.key for call in server.calls] == [KEY_OF_ANNA, KEY_OF_BEN, KEY_OF_DEPLOYMENT]
    assert server.connections == 1


async def test_a_call_without_a_key_learns_how_to_connect() -> None:
    with FakeOpenAI() as server:
        async with open_app(server) as app:
            ctx = make_call_context(app, None)
            await app.context(Caller(), Meter()).embed_query("bread")
            with pytest.raises(Forbidden, match="Connect with an access key"):
                await ctx.embed_query("bread")
    assert [call.key for call in server.calls] == [KEY_OF_DEPLOYMENT]


async def test_vectors_are_cached_by_key() -> None:
    with FakeOpenAI() as server:
        server.keys = {KEY_OF_ANNA}
        async with open_app(server) as app:
            vector = await make_call_context(app, KEY_OF_ANNA).embed_query("bread")
            assert await make_call_context(app, KEY_OF_ANNA).embed_query("bread") == vector
            with pytest.raises(Forbidden, match="rejected your key"):
                await make_call_context(app, KEY_OF_BEN).embed_query("bread")
            cache = pickle.dumps(app.query_vectors)
    assert [call.key for call in server.calls] == [KEY_OF_ANNA, KEY_OF_BEN]
    assert KEY_OF_ANNA.encode() not in cache


@pytest.mark.parametrize(
    "settings", [{"openai_key_of_caller": False}, {"embedding_provider": "local"}]
)
async def test_calls_share_the_deployments_embedder_by_default(settings: dict[str, Any]) -> None:
    with FakeOpenAI() as server:
        async with open_app(server, **settings) as app:
            assert app.embedder is make_call_context(app, None).embedder
            assert app.embedder is make_call_context(app, KEY_OF_ANNA).embedder


async def test_the_endpoint_is_used_as_configured() -> None:
    with FakeOpenAI() as server:
        server.accepts_dimensions = False
        settings = {
            "openai_shortens": False,
            "embedding_dimension": 64,
            "openai_key_of_caller": False,
        }
        async with open_app(server, **settings) as app:
            vector = await app.context(Caller(), Meter()).embed_query("bread")
    assert len(vector) == 64
    [call] = server.calls
    assert call.key == KEY_OF_DEPLOYMENT
    assert call.body["model"] == MODEL
