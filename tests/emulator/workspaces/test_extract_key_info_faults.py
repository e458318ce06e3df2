"""`extract_key_info` survives an embedding model that fails, is slow, or refuses texts.

An upload stores the passages that are embedded so far, so that a repeated call continues with the
others.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any, Final

import pytest
from pydantic import SecretStr

from shared.ai.openai_embedding import OpenAIEmbedder
from shared.ai.retrying import ATTEMPTS_IN_TIME
from shared.runtime.context import App
from shared.workspaces.model import DocumentStatus, content_id
from tests.support.fakes.openai import (
    CUT_CONNECTION,
    HANG,
    MODEL,
    FakeOpenAI,
    Reply,
    make_error_reply,
)
from tests.support.materials import READER, extract_error, extract_result
from tests.support.monotonic_clock import MonotonicClock
from tests.support.stored_materials import (
    DIMENSION,
    PARAGRAPH_COUNT,
    QUERY,
    assert_says_to_call_again,
    assert_workspace_is_empty,
    call_extract_with_deadline,
    list_embedded_passages,
    make_openai_settings,
    make_paragraph,
    make_text,
    read_texts_with_vectors,
    read_workspaces,
)

Open = Callable[..., App]


TEXT: Final = make_text()
DOCUMENT: Final = content_id(TEXT)
"""The id under which the text is stored."""
BATCH_SIZE: Final = 32
"""The number of passages that are embedded with one request; the text fills one batch and a bit."""
LONG_TEXT: Final = make_text(10 * BATCH_SIZE)
"""A text of ten batches."""
OK: Final = Reply()
ATTEMPT_SECONDS: Final = 30.0
"""The seconds after which an attempt to embed times out."""


@pytest.fixture
def fake() -> Iterator[FakeOpenAI]:
    """A server of an embedding model, whose replies a test chooses."""
    with FakeOpenAI() as server:
        yield server


@pytest.fixture
async def app(fake: FakeOpenAI, project: str) -> AsyncIterator[App]:
    """An app whose requests to the model time out only if the model hangs."""
    embedder = OpenAIEmbedder(
        base_url=fake.base_url,
        model=MODEL,
        dimension=DIMENSION,
        time_limit=ATTEMPT_SECONDS * ATTEMPTS_IN_TIME,
    )
    opened = App(make_openai_settings(fake, project), embedder=embedder)
    yield opened
    await opened.aclose()
    await embedder.aclose()


@pytest.fixture
async def open_app(fake: FakeOpenAI, project: str) -> AsyncIterator[Open]:
    """A function that makes more apps for the same database, with other settings."""
    apps: list[App] = []

    def make_app(**fields: Any) -> App:
        apps.append(App(make_openai_settings(fake, project, **fields)))
        return apps[-1]

    yield make_app
    for app in apps:
        await app.aclose()


@pytest.fixture
async def calm_app(fake: FakeOpenAI, project: str) -> AsyncIterator[App]:
    """An app with a database of its own, which a test uses while the model works."""
    opened = App(make_openai_settings(fake, f"{project}-calm"))
    yield opened
    await opened.aclose()


@pytest.mark.requirement("001-E2", "001-X3")
@pytest.mark.usefixtures("instant_sleep")
async def test_a_busy_model_is_tried_again(calm_app: App, fake: FakeOpenAI, open_app: Open) -> None:
    app = open_app()
    failures = [make_error_reply(429, retry_after="0"), make_error_reply(503), CUT_CONNECTION]
    fake.script.extend([OK, *failures])
    result = await extract_result(app, QUERY, materials=TEXT)
    # The second batch of eight passages fails three times. The query comes last.
    assert fake.text_counts == [BATCH_SIZE, 8, 8, 8, 8, 1]
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
    app: App, fake: FakeOpenAI, reply: Reply, monotonic: MonotonicClock
) -> None:
    fake.script.append(OK)
    fake.usual = reply
    fake.on_hang = partial(monotonic.advance_soon, ATTEMPT_SECONDS)
    error = (await call_extract_with_deadline(app, seconds=1_000, materials=TEXT)).error
    assert_says_to_call_again(error)
    await assert_workspace_is_empty(app, TEXT)
    stored = await read_texts_with_vectors(app)
    assert stored == {make_paragraph(number) for number in range(BATCH_SIZE)}

    fake.usual = OK
    count_before = len(list_embedded_passages(fake))
    result = await extract_result(app, QUERY, materials=TEXT)
    assert result["considered"] == PARAGRAPH_COUNT
    assert result["contexts"][0] == make_paragraph(31)
    remaining_passages = [make_paragraph(number) for number in range(BATCH_SIZE, PARAGRAPH_COUNT)]
    assert list_embedded_passages(fake)[count_before:] == remaining_passages


async def test_an_outage_leaves_the_same_documents(
    app: App, calm_app: App, fake: FakeOpenAI
) -> None:
    fake.script.extend([OK, make_error_reply(429, retry_after="600")])
    assert (await call_extract_with_deadline(app, materials=TEXT)).error
    await extract_result(app, QUERY, materials=TEXT)
    await extract_result(calm_app, QUERY, materials=TEXT)
    assert await read_workspaces(calm_app) == await read_workspaces(app)
    result = await extract_result(app, QUERY, materials=TEXT)
    assert await extract_result(calm_app, QUERY, materials=TEXT) == result


async def test_a_retry_after_of_the_model_is_honoured(app: App, fake: FakeOpenAI) -> None:
    fake.usual = make_error_reply(429, retry_after="600")
    error = await extract_error(app, QUERY, materials=TEXT)
    assert error.retry_after == 600
    assert_says_to_call_again(error)


async def test_a_refused_passage_is_named_by_its_characters(app: App, fake: FakeOpenAI) -> None:
    fake.rejected_words = make_paragraph(35)
    error = await extract_error(app, QUERY, materials=TEXT)
    start = TEXT.index(fake.rejected_words)
    span = f"characters {start} to {start + len(fake.rejected_words)}"
    assert error.code == "VALIDATION_ERROR"
    assert span in error.details["materials"]
    assert span in error.message
    await assert_workspace_is_empty(app, TEXT)

    fake.rejected_words = ""
    result = await extract_result(app, QUERY, materials=TEXT)
    assert result["contexts"][0] == make_paragraph(31)


async def test_a_query_without_a_vector_is_ranked_by_words(app: App, fake: FakeOpenAI) -> None:
    document = (await extract_result(app, QUERY, materials=TEXT))["document"]
    fake.usual = make_error_reply(429, retry_after="600")
    for target in ({"materials": TEXT}, {"document": document}, {"scope": "task"}):
        result = await extract_result(app, "In which room is thing 12?", **target)
        assert result["contexts"][0] == make_paragraph(12)
        assert "ranked by words alone" in result["message"]
        assert result["status"] == "ready"


async def test_a_new_text_without_a_query_vector_is_ranked_by_words(
    app: App, fake: FakeOpenAI
) -> None:
    fake.script.extend([OK, OK])
    fake.usual = make_error_reply(429, retry_after="600")
    result = await extract_result(app, QUERY, materials=TEXT)
    assert result["contexts"][0] == make_paragraph(31)
    assert "ranked by words alone" in result["message"]


async def test_a_time_out_with_a_hanging_model_asks_to_repeat(
    app: App, fake: FakeOpenAI, monotonic: MonotonicClock
) -> None:
    fake.script.append(OK)
    fake.usual = HANG
    fake.on_hang = partial(monotonic.advance_soon, 20)
    answer = await call_extract_with_deadline(app, seconds=20, materials=TEXT)
    assert_says_to_call_again(answer.error)
    await assert_workspace_is_empty(app, TEXT)

    fake.usual = OK
    count_before = len(list_embedded_passages(fake))
    stored = await read_texts_with_vectors(app)  # a write that was under way may follow
    await extract_result(app, QUERY, materials=TEXT)
    assert not stored & set(list_embedded_passages(fake)[count_before:])
    assert await read_texts_with_vectors(app) == set(TEXT.split("\n\n"))


async def test_a_repeated_call_continues_after_a_slow_model(
    app: App, fake: FakeOpenAI, monotonic: MonotonicClock
) -> None:
    def delay(vectors: list[dict[str, Any]]) -> list[dict[str, Any]]:
        monotonic.advance(ATTEMPT_SECONDS / 2)
        return vectors

    # The first call has no time for all passages.
    fake.usual = Reply(alter=delay)
    result = (await call_extract_with_deadline(app, seconds=100, materials=LONG_TEXT)).result
    assert result
    assert result["status"] == "pending"
    assert result["contexts"] == []
    assert result["known"] is False
    assert result["ask_again_after"] > 0
    stored = await read_texts_with_vectors(app)
    assert set(list_embedded_passages(fake)) == stored
    assert 0 < len(stored) < 10 * BATCH_SIZE
    assert (await extract_error(app, QUERY, scope="task")).code == "NOT_FOUND"

    # Neither has the second, which begins at the end of the text.
    count_before = len(list_embedded_passages(fake))
    answer = await call_extract_with_deadline(app, seconds=100, document=result["document"])
    assert answer.result
    assert answer.result["status"] == "pending"
    assert answer.result["known"] is True
    assert answer.receipt.price == 0
    new_passages = list_embedded_passages(fake)[count_before:]
    assert new_passages
    assert LONG_TEXT.split("\n\n")[::-1][: len(new_passages)] == new_passages

    # The third completes the text, and no passage was embedded twice.
    fake.usual = OK
    ready = await extract_result(app, QUERY, document=result["document"])
    assert ready["status"] == "ready"
    assert ready["contexts"][0] == make_paragraph(31)
    assert sorted(list_embedded_passages(fake)) == sorted(LONG_TEXT.split("\n\n"))


@pytest.mark.usefixtures("instant_sleep")
async def test_a_repeated_call_in_an_outage_loses_nothing(
    fake: FakeOpenAI, app: App, open_app: Open
) -> None:
    deferring_app = open_app(extract_materials_characters=500)
    await extract_result(deferring_app, QUERY, materials=TEXT)
    fake.usual = make_error_reply(500)
    answer = await call_extract_with_deadline(app, seconds=1_000, document=DOCUMENT)
    assert_says_to_call_again(answer.error)

    fake.usual = OK
    ready = await extract_result(app, QUERY, document=DOCUMENT)
    assert ready["status"] == "ready"
    assert ready["known"] is True


async def test_a_text_uploaded_twice_at_once_is_stored_once(
    app: App, calm_app: App, open_app: Open
) -> None:
    expected = await extract_result(calm_app, QUERY, materials=TEXT)
    apps = (app, open_app()) * 2
    results = await asyncio.gather(
        *(extract_result(uploading_app, QUERY, materials=TEXT) for uploading_app in apps)
    )
    assert [result | {"known": False} for result in results] == [expected] * 4
    assert await read_workspaces(calm_app) == await read_workspaces(app)


async def test_a_call_sent_twice_at_once_is_run_once(
    app: App, calm_app: App, open_app: Open
) -> None:
    expected = await extract_result(calm_app, QUERY, materials=TEXT)
    apps = (app, open_app()) * 2
    arguments: dict[str, Any] = {"materials": TEXT, "idempotency_key": "k"}
    answers = await asyncio.gather(
        *(call_extract_with_deadline(calling_app, **arguments) for calling_app in apps)
    )
    assert [answer.result for answer in answers] == [expected] * 4
    assert len([answer for answer in answers if not answer.receipt.replayed]) == 1
    assert await read_workspaces(calm_app) == await read_workspaces(app)


async def test_simultaneous_texts_share_equal_passages(app: App, fake: FakeOpenAI) -> None:
    other_text = f"{make_text(20)}\n\nAn end of its own."
    texts = (TEXT, other_text)
    await asyncio.gather(*(extract_result(app, QUERY, materials=text) for text in texts))

    stored = await read_workspaces(app)
    passages = [fields for path, fields in stored.items() if "/passages/" in path]
    assert len(passages) == PARAGRAPH_COUNT + 1
    both_documents = {f"document:{content_id(text)}" for text in texts}
    shared_passages = [passage for passage in passages if both_documents <= passage["facets"]]
    assert len(shared_passages) == 20
    for text in texts:
        status = stored[f"default/documents/{content_id(text)}"]["status"]
        assert status == DocumentStatus.READY.value

    count_before = len(list_embedded_passages(fake))
    result = await extract_result(app, QUERY, scope="task")
    assert result["considered"] == PARAGRAPH_COUNT + 1
    assert len(list_embedded_passages(fake)) == count_before


async def test_a_key_that_the_model_refuses_is_not_an_outage(
    fake: FakeOpenAI, open_app: Open
) -> None:
    fake.keys = {"right"}
    app_with_wrong_key, app_with_right_key = (
        open_app(openai_api_key=SecretStr(key)) for key in ("wrong", "right")
    )
    answer = await call_extract_with_deadline(app_with_wrong_key, materials=TEXT, caller=READER)
    assert answer.error
    assert answer.error.code not in ("UNAVAILABLE", "VALIDATION_ERROR")
    await assert_workspace_is_empty(app_with_right_key, TEXT)
    assert (await extract_result(app_with_right_key, QUERY, materials=TEXT))["status"] == "ready"
