"""Checks, without a database, that every query has its index: `python -m infra.build.index_proof`.

The shape of a query is what determines its indexes: its filters and its order, without values. A
module of `shared` that queries the database defines `query_shapes(client: AsyncClient)`, which
yields one query object for each shape without running the query. Each shape must have its index in
the database's index file, and each index in the file must serve a shape.
"""

from __future__ import annotations

import sys
from importlib import import_module
from inspect import unwrap
from typing import TYPE_CHECKING, Any, Final

from google.auth.credentials import AnonymousCredentials
from google.cloud.firestore import AsyncClient

from infra.build.discovery import ROOT
from infra.build.functions import ACCESS_DATABASE
from infra.build.index_check import IndexVerdict, check
from infra.build.index_file import IndexFile
from infra.build.query_shape import QueryShape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

CLOUD_DIMENSION: Final = 768
"""The dimension of the cloud's embedding model, which the index files declare."""
FILES: Final[dict[str, Callable[[str], bool]]] = {
    "infra/build/firestore.indexes.json": lambda database: database != ACCESS_DATABASE,
    "infra/build/access.indexes.json": lambda database: database == ACCESS_DATABASE,
}
"""The index files, each with a predicate that returns whether the file declares the indexes of the
database with a given name. Test databases have other names and use the first file."""
_ACCESS_PACKAGE: Final = "shared.accounts."
"""The modules in this package query the database `access`."""


def load_shapes(root: Path = ROOT) -> frozenset[QueryShape]:
    """Load all query shapes that modules of `shared` declare."""
    modules = [
        ".".join(path.relative_to(root).with_suffix("").parts)
        for path in sorted(root.glob("shared/**/*.py"))
        if "def query_shapes(" in path.read_text()
    ]
    return frozenset().union(*map(_build_module_shapes, modules))


def build_shapes(queries: Iterable[Any]) -> frozenset[QueryShape]:
    """Build the shapes of query objects without running them.

    Raises:
        ValueError: A query has `limit_to_last`, which runs in reverse order. Declare the reversed
            query instead.
    """
    # Tests wrap `_prep_stream` to record the queries that are sent. These queries are not sent.
    return frozenset(
        QueryShape.from_request(unwrap(type(query)._prep_stream)(query)[0])  # noqa: SLF001 - Google's
        for query in queries
    )


def check_files(shapes: Iterable[QueryShape], root: Path = ROOT) -> dict[str, IndexVerdict]:
    """Check query shapes against each index file, and return the verdicts by file name."""
    all_shapes = list(shapes)
    return {
        name: check(
            [shape for shape in all_shapes if declares(shape.database)],
            _parse(root / name),
            CLOUD_DIMENSION,
        )
        for name, declares in FILES.items()
    }


def main(root: Path = ROOT) -> int:
    """Print the problems of each file, and return 1 if there are any."""
    by_file = check_files(load_shapes(root), root)
    incorrect = {name: verdict for name, verdict in by_file.items() if not verdict.is_correct}
    for name, verdict in incorrect.items():
        print(f"{name} is wrong:\n{verdict.report()}", file=sys.stderr)  # noqa: T201 - a command
    return 1 if incorrect else 0


def _parse(path: Path) -> IndexFile:
    return IndexFile.parse(path.read_text() if path.exists() else "{}")


def _build_module_shapes(name: str) -> frozenset[QueryShape]:
    """Import a module, and build the shapes of the queries that it declares."""
    credentials = AnonymousCredentials()
    database = ACCESS_DATABASE if name.startswith(_ACCESS_PACKAGE) else "(default)"
    client = AsyncClient(project="index-proof", database=database, credentials=credentials)
    return build_shapes(import_module(name).query_shapes(client))


if __name__ == "__main__":
    sys.exit(main())
