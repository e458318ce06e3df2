"""The time of each step of `extract_key_info` besides embedding.

This is a part of `benchmarks.extract`. Each step runs alone, three times; the median is reported.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING, Final, TypeVar

from benchmarks.extract_dataset import iterate_claims
from functions.tools.workspaces.extract_key_info.corpus import (
    make_memory_corpus,
    make_stored_corpus,
)
from functions.tools.workspaces.extract_key_info.ranking import rank_passages
from functions.tools.workspaces.extract_key_info.upload import (
    Contents,
    get_current_profile,
    parse_passages,
)
from shared.ai.embedding import Purpose
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.index.embedding_space import EmbeddingSpace
from shared.search.candidates import DENSE_POOL, LEXICAL_POOL
from shared.text.passages import SPLITTER_VERSION, normalize_line, split_passages
from shared.text.terms import terms
from shared.workspaces.embedding import BATCH_SIZE, store_without_vectors
from shared.workspaces.model import (
    DocumentPart,
    DocumentStatus,
    WorkspaceDocument,
    build_parts,
    content_id,
)
from shared.workspaces.repository import Workspace

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from shared.runtime.context import App, Context
    from shared.workspaces.model import ParsedPassage

REPETITIONS: Final = 3
PASSAGE_COUNT: Final = 5

ResultT = TypeVar("ResultT")


@dataclass(slots=True)
class StepTimer:
    """Measures steps by name.

    Attributes:
        milliseconds: The median duration of each step.
    """

    milliseconds: dict[str, float] = field(default_factory=dict)

    def measure(self, name: str, step: Callable[[], ResultT]) -> ResultT:
        """Run a step several times, and return its last result."""
        durations = []
        for _ in range(REPETITIONS):
            started = time.perf_counter()
            result = step()
            durations.append(time.perf_counter() - started)
        self.milliseconds[name] = median(durations) * 1000
        return result

    async def measure_async(self, name: str, step: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """Run an asynchronous step several times, and return its last result."""
        durations = []
        for _ in range(REPETITIONS):
            started = time.perf_counter()
            result = await step()
            durations.append(time.perf_counter() - started)
        self.milliseconds[name] = median(durations) * 1000
        return result


async def embed_document(
    text: str, passages: Sequence[ParsedPassage], ctx: Context
) -> tuple[WorkspaceDocument, Contents]:
    """Return a document and its contents, as an upload prepares them."""
    parts = build_parts(passages)
    texts = {passage.passage_id: passage.cleaned for passage in passages}
    vectors = await ctx.embedder.embed(list(texts.values()), Purpose.DOCUMENT)
    document = WorkspaceDocument(
        document_id=content_id(text),
        upload_id="bench",
        status=DocumentStatus.ARRIVING,
        profile=get_current_profile(ctx),
        passage_characters=ctx.settings.extract_passage_characters,
        splitter=SPLITTER_VERSION,
        characters=len(text),
        passages=len(texts),
        parts=len(parts),
        uploaded_at=ctx.clock(),
    )
    return document, Contents(parts, texts, dict(zip(texts, vectors, strict=True)))


async def time_steps(text: str, app: App) -> dict[str, float]:
    """Return the milliseconds of each step by name. `parse: terms` is a part of `parse`."""
    timer = StepTimer()
    ctx = app.context(Caller.of(f"reader-{len(text)}"), Meter())
    await EmbeddingSpace(ctx.database).claim(ctx.embedder)
    passages = _time_parsing(text, ctx.settings.extract_passage_characters, timer)
    document, contents = await embed_document(text, passages, ctx)
    workspace = Workspace(ctx.database, str(ctx.caller.user_id), "default")
    await _time_storing(document, contents, workspace, ctx, timer)
    await _time_ranking(document, contents, workspace, ctx, timer)
    return timer.milliseconds


def _time_parsing(text: str, max_characters: int, timer: StepTimer) -> list[ParsedPassage]:
    passages = timer.measure("parse", lambda: parse_passages(text, max_characters))
    spans = timer.measure("parse: find the passages", lambda: split_passages(text, max_characters))
    texts = [text[span.start : span.end] for span in spans]
    timer.measure(
        "parse: clean and hash", lambda: [content_id(normalize_line(text)) for text in texts]
    )
    timer.measure("parse: terms", lambda: [terms(text) for text in texts])
    parts = timer.measure("build the parts", lambda: build_parts(passages))
    stored = timer.measure(
        "parts to bytes, compressed", lambda: [part.to_bytes() for part in parts]
    )
    timer.measure("parts from bytes", lambda: [DocumentPart.from_bytes(data) for data in stored])
    return passages


async def _time_storing(
    document: WorkspaceDocument,
    contents: Contents,
    workspace: Workspace,
    ctx: Context,
    timer: StepTimer,
) -> None:
    record = await workspace.load_document(document.document_id)
    await ctx.database.commit(workspace.build_upload_writes(record, document, ctx.clock()))
    await timer.measure_async(
        "store the parts", lambda: workspace.store_parts(document, contents.parts)
    )
    passage_ids = list(contents.texts)

    async def store() -> None:
        for start in range(0, len(passage_ids), BATCH_SIZE):
            block = {name: contents.texts[name] for name in passage_ids[start : start + BATCH_SIZE]}
            await workspace.store_passages(document, block, contents.vectors)

    await timer.measure_async("store the passages", store)
    await timer.measure_async(
        "store the passages again, without vectors",
        lambda: store_without_vectors(contents.texts, document, workspace),
    )
    await timer.measure_async(
        "read all vectors", lambda: workspace.load_stored_passages(passage_ids, document)
    )


async def _time_ranking(
    document: WorkspaceDocument,
    contents: Contents,
    workspace: Workspace,
    ctx: Context,
    timer: StepTimer,
) -> None:
    query = next(iterate_claims())
    vector = await ctx.embed_query(query)
    document = replace(document, status=DocumentStatus.READY)
    in_memory = make_memory_corpus(document, contents.parts, contents.texts, contents.vectors)
    await timer.measure_async(
        "rank in memory", lambda: rank_passages(query, in_memory, PASSAGE_COUNT, ctx)
    )
    stored = make_stored_corpus([document], workspace)
    await timer.measure_async(
        "rank from the store", lambda: rank_passages(query, stored, PASSAGE_COUNT, ctx)
    )
    await timer.measure_async(
        "from the store: read the parts", lambda: workspace.load_parts([document])
    )
    passage_index = workspace.passage_index([document])
    await timer.measure_async(
        "from the store: the nearest 50", lambda: passage_index.find_nearest(vector, DENSE_POOL)
    )
    lexical_candidates = list(contents.texts)[-LEXICAL_POOL:]
    await timer.measure_async(
        "from the store: compare 30 more",
        lambda: passage_index.measure_similarities(vector, lexical_candidates),
    )
