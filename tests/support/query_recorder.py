"""Records the shape of every query that this process sends through google-cloud-firestore.

Synchronous, asynchronous and transactional calls all build their request in the method
`_prep_stream`, which the recorder wraps.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import wraps
from inspect import unwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore_v1.base_aggregation import BaseAggregationQuery
from google.cloud.firestore_v1.base_query import BaseQuery
from google.cloud.firestore_v1.base_vector_query import BaseVectorQuery

from infra.build.query_shape import QueryShape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DIRECTORY_VARIABLE: Final = "CARREL_RECORD_QUERIES"
"""The environment variable that names the directory to which processes write shapes."""
_KINDS: Final = (BaseQuery, BaseVectorQuery, BaseAggregationQuery)
"""The classes of queries."""
_METHOD: Final = "_prep_stream"
"""The method of these classes that builds the request."""


@contextmanager
def record_queries() -> Iterator[set[QueryShape]]:
    """Collect the shapes of all queries until the block ends.

    The recording of the test run does not receive them, so a test's example queries need no index.
    """
    shapes: set[QueryShape] = set()
    outer_methods = [vars(kind)[_METHOD] for kind in _KINDS]
    _observe(shapes.add)
    try:
        yield shapes
    finally:
        for kind, method in zip(_KINDS, outer_methods, strict=True):
            setattr(kind, _METHOD, method)


def record_to_directory() -> None:
    """Append the shapes of all further queries to a file of this process, as lines of JSON.

    The environment variable `CARREL_RECORD_QUERIES` names the directory of the file. Without it,
    nothing is recorded.
    """
    directory = os.environ.get(DIRECTORY_VARIABLE)
    if not directory:
        return
    recorded_shapes: set[QueryShape] = set()

    def append(shape: QueryShape) -> None:
        if shape not in recorded_shapes:
            recorded_shapes.add(shape)
            with (Path(directory) / f"{os.getpid()}.jsonl").open("a") as file:
                file.write(shape.to_json() + "\n")

    _observe(append)


def read_shapes(directory: Path) -> frozenset[QueryShape]:
    """Return the shapes that processes have recorded in a directory."""
    files = directory.glob("*.jsonl")
    return frozenset(
        QueryShape.from_json(line) for file in files for line in file.read_text().splitlines()
    )


def _observe(observer: Callable[[QueryShape], None]) -> None:
    """Call a function with the shape of each further query, in place of a former observer."""
    for kind in _KINDS:
        setattr(kind, _METHOD, _with_observer(unwrap(vars(kind)[_METHOD]), observer))


def _with_observer(
    method: Callable[..., Any], observer: Callable[[QueryShape], None]
) -> Callable[..., Any]:
    @wraps(method)
    def prepare(*args: Any, **kwargs: Any) -> Any:
        prepared = method(*args, **kwargs)
        observer(QueryShape.from_request(prepared[0]))
        return prepared

    return prepare
