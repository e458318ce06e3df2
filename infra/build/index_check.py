"""The verdict: does `firestore.indexes.json` hold what the queries need, and nothing else?"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from infra.build.index_rules import required_indexes, scans, serving_indexes
from infra.build.query_shape import QueryScope

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from infra.build.index_file import Index, IndexFile
    from infra.build.query_shape import QueryShape


@dataclass(frozen=True)
class IndexVerdict:
    """What is wrong with the file.

    Attributes:
        missing: Each index that the file lacks, and the queries that need it.
        unused: Declared indexes that serve no query: composites, and single fields of collection
            groups. Exemptions and TTL entries serve no query by nature and don't count.
        file: The file.
    """

    missing: Mapping[Index, frozenset[QueryShape]]
    unused: frozenset[Index]
    file: IndexFile

    @property
    def holds(self) -> bool:
        """Whether the file needs no change."""
        return not self.missing and not self.unused

    def report(self) -> str:
        """What to change, for people: what is missing, who needs it, what to add and to drop."""
        lines = []
        for index in sorted(self.missing):
            lines.append(f"missing: {index}")
            lines += [f"  needed by: {shape}" for shape in sorted(map(str, self.missing[index]))]
        if self.missing:
            addition = self.file.additions(self.missing)
            lines += [
                "to add (an override replaces one of its field):",
                json.dumps(addition, indent=2),
            ]
        lines += [f"unused: {index}" for index in sorted(self.unused)]
        return "\n".join(lines)


def check(shapes: Iterable[QueryShape], file: IndexFile, dimension: int) -> IndexVerdict:
    """Compare what queries need with what the file holds.

    Args:
        shapes: Every query there is.
        file: The declared indexes.
        dimension: What vector indexes must be declared with.
    """
    missing: dict[Index, frozenset[QueryShape]] = {}
    used: set[Index] = set()
    for shape in shapes:
        for scan in scans(shape, dimension):
            used |= serving_indexes(scan, file) or frozenset()
            for index in required_indexes(scan, file):
                missing[index] = missing.get(index, frozenset()) | {shape}
    return IndexVerdict(missing, (file.composites | _group_singles(file)) - used, file)


def _group_singles(file: IndexFile) -> frozenset[Index]:
    return frozenset(
        index
        for indexes in file.overrides.values()
        for index in indexes
        if index.scope is QueryScope.COLLECTION_GROUP
    )
