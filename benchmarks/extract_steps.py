"""The time of each step of `extract_key_info` besides embedding.

It is a part of `benchmarks.extract`. Each step runs three times, alone; the result is the median.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING, Final, TypeVar

from benchmarks.extract_dataset import claims
from functions.tools.workspaces.extract_key_info.corpus import corpus_in_memory, stored_corpus
from functions.tools.workspaces.extract_key_info.ranking import rank_passages
from functions.tools.workspaces.extract_key_info.upload import (
    Contents,
    current_profile,
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

TIMES: Final = 3
TOP: Final = 5

ResultT = TypeVar("ResultT")


@dataclass(slots=True)
class Watch:
    """Measures the time of steps.

    Attributes:
        taken: What each took, in ms.
    """

    taken: dict[str, float] = field(default_factory=dict)

    def of(self, name: str, work: Callable[[], ResultT]) -> ResultT:
        """Run a step several times; return its last result."""
        took = []
        for _ in range(TIMES):
            began = time.perf_counter()
            result = work()
            took.append(time.perf_counter() - began)
        self.taken[name] = median(took) * 1000
        return result

    async def waiting(self, name: str, work: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """Run an asynchronous step several times; return its last result."""
        took = []
        for _ in range(TIMES):
            began = time.perf_counter()
            result = await work()
            took.append(time.perf_counter() - began)
        self.taken[name] = median(took) * 1000
        return result


async def embedded_document(
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
        profile=current_profile(ctx),
        passage_characters=ctx.settings.extract_passage_characters,
        splitter=SPLITTER_VERSION,
        characters=len(text),
        passages=len(texts),
        parts=len(parts),
        uploaded_at=ctx.clock(),
    )
    return document, Contents(parts, texts, dict(zip(texts, vectors, strict=True)))


async def steps(text: str, app: App) -> dict[str, float]:
    """The milliseconds of each step; a name after a colon is a part of the step before it."""
    watch = Watch()
    ctx = app.context(Caller.of(f"walker-{len(text)}"), Meter())
    await EmbeddingSpace(ctx.database).claim(ctx.embedder)
    passages = _in_memory(text, ctx.settings.extract_passage_characters, watch)
    document, contents = await embedded_document(text, passages, ctx)
    workspace = Workspace(ctx.database, str(ctx.caller.user_id), "default")
    await _store(document, contents, workspace, ctx, watch)
    await _rank(document, contents, workspace, ctx, watch)
    return watch.taken


def _in_memory(text: str, max_characters: int, watch: Watch) -> list[ParsedPassage]:
    passages = watch.of("cut", lambda: parse_passages(text, max_characters))
    spans = watch.of("cut: find the passages", lambda: split_passages(text, max_characters))
    texts = [text[span.start : span.end] for span in spans]
    watch.of("cut: clean and hash", lambda: [content_id(normalize_line(text)) for text in texts])
    watch.of("cut: terms", lambda: [terms(text) for text in texts])
    parts = watch.of("put into parts", lambda: build_parts(passages))
    stored = watch.of("parts to bytes, compressed", lambda: [part.to_bytes() for part in parts])
    watch.of("parts from bytes", lambda: [DocumentPart.from_bytes(data) for data in stored])
    return passages


async def _store(
    document: WorkspaceDocument,
    contents: Contents,
    workspace: Workspace,
    ctx: Context,
    watch: Watch,
) -> None:
    record = await workspace.load_document(document.document_id)
    await ctx.database.commit(workspace.upload_writes(record, document, ctx.clock()))
    await watch.waiting("store the parts", lambda: workspace.store_parts(document, contents.parts))
    passage_ids = list(contents.texts)

    async def store() -> None:
        for start in range(0, len(passage_ids), BATCH_SIZE):
            block = {name: contents.texts[name] for name in passage_ids[start : start + BATCH_SIZE]}
            await workspace.store_passages(document, block, contents.vectors)

    await watch.waiting("store the passages", store)
    await watch.waiting(
        "store them as known, without vectors",
        lambda: store_without_vectors(contents.texts, document, workspace),
    )
    await watch.waiting(
        "read the vectors of all", lambda: workspace.load_stored_passages(passage_ids, document)
    )


async def _rank(
    document: WorkspaceDocument,
    contents: Contents,
    workspace: Workspace,
    ctx: Context,
    watch: Watch,
) -> None:
    query = next(claims())
    vector = await ctx.query_vector(query)
    document = replace(document, status=DocumentStatus.READY)
    in_memory = corpus_in_memory(document, contents.parts, contents.texts, contents.vectors)
    await watch.waiting("rank in memory", lambda: rank_passages(query, in_memory, TOP, ctx))
    stored = stored_corpus([document], workspace)
    await watch.waiting("rank from the store", lambda: rank_passages(query, stored, TOP, ctx))
    await watch.waiting("from the store: read the parts", lambda: workspace.load_parts([document]))
    passages, others = workspace.passage_index([document]), list(contents.texts)[-LEXICAL_POOL:]
    await watch.waiting(
        "from the store: the nearest 50", lambda: passages.nearest(vector, DENSE_POOL)
    )
    await watch.waiting(
        "from the store: compare 30 more", lambda: passages.similarities(vector, others)
    )
