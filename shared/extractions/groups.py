"""Writes extractions, and keeps exactly one of each group visible.

Extractions that make the same statement in several chunks are a group. Tools show one of them. The
others have no facets, so no query returns them. `extraction_groups/{group}` says which one is
`visible`, and how many have `joined` the first one, whose id is also that of the group. An
extraction stays in its group.

The first one is visible, or after its deletion the one with the highest confidence. The commit that
deletes the visible one also shows the next, and updates the counts in `topics/{topic}`, which
include visible extractions only. The field `extracted` of a chunk contains the groups of its
extractions, by extraction id. One commit changes this field and the extractions, so deleting a
chunk leaves no orphans.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from shared.core.ids import safe_id
from shared.extractions.model import ExtractionType, build_facets
from shared.firestore.documents import Document, Reference
from shared.firestore.queries import Query
from shared.firestore.values import Increment
from shared.firestore.writes import (
    Create,
    Set,
    Update,
    Write,
    delete_if_unchanged,
    put_if_unchanged,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from shared.firestore.database import Database

    Fields = Mapping[str, Any]
    """The stored fields of an extraction."""

COLLECTION: Final = "extractions"
GROUPS: Final = "extraction_groups"
TOPICS: Final = "topics"
_COMPARED_FIELDS: Final = ("topics", "quote", "confidence", "schema_version", "facets")
"""An extraction is written again if one of these fields changes. Its content cannot, as its id is a
hash of it, and a new time alone is no change."""
_FIELDS: Final = (*_COMPARED_FIELDS, "type", "source_id", "group")


class ExtractionGroups:
    """Builds the writes that store and delete extractions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(self, extraction_ids: Iterable[str]) -> list[Document]:
        """Load what `build_writes` needs of extractions. Costs at most one round trip."""
        references = [Reference(COLLECTION, extraction_id) for extraction_id in extraction_ids]
        return await self._database.get_all(references, _FIELDS)

    async def build_deletion_writes(self, extraction_ids: Iterable[str]) -> list[Write]:
        """Build the writes that delete extractions. Costs at most three round trips."""
        return await self.build_writes(await self.load(extraction_ids), {})

    async def build_writes(
        self, stored: Iterable[Document], new: Mapping[str, Fields]
    ) -> list[Write]:
        """Build the writes that replace stored extractions by new ones.

        Their commit fails if another one has changed an extraction since it was read, or which
        member of its group is visible. Costs at most two round trips: one for the groups, and one
        for the members of those whose visible member is deleted.

        Args:
            new: The fields of the new extractions, by id. One that is also in `stored` stays in its
                group.
        """
        changes: dict[str, _GroupChange] = {}
        groups: dict[str, str] = {}
        for document in stored:
            name = groups[document.id] = document.get("group")
            changes.setdefault(name, _GroupChange(name)).stored[document.id] = document
        for extraction_id, fields in new.items():
            name = groups.get(extraction_id) or fields["group"]
            change = changes.setdefault(name, _GroupChange(name))
            change.new[extraction_id] = {**fields, "group": name}
        documents = await self._database.get_all([Reference(GROUPS, name) for name in changes])
        for document in documents:
            changes[document.id].group = document
        group_writes = await asyncio.gather(*map(self._build_group_write, changes.values()))
        counts = Counter[tuple[str, str]]()
        member_writes = [
            write for change in changes.values() for write in change.build_member_writes(counts)
        ]
        return [*filter(None, group_writes), *member_writes, *_build_topic_writes(counts)]

    async def _build_group_write(self, change: _GroupChange) -> Write | None:
        """Decide which member of a group is visible. Return the write of the group, if any."""
        group, joining = change.group, change.new.keys() - change.stored.keys()
        visible: str | None = group.get("visible") if group else None
        others: list[Document] = []
        if group and visible and visible not in change.deleted:
            if change.name not in joining:
                change.visible = visible
                # An election at the same time has not seen the new members, so its commit fails.
                joined = Increment(len(joining))
                return Update(group.reference, {"joined": joined}) if joining else None
            others = await self.load([visible])
        elif group and group.get("joined"):
            others = await self._database.find(change.build_others_query())
        change.elect(others)
        if change.visible is None:
            return delete_if_unchanged(group) if group else None
        if group is None:
            fields = {"visible": change.visible, "joined": len(joining) - 1}
            return Create(Reference(GROUPS, change.name), fields)
        fields = {"visible": change.visible, "joined": group.get("joined") + len(joining)}
        return put_if_unchanged(group, fields)


@dataclass(slots=True)
class _GroupChange:
    """What a commit changes in a group.

    Attributes:
        name: The id of the group, and of its first member.
        group: The group's document, or None if it does not exist.
        stored: Members as they were read, by id. Those missing from `new` are deleted.
        new: The fields of the members to store, by id.
        visible: The id of the member that is visible after the commit.
    """

    name: str
    group: Document | None = None
    stored: dict[str, Document] = field(default_factory=dict)
    new: dict[str, Fields] = field(default_factory=dict)
    visible: str | None = None

    @property
    def deleted(self) -> AbstractSet[str]:
        """The ids of the members that are deleted."""
        return self.stored.keys() - self.new.keys()

    def build_others_query(self) -> Query:
        """Build the query whose results contain the best member that `stored` does not."""
        return (
            Query(COLLECTION)
            .where("group", "==", self.name)
            .order_by("confidence", descending=True)
            .select(_FIELDS)
            .limit(len(self.stored) + 1)
        )

    def elect(self, others: Iterable[Document]) -> None:
        """Make the first member visible, or else the one with the highest confidence.

        Args:
            others: Members that may become visible, or hidden. Those in `stored` are left out.
        """
        remaining = {other.id: other for other in others if other.id not in self.stored}
        candidates = self.new | {name: other.fields for name, other in remaining.items()}
        self.visible = max(
            candidates,
            key=lambda name: (name == self.name, candidates[name]["confidence"], name),
            default=None,
        )
        for name, other in remaining.items():
            if name == self.visible or other.get("facets"):
                self.stored[name], self.new[name] = other, other.fields

    def build_member_writes(self, counts: Counter[tuple[str, str]]) -> Iterator[Write]:
        """Yield the writes of the members. Add up the changes of the counts by topic and type."""
        for name, document in self.stored.items():
            if document.get("facets"):
                counts.subtract(_list_counted(document.fields))
            if name not in self.new:
                yield delete_if_unchanged(document)
        for name, data in self.new.items():
            is_visible = name == self.visible
            if is_visible:
                counts.update(_list_counted(data))
            fields = {**data, "facets": _build_facets(data) if is_visible else []}
            former = self.stored.get(name)
            if former is None:
                yield Set(Reference(COLLECTION, name), fields)
            elif any(former.get(key) != fields[key] for key in _COMPARED_FIELDS):
                yield put_if_unchanged(former, fields)


def _build_facets(fields: Fields) -> list[str]:
    return build_facets(ExtractionType(fields["type"]), fields["topics"], fields["source_id"])


def _list_counted(fields: Fields) -> list[tuple[str, str]]:
    """Return each topic of an extraction with the extraction's type."""
    return [(topic, fields["type"]) for topic in fields["topics"]]


def _build_topic_writes(counts: Counter[tuple[str, str]]) -> Iterator[Write]:
    """Yield the writes that add changes to the counts of topics."""
    by_topic: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for (topic, extraction_type), change in sorted(counts.items()):
        if change:
            by_topic[topic][extraction_type] = change
    for topic, by_type in by_topic.items():
        changes = {
            extraction_type: Increment(change) for extraction_type, change in by_type.items()
        }
        fields = {"name": topic, "counts": changes, "total": Increment(sum(by_type.values()))}
        yield Set(Reference(TOPICS, safe_id(topic)), fields, merge=True)
