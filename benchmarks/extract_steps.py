"""Where `extract_key_info` spends its time beside embedding: the product's steps by themselves.

It is a part of `benchmarks.extract`. Each is done three times, nothing beside it; the median
counts.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING, Final, TypeVar

from benchmarks.extract_set import claims
from functions.tools.workspaces.extract_key_info.corpus import corpus_in_memory, stored_corpus
from functions.tools.workspaces.extract_key_info.intake import Intake, current_making, cut
from functions.tools.workspaces.extract_key_info.ranking import rank_passages
from shared.ai.embedding import Purpose
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.index.embedding_space import EmbeddingSpace
from shared.search.candidates import DENSE_POOL, LEXICAL_POOL
from shared.text.passages import CUTTING, cleaned, split_passages
from shared.text.terms import terms
from shared.workspaces.embedding import BATCH, keep_passages
from shared.workspaces.model import Material, Part, Status, id_of, parts_of
from shared.workspaces.repository import Materials

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from shared.runtime.context import App, Context
    from shared.workspaces.model import Cut

TIMES: Final = 3
TOP: Final = 5

ResultT = TypeVar("ResultT")


@dataclass(slots=True)
class Watch:
    """Measures steps.

    Attributes:
        taken: What each took, in ms.
    """

    taken: dict[str, float] = field(default_factory=dict)

    def of(self, name: str, work: Callable[[], ResultT]) -> ResultT:
        """Do something some times; return what came of it last."""
        took = []
        for _ in range(TIMES):
            began = time.perf_counter()
            result = work()
            took.append(time.perf_counter() - began)
        self.taken[name] = median(took) * 1000
        return result

    async def waiting(self, name: str, work: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """The same of something to wait for."""
        took = []
        for _ in range(TIMES):
            began = time.perf_counter()
            result = await work()
            took.append(time.perf_counter() - began)
        self.taken[name] = median(took) * 1000
        return result


async def taken(text: str, cuts: Sequence[Cut], ctx: Context) -> Intake:
    """Materials with everything that is stored of them, before any of it is."""
    parts = parts_of(cuts)
    texts = {each.passage_id: each.cleaned for each in cuts}
    made = await ctx.embedder.embed(list(texts.values()), Purpose.DOCUMENT)
    material = Material(
        document_id=id_of(text),
        arrival="bench",
        status=Status.ARRIVING,
        making=current_making(ctx),
        passage_characters=ctx.settings.extract_passage_characters,
        cutting=CUTTING,
        characters=len(text),
        passages=len(texts),
        parts=len(parts),
        brought_at=ctx.clock(),
    )
    return Intake(material, parts, texts, dict(zip(texts, made, strict=True)))


async def steps(text: str, app: App) -> dict[str, float]:
    """What each step takes, in ms; what follows a colon is a part of what stands before it."""
    watch = Watch()
    ctx = app.context(Caller.of(f"walker-{len(text)}"), Meter())
    await EmbeddingSpace(ctx.database).claim(ctx.embedder)
    cuts = _in_memory(text, ctx.settings.extract_passage_characters, watch)
    materials = await taken(text, cuts, ctx)
    store = Materials(ctx.database, str(ctx.caller.user_id), "default")
    await _store(materials, store, ctx, watch)
    await _rank(materials, store, ctx, watch)
    return watch.taken


def _in_memory(text: str, most: int, watch: Watch) -> list[Cut]:
    cuts = watch.of("cut", lambda: cut(text, most))
    spans = watch.of("cut: find the passages", lambda: split_passages(text, most))
    found = [text[span.start : span.end] for span in spans]
    watch.of("cut: clean and hash", lambda: [id_of(cleaned(each)) for each in found])
    watch.of("cut: terms", lambda: [terms(each) for each in found])
    parts = watch.of("put into parts", lambda: parts_of(cuts))
    kept = watch.of("parts to bytes, compressed", lambda: [part.to_bytes() for part in parts])
    watch.of("parts from bytes", lambda: [Part.from_bytes(each) for each in kept])
    return cuts


async def _store(materials: Intake, store: Materials, ctx: Context, watch: Watch) -> None:
    material = materials.material
    standing = await store.look(material.document_id)
    await ctx.database.commit(store.begin(standing, material, ctx.clock()))
    await watch.waiting("store the parts", lambda: store.keep_parts(material, materials.parts))

    async def keep() -> None:
        names = list(materials.texts)
        for start in range(0, len(names), BATCH):
            block = {name: materials.texts[name] for name in names[start : start + BATCH]}
            await store.keep_passages(material, block, materials.vectors)

    await watch.waiting("store the passages", keep)
    without = lambda: keep_passages(materials.texts, material, store)  # noqa: E731 - like the others
    await watch.waiting("store them as known, without vectors", without)
    names = list(materials.texts)
    await watch.waiting("read the vectors of all", lambda: store.stored_passages(names, material))


async def _rank(materials: Intake, store: Materials, ctx: Context, watch: Watch) -> None:
    query = next(claims())
    vector = await ctx.query_vector(query)
    material = replace(materials.material, status=Status.READY)
    held = corpus_in_memory(material, materials.parts, materials.texts, materials.vectors)
    await watch.waiting("rank in memory", lambda: rank_passages(query, held, TOP, ctx))
    kept = stored_corpus([material], store)
    await watch.waiting("rank from the store", lambda: rank_passages(query, kept, TOP, ctx))
    await watch.waiting("from the store: read the parts", lambda: store.parts([material]))
    passages, others = store.searched([material]), list(materials.texts)[-LEXICAL_POOL:]
    await watch.waiting(
        "from the store: the nearest 50", lambda: passages.nearest(vector, DENSE_POOL)
    )
    await watch.waiting(
        "from the store: compare 30 more", lambda: passages.similarities(vector, others)
    )
