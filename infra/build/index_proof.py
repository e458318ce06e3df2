"""Checks, without a database, that every query has its index: `python -m infra.build.index_proof`.

A module of `shared` that queries defines `query_shapes(client: AsyncClient)`, which yields
one query object, not run, for each shape that it can build. No shape may lack its index in the file
that declares those of its database, and no index may be declared that no shape uses.
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
"""Numbers in a vector of the cloud's embedding model: the dimension that the files declare."""
FILES: Final[dict[str, Callable[[str], bool]]] = {
    "firestore.indexes.json": lambda database: database != ACCESS_DATABASE,
    "infra/build/access.indexes.json": lambda database: database == ACCESS_DATABASE,
}
"""The file that declares the indexes of a database, by the database's name. Tests have databases of
other names, which are like the first."""
_OF_ACCESS: Final = "shared.accounts."
"""How the names of modules begin that query the database `access`."""


def listed_shapes(root: Path = ROOT) -> frozenset[QueryShape]:
    """Every query shape that modules of `shared` list."""
    modules = [
        ".".join(path.relative_to(root).with_suffix("").parts)
        for path in sorted(root.glob("shared/**/*.py"))
        if "def query_shapes(" in path.read_text()
    ]
    return frozenset().union(*map(_shapes_of_module, modules))


def shapes_of(queries: Iterable[Any]) -> frozenset[QueryShape]:
    """The shapes of query objects, which are not run.

    Raises:
        ValueError: One is limited to the last results; such a query runs with its order reversed,
            so list it that way.
    """
    # Tests record what is sent by wrapping this method: what is listed is not sent.
    return frozenset(
        QueryShape.of_request(unwrap(type(query)._prep_stream)(query)[0])  # noqa: SLF001
        for query in queries
    )


def verdicts(shapes: Iterable[QueryShape], root: Path = ROOT) -> dict[str, IndexVerdict]:
    """Hold query shapes against each file of indexes, by the file's name."""
    queried = list(shapes)
    return {
        name: check(
            [shape for shape in queried if declares(shape.database)],
            _parse(root / name),
            CLOUD_DIMENSION,
        )
        for name, declares in FILES.items()
    }


def main(root: Path = ROOT) -> int:
    """Print what is wrong with each file and what to change; 1 if there is anything."""
    by_file = verdicts(listed_shapes(root), root)
    wrong = {name: verdict for name, verdict in by_file.items() if not verdict.holds}
    for name, verdict in wrong.items():
        print(f"{name} is wrong:\n{verdict.report()}", file=sys.stderr)  # noqa: T201 - a command
    return 1 if wrong else 0


def _parse(path: Path) -> IndexFile:
    return IndexFile.parse(path.read_text() if path.exists() else "{}")


def _shapes_of_module(name: str) -> frozenset[QueryShape]:
    credentials = AnonymousCredentials()  # type: ignore[no-untyped-call]
    database = ACCESS_DATABASE if name.startswith(_OF_ACCESS) else "(default)"
    client = AsyncClient(project="index-proof", database=database, credentials=credentials)
    return shapes_of(import_module(name).query_shapes(client))


if __name__ == "__main__":
    sys.exit(main())
