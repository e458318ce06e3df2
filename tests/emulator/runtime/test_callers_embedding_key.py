"""A call embeds with the key of its caller, which appears in no log or error."""

import pickle
import time
from collections.abc import AsyncIterator, Callable, Iterator
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

Open = Callable[..., App]

KEY_OF_ANNA, KEY_OF_BEN = "carrel_annas-own-key", "carrel_bens-own-key"
KEY_OF_DEPLOYMENT = "sk-the-deployments"


def make_request(key: str | None) -> CallRequest:
    return CallRequest(
        call_id="c",
        arguments={},
        caller=Caller.of("anna"),
        deadline=time.time() + 30,
        embedding_key=SecretStr(key) if key else None,
    )


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as started:
        yield started


@pytest.fixture
async def open_app(server: FakeOpenAI) -> AsyncIterator[Open]:
    """A function that opens apps whose calls embed with their callers' keys."""
    opened: list[App] = []

    def make_app(**options: Any) -> App:
        defaults: dict[str, Any] = {
            "embedding_provider": "openai",
            "openai_base_url": server.base_url,
            "embedding_model": MODEL,
            "embedding_dimension": 8,
            "openai_api_key": SecretStr(KEY_OF_DEPLOYMENT),
            "openai_key_of_caller": True,
        }
        opened.append(App(Settings(**(defaults | options))))
        return opened[-1]

    yield make_app
    for app in opened:
        await app.aclose()


def make_call_context(app: App, key: str | None) -> Context:
    return app.call_context(make_request(key), Meter())


async def test_a_job_needs_the_deployments_key(open_app: Open) -> None:
    ctx = open_app(openai_api_key=None).context(Caller(), Meter())  # as a job has it
    with pytest.raises(InvalidInput, match="also needs OPENAI_API_KEY"):
        _ = ctx.embedder


def test_only_the_json_for_the_tool_reveals_the_key() -> None:
    """A request of an older gateway has no key."""
    request = make_request(KEY_OF_ANNA)
    for sent in (request, make_request(None)):
        assert CallRequest.model_validate_json(sent.model_dump_json()) == sent
    assert KEY_OF_ANNA in request.model_dump_json()
    for text in (repr(request), str(request), str(request.model_dump()), str(request.__dict__)):
        assert KEY_OF_ANNA not in text
    with pytest.raises(ValidationError) as caught:
        CallRequest.model_validate({"call_id": 5, "embedding_key": [KEY_OF_ANNA]})
    assert KEY_OF_ANNA not in str(caught.value)
    old_request = '{"call_id": "c", "arguments": {}, "caller": {}, "deadline": 0}'
    assert CallRequest.model_validate_json(old_request).embedding_key is None


async def test_a_call_embeds_with_its_callers_key_and_a_job_does_not(
    server: FakeOpenAI, open_app: Open
) -> None:
    app = open_app()
    for ctx in (
        make_call_context(app, KEY_OF_ANNA),
        make_call_context(app, KEY_OF_BEN),
        app.context(Caller(), Meter()),
    ):
        await ctx.embedder.embed(["bread"], Purpose.DOCUMENT)
    assert [call.key for call in server.calls] == [KEY_OF_ANNA, KEY_OF_BEN, KEY_OF_DEPLOYMENT]
    assert server.connections == 1


async def test_a_call_without_a_key_learns_how_to_connect(
    server: FakeOpenAI, open_app: Open
) -> None:
    app = open_app()
    await app.context(Caller(), Meter()).embed_query("bread")
    with pytest.raises(Forbidden, match="Connect with an access key"):
        await make_call_context(app, None).embed_query("bread")
    assert [call.key for call in server.calls] == [KEY_OF_DEPLOYMENT]


async def test_vectors_are_cached_by_key(server: FakeOpenAI, open_app: Open) -> None:
    server.keys = {KEY_OF_ANNA}
    app = open_app()
    vector = await make_call_context(app, KEY_OF_ANNA).embed_query("bread")
    assert await make_call_context(app, KEY_OF_ANNA).embed_query("bread") == vector
    with pytest.raises(Forbidden, match="rejected your key"):
        await make_call_context(app, KEY_OF_BEN).embed_query("bread")
    assert [call.key for call in server.calls] == [KEY_OF_ANNA, KEY_OF_BEN]
    assert KEY_OF_ANNA.encode() not in pickle.dumps(app.query_vectors)


@pytest.mark.parametrize(
    "settings", [{"openai_key_of_caller": False}, {"embedding_provider": "local"}]
)
async def test_calls_share_the_deployments_embedder_by_default(
    open_app: Open, settings: dict[str, Any]
) -> None:
    app = open_app(**settings)
    for key in (None, KEY_OF_ANNA):
        assert app.embedder is make_call_context(app, key).embedder


async def test_the_endpoint_is_used_as_configured(server: FakeOpenAI, open_app: Open) -> None:
    server.accepts_dimensions = False
    app = open_app(openai_shortens=False, embedding_dimension=64, openai_key_of_caller=False)
    assert len((await app.context(Caller(), Meter()).embed_query("bread")).values) == 64
    [call] = server.calls
    assert call.key == KEY_OF_DEPLOYMENT
    assert call.body["model"] == MODEL
