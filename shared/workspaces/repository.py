"""Materials of a task in Firestore.

`users/{user_id}/rag_tasks/{task_id}`: the materials of a task. Nobody else has its path.

- `documents/{hash of the text}` says how far some materials have come. Its status is their last
  write: until that says `ready`, nothing of them is searched.
- `passages/{hash of the cleaned text}` is a passage, once for all materials of the task that hold
  it: their ids are among its `facets`. What it holds follows from its name, so that whoever writes
  it, and how often, writes the same.
- `parts/{document}.{arrival}.{number}` says where the passages stand in some materials, and holds
  their words (`shared.workspaces.model`). `parts/{document}.{arrival}` holds nothing: whoever
  stores something of these materials proves in the same commit that it is still there. So nothing
  is left of what was erased meanwhile, and nothing gets mixed up with what was brought anew since.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore import SERVER_TIMESTAMP, ArrayUnion
from google.cloud.firestore_v1.base_query import BaseQuery, FieldFilter
from google.cloud.firestore_v1.vector import Vector as FirestoreVector

from shared.core.errors import Conflict
from shared.firestore.codec import Codec
from shared.firestore.database import Stale
from shared.firestore.writes import put
from shared.index.vector_index import (
    MAX_ANY,
    Documents,
    Neighbour,
    distance_key,
    nearest_query,
)
from shared.workspaces.model import Making, Material, Part, Passage, Status, materials_facet

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from google.cloud.firestore import (
        AsyncClient,
        AsyncDocumentReference,
        AsyncQuery,
        DocumentSnapshot,
    )
    from google.cloud.firestore_v1.async_vector_query import AsyncVectorQuery

    from shared.ai.embedding import Vector
    from shared.firestore.database import Database, Write


_CODEC: Final = Codec(Material, readers={"status": Status, "making": Codec(Making).load})


def to_material(snapshot: DocumentSnapshot[Any]) -> Material:
    """Read what is known of materials."""
    return _CODEC.load(snapshot.to_dict() or {})


def part_names(material: Material) -> list[str]:
    """The documents of its contents, in order."""
    return [f"{material.document_id}.{material.arrival}.{n}" for n in range(material.parts)]


def to_vector(data: Mapping[str, Any], making: Making) -> Vector | None:
    """The vector of a passage, if one of this model was made."""
    found = data.get("embedding")
    if found is None or data.get("embedding_model") != making.model:
        return None
    vector = tuple(found)
    return vector if len(vector) == making.dimension else None


def of_vector(vector: Vector | None, model: str) -> dict[str, Any]:
    """A vector as fields; none leaves them as they are."""
    if vector is None:
        return {}
    return {"embedding": FirestoreVector(list(vector)), "embedding_model": model}


PASSAGES: Final = "passages"


class TaskPassages(Documents[Passage]):
    """The passages of some materials of a task."""

    def __init__(self, database: Database, path: str, materials: Sequence[Material]) -> None:
        """Look under the path of the task, among what these materials hold."""
        super().__init__(database, f"{path}/{PASSAGES}", ["text"], _to_passage)
        facets = [materials_facet(each) for each in materials]
        self._blocks = [facets[n : n + MAX_ANY] for n in range(0, len(facets), MAX_ANY)]

    async def nearest(
        self,
        vector: Vector,
        limit: int,
        facets: Sequence[str] = (),  # noqa: ARG002 - materials are searched without filters
    ) -> list[Neighbour[Passage]]:
        """The nearest of the materials' passages: one round trip, a request for 30 materials."""
        nearest = super().nearest
        found = await asyncio.gather(*(nearest(vector, limit, block) for block in self._blocks))
        by_id = {each.document.id: each for block in found for each in block}
        return sorted(by_id.values(), key=distance_key)[:limit]


def _task_passages_shapes(client: AsyncClient) -> Iterator[AsyncVectorQuery]:
    """Every query this file can build, for the proof that each has its index."""
    passages = client.collection(f"users/a/rag_tasks/b/{PASSAGES}")
    yield nearest_query(passages, ["text"], (1.0,), 1, ["document:a"])


def _to_passage(passage_id: str, data: dict[str, Any]) -> Passage:
    return Passage(passage_id, data["text"])


TASKS: Final = "rag_tasks"
DOCUMENTS: Final = "documents"
PARTS: Final = "parts"
TOUCHED_EVERY: Final = timedelta(hours=1)
"""How exact the last use of a task is known: each time costs a write."""
READ_TOGETHER: Final = 300
"""Documents that one request reads."""
MOST_DELETED: Final = 10
"""Parts that a commit deletes: Firestore counts what they hold."""
WRITTEN_TOGETHER: Final = 3
"""Parts that one commit writes: a request of 4 MiB is the most that the emulator takes."""


class Erased(Conflict):
    """Materials are not there any more for which something was to be stored."""


@dataclass(frozen=True, slots=True)
class StoredPassages:
    """What is stored of passages.

    Attributes:
        vectors: The vectors that there are, by passage id.
        ids: Those that are stored for these materials, with a vector or without.
    """

    vectors: Mapping[str, Vector]
    ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """A task as it was read.

    Attributes:
        touched_at: When it was last used; None if it is new.
        erasing: Whether somebody began to erase it.
        snapshot: Its document.
    """

    touched_at: datetime | None
    erasing: bool
    snapshot: DocumentSnapshot[Any]


@dataclass(frozen=True, slots=True)
class MaterialRecord:
    """Some materials of a task, as they were read.

    Attributes:
        task: The task.
        material: What is known of the materials; None if they never came.
        snapshot: Their document.
    """

    task: TaskRecord
    material: Material | None
    snapshot: DocumentSnapshot[Any]


class Materials:
    """The materials of one task.

    Attributes:
        user_id: Whose task it is.
        name: Where it stands below the user.
        path: Where it stands.
    """

    def __init__(self, database: Database, user_id: str, task_id: str) -> None:
        """Keep them under the path of the task."""
        self._database = database
        self._tasks = f"users/{user_id}/{TASKS}"
        self._task_id = task_id
        self.user_id = user_id
        self.name = f"{TASKS}/{task_id}"
        self.path = f"{self._tasks}/{task_id}"

    async def task(self) -> TaskRecord:
        """The task. One round trip."""
        snapshot = await self._database.get(self.task_reference)
        fields = snapshot.to_dict() or {}
        return TaskRecord(fields.get("touched_at"), fields.get("erasing", False), snapshot)

    async def look(self, document_id: str) -> MaterialRecord:
        """What is known of the task and of these materials. One round trip."""
        task, snapshot = await asyncio.gather(
            self.task(), self._database.get(self._at(DOCUMENTS, document_id))
        )
        return MaterialRecord(task, to_material(snapshot) if snapshot.exists else None, snapshot)

    async def ready(self, making: Making, limit: int) -> list[Material]:
        """What can be searched, the latest first. One round trip."""
        query = ready_query(self._database.client, self.path, making, limit)
        return [to_material(each) for each in await self._database.find(query)]

    async def waiting(self) -> int:
        """How many cannot be searched yet, as they wait for vectors. One round trip."""
        return await self._database.count(waiting_query(self._database.client, self.path))

    async def parts(self, materials: Sequence[Material]) -> dict[str, list[Part]]:
        """The contents of materials, by the id of each. One round trip."""
        names = {each.document_id: part_names(each) for each in materials}
        references = [self._at(PARTS, name) for listed in names.values() for name in listed]
        blocks = await asyncio.gather(
            *(self._database.get_all(block, ["data"]) for block in _blocks(references))
        )
        data = {each.id: each.get("data") for block in blocks for each in block}
        found = await asyncio.to_thread(lambda: {n: Part.from_bytes(d) for n, d in data.items()})
        return {
            document_id: [found[name] for name in listed if name in found]
            for document_id, listed in names.items()
        }

    async def contents(self, material: Material) -> list[Part]:
        """All parts of some materials. One round trip.

        Raises:
            Erased: Some are not there any more.
        """
        parts = (await self.parts([material]))[material.document_id]
        if len(parts) < material.parts:
            raise Erased("These materials were erased while they were asked. Bring them again.")
        return parts

    async def stored_passages(
        self, passage_ids: Sequence[str], material: Material
    ) -> StoredPassages:
        """What is stored of these passages of some materials. One round trip."""
        found = await self._passages(passage_ids, ["embedding", "embedding_model", "facets"])
        fields = {each.id: each.to_dict() or {} for each in found}
        vectors = {name: to_vector(data, material.making) for name, data in fields.items()}
        facet = materials_facet(material)
        return StoredPassages(
            {name: vector for name, vector in vectors.items() if vector},
            frozenset(name for name, data in fields.items() if facet in data.get("facets", ())),
        )

    async def without_vector(self, passage_ids: Sequence[str], making: Making) -> dict[str, str]:
        """The texts of those of these passages that still need a vector. One round trip."""
        found = await self._passages(passage_ids, ["text", "embedding", "embedding_model"])
        fields = {each.id: each.to_dict() or {} for each in found}
        return {
            name: data["text"] for name, data in fields.items() if to_vector(data, making) is None
        }

    def begin(self, record: MaterialRecord, material: Material, now: datetime) -> list[Write]:
        """The writes with which materials begin to arrive: refused if the task changed since."""
        task = {"touched_at": now}
        if record.task.touched_at is None:
            task["created_at"] = now
        proof = self._proof(material)
        if record.material:
            material = replace(material, prepaid=record.material.prepaid)
        writes = [
            put(record.task.snapshot, task),
            put(record.snapshot, _CODEC.write(material)),
            lambda batch: batch.create(proof, {"kept_at": now}),
        ]
        if record.material:  # made otherwise: whoever still works on that stops
            former = [self._proof(record.material), *self._parts(record.material)]
            writes += [_deletion(each) for each in former[:MOST_DELETED]]
        return writes

    def touch(self, task: TaskRecord, now: datetime) -> list[Write]:
        """The write that says that a task is in use; none if that was said a while ago."""
        if task.touched_at is None or now - task.touched_at < TOUCHED_EVERY:
            return []
        return [put(task.snapshot, {"touched_at": now})]

    def taken_on(self, record: MaterialRecord, until: datetime) -> Write:
        """The write that says that a call embeds what waits; refused if another was faster."""
        return put(record.snapshot, {"worked_until": until})

    def left_to_a_job(self, record: MaterialRecord, call: str, now: datetime) -> Write:
        """The write that says that materials wait for a job, and which call is paid for them."""
        waits = {"status": Status.WAITING.value, "next_at": now, "tries": 0, "reason": None}
        return put(record.snapshot, waits | {"prepaid": call})

    async def give_up(self, record: MaterialRecord, reason: str) -> None:
        """Say that materials cannot be embedded, unless they changed. One round trip."""
        failed = {"status": Status.FAILED.value, "reason": reason}
        await self._database.commit_what_holds([put(record.snapshot, failed)])

    def answered(self, record: MaterialRecord) -> Write:
        """The write that says that what was paid for was answered; it holds once."""
        return put(record.snapshot, {"prepaid": None})

    async def keep_passages(
        self, material: Material, texts: Mapping[str, str], vectors: Mapping[str, Vector]
    ) -> None:
        """Store passages of some materials, with the vectors that there are. One round trip.

        Raises:
            Erased: The materials were, meanwhile.
        """
        facet = materials_facet(material)
        writes: list[Write] = []
        for passage_id, text in texts.items():
            fields = {"text": text, "facets": ArrayUnion([facet])}
            fields |= of_vector(vectors.get(passage_id), material.making.model)
            writes.append(_merge(self._at(PASSAGES, passage_id), fields))
        await self._commit(material, writes)

    async def keep_parts(self, material: Material, parts: Sequence[Part]) -> None:
        """Store the contents of some materials. A round trip for three parts.

        Raises:
            Erased: The materials were, meanwhile.
        """
        data = await asyncio.to_thread(lambda: [part.to_bytes() for part in parts])
        kept = [
            _merge(self._at(PARTS, name), {"data": each})
            for name, each in zip(part_names(material), data, strict=True)
        ]
        for start in range(0, len(kept), WRITTEN_TOGETHER):
            block = kept[start : start + WRITTEN_TOGETHER]
            await self._commit(material, block)

    async def change(self, material: Material, **fields: Any) -> None:
        """Say how far materials have come. One round trip.

        Raises:
            Erased: They were, meanwhile.
        """
        reference = self._at(DOCUMENTS, material.document_id)
        await self._commit(material, [lambda batch: batch.update(reference, fields)])

    def still_there(self, material: Material) -> Write:
        """The write that is refused, with all that it is committed with, if they were erased."""
        proof = self._proof(material)
        return lambda batch: batch.update(proof, {"kept_at": SERVER_TIMESTAMP})

    async def are_there(self, materials: Sequence[Material]) -> bool:
        """Whether none of these was erased, not even by half. One round trip."""
        proofs = [self._proof(each) for each in materials]
        documents = [self._at(DOCUMENTS, each.document_id) for each in materials]
        found = await self._database.get_all([*proofs, *documents], ["arrival"])
        return len(found) == 2 * len(materials)

    def searched(self, materials: Sequence[Material]) -> TaskPassages:
        """The passages of these materials, for a search."""
        return TaskPassages(self._database, self.path, materials)

    @property
    def task_reference(self) -> AsyncDocumentReference:
        """The document of the task itself."""
        return self._database.document(self._tasks, self._task_id)

    async def _commit(self, material: Material, writes: Sequence[Write]) -> None:
        async def attempt() -> None:
            try:
                await self._database.commit([self.still_there(material), *writes])
            except Stale:
                if await self.are_there([material]):
                    raise  # only somebody else at the same time: again
                message = "These materials were erased while they were brought. Bring them again."
                raise Erased(message) from None

        await self._database.until_it_holds(attempt)

    def _parts(self, material: Material) -> list[AsyncDocumentReference]:
        return [self._at(PARTS, name) for name in part_names(material)]

    def _proof(self, material: Material) -> AsyncDocumentReference:
        return self._at(PARTS, f"{material.document_id}.{material.arrival}")

    async def _passages(
        self, passage_ids: Sequence[str], fields: Sequence[str]
    ) -> list[DocumentSnapshot[Any]]:
        references = [self._at(PASSAGES, name) for name in passage_ids]
        blocks = await asyncio.gather(
            *(self._database.get_all(block, fields) for block in _blocks(references))
        )
        return [each for block in blocks for each in block]

    def _at(self, collection: str, name: str) -> AsyncDocumentReference:
        return self._database.document(f"{self.path}/{collection}", name)


def ready_query(client: AsyncClient, path: str, making: Making, limit: int) -> AsyncQuery:
    """The materials of a task that can be searched, the latest first."""
    ready = (
        client.collection(f"{path}/{DOCUMENTS}")
        .where(filter=FieldFilter("status", "==", Status.READY.value))
        .where(filter=FieldFilter("making", "==", asdict(making)))
    )
    return ready.order_by("brought_at", direction=BaseQuery.DESCENDING).limit(limit)


def waiting_query(client: AsyncClient, path: str) -> AsyncQuery:
    """The materials of a task that wait for vectors."""
    waiting = FieldFilter("status", "==", Status.WAITING.value)
    return client.collection(f"{path}/{DOCUMENTS}").where(filter=waiting)


def _materials_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Every query this file can build, for the proof that each has its index."""
    yield ready_query(client, f"users/a/{TASKS}/b", Making(model="m", dimension=1, analysis=1), 1)


def _deletion(reference: AsyncDocumentReference) -> Write:
    return lambda batch: batch.delete(reference)


def _merge(reference: AsyncDocumentReference, fields: dict[str, Any]) -> Write:
    return lambda batch: batch.set(reference, fields, merge=True)


def _blocks(references: Sequence[AsyncDocumentReference]) -> Iterator[Sequence[Any]]:
    return (references[n : n + READ_TOGETHER] for n in range(0, len(references), READ_TOGETHER))


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery | AsyncVectorQuery]:
    """Every query this file can build, for the proof that each has its index."""
    yield from _task_passages_shapes(client)
    yield from _materials_shapes(client)
