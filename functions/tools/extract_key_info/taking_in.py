"""Taking materials in: cut, embed what is new, store, and make visible by one last write.

Each step can be done again and changes nothing then. A call that died leaves passages that nobody
finds; bringing the same materials again finds them stored, and goes on from there.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from functions.tools.extract_key_info.cutting import cut
from functions.tools.extract_key_info.invalid import invalid
from functions.tools.extract_key_info.pace import Pace
from shared.domain.contents import parts_of, refusal
from shared.domain.material import Making, Material, Status
from shared.materials.embedding import RefusedPassage, embed_passages, keep_passages
from shared.retrieval.terms import ANALYSIS
from shared.store.database import Stale
from shared.store.materials import Erased

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from shared.ai.embedding import Vector
    from shared.deps import Deps
    from shared.domain.contents import Part
    from shared.store.materials import Materials, Standing


@dataclass(frozen=True, slots=True)
class Taken:
    """Materials that are stored.

    Attributes:
        material: What is known of them.
        parts: Their contents.
        texts: The cleaned texts of their passages, by id.
        vectors: The vectors of all of them, or of as many as there was time for.
        seconds_left: How long embedding the others may take.
        is_left: Whether this call has left the others to a job.
    """

    material: Material
    parts: Sequence[Part]
    texts: Mapping[str, str]
    vectors: Mapping[str, Vector]
    seconds_left: float = 0.0
    is_left: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether each passage has its vector."""
        return len(self.vectors) == len(self.texts)


def making(deps: Deps) -> Making:
    """What passages are made with now."""
    return Making(
        model=deps.embedder.model,
        dimension=deps.embedder.dimension,
        analysis=ANALYSIS,
    )


async def take_in(text: str, document_id: str, store: Materials, deps: Deps) -> Taken:
    """Store materials, and embed what is new of them if the time allows; else leave that to a job.

    Six round trips and one for each 32 passages, most of them while others are being embedded.

    Raises:
        InvalidInput: They hold no text, too many passages, or one that the model refuses.
        Unavailable: The embedding provider or the database is down: what was done is kept.
        Conflict: They were erased meanwhile.
    """
    cuts = await asyncio.to_thread(cut, text, deps.settings.extract_passage_characters)
    parts = await asyncio.to_thread(parts_of, cuts)
    texts = {each.passage_id: each.cleaned for each in cuts}
    material = Material(
        document_id=document_id,
        arrival=secrets.token_hex(8),
        status=Status.ARRIVING,
        making=making(deps),
        passage_characters=deps.settings.extract_passage_characters,
        characters=len(text),
        passages=len(texts),
        parts=len(parts),
        brought_at=deps.clock(),
    )
    await deps.store.embedding_space.claim(deps.embedder)
    with _explained(parts):
        standing = await _begin(material, store, deps)
        material = standing.material or material
        known = await _known(standing, list(texts), material.making, store)
        await store.keep_parts(material, parts)
        return await _embedded(Taken(material, parts, texts, known), store, deps)


async def go_on(material: Material, store: Materials, deps: Deps) -> Taken:
    """Embed what a job has not embedded yet, for as long as the time allows.

    From the end on: the job begins at the beginning.

    Raises:
        InvalidInput: The model refuses a passage.
        Unavailable: The embedding provider or the database is down: what was done is kept.
        Conflict: They were erased meanwhile.
    """
    parts = (await store.parts([material]))[material.document_id]
    names = [name for part in reversed(parts) for name in reversed(part.ids)]
    texts = await store.without_vector(names, material.making)
    pace = Pace(texts, deps.deadline)
    with _explained(parts):
        made = await embed_passages(texts, material, store, deps, pace.has_time_for_more)
        taken = Taken(material, parts, texts, made, pace.seconds_left)
        return await _finished(taken, store, deps)


@contextmanager
def _explained(parts: Sequence[Part]) -> Iterator[None]:
    """Say in words what keeps materials from being taken in."""
    try:
        yield
    except RefusedPassage as error:
        raise invalid("materials", refusal(parts, error.passage_id)) from None


async def _begin(material: Material, store: Materials, deps: Deps) -> Standing:
    """Announce the materials, unless that was done; finish what somebody began to erase."""

    async def attempt() -> Standing:
        standing = await store.look(material.document_id)
        if standing.task.erasing:
            async for _ in deps.store.material_erasure(store).pages():
                pass
            raise Stale("The task was being erased.")
        if standing.material and _is_made_alike(standing.material, material):
            await deps.store.database.commit_what_holds(store.touch(standing.task, deps.clock()))
            return standing
        await deps.store.database.commit(store.begin(standing, material, deps.clock()))
        return replace(standing, material=material)

    return await deps.store.database.until_it_holds(attempt)


def _is_made_alike(one: Material, other: Material) -> bool:
    return (one.making, one.passage_characters) == (other.making, other.passage_characters)


async def _known(
    standing: Standing, passage_ids: Sequence[str], made: Making, store: Materials
) -> dict[str, Vector]:
    """The vectors that other materials of the task brought, or an earlier call for these."""
    return await store.vectors(passage_ids, made) if standing.task.touched_at else {}


async def _embedded(taken: Taken, store: Materials, deps: Deps) -> Taken:
    """Embed and store what is new, and store the rest without vectors."""
    material = taken.material
    old = {name: text for name, text in taken.texts.items() if name in taken.vectors}
    new = {name: text for name, text in taken.texts.items() if name not in taken.vectors}
    await keep_passages(old, {}, material, store)
    pace = Pace(new, deps.deadline)
    made: dict[str, Vector] = {}
    if material.characters <= deps.settings.extract_materials_characters:
        made = await embed_passages(new, material, store, deps, pace.has_time_for_all)
    rest = {name: text for name, text in new.items() if name not in made}
    await keep_passages(rest, {}, material, store)
    vectors = {**taken.vectors, **made}
    return await _finished(
        replace(taken, vectors=vectors, seconds_left=pace.seconds_left), store, deps
    )


async def _finished(taken: Taken, store: Materials, deps: Deps) -> Taken:
    """The last write: what is complete can be found; what is not waits for a job."""
    if taken.is_whole:
        await store.change(taken.material, status=Status.READY.value)
        return replace(taken, material=replace(taken.material, status=Status.READY))

    this_call = secrets.token_hex(8)

    async def attempt() -> Taken:
        standing = await store.look(taken.material.document_id)
        material = standing.material
        if material is None or material.arrival != taken.material.arrival:
            raise Erased("These materials were erased while they were asked. Bring them again.")
        if material.status is Status.ARRIVING:
            await deps.store.database.commit([store.left_to_a_job(standing, this_call)])
            material = replace(material, status=Status.WAITING, prepaid=this_call)
        return replace(taken, material=material, is_left=material.prepaid == this_call)

    return await deps.store.database.until_it_holds(attempt)
