"""What documents that come, change or go mean to the lists: pure differences, nothing is stored."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from google.cloud.firestore import DELETE_FIELD, Increment

from shared.domain.facet import facet_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shared.store.index_lists import IndexNames, ListName
    from shared.store.marks import Indexed


@dataclass(frozen=True, slots=True)
class Difference:
    """What the lists are to learn of a document.

    Attributes:
        document_id: Which.
        before: What they know of it; `NOTHING` of one that is new.
        after: What they are to know of it; `NOTHING` of one that goes.
    """

    document_id: str
    before: Indexed
    after: Indexed

    def entries(self, names: IndexNames) -> Iterator[tuple[ListName, int | None, int | None]]:
        """The lists that change: what each said of the document, and what it is to say."""
        old, new = dict(self.before.entries(names)), dict(self.after.entries(names))
        for name in old.keys() | new.keys():
            before, after = old.get(name), new.get(name)
            if before != after:
                yield name, before, after

    def descriptions(self, names: IndexNames) -> Iterator[tuple[ListName, dict[str, str]]]:
        """What to say of those of its facets whose name is new here."""
        for facet_id, name in self.after.facets.items():
            if self.before.facets.get(facet_id) != name:
                facet = facet_of(facet_id, name)
                said = {"kind": facet.kind.value, "key": facet.key, "name": name}
                yield (names.facets, facet_id), said


@dataclass(slots=True)
class ListChange:
    """What one list gains and loses.

    Attributes:
        df: How many documents more stand on it, or fewer.
        entries: Document id to what it says from now on, or that it says nothing.
        fields: What else it says.
    """

    df: int = 0
    entries: dict[str, Any] = field(default_factory=dict)
    fields: dict[str, str] = field(default_factory=dict)

    def note(self, document_id: str, before: int | None, after: int | None) -> None:
        """Take in that a document's entry comes, changes or goes."""
        self.entries[document_id] = DELETE_FIELD if after is None else after
        self.df += (after is not None) - (before is not None)

    def document(self) -> dict[str, Any]:
        """What to merge into the list.

        Firestore adds up in the order of the fields' names and answers with the sums: `held` is
        always the last of them.
        """
        if not self.entries:
            return dict(self.fields)
        added = sum(entry is not DELETE_FIELD for entry in self.entries.values())
        sums = {"held": Increment(added)} | ({"df": Increment(self.df)} if self.df else {})
        return {"postings": self.entries} | self.fields | sums


def list_changes(
    names: IndexNames, differences: Sequence[Difference]
) -> dict[ListName, ListChange]:
    """What the lists gain and lose by some documents together."""
    lists: dict[ListName, ListChange] = defaultdict(ListChange)
    for difference in differences:
        for name, before, after in difference.entries(names):
            lists[name].note(difference.document_id, before, after)
        for name, said in difference.descriptions(names):
            lists[name].fields |= said
    return lists


def total_changes(differences: Sequence[Difference]) -> dict[str, int]:
    """By how much the totals change; one without any term is none of the documents."""
    pairs = [(each.before.length, each.after.length) for each in differences]
    counts = {
        "documents": sum((new > 0) - (old > 0) for old, new in pairs),
        "length": sum(new - old for old, new in pairs),
    }
    return {name: count for name, count in counts.items() if count}
