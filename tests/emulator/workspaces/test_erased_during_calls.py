"""A workspace that is partly erased, or erased during a call, returns none of its contents.

A workspace contains the texts that a user uploads for one purpose. An erasure first marks the
workspace, and then deletes the documents page by page.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from shared.ai.embedding import Purpose, Vector
from shared.core.settings import Settings
from shared.firestore.queries import Query
from shared.runtime.context import App
from tests.support.clock import SettableClock
from tests.support.database_dump import find_orphans, read_all_documents
from tests.support.fakes.embedder import WordEmbedder
from tests.support.jobs import make_job_context
from tests.support.materials import (
    BREAD,
    COMET,
    MAST,
    TEXT,
    call_extract,
    extract_error,
    extract_result,
)
from tests.support.workspaces import (
    QUESTION,
    erase_workspace,
    make_erasure,
    open_workspace,
    open_workspace_app,
    read_write_times,
    upload_text,
)

UNKNOWN_DOCUMENT = "0" * 32
"""The id of a document that never existed."""


class ErasingEmbedder(WordEmbedder):
    """An embedder that erases the workspace `notes` when it first embeds for a purpose.

    Attributes:
        has_erased: Whether it has has_erased so. A test sets it to prevent the erasure.
    """

    def __init__(self, purpose: Purpose, settings: Settings) -> None:
        super().__init__()
        self._purpose = purpose
        self._settings = settings
        self.has_erased = False

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:
        if purpose is self._purpose and not self.has_erased:
            self.has_erased = True
            async with open_workspace_app(self._settings, SettableClock()) as other_app:
                await erase_workspace(make_job_context(other_app), "notes")
        return await super().embed(texts, purpose)


@pytest.fixture
async def app(settings: Settings) -> AsyncIterator[App]:
    """An app with an embedder that compares words."""
    async with open_workspace_app(settings, SettableClock()) as app:
        yield app


async def test_a_partly_erased_workspace_is_not_found(app: App) -> None:
    document = (await upload_text(app, "notes"))["document"]
    assert await make_erasure(make_job_context(app), "notes").begin()
    for scope in ("materials", "task"):
        arguments: Any = {"scope": scope, "task_id": "notes"}
        error = await extract_error(app, QUESTION, document=document, **arguments)
        assert error.code == "NOT_FOUND"
        unknown = await extract_error(app, QUESTION, document=UNKNOWN_DOCUMENT, **arguments)
        assert error == unknown

    error = await extract_error(app, QUESTION, scope="task", task_id="notes")
    unknown = await extract_error(app, QUESTION, scope="task", task_id="never")
    assert error.message == unknown.message.replace("never", "notes")


@pytest.mark.parametrize("text", [TEXT, BREAD])
async def test_an_upload_finishes_an_erasure_first(app: App, text: str) -> None:
    erased_document = (await upload_text(app, "notes", COMET))["document"]
    await upload_text(app, "notes")
    ctx = make_job_context(app)
    assert await make_erasure(ctx, "notes").begin()

    passages = text.split("\n\n")
    result = await upload_text(app, "notes", text)
    assert result["known"] is False
    assert result["considered"] == len(passages)

    result = await extract_result(app, QUESTION, scope="task", task_id="notes", top_k=20)
    assert sorted(result["contexts"]) == sorted(passages)
    error = await extract_error(app, QUESTION, document=erased_document, task_id="notes")
    assert error.code == "NOT_FOUND"
    assert find_orphans(await read_all_documents(ctx.database.connection.client)) == []
    # The workspace, the document and its two parts are stored with the passages.
    assert len(await read_write_times(ctx, "users/")) == 1 + 1 + 2 + len(passages)


async def test_an_upload_that_is_erased_meanwhile_leaves_nothing(settings: Settings) -> None:
    embedder = ErasingEmbedder(Purpose.DOCUMENT, settings)
    app = App(settings, embedder=embedder)
    error = await extract_error(app, QUESTION, materials=TEXT, task_id="notes")
    assert embedder.has_erased
    assert error.code == "CONFLICT"
    assert await read_write_times(make_job_context(app), "users/") == {}
    assert (await upload_text(app, "notes"))["contexts"][0] == MAST
    await app.aclose()


@pytest.mark.parametrize("target", ["document", "materials", "scope"])
async def test_a_search_during_an_erasure_is_whole_or_not_found(
    settings: Settings, target: str
) -> None:
    embedder = ErasingEmbedder(Purpose.QUERY, settings)
    embedder.has_erased = True
    app = App(settings, embedder=embedder)
    document = (await upload_text(app, "notes"))["document"]
    embedder.has_erased = False

    arguments = {"document": document, "materials": TEXT, "scope": "task"}
    options: dict[str, Any] = {target: arguments[target], "task_id": "notes", "top_k": 20}
    answer = await call_extract(app, "What happened to the mast?", **options)
    assert embedder.has_erased
    await app.aclose()
    if answer.error:
        assert answer.error.code in {"NOT_FOUND", "CONFLICT"}
    else:
        assert answer.result
        assert sorted(answer.result["contexts"]) == sorted(TEXT.split("\n\n"))


async def test_no_answer_is_stored_for_an_erased_workspace(settings: Settings) -> None:
    embedder = ErasingEmbedder(Purpose.QUERY, settings)
    app = App(settings, embedder=embedder)
    await call_extract(app, QUESTION, materials=TEXT, task_id="notes", idempotency_key="one")
    assert embedder.has_erased
    paths = await read_write_times(make_job_context(app), "users/")
    await app.aclose()
    assert paths == {}


@pytest.mark.parametrize("deleted_pages", [1, 2, 3])
async def test_an_erasure_does_not_delete_a_later_upload(app: App, deleted_pages: int) -> None:
    await upload_text(app, "notes", idempotency_key="one")
    ctx = make_job_context(app)
    erasure = make_erasure(ctx, "notes")
    assert await erasure.begin()
    pages = aiter(erasure.delete_pages())
    for _ in range(deleted_pages):
        await anext(pages)

    result = await upload_text(app, "notes", idempotency_key="two")
    assert not result["known"]
    times_before = await read_write_times(ctx, "users/")
    assert [deleted async for deleted in pages if deleted.total()] == []
    assert await read_write_times(ctx, "users/") == times_before


BATCH_SIZE = 32
"""The number of passages that are embedded at a time."""


class OvertakenEmbedder(WordEmbedder):
    """An embedder that, during the third batch, erases the workspace and begins another upload.

    The other upload has no working embedder, so it ends before it is complete.
    """

    def __init__(self, settings: Settings, text: str) -> None:
        super().__init__()
        self._settings = settings
        self._text = text
        self.batches = 0

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:
        self.batches += purpose is Purpose.DOCUMENT
        if self.batches == 3 and purpose is Purpose.DOCUMENT:
            clock = SettableClock()
            async with open_workspace_app(
                self._settings, clock, embedder_is_down=True
            ) as other_app:
                ctx = make_job_context(other_app)
                passages = Query(f"{open_workspace(ctx, 'notes').path}/passages")
                while await ctx.database.count(passages.select([])) < 2 * BATCH_SIZE:
                    pass
                await erase_workspace(ctx, "notes")
                error = await extract_error(
                    other_app, QUESTION, materials=self._text, task_id="notes"
                )
                assert error.code == "UNAVAILABLE"
        return await super().embed(texts, purpose)


async def test_an_erased_and_repeated_upload_is_never_half_visible(settings: Settings) -> None:
    text = "\n\n".join(f"Passage {number} is like no other." for number in range(3 * BATCH_SIZE))
    embedder = OvertakenEmbedder(settings, text)
    app = App(settings, embedder=embedder)
    await call_extract(app, QUESTION, materials=text, task_id="notes")
    assert embedder.batches == 3
    answer = await call_extract(app, "passage 3", scope="task", task_id="notes", top_k=20)
    paths = await read_write_times(make_job_context(app))
    await app.aclose()
    passages = [path for path in paths if "/passages/" in path]
    assert answer.result is None or len(passages) == 3 * BATCH_SIZE
