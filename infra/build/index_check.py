"""Compares an index file, such as `firestore.indexes.json`, with the indexes that queries need.

The rules are in `infra.build.index_rules`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from infra.build.index_rules import build_scans, find_missing_indexes, find_serving_indexes
from infra.build.query_shape import QueryScope

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from infra.build.index_file import Index, IndexFile
    from infra.build.query_shape import QueryShape


@dataclass(frozen=True, slots=True)
class IndexVerdict:
    """The result of checking one index file.

    Attributes:
        missing: Each index that the file lacks, with the queries that need the index.
        unused: The declared indexes that no query uses: composite ones, and single-field ones of
            collection groups. Exemptions and TTL entries never serve queries and are not listed.
        file: The checked file.
    """

    missing: Mapping[Index, frozenset[QueryShape]]
    unused: frozenset[Index]
    file: IndexFile

    @property
    def is_correct(self) -> bool:
        """Whether the file declares all required indexes and no unused ones."""
        return not self.missing and not self.unused

    def report(self) -> str:
        """Describe the missing indexes, with the queries that need them, and the unused indexes."""
        lines = []
        for index in sorted(self.missing):
            lines.append(f"missing: {index}")
            lines += [f"  needed by: {shape}" for shape in sorted(map(str, self.missing[index]))]
        if self.missing:
            additions = self.file.build_additions(self.missing)
            lines += [
                "add this (an override here replaces the existing override of its field):",
                json.dumps(additions, indent=2),
            ]
        lines += [f"unused: {index}" for index in sorted(self.unused)]
        return "\n".join(lines)


def check(shapes: Iterable[QueryShape], file: IndexFile, dimension: int) -> IndexVerdict:
    """Compare the indexes that queries need with those in the file.

    Firestore may run a query as several scans, each served by an index.

    Args:
        shapes: The shapes of all queries.
        file: The declared indexes.
        dimension: The dimension of vector indexes.
    """
    missing: dict[Index, frozenset[QueryShape]] = {}
    used: set[Index] = set()
    for shape in shapes:
        for scan in build_scans(shape, dimension):
            used |= find_serving_indexes(scan, file) or frozenset()
            for index in find_missing_indexes(scan, file):
                missing[index] = missing.get(index, frozenset()) | {shape}
    declared = file.composites | _list_group_indexes(file)
    return IndexVerdict(missing, declared - used, file)


def _list_group_indexes(file: IndexFile) -> frozenset[Index]:
    """List the declared single-field indexes of collection groups.

    Firestore makes none of these by itself, so one that no query uses was declared by mistake.
    """
    return frozenset(
        index
        for indexes in file.overrides.values()
        for index in indexes
        if index.scope is QueryScope.COLLECTION_GROUP
    )
