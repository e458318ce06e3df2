"""`extract_key_info` does not embed known texts again, and defers texts that are too long.

A text is known if its workspace has stored it. A deferred text is pending until a job or a further
call has embedded it.
"""

import pytest

from functions.jobs.ingest_materials.job import ingest_materials
from shared.ai.embedding import Purpose
from shared.runtime.context import App
from shared.text.terms import ANALYZER_VERSION
from shared.workspaces import repository
from tests.support.apps import Apps
from tests.support.clock import SettableClock
from tests.support.commit_hooks import call_after_commit
from tests.support.fakes.recording_embedder import RecordingEmbedder
from tests.support.jobs import make_ample_budget, make_job_context
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
from tests.support.monotonic_clock import MonotonicClock
from tests.support.stored_documents import read_app_documents
from tests.support.stored_materials import (
    PART_SIZE,
    assert_says_to_call_again,
    assert_workspace_is_empty,
)

LONG_TEXT = "\n\n".join(f"Line {number} of a long log." for number in range(100))
STORED = "users/reader/rag_tasks/default"
"""The path of the workspace."""
BATCH_SIZE = 32
"""The number of passages that are embedded at a time."""


class Killed(Exception):
    """The process is killed."""


@pytest.fixture
def embedder() -> RecordingEmbedder:
    return RecordingEmbedder()


@pytest.mark.requirement("001-D4", "001-F4", "001-F5")
async def test_a_known_text_embeds_only_the_query(app: App, embedder: RecordingEmbedder) -> None:
    await extract_result(app, "rye", materials=TEXT)
    for query in ("comet", "rye"):
        answer = await call_extract(app, query, materials=TEXT)
        assert answer.receipt.documents_written == 0
    assert len(embedder.passages) == 4
    assert embedder.queries == ["rye", "comet"]  # the vector of the first is kept


@pytest.mark.requirement("001-D3", "001-P3")
async def test_shared_passages_are_embedded_once(app: App, embedder: RecordingEmbedder) -> None:
    """They have the positions of the text that is asked about."""
    await extract_result(app, "rye", materials=f"{MAST}\n\n{BREAD}\n\n{BREAD}")
    bread_on_many_lines = BREAD.replace(" ", "\n")
    text = f"{COMET}\n\n{BRIDGE}\n\n{bread_on_many_lines}"
    result = await extract_result(app, "What does rye bread need?", materials=text)
    assert result["known"] is False
    assert result["contexts"][0] == bread_on_many_lines
    assert result["passages"][0]["position"] == 3
    assert sorted(embedder.passages) == sorted((MAST, BREAD, COMET, BRIDGE))


@pytest.mark.requirement("001-E1")
async def test_passages_are_embedded_thirty_two_at_a_time(
    app: App, embedder: RecordingEmbedder
) -> None:
    text = "\n\n".join(f"Line {number}." for number in range(70))
    await extract_result(app, "line", materials=text)
    assert embedder.batches == [32, 32, 6, 1]


@pytest.mark.requirement("001-A7", "001-F1", "001-P5")
async def test_a_text_beyond_the_limit_is_embedded_by_a_job(
    apps: Apps, embedder: RecordingEmbedder
) -> None:
    limit = len(LONG_TEXT) - 1
    app = apps(embedder=embedder, extract_materials_characters=limit)
    assert (await extract_result(app, "line", materials=LONG_TEXT[:-1]))["status"] == "ready"
    embedder.passages.clear()
    result = await extract_result(app, "line 7", materials=LONG_TEXT)
    assert result["status"] == "pending"
    assert result["contexts"] == result["passages"] == []
    assert result["known"] is False
    assert 0 < result["ask_again_after"] <= 600
    assert result["document"] in str(await read_app_documents(app, f"{STORED}/documents"))
    assert embedder.passages == []
    assert "document" in result["message"]

    report = await ingest_materials(make_job_context(app), make_ample_budget())
    assert report.finished
    assert embedder.passages == ["Line 99 of a long log."]  # the others were known

    ready = await extract_result(app, "line 7", document=result["document"])
    assert ready["status"] == "ready"
    assert ready["contexts"][0] == "Line 7 of a long log."
    assert ready["known"] is True
    assert ready["considered"] == 100
    assert "ask_again_after" not in ready
    assert await extract_result(app, "line 7", materials=LONG_TEXT) == ready


async def test_scope_task_omits_pending_texts_and_counts_them(apps: Apps) -> None:
    app = apps(extract_materials_characters=1_000)
    result = await extract_result(app, "line", materials=LONG_TEXT, scope="task")
    assert result["status"] == "pending"
    assert result["contexts"] == []
    error = await extract_error(app, "line", scope="task")
    assert error.code == "NOT_FOUND"
    assert "still being embedded: 1." in error.message

    text_with_shared_passage = "Line 7 of a long log.\n\nA short text."
    await extract_result(app, "line", materials=text_with_shared_passage)
    result = await extract_result(app, "Line 8 of a long log", scope="task")
    assert result["considered"] == 2
    assert result["contexts"] == ["Line 7 of a long log."]
    assert [place["text"] for place in result["near"]] == ["A short text."]
    assert "still being embedded" in result["message"]


VERY_MANY = [f"Passage {number} of very many." for number in range(10 * BATCH_SIZE)]
VERY_LONG_TEXT = "\n\n".join(VERY_MANY)
QUERY = "passage 7 of very many"


def make_slow_embedder(clock: MonotonicClock, seconds: float) -> RecordingEmbedder:
    """Return an embedder that takes this time for each batch."""
    embedder = RecordingEmbedder()

    async def advance(_: Purpose) -> None:
        clock.advance(seconds)

    embedder.meanwhile = advance
    return embedder


async def test_a_call_without_time_is_pending_and_the_next_continues(
    apps: Apps, monotonic: MonotonicClock
) -> None:
    """No passage is embedded twice."""
    embedder = make_slow_embedder(monotonic, seconds=200)
    app = apps(embedder=embedder)
    result = (await call_extract(app, QUERY, materials=VERY_LONG_TEXT, seconds=1_000)).result
    assert result
    assert result["status"] == "pending"
    assert result["contexts"] == []
    assert result["known"] is False
    assert result["ask_again_after"] > 0
    assert embedder.passages == VERY_MANY[:PART_SIZE]
    assert (await extract_error(app, QUERY, scope="task")).code == "NOT_FOUND"

    answer = await call_extract(app, QUERY, document=result["document"], seconds=1_000)
    assert answer.result
    assert answer.result["status"] == "pending"
    assert answer.result["known"] is True
    assert answer.receipt.price == 0
    assert embedder.passages == VERY_MANY[: 2 * PART_SIZE]

    embedder.meanwhile = None
    ready = await extract_result(app, QUERY, document=result["document"], seconds=1_000)
    assert ready["status"] == "ready"
    assert ready["contexts"][0] == VERY_MANY[7]
    assert embedder.passages == VERY_MANY


async def test_a_call_that_times_out_is_repeated(
    apps: Apps, monotonic: MonotonicClock, clock: SettableClock
) -> None:
    """No other call embeds the text until the first one must have ended."""
    embedder = make_slow_embedder(monotonic, seconds=400)
    app = apps(embedder=embedder, clock=clock)
    answer = await call_extract(app, QUERY, materials=VERY_LONG_TEXT, seconds=300)
    assert_says_to_call_again(answer.error)
    assert 0 < len(embedder.passages) < len(VERY_MANY)

    embedder.meanwhile = None
    result = await extract_result(app, QUERY, materials=VERY_LONG_TEXT)
    assert result["status"] == "pending"
    clock.advance(seconds=300)
    result = await extract_result(app, QUERY, materials=VERY_LONG_TEXT, seconds=1_000)
    assert result["contexts"][0] == VERY_MANY[7]
    assert set(embedder.passages) == set(VERY_MANY)


async def test_an_upload_that_broke_off_starts_again(
    apps: Apps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part is stored by a commit of its own, as those of a long text."""

    async def die() -> None:
        raise Killed

    monkeypatch.setattr(repository, "MAX_WRITTEN_BYTES", 1)
    for commit in (2, 4):  # the first commit records the embedding model
        await call_extract(
            apps(call_after_commit(commit, die)), QUERY, materials=VERY_LONG_TEXT, task_id="killed"
        )
        await assert_workspace_is_empty(apps(), VERY_LONG_TEXT, task_id="killed")
    result = await extract_result(apps(), QUERY, materials=VERY_LONG_TEXT, task_id="killed")
    assert result["contexts"][0] == VERY_MANY[7]
    assert result["known"] is False
    parts = await read_app_documents(apps(), "users/reader/rag_tasks/killed/parts")
    assert len(parts) == len(VERY_MANY) / PART_SIZE


async def test_the_receipt_has_the_times_of_embedding_and_bm25(app: App) -> None:
    first, repeated = [(await call_extract(app, "comet", materials=TEXT)).receipt for _ in range(2)]
    assert first.embedding_ms is not None
    assert first.bm25_ms is not None
    assert 0 <= first.embedding_ms + first.bm25_ms <= first.milliseconds + 1
    assert repeated.embedding_ms is None
    assert repeated.bm25_ms is not None


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
async def test_a_document_names_its_model_and_its_analyzer(
    app: App, embedder: RecordingEmbedder
) -> None:
    await extract_result(app, "bread", materials=TEXT)
    [fields] = (await read_app_documents(app, f"{STORED}/documents")).values()
    assert fields["profile"] == {
        "model": embedder.model,
        "dimension": embedder.dimension,
        "analysis": ANALYZER_VERSION,
    }
    [part] = (await read_app_documents(app, f"{STORED}/parts")).values()
    assert part["embedding_model"] == embedder.model
