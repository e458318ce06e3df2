"""Taking materials in: cut, embed what is new, store, and make visible by one last write.

Each step can be done again and changes nothing then. A call that died leaves passages that nobody
finds; bringing the same materials again finds them stored, and goes on from there.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from functions.tools.workspaces.extract_key_info.cutting import cut
from functions.tools.workspaces.extract_key_info.invalid import invalid
from functions.tools.workspaces.extract_key_info.pace import Pace
from shared.core.errors import CarrelError
from shared.firestore.database import Stale
from shared.index.embedding_space import EmbeddingSpace
from shared.text.passages import CUTTING
from shared.text.terms import ANALYSIS
from shared.workspaces.embedding import (
    RefusedPassage,
    embed_passages,
    embed_waiting,
    keep_passages,
)
from shared.workspaces.erasure import MaterialErasure
from shared.workspaces.model import Making, Material, Status, parts_of, refusal
from shared.workspaces.repository import Known

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from shared.ai.embedding import Vector
    from shared.runtime.context import Deps
    from shared.workspaces.model import Part
    from shared.workspaces.repository import Materials, Standing


@dataclass(frozen=True, slots=True)
class Taken:
    """Materials that are stored.

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


def making(deps: Deps) -> Making:
    """What passages are made with now."""
    return Making(
        model=deps.embedder.model,
        dimension=deps.embedder.dimension,
        analysis=ANALYSIS,
    )


async def take_in(text: str, document_id: str, store: Materials, deps: Deps) -> Taken:
    """Store materials, and embed what is new of them if the time allows; else leave that to a job.

    Seven round trips and one for each 32 passages, most of them while others are being embedded.

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
        cutting=CUTTING,
        characters=len(text),
        passages=len(texts),
        parts=len(parts),
        brought_at=deps.clock(),
    )
    await EmbeddingSpace(deps.database).claim(deps.embedder)
    with _explained(parts):
        standing = await _begin(material, store, deps)
        material = standing.material or material
        known = Known({}, frozenset())
        if standing.task.touched_at:  # else nothing is
            known = await store.known(list(texts), material)
        await store.keep_parts(material, parts)
        return await _embedded(Taken(material, parts, texts, known.vectors), known, store, deps)


async def go_on(standing: Standing, store: Materials, deps: Deps) -> Taken:
    """Embed what a job has not embedded yet, for as long as the time allows: one call at a time.

    From the end on: the job begins at the beginning.

    Raises:
        InvalidInput: The model refuses a passage.
        Unavailable: The embedding provider or the database is down: what was done is kept.
        Erased: They were, meanwhile.
    """
    material = standing.material
    if material is None:
        raise ValueError("nothing is known of these materials")
    parts = await store.contents(material)
    names = [name for part in reversed(parts) for name in reversed(part.ids)]
    pace = Pace(len(names), deps.deadline)
    if await _taken_on(standing, material, store, deps):
        try:
            with _explained(parts):
                whole = await embed_waiting(
                    names, material, store, deps, goes_on=pace.has_time_for_more
                )
        except CarrelError:
            with suppress(CarrelError):  # it ends with the call's time in any case
                await store.change(material, worked_until=None)
            raise
        material = replace(material, status=Status.READY if whole else Status.WAITING)
        done = {"status": material.status.value} if whole else {}
        await store.change(material, worked_until=None, **done)
    return Taken(material, parts, {}, {}, pace.seconds_left)


async def _taken_on(standing: Standing, material: Material, store: Materials, deps: Deps) -> bool:
    """Say that this call embeds what waits, unless another one does."""
    now = deps.clock()
    if material.worked_until and now < material.worked_until:
        return False
    seconds = deps.deadline - time.time() if deps.deadline else 0.0
    until = now + timedelta(seconds=max(0.0, seconds))
    try:
        await deps.database.commit([store.taken_on(standing, until)])
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


async def _begin(material: Material, store: Materials, deps: Deps) -> Standing:
    """Announce the materials, unless that was done; finish what somebody began to erase."""

    async def attempt() -> Standing:
        standing = await store.look(material.document_id)
        if standing.task.erasing:
            return standing
        if standing.material and _is_made_alike(standing.material, material):
            await deps.database.commit_what_holds(store.touch(standing.task, deps.clock()))
            return standing
        await deps.database.commit(store.begin(standing, material, deps.clock()))
        return replace(standing, material=material)

    while (standing := await deps.database.until_it_holds(attempt)).task.erasing:
        async for _ in MaterialErasure(deps.database, store).pages():
            pass
    return standing


def _is_made_alike(one: Material, other: Material) -> bool:
    return one.making == other.making and _cut_of(one) == _cut_of(other)


def _cut_of(material: Material) -> tuple[int, ...]:
    return material.passage_characters, material.cutting, material.passages, material.parts


async def _embedded(taken: Taken, known: Known, store: Materials, deps: Deps) -> Taken:
    """Embed and store what is new; store the rest without vectors, unless that was done before."""
    material, vectors = taken.material, dict(taken.vectors)
    new = {name: text for name, text in taken.texts.items() if name not in vectors}
    pace = Pace(len(new), deps.deadline)
    made: dict[str, Vector] = {}
    if material.characters <= deps.settings.extract_materials_characters:
        made = await embed_passages(new, material, store, deps, goes_on=pace.has_time_for_all)
    rest = taken.texts.keys() - made.keys() - known.held
    texts = {name: text for name, text in taken.texts.items() if name in rest}
    await keep_passages(texts, material, store)
    done = replace(taken, vectors=vectors | made, seconds_left=pace.seconds_left)
    return await _finished(done, store)


async def _finished(taken: Taken, store: Materials) -> Taken:
    """The last write, if all is there: from now on they can be found."""
    if not taken.is_whole:
        return taken
    await store.change(taken.material, status=Status.READY.value)
    return replace(taken, material=replace(taken.material, status=Status.READY))
