"""What functions may reach beside the database."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Capability(StrEnum):
    """Something outside the database that a tool or a job reaches.

    The cloud gives a function's account the roles and secrets of what it declares, its bundle holds
    the code for it, and `Context` refuses the rest, so that tests notice what is not declared.
    """

    EMBEDDING = "embedding"
    """Turns text into vectors."""
    GENERATION = "generation"
    """Asks a language model, where one is configured."""
    READWISE = "readwise"
    """Reads the library behind READWISE_TOKEN."""
    INGEST_BUCKET = "ingest bucket"
    """Reads the files in INGEST_BUCKET."""
    BULK_BUCKET = "bulk bucket"
    """Has texts embedded in bulk by way of BULK_BUCKET."""


ALL_CAPABILITIES: Final = frozenset(Capability)
