"""Record the shape of every query that this process sends through google-cloud-firestore.

Sync, async and transactional calls all build their request in `_prep_stream`, which is wrapped.
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
"""The variable that names the directory for the shapes of processes."""

_KINDS: Final = (BaseQuery, BaseVectorQuery, BaseAggregationQuery)
_METHOD: Final = "_prep_stream"


@contextmanager
def recording() -> Iterator[set[QueryShape]]:
    """Collect the shapes of the queries that are run meanwhile.

    An outer recording doesn't see them: a test can keep its example queries to itself.
    """
    shapes: set[QueryShape] = set()
    before = [vars(kind)[_METHOD] for kind in _KINDS]
    _observe(shapes.add)
    try:
        yield shapes
    finally:
        for kind, method in zip(_KINDS, before, strict=True):
            setattr(kind, _METHOD, method)


def record_to_directory() -> None:
    """Append the shapes to a file of this process, from now on, as lines of JSON.

    The environment variable `CARREL_RECORD_QUERIES` names the directory; where it is unset nothing
    is recorded.
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


def shapes_in(directory: Path) -> frozenset[QueryShape]:
    """Return the shapes that processes left in a directory."""
    files = directory.glob("*.jsonl")
    return frozenset(
        QueryShape.from_json(line) for file in files for line in file.read_text().splitlines()
    )


def _observe(observer: Callable[[QueryShape], None]) -> None:
    for kind in _KINDS:
        setattr(kind, _METHOD, _observed(unwrap(vars(kind)[_METHOD]), observer))


def _observed(
    method: Callable[..., Any], observer: Callable[[QueryShape], None]
) -> Callable[..., Any]:
    @wraps(method)
    def prepare(*args: Any, **kwargs: Any) -> Any:
        prepared = method(*args, **kwargs)
        observer(QueryShape.from_request(prepared[0]))
        return prepared

    return prepare
