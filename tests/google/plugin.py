"""A pytest plugin for Google's system tests of its Python client.

It runs the tests that Google skips on an emulator for want of data or because of an error of the
emulator, and leaves out those of calls that the embedded Firestore does not have. It is loaded in
an environment with Google's versions of pytest, so it imports nothing of this project.
"""

import inspect
import os
from types import ModuleType
from typing import Any, Final

import pytest
from google.cloud import firestore
from google.cloud.firestore_v1.vector import Vector

LIFTED: Final = (
    "Require index and seed data",
    "Internal Issue b/137867104",
    "Internal Issue b/137865992",
)
"""Google's reasons for skipping tests that this plugin runs."""
SEEDS: Final[dict[str, dict[str, Any]]] = {
    "doc1": {"embedding": Vector([1.0, 2.0, 3.0]), "color": "red"},
    "doc2": {"embedding": Vector([2.0, 2.0, 3.0]), "color": "red"},
    "doc3": {"embedding": Vector([3.0, 4.0, 5.0]), "color": "yellow"},
}
"""The documents of the collection `vector_search`, as Google's `bootstrap_vector_index.py`."""
MISSING: Final = {
    "Listen": ("test_watch_", "test_create_document_w_vector"),
    "BatchWrite": ("test_live_bulk_writer", "recursive_delete"),
    "read_time": ("_read_time", "test_get_all"),
}
"""Parts of the names of tests, by what they need and the embedded Firestore does not have."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose the tests, and write what they search."""
    modules = {item.module for item in items if isinstance(item, pytest.Function)}
    for module in modules:
        _omit_pipelines(module)
        _write_seeds(module)
    for item in items:
        item.own_markers = [
            mark for mark in item.own_markers if mark.kwargs.get("reason") not in LIFTED
        ]
    if os.environ.get("ONLY_EMBEDDED"):
        _deselect(config, items)


def _omit_pipelines(module: ModuleType) -> None:
    """Let queries be tested without the pipelines of the same meaning."""

    def verify(query: object) -> None:
        pass

    async def verify_async(query: object) -> None:
        pass

    is_async = inspect.iscoroutinefunction(module.verify_pipeline)
    module.verify_pipeline = verify_async if is_async else verify  # type: ignore[attr-defined]


def _write_seeds(module: ModuleType) -> None:
    for database in module.TEST_DATABASES:
        client = firestore.Client(project=module.FIRESTORE_PROJECT, database=database)
        for name, fields in SEEDS.items():
            client.document("vector_search", name).set(fields)


def _deselect(config: pytest.Config, items: list[pytest.Item]) -> None:
    parts = [part for names in MISSING.values() for part in names]
    omitted = [item for item in items if any(part in item.name for part in parts)]
    items[:] = [item for item in items if item not in omitted]
    config.hook.pytest_deselected(items=omitted)
