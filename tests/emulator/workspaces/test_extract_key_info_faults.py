"""`extract_key_info` survives an embedding model that fails, is slow, or refuses texts.

A text is stored before it is embedded, and its vectors part by part, so that a repeated call
continues with the next part.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any, Final

import pytest
from pydantic import SecretStr

from shared.ai.openai_embedding import OpenAIEmbedder
from shared.ai.retrying import ATTEMPTS_IN_TIME
from shared.runtime.context import App
from shared.workspaces.model import content_id
from tests.support.apps import Apps
from tests.support.fakes.openai import (
    CUT_CONNECTION,
    HANG,
    MODEL,
    FakeOpenAI,
    Reply,
    make_error_reply,
)
from tests.support.materials import extract_error, extract_result
from tests.support.monotonic_clock import MonotonicClock
from tests.support.stored_materials import (
    DIMENSION,
    PARAGRAPH_COUNT,
    PART_SIZE,
    QUERY,
    assert_says_to_call_again,
    assert_workspace_is_empty,
    call_extract_with_deadline,
    list_embedded_passages,
    make_paragraph,
    make_text,
    read_workspaces,
)

Open = Callable[..., App]


TEXT: Final = make_text()
BATCH_SIZE: Final = 32
"""The number of passages that are embedded with one request."""
OK: Final = Reply()
ATTEMPT_SECONDS: Final = 30.0
"""The seconds after which an attempt to embed times out."""


@pytest.fixture
def fake() -> Iterator[FakeOpenAI]:
    """A server of an embedding model, whose replies a test chooses."""
    with FakeOpenAI() as server:
        yield server


@pytest.fixture
async def open_app(fake: FakeOpenAI, apps: Apps, project: str) -> AsyncIterator[Open]:
    """A function that makes apps whose requests to the model time out only if the model hangs."""
    embedders: list[OpenAIEmbedder] = []

    def make_app(database: str = "", *, key: str | None = None, **settings: Any) -> App:
        embedder = OpenAIEmbedder(
            base_url=fake.base_url,
            model=MODEL,
            dimension=DIMENSION,
            api_key=SecretStr(key) if key else None,
            time_limit=ATTEMPT_SECONDS * ATTEMPTS_IN_TIME,
        )
        embedders.append(embedder)
        return apps(embedder=embedder, project=f"{project}{database}", **settings)

    yield make_app
    for embedder in embedders:
        await embedder.aclose()


@pytest.fixture
def app(open_app: Open) -> App:
    return open_app()


@pytest.fixture
def calm_app(open_app: Open) -> App:
    """An app with a database of its own, which a test uses while the model works."""
    return open_app("-calm")


@pytest.mark.requirement("001-E2", "001-X3")
@pytest.mark.usefixtures("instant_sleep")
async def test_a_busy_model_is_tried_again(app: App, calm_app: App, fake: FakeOpenAI) -> None:
    failures = [make_error_reply(429, retry_after="0"), make_error_reply(503), CUT_CONNECTION]
    fake.script.extend([OK, *failures])
    result = await extract_result(app, QUERY, materials=TEXT)
    # The second batch fails three times. The query comes last.
    assert fake.text_counts == [*[BATCH_SIZE] * 5, PARAGRAPH_COUNT - PART_SIZE, 1]
    assert await extract_result(calm_app, QUERY, materials=TEXT) == result
    assert await read_workspaces(calm_app) == await read_workspaces(app)


@pytest.mark.requirement("001-C10", "001-E2")
@pytest.mark.usefixtures("instant_sleep")
@pytest.mark.parametrize(
    "reply",
    [
        make_error_reply(429, retry_after="600"),
        make_error_reply(429),
        make_error_reply(500),
        CUT_CONNECTION,
        HANG,
    ],
)
async def test_a_model_that_stays_down_is_an_outage(
    app: App, calm_app: App, fake: FakeOpenAI, reply: Reply, monotonic: MonotonicClock
) -> None:
    """A call after it embeds the rest, and leaves the same documents."""
    fake.script.extend([OK, OK])
    fake.usual = reply
    fake.on_hang = partial(monotonic.advance_soon, ATTEMPT_SECONDS)
    error = (await call_extract_with_deadline(app, seconds=1_000, materials=TEXT)).error
    assert_says_to_call_again(error)
    if reply.headers:
        assert error
        assert error.retry_after == 600
    await assert_workspace_is_empty(app)

    fake.usual = OK
    count_before = len(list_embedded_passages(fake))
    result = await extract_result(app, QUERY, materials=TEXT)
    remaining_passages = [make_paragraph(number) for number in range(PART_SIZE, PARAGRAPH_COUNT)]
    assert list_embedded_passages(fake)[count_before:] == remaining_passages
    expected = await extract_result(calm_app, QUERY, materials=TEXT)
    assert result == expected | {"known": True}
    assert await read_workspaces(calm_app) == await read_workspaces(app)


async def test_a_refused_passage_is_named_by_its_characters(app: App, fake: FakeOpenAI) -> None:
    fake.rejected_words = make_paragraph(35)
    error = await extract_error(app, QUERY, materials=TEXT)
    start = TEXT.index(fake.rejected_words)
    span = f"characters {start} to {start + len(fake.rejected_words)}"
    assert error.code == "VALIDATION_ERROR"
    assert span in error.details["materials"]
    assert span in error.message
    await assert_workspace_is_empty(app)
    assert span in (await extract_error(app, QUERY, document=content_id(TEXT))).message

    fake.rejected_words = ""
    result = await extract_result(app, QUERY, materials=TEXT)
    assert result["contexts"][0] == make_paragraph(31)


@pytest.mark.parametrize("target", ["materials", "known", "document", "scope"])
async def test_a_query_without_a_vector_is_ranked_by_words(
    app: App, fake: FakeOpenAI, target: str
) -> None:
    if target == "materials":
        fake.script.extend([OK] * 3)
    else:
        await extract_result(app, QUERY, materials=TEXT)
    fake.usual = make_error_reply(429, retry_after="600")
    targets: dict[str, dict[str, Any]] = {
        "document": {"document": content_id(TEXT)},
        "scope": {"scope": "task"},
    }
    arguments = targets.get(target, {"materials": TEXT})
    result = await extract_result(app, "In which room is thing 12?", **arguments)
    assert result["contexts"][0] == make_paragraph(12)
    assert "ranked by words alone" in result["message"]
    assert result["status"] == "ready"


async def test_a_text_uploaded_twice_at_once_is_stored_once(
    app: App, calm_app: App, open_app: Open, fake: FakeOpenAI
) -> None:
    """The calls that come second are pending."""
    expected = await extract_result(calm_app, QUERY, materials=TEXT)
    apps = (app, open_app()) * 2
    results = await asyncio.gather(
        *(extract_result(uploading_app, QUERY, materials=TEXT) for uploading_app in apps)
    )
    assert {result["status"] for result in results} <= {"ready", "pending"}
    assert await extract_result(app, QUERY, materials=TEXT) == expected | {"known": True}
    assert len(list_embedded_passages(fake)) == 2 * PARAGRAPH_COUNT
    assert await read_workspaces(calm_app) == await read_workspaces(app)


async def test_a_key_that_the_model_refuses_is_not_an_outage(
    fake: FakeOpenAI, open_app: Open
) -> None:
    fake.keys = {"right"}
    wrong, right = open_app(key="wrong"), open_app(key="right")
    answer = await call_extract_with_deadline(wrong, materials=TEXT)
    assert answer.error
    assert answer.error.code not in ("UNAVAILABLE", "VALIDATION_ERROR")
    await assert_workspace_is_empty(right)
    assert (await extract_result(right, QUERY, materials=TEXT))["status"] == "ready"
