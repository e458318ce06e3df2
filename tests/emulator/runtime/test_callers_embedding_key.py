"""Embedding with callers' keys: which key is used, and where it shows."""

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
async def open_app(server: FakeOpenAI, **options: Any) -> AsyncIterator[App]:
    """Open an app whose calls embed with their callers' keys."""
    defaults: dict[str, Any] = {
        "embedding_provider": "openai",
        "openai_base_url": server.base_url,
        "openai_model": MODEL,
        "openai_dimension": 8,
        "openai_api_key": SecretStr(OURS),
        "openai_key_of_caller": True,
    }
    app = App(Settings(**(defaults | options)))
    yield app
    await app.aclose()


def call_context(app: App, key: str | None) -> Context:
    """Make the context of a call with this key."""
    return app.call_context(request(key), Meter())


async def test_a_job_needs_the_deployments_key() -> None:
    with FakeOpenAI() as server:
        async with open_app(server, openai_api_key=None) as app:
            job = app.context(Caller(), Meter())
            with pytest.raises(InvalidInput, match="also needs OPENAI_API_KEY"):
                _ = job.embedder


def test_only_the_json_for_the_tool_reveals_the_key() -> None:
    call = request(ANNAS)
    assert CallRequest.model_validate_json(call.model_dump_json()) == call
    assert ANNAS in call.model_dump_json()
    for text in (f"{call!r}", f"{call}", f"{call.model_dump()}", f"{call.__dict__}"):
        assert ANNAS not in text


def test_validation_errors_do_not_quote_the_key() -> None:
    with pytest.raises(ValidationError) as caught:
        CallRequest.model_validate({"call_id": 5, "embedding_key": [ANNAS]})
    assert ANNAS not in str(caught.value)


def test_an_old_request_has_no_key() -> None:
    old_request = '{"call_id": "c", "arguments": {}, "caller": {}, "deadline": 0}'
    assert CallRequest.model_validate_json(old_request).embedding_key is None
    without = request(None)
    assert CallRequest.model_validate_json(without.model_dump_json()) == without


async def test_a_call_embeds_with_its_callers_key_and_a_job_does_not() -> None:
    with FakeOpenAI() as server:
        async with open_app(server) as app:
            for ctx in (
                call_context(app, ANNAS),
                call_context(app, BENS),
                app.context(Caller(), Meter()),
            ):
                await ctx.embedder.embed(["bread"], Purpose.DOCUMENT)
    assert [call.key for call in server.calls] == [ANNAS, BENS, OURS]
    assert server.connections == 1


async def test_without_a_key_a_call_learns_how_to_connect() -> None:
    with FakeOpenAI() as server:
        async with open_app(server) as app:
            ctx = call_context(app, None)
            await app.context(Caller(), Meter()).query_vector("bread")
            with pytest.raises(Forbidden, match="Connect with an access key"):
                await ctx.query_vector("bread")
    assert [call.key for call in server.calls] == [OURS]


async def test_vectors_are_cached_by_key() -> None:
    with FakeOpenAI() as server:
        server.keys = {ANNAS}
        async with open_app(server) as app:
            first = await call_context(app, ANNAS).query_vector("bread")
            assert await call_context(app, ANNAS).query_vector("bread") == first
            with pytest.raises(Forbidden, match="rejected your key"):
                await call_context(app, BENS).query_vector("bread")
            cache = pickle.dumps(app.query_vectors)
    assert [call.key for call in server.calls] == [ANNAS, BENS]
    assert ANNAS.encode() not in cache


@pytest.mark.parametrize(
    "settings", [{"openai_key_of_caller": False}, {"embedding_provider": "local"}]
)
async def test_by_default_calls_share_the_deployments_embedder(settings: dict[str, Any]) -> None:
    with FakeOpenAI() as server:
        async with open_app(server, **settings) as app:
            assert app.embedder is call_context(app, None).embedder
            assert app.embedder is call_context(app, ANNAS).embedder


async def test_the_endpoint_is_used_as_configured() -> None:
    with FakeOpenAI() as server:
        server.accepts_dimensions = False
        settings = {"openai_shortens": False, "openai_dimension": 64, "openai_key_of_caller": False}
        async with open_app(server, **settings) as app:
            vector = await app.context(Caller(), Meter()).query_vector("bread")
    assert len(vector) == 64
    assert [(call.key, call.body["model"]) for call in server.calls] == [(OURS, MODEL)]
