"""`extract_key_info` does not embed known texts again, and defers texts that are too long.

A text is known if its workspace has stored it. A deferred text is pending until a job or a further
call has embedded it.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from functions.jobs.ingest_materials.job import ingest_materials
from shared.ai.embedding import Purpose, Vector
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.context import App
from shared.text.terms import ANALYZER_VERSION
from tests.support.fakes.embedder import WordEmbedder
from tests.support.jobs import make_ample_budget
from tests.support.materials import (
    BREAD,
    BRIDGE,
    COMET,
    MAST,
    TEXT,
    call_extract,
    extract_error,
    extract_result,
)
from tests.support.stored_documents import read_documents

LONG_TEXT = "\n\n".join(f"Line {number} of a long log." for number in range(100))


class RecordingEmbedder(WordEmbedder):
    """An embedder that records the texts that it embeds.

    Attributes:
        passages: The embedded passages of materials.
        queries: The embedded questions.
        largest_batch: The largest number of texts that were embedded with one call.
    """

    def __init__(self) -> None:
        """Start without records."""
        super().__init__()
        self.passages: list[str] = []
        self.queries: list[str] = []
        self.largest_batch = 0

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:
        """Record the texts, and embed them."""
        (self.passages if purpose is Purpose.DOCUMENT else self.queries).extend(texts)
        self.largest_batch = max(self.largest_batch, len(texts))
        return await super().embed(texts, purpose)


@pytest.fixture
def embedder() -> RecordingEmbedder:
    """The embedder of `app`, which records."""
    return RecordingEmbedder()


@pytest.fixture
async def open_app(project: str, embedder: RecordingEmbedder) -> AsyncIterator[Callable[..., App]]:
    """A function that makes apps with other settings for one database."""
    apps: list[App] = []

    def make_app(**settings: Any) -> App:
        app_settings = Settings(google_cloud_project=project, **settings)
        apps.append(App(app_settings, embedder=embedder))
        return apps[-1]

    yield make_app
    for app in apps:
        await app.aclose()


async def read_stored(app: App, name: str, task: str = "default") -> dict[str, dict[str, Any]]:
    """Return the documents of a collection in a workspace of the user `reader`, by id."""
    ctx = app.context(Caller(), Meter())
    return await read_documents(ctx, f"users/reader/rag_tasks/{task}/{name}")


@pytest.mark.requirement("001-D4", "001-F4", "001-F5")
async def test_a_known_text_embeds_only_the_query(app: App, embedder: RecordingEmbedder) -> None:
    await extract_result(app, "rye", materials=TEXT)
    answer = await call_extract(app, "comet", materials=TEXT)
    assert len(embedder.passages) == 4
    assert embedder.queries == ["rye", "comet"]
    assert answer.receipt.documents_written == 0


async def test_a_repeated_query_embeds_nothing(app: App, embedder: RecordingEmbedder) -> None:
    for _ in range(2):
        await extract_result(app, "rye", materials=TEXT)
    assert len(embedder.passages) == 4
    assert embedder.queries == ["rye"]


@pytest.mark.requirement("001-D3", "001-P3")
async def test_shared_passages_are_embedded_and_stored_once(
    app: App, embedder: RecordingEmbedder
) -> None:
    await extract_result(app, "rye", materials=f"{MAST}\n\n{BREAD}\n\n{BREAD}")
    bread_on_many_lines = BREAD.replace(" ", "\n")
    await extract_result(app, "rye", materials=f"{COMET}\n\n{bread_on_many_lines}\n\n{BRIDGE}")
    distinct_passages = sorted((MAST, BREAD, COMET, BRIDGE))
    assert sorted(embedder.passages) == distinct_passages
    stored_passages = await read_stored(app, "passages")
    assert sorted(fields["text"] for fields in stored_passages.values()) == distinct_passages
    assert len(await read_stored(app, "documents")) == 2


async def test_known_passages_have_the_positions_of_the_new_text(
    app: App, embedder: RecordingEmbedder
) -> None:
    await extract_result(app, "rye", materials=TEXT)
    reversed_text = "\n\n".join(TEXT.split("\n\n")[::-1])
    result = await extract_result(app, "What does rye bread need?", materials=reversed_text)
    assert result["known"] is False
    assert result["contexts"][0] == BREAD
    assert result["passages"][0]["position"] == 3
    assert len(embedder.passages) == 4


@pytest.mark.requirement("001-P3")
async def test_workspaces_do_not_share_passages(app: App, embedder: RecordingEmbedder) -> None:
    await extract_result(app, "rye", materials=TEXT, task_id="one")
    await extract_result(app, "rye", materials=TEXT, task_id="two")
    assert len(embedder.passages) == 8
    assert len(await read_stored(app, "passages", "one")) == 4
    assert len(await read_stored(app, "passages", "two")) == 4


@pytest.mark.requirement("001-E1")
async def test_passages_are_embedded_thirty_two_at_a_time(
    app: App, embedder: RecordingEmbedder
) -> None:
    text = "\n\n".join(f"Line {number}." for number in range(70))
    await extract_result(app, "line", materials=text)
    assert len(embedder.passages) == 70
    assert embedder.largest_batch == 32


@hypothesis_settings(
    deadline=None,
    derandomize=True,
    max_examples=10,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=8), min_size=1, max_size=4)
)
async def test_no_passage_of_a_workspace_is_embedded_twice(
    app: App, embedder: RecordingEmbedder, uploads: list[list[str]]
) -> None:
    task = uuid.uuid4().hex
    count_before = len(embedder.passages)
    for letters in uploads:
        text = "\n\n".join(f"passage {letter}" for letter in letters)
        await extract_result(app, "passage", materials=text, task_id=task)

    different_letters = set().union(*uploads)
    assert len(embedder.passages) - count_before == len(different_letters)
    assert len(await read_stored(app, "passages", task)) == len(different_letters)
    different_texts = set(map(tuple, uploads))
    assert len(await read_stored(app, "documents", task)) == len(different_texts)


@pytest.mark.requirement("001-A7", "001-F1", "001-P5")
async def test_a_text_beyond_the_limit_is_embedded_by_a_job(
    open_app: Callable[..., App], embedder: RecordingEmbedder
) -> None:
    app = open_app(extract_materials_characters=1_000)
    result = await extract_result(app, "line 7", materials=LONG_TEXT)
    assert result["status"] == "pending"
    assert result["contexts"] == []
    assert result["passages"] == []
    assert result["known"] is False
    assert 0 < result["ask_again_after"] <= 600
    assert result["document"] in str(await read_stored(app, "documents"))
    assert embedder.passages == []
    assert "document" in result["message"]

    report = await ingest_materials(app.context(Caller(), Meter()), make_ample_budget())
    assert report.finished
    assert len(embedder.passages) == 100

    ready = await extract_result(app, "line 7", document=result["document"])
    assert ready["status"] == "ready"
    assert ready["contexts"][0] == "Line 7 of a long log."
    assert ready["known"] is True
    assert ready["considered"] == 100
    assert "ask_again_after" not in ready
    assert await extract_result(app, "line 7", materials=LONG_TEXT) == ready
    assert len(embedder.passages) == 100


async def test_job_and_call_embed_alike(open_app: Callable[..., App]) -> None:
    deferring_app = open_app(extract_materials_characters=1_000)
    app = open_app()
    await extract_result(deferring_app, "line 7", materials=LONG_TEXT, task_id="job")
    await ingest_materials(deferring_app.context(Caller(), Meter()), make_ample_budget())
    by_job = await extract_result(deferring_app, "line 7", materials=LONG_TEXT, task_id="job")
    by_call = await extract_result(app, "line 7", materials=LONG_TEXT, task_id="call")
    assert by_call["passages"] == by_job["passages"]
    assert by_call["contexts"] == by_job["contexts"]


async def test_a_text_as_long_as_the_limit_is_answered_at_once(
    open_app: Callable[..., App],
) -> None:
    for limit, status in ((len(LONG_TEXT), "ready"), (len(LONG_TEXT) - 1, "pending")):
        app = open_app(extract_materials_characters=limit)
        result = await extract_result(app, "line", materials=LONG_TEXT, task_id=status)
        assert status == result["status"]


@pytest.mark.requirement("001-P5")
async def test_a_deferred_document_can_be_asked_before_the_job(
    open_app: Callable[..., App],
) -> None:
    app = open_app(extract_materials_characters=1_000)
    document = (await extract_result(app, "line 7", materials=LONG_TEXT))["document"]
    result = await extract_result(app, "line 7", document=document)
    assert result["status"] in ("ready", "pending")
    if result["status"] == "ready":
        assert result["contexts"][0] == "Line 7 of a long log."
    else:
        assert result["ask_again_after"] > 0


async def test_scope_task_omits_pending_texts(open_app: Callable[..., App]) -> None:
    app = open_app(extract_materials_characters=1_000)
    await extract_result(app, "line", materials=LONG_TEXT)
    error = await extract_error(app, "line", scope="task")
    assert error.code == "NOT_FOUND"

    text_with_shared_passage = "Line 7 of a long log.\n\nA short text."
    await extract_result(app, "line", materials=text_with_shared_passage)
    result = await extract_result(app, "Line 8 of a long log", scope="task")
    assert result["considered"] == 2
    assert set(result["contexts"]) == {"Line 7 of a long log.", "A short text."}


async def test_scope_task_with_a_pending_text_is_pending(open_app: Callable[..., App]) -> None:
    app = open_app(extract_materials_characters=1_000)
    await extract_result(app, "bread", materials=BREAD)
    result = await extract_result(app, "line", materials=LONG_TEXT, scope="task")
    assert result["status"] == "pending"
    assert result["contexts"] == []


async def test_a_call_without_time_fails_or_is_pending(
    app: App, embedder: RecordingEmbedder
) -> None:
    """A repeated call succeeds, and embeds only the batches in progress again."""
    text = "\n\n".join(f"Passage {number} of very many." for number in range(2_000))
    query = "passage 7 of very many"
    answer = await call_extract(app, query, materials=text, seconds=0.8)
    if answer.error:
        assert answer.error.code == "UNAVAILABLE"
        target: dict[str, Any] = {"materials": text}
    else:
        assert answer.result is not None
        assert answer.result["status"] == "pending"
        target = {"document": answer.result["document"]}

    # On a busy machine, the usual 30 seconds are not enough for so many passages.
    result = await extract_result(app, query, **target, seconds=300)
    assert result["status"] == "ready"
    assert result["contexts"][0] == "Passage 7 of very many."
    assert len(set(embedder.passages)) == 2_000
    assert len(embedder.passages) <= 2_000 + 2 * 32  # two batches are in progress at a time


async def test_the_receipt_has_the_times_of_embedding_and_bm25(app: App) -> None:
    first = (await call_extract(app, "comet", materials=TEXT)).receipt
    assert first.embedding_ms is not None
    assert first.bm25_ms is not None
    assert 0 <= first.embedding_ms + first.bm25_ms <= first.milliseconds + 1

    repeated = (await call_extract(app, "comet", materials=TEXT)).receipt
    assert repeated.embedding_ms is None
    assert repeated.bm25_ms is not None
    assert repeated.documents_written == 0


@pytest.mark.requirement("001-B3", "001-F10")
async def test_audit_facts_are_sizes_scores_and_hashes(app: App) -> None:
    answer = await call_extract(app, "comet's tail", materials=TEXT, task_id="stars")
    assert answer.result is not None
    facts = answer.receipt.notes
    assert answer.receipt.task == "stars"
    assert facts["passages"] == 4
    assert facts["document"] == answer.result["document"]
    assert facts["scores"] == [passage["score"] for passage in answer.result["passages"]]
    receipt = str(answer.receipt.model_dump()).lower()
    for word in ("comet", "tail", "rye", "boat"):
        assert word not in receipt


@pytest.mark.requirement("001-D5", "001-E3", "001-E4")
async def test_the_stored_fields_of_a_document_keep_their_names(
    app: App, embedder: RecordingEmbedder
) -> None:
    """Existing databases have these names, some of which differ from those in the code."""
    await extract_result(app, "bread", materials=TEXT)
    [fields] = (await read_stored(app, "documents")).values()
    assert fields.keys() == {
        *("document_id", "arrival", "status", "making", "passage_characters", "cutting"),
        *("characters", "passages", "parts", "brought_at", "prepaid", "reason", "worked_until"),
        *("next_at", "tries"),
    }
    assert fields["making"] == {
        "model": embedder.model,
        "dimension": embedder.dimension,
        "analysis": ANALYZER_VERSION,
    }
    passages = await read_stored(app, "passages")
    assert {passage["embedding_model"] for passage in passages.values()} == {embedder.model}


async def test_another_passage_length_leaves_no_earlier_parts(open_app: Callable[..., App]) -> None:
    text = "A boat has a mast. " * 40
    for characters in (1500, 200, 1500):
        app = open_app(extract_passage_characters=characters)
        await extract_result(app, "mast", materials=text)
    assert len(await read_stored(app, "parts")) == 2


async def test_scope_task_says_how_many_texts_are_pending(open_app: Callable[..., App]) -> None:
    app = open_app(extract_materials_characters=100)
    await extract_result(app, "bread", materials=TEXT)
    error = await extract_error(app, "bread", scope="task")
    assert error.code == "NOT_FOUND"
    assert "still being embedded: 1." in error.message
    await extract_result(app, "comet", materials=COMET)
    result = await extract_result(app, "bread", scope="task")
    assert result["considered"] == 1
    assert "still being embedded" in result["message"]
