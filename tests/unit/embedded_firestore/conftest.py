"""Fixtures of the embedded Firestore's unit tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.query_recorder import record_queries

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def unrecorded_queries() -> Iterator[None]:
    """Keep example queries out of the proof of Carrel's index files."""
    with record_queries():
        yield
