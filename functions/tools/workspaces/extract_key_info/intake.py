"""Taking materials in: cut, embed what is new, store, and make visible by one last write.

Each step can be done again and changes nothing then. A call that died leaves passages that nobody
finds; bringing the same materials again finds them stored, and goes on from there.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from functions.tools.workspaces.extract_key_info.arguments import invalid
from shared.core.errors import CarrelError
from shared.firestore.database import Stale
from shared.index.embedding_space import EmbeddingSpace
from shared.text.passages import CUTTING, cleaned, split_passages
from shared.text.terms import ANALYSIS, terms
from shared.workspaces.embedding import (
    BATCH,
    RefusedPassage,
    embed_passages,
    embed_waiting,
    keep_passages,
)
from shared.workspaces.erasure import MaterialErasure
from shared.workspaces.model import Cut, Making, Material, Status, id_of, parts_of, refusal
from shared.workspaces.repository import StoredPassages

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from shared.ai.embedding import Vector
    from shared.runtime.context import Context
    from shared.workspaces.model import Part
    from shared.workspaces.repository import MaterialRecord, Materials


MOST_PASSAGES: Final = 10_000
"""Different passages in one text; each is embedded and stored."""
MOST_PLACES: Final = 100_000
"""Passages in one text, repeats included."""
MEASURED_SECONDS: Final = 1.0
"""How long to embed before the pace tells anything: a model may load first."""
RESERVE: Final = 0.2
"""The share of a call's time that is kept for storing and ranking."""
GUESSED_SECONDS: Final = 0.08
"""For a passage, where nothing was measured: about what the local model takes."""


@dataclass(frozen=True, slots=True)
class Intake:
    """Materials that were just stored.

    Attributes:
        material: What is known of them.
        parts: Their contents.
        texts: The cleaned texts of their passages, by id.
        vectors: The vectors of all of them, or of as many as there was time for.
        seconds_left: How long embedding the others may take.
    """

    material: Material
    parts: Sequence[Part]
    texts: Mapping[str, str]
    vectors: Mapping[str, Vector]
    seconds_left: float = 0.0

    @property
    def is_whole(self) -> bool:
        """Whether each passage has its vector."""
        return len(self.vectors) == len(self.texts)


def current_making(ctx: Context) -> Making:
    """What passages are made with now."""
    return Making(
        model=ctx.embedder.model,
        dimension=ctx.embedder.dimension,
        analysis=ANALYSIS,
    )


async def take_in(text: str, record: MaterialRecord, store: Materials, ctx: Context) -> Intake:
    """Store materials, and embed what is new of them if the time allows; else leave that to a job.

    Six round trips and one for each 32 passages, most of them while others are being embedded.

    Args:
        text: The materials.
        record: What is stored of them so far.
        store: The materials of their task.
        ctx: With what to embed.

    Raises:
        InvalidInput: They hold no text, too many passages, or one that the model refuses.
        Unavailable: The embedding provider or the database is down: what was done is kept.
        Conflict: They were erased meanwhile.
    """
    cuts = await asyncio.to_thread(cut, text, ctx.settings.extract_passage_characters)
    parts = await asyncio.to_thread(parts_of, cuts)
    texts = {passage.passage_id: passage.cleaned for passage in cuts}
    material = Material(
        document_id=id_of(text),
        arrival=secrets.token_hex(8),
        status=Status.ARRIVING,
        making=current_making(ctx),
        passage_characters=ctx.settings.extract_passage_characters,
        cutting=CUTTING,
        characters=len(text),
        passages=len(texts),
        parts=len(parts),
        brought_at=ctx.clock(),
    )
    await EmbeddingSpace(ctx.database).claim(ctx.embedder)
    with _explained(parts):
        record = await _begin(material, record, store, ctx)
        material = record.material or material
        stored = StoredPassages({}, frozenset())
        if record.task.touched_at:  # else nothing is
            stored = await store.stored_passages(list(texts), material)
        await store.keep_parts(material, parts)
        return await _embedded(Intake(material, parts, texts, stored.vectors), stored, store, ctx)


async def resume(record: MaterialRecord, store: Materials, ctx: Context) -> Intake:
    """Embed what a job has not embedded yet, for as long as the time allows: one call at a time.

    From the end on: the job begins at the beginning.

    Raises:
        InvalidInput: The model refuses a passage.
        Unavailable: The embedding provider or the database is down: what was done is kept.
        Erased: They were, meanwhile.
    """
    material = record.material
    if material is None:
        raise ValueError("nothing is known of these materials")
    parts = await store.contents(material)
    names = [name for part in reversed(parts) for name in reversed(part.ids)]
    pace = Pace(len(names), ctx.deadline)
    if await _take_on(record, material, store, ctx):
        try:
            with _explained(parts):
                whole = await embed_waiting(
                    names, material, store, ctx, goes_on=pace.has_time_for_more
                )
        except CarrelError:
            with suppress(CarrelError):  # it ends with the call's time in any case
                await store.change(material, worked_until=None)
            raise
        material = replace(material, status=Status.READY if whole else Status.WAITING)
        done = {"status": material.status.value} if whole else {}
        await store.change(material, worked_until=None, **done)
    return Intake(material, parts, {}, {}, pace.seconds_left)


async def _take_on(
    record: MaterialRecord, material: Material, store: Materials, ctx: Context
) -> bool:
    """Say that this call embeds what waits, unless another one does."""
    now = ctx.clock()
    if material.worked_until and now < material.worked_until:
        return False
    seconds = ctx.deadline - time.time() if ctx.deadline else 0.0
    until = now + timedelta(seconds=max(0.0, seconds))
    try:
        await ctx.database.commit([store.taken_on(record, until)])
    except Stale:  # another was faster, or it was us, and the first answer was lost
        present = (await store.look(material.document_id)).material
        return present is not None and present.worked_until == until
    return True


@contextmanager
def _explained(parts: Sequence[Part]) -> Iterator[None]:
    """Say in words what keeps materials from being taken in."""
    try:
        yield
    except RefusedPassage as error:
        raise invalid("materials", refusal(parts, error.passage_id)) from None


async def _begin(
    material: Material, record: MaterialRecord | None, store: Materials, ctx: Context
) -> MaterialRecord:
    """Announce the materials, unless that was done; finish what somebody began to erase."""

    async def attempt() -> MaterialRecord:
        nonlocal record
        latest, record = record or await store.look(material.document_id), None
        if latest.task.erasing:
            return latest
        if latest.material and _is_made_alike(latest.material, material):
            await ctx.database.commit_what_holds(store.touch(latest.task, ctx.clock()))
            return latest
        await ctx.database.commit(store.begin(latest, material, ctx.clock()))
        return replace(latest, material=material)

    while (latest := await ctx.database.until_it_holds(attempt)).task.erasing:
        async for _ in MaterialErasure(ctx.database, store).pages():
            pass
    return latest


def _is_made_alike(one: Material, other: Material) -> bool:
    return one.making == other.making and _cut_of(one) == _cut_of(other)


def _cut_of(material: Material) -> tuple[int, ...]:
    return material.passage_characters, material.cutting, material.passages, material.parts


async def _embedded(
    intake: Intake, stored: StoredPassages, store: Materials, ctx: Context
) -> Intake:
    """Embed and store what is new; store the rest without vectors, unless that was done before."""
    material, vectors = intake.material, dict(intake.vectors)
    new = {name: text for name, text in intake.texts.items() if name not in vectors}
    pace = Pace(len(new), ctx.deadline)
    made: dict[str, Vector] = {}
    if material.characters <= ctx.settings.extract_materials_characters:
        made = await embed_passages(new, material, store, ctx, goes_on=pace.has_time_for_all)
    rest = intake.texts.keys() - made.keys() - stored.ids
    texts = {name: text for name, text in intake.texts.items() if name in rest}
    await keep_passages(texts, material, store)
    done = replace(intake, vectors=vectors | made, seconds_left=pace.seconds_left)
    return await _finished(done, store)


async def _finished(intake: Intake, store: Materials) -> Intake:
    """The last write, if all is there: from now on they can be found."""
    if not intake.is_whole:
        return intake
    await store.change(intake.material, status=Status.READY.value)
    return replace(intake, material=replace(intake.material, status=Status.READY))


def cut(materials: str, most: int) -> list[Cut]:
    """Cut materials into passages of at most so many characters; each where it first stands.

    It takes about 0.1 s for each 100,000 characters.

    Raises:
        InvalidInput: There is no text in them, or more than anybody reads.
    """
    cuts: dict[str, Cut] = {}
    spans = split_passages(materials, most)
    _require_few(len(spans), MOST_PLACES)
    for position, span in enumerate(spans, 1):
        text = materials[span.start : span.end]
        clean = cleaned(text)
        passage_id = id_of(clean)
        if clean and passage_id not in cuts:
            counts = Counter(terms(clean))
            cuts[passage_id] = Cut(passage_id, position, span.start, span.end, text, clean, counts)
            _require_few(len(cuts), MOST_PASSAGES)
    if not cuts:
        raise invalid("materials", "hold no text, only white space or control characters")
    return list(cuts.values())


def _require_few(passages: int, most: int) -> None:
    if passages > most:
        raise invalid(
            "materials",
            f"have more than {most:,} passages, which blank lines part: bring"
            " them in several calls with one task_id, and ask with scope task",
        )


class Pace:
    """Measures while passages are embedded.

    Attributes:
        seconds_left: How long the passages that are left will take, as far as is known.
    """

    def __init__(self, passages: int, deadline: float | None) -> None:
        """Begin to measure.

        Args:
            passages: How many there are.
            deadline: Unix time after which nobody waits; None: there is time.
        """
        self.seconds_left = passages * GUESSED_SECONDS
        self._began = time.monotonic()
        seconds = float("inf") if deadline is None else deadline - time.time()
        self._over = self._began + seconds * (1 - RESERVE)
        self._batches = 0

    def has_time_for_all(self, left: int) -> bool:
        """Whether all that is left can be embedded in time: better said at once than in the end."""
        now, each = self._measure()
        self.seconds_left = left * each
        return now - self._began < MEASURED_SECONDS or now + self.seconds_left < self._over

    def has_time_for_more(self, left: int) -> bool:
        """Whether there is time for another batch."""
        now, each = self._measure()
        self.seconds_left = left * each
        return now + BATCH * each < self._over

    def _measure(self) -> tuple[float, float]:
        """The time, and how long a passage takes; asked once for each batch."""
        now, done = time.monotonic(), self._batches * BATCH
        self._batches += 1
        return now, (now - self._began) / done if done else GUESSED_SECONDS
