"""`extract_key_info` with an embedding model that fails, is slow, or refuses texts."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

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
from tests.support.stored_materials import (
    DIMENSION,
    PARAGRAPH_COUNT,
    QUERY,
    assert_not_found,
    assert_says_to_call_again,
    call_extract_with_deadline,
    list_embedded_passages,
    make_openai_settings,
    make_paragraph,
    make_text,
    read_texts_with_vectors,
    read_workspaces,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from tests.support.monotonic_clock import MonotonicClock

    Open = Callable[..., App]

pytestmark = pytest.mark.anyio

TEXT: Final = make_text()
ID: Final = content_id(TEXT)
FIRST_BATCH: Final = 32
"""The number of passages in the first batch."""
LONG: Final = make_text(10 * FIRST_BATCH)
"""The number of passages in ten batches."""
OK: Final = Reply()
ATTEMPT_SECONDS: Final = 30.0
"""The seconds after which an attempt to embed times out."""


@pytest.fixture
def fake() -> Iterator[FakeOpenAI]:
    """The embedding model."""
    with FakeOpenAI() as server:
        yield server


@pytest.fixture
async def app(fake: FakeOpenAI, project: str) -> AsyncIterator[App]:
    """An app whose model only times out when it hangs."""
    embedder = OpenAIEmbedder(
        base_url=fake.base_url,
        model=MODEL,
        dimension=DIMENSION,
        time_limit=ATTEMPT_SECONDS * ATTEMPTS_IN_TIME,
    )
    instance = App(make_openai_settings(fake, project), embedder=embedder)
    yield instance
    await instance.aclose()
    await embedder.aclose()


@pytest.fixture
async def open_app(fake: FakeOpenAI, project: str) -> AsyncIterator[Open]:
    """A function that makes more apps for the same database, with other settings."""
    apps: list[App] = []

    def make_instance(**fields: Any) -> App:
        apps.append(App(make_openai_settings(fake, project, **fields)))
        return apps[-1]

    yield make_instance
    for app in apps:
        await app.aclose()


@pytest.fixture
async def calm_app(fake: FakeOpenAI, project: str) -> AsyncIterator[App]:
    """An app without any faults."""
    instance = App(make_openai_settings(fake, f"{project}-calm"))
    yield instance
    await instance.aclose()


@pytest.mark.usefixtures("sleepless")
async def test_a_busy_model_is_tried_again(calm_app: App, fake: FakeOpenAI, open_app: Open) -> None:
    app = open_app()
    fake.script.extend(
        [OK, make_error_reply(429, retry_after="0"), make_error_reply(503), CUT_CONNECTION]
    )
    result = await extract_result(app, QUERY, materials=TEXT)
    assert fake.text_counts == [FIRST_BATCH, 8, 8, 8, 8, 1]
    assert await extract_result(calm_app, QUERY, materials=TEXT) == result
    assert await read_workspaces(calm_app) == await read_workspaces(app)


@pytest.mark.usefixtures("sleepless")
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
    await assert_not_found(app, TEXT)
    stored = await read_texts_with_vectors(app)
    assert stored == {make_paragraph(number) for number in range(FIRST_BATCH)}
    fake.usual = OK
    before = len(list_embedded_passages(fake))
    result = await extract_result(app, QUERY, materials=TEXT)
    assert result["considered"] == PARAGRAPH_COUNT
    assert result["contexts"][0] == make_paragraph(31)
    assert list_embedded_passages(fake)[before:] == [
        make_paragraph(number) for number in range(FIRST_BATCH, PARAGRAPH_COUNT)
    ]


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
    errors = f"characters {start} to {start + len(fake.rejected_words)}"
    assert error.code == "VALIDATION_ERROR"
    assert errors in error.details["materials"]
    assert errors in error.message
    await assert_not_found(app, TEXT)
    fake.rejected_words = ""
    result = await extract_result(app, QUERY, materials=TEXT)
    assert result["contexts"][0] == make_paragraph(31)


async def test_a_query_without_a_vector_is_ranked_by_words(app: App, fake: FakeOpenAI) -> None:
    first = await extract_result(app, QUERY, materials=TEXT)
    fake.usual = make_error_reply(429, retry_after="600")
    for target in ({"materials": TEXT}, {"document": first["document"]}, {"scope": "task"}):
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
    await assert_not_found(app, TEXT)
    fake.usual = OK
    before = len(list_embedded_passages(fake))
    stored = await read_texts_with_vectors(app)  # a write that was under way may follow
    await extract_result(app, QUERY, materials=TEXT)
    assert not stored & set(list_embedded_passages(fake)[before:])
    assert set(TEXT.split("\n\n")) == await read_texts_with_vectors(app)


async def test_a_repeated_call_continues_after_a_slow_model(
    app: App, fake: FakeOpenAI, monotonic: MonotonicClock
) -> None:
    def slow(vectors: list[dict[str, Any]]) -> list[dict[str, Any]]:
        monotonic.advance(ATTEMPT_SECONDS / 2)
        return vectors

    fake.usual = Reply(alter=slow)
    result = (await call_extract_with_deadline(app, seconds=100, materials=LONG)).result
    assert result
    assert result["status"] == "pending"
    assert result["contexts"] == []
    assert result["known"] is False
    assert result["ask_again_after"] > 0
    stored = await read_texts_with_vectors(app)
    assert set(list_embedded_passages(fake)) == stored
    assert 0 < len(stored) < 10 * FIRST_BATCH
    assert (await extract_error(app, QUERY, scope="task")).code == "NOT_FOUND"
    before = len(list_embedded_passages(fake))
    answer = await call_extract_with_deadline(app, seconds=100, document=result["document"])
    assert answer.result
    assert answer.result["status"] == "pending"
    assert answer.result["known"] is True
    assert answer.receipt.price == 0
    new_passages = list_embedded_passages(fake)[before:]
    assert new_passages
    assert LONG.split("\n\n")[: -len(new_passages) - 1 : -1] == new_passages
    fake.usual = OK
    ready = await extract_result(app, QUERY, document=result["document"])
    assert ready["status"] == "ready"
    assert ready["contexts"][0] == make_paragraph(31)
    assert sorted(LONG.split("\n\n")) == sorted(list_embedded_passages(fake))


@pytest.mark.usefixtures("sleepless")
async def test_a_repeated_call_in_an_outage_loses_nothing(
    fake: FakeOpenAI, app: App, open_app: Open
) -> None:
    hasty = open_app(extract_materials_characters=500)
    await extract_result(hasty, QUERY, materials=TEXT)
    fake.usual = make_error_reply(500)
    assert_says_to_call_again(
        (await call_extract_with_deadline(app, seconds=1_000, document=ID)).error
    )
    fake.usual = OK
    ready = await extract_result(app, QUERY, document=ID)
    assert ready["status"] == "ready"
    assert ready["known"] is True


async def test_a_text_uploaded_twice_at_once_is_stored_once(
    app: App, calm_app: App, open_app: Open
) -> None:
    expected = await extract_result(calm_app, QUERY, materials=TEXT)
    other = open_app()
    answers = await asyncio.gather(
        *(extract_result(caller, QUERY, materials=TEXT) for caller in (app, other, app, other))
    )
    assert [answer | {"known": False} for answer in answers] == [expected] * 4
    assert await read_workspaces(calm_app) == await read_workspaces(app)


async def test_a_call_sent_twice_at_once_is_run_once(
    app: App, calm_app: App, open_app: Open
) -> None:
    expected = await extract_result(calm_app, QUERY, materials=TEXT)
    other = open_app()
    errors: dict[str, Any] = {"materials": TEXT, "idempotency_key": "k"}
    answers = await asyncio.gather(
        *(call_extract_with_deadline(caller, **errors) for caller in (app, other) * 2)
    )
    assert [answer.result for answer in answers] == [expected] * 4
    assert sum(not answer.receipt.replayed for answer in answers) == 1
    assert await read_workspaces(calm_app) == await read_workspaces(app)


async def test_simultaneous_texts_share_equal_passages(app: App, fake: FakeOpenAI) -> None:
    other = f"{make_text(20)}\n\nAn end of its own."
    await asyncio.gather(*(extract_result(app, QUERY, materials=text) for text in (TEXT, other)))
    stored = await read_workspaces(app)
    passages = [name for name in stored if "/passages/" in name]
    assert len(passages) == PARAGRAPH_COUNT + 1
    expected_keys = {f"document:{content_id(TEXT)}", f"document:{content_id(other)}"}
    assert sum(expected_keys <= stored[name]["facets"] for name in passages) == 20
    assert {
        stored[f"default/documents/{content_id(text)}"]["status"] for text in (TEXT, other)
    } == {DocumentStatus.READY.value}
    before = len(list_embedded_passages(fake))
    result = await extract_result(app, QUERY, scope="task")
    assert result["considered"] == PARAGRAPH_COUNT + 1
    assert len(list_embedded_passages(fake)) == before


async def test_a_key_the_model_refuses_is_no_outage(fake: FakeOpenAI, open_app: Open) -> None:
    fake.keys = {"right"}
    app_with_wrong_key, app_with_right_key = (
        open_app(openai_api_key=SecretStr(key)) for key in ("wrong", "right")
    )
    answer = await call_extract_with_deadline(app_with_wrong_key, materials=TEXT, caller=READER)
    assert answer.error
    assert answer.error.code not in ("UNAVAILABLE", "VALIDATION_ERROR")
    await assert_not_found(app_with_right_key, TEXT)
    assert (await extract_result(app_with_right_key, QUERY, materials=TEXT))["status"] == "ready"
