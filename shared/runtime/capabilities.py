"""The external services that a function may use, other than the database."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Capability(StrEnum):
    """An external service that a tool or a job uses.

    A function's service account gets the roles and secrets of the capabilities that the function
    declares, and its bundle gets their code. `Context` rejects all other capabilities, so that
    tests notice if a declaration lacks one.
    """

    EMBEDDING = "embedding"
    """Embed texts."""
    GENERATION = "generation"
    """Generate text with a language model, if one is configured."""
    READWISE = "readwise"
    """Read the library of READWISE_TOKEN."""
    INGEST_BUCKET = "ingest bucket"
    """Read the files in INGEST_BUCKET."""
    BULK_BUCKET = "bulk bucket"
    """Embed texts in bulk through BULK_BUCKET."""
    INGEST_START = "ingest start"
    """Start the job `ingest` through Cloud Scheduler."""


ALL_CAPABILITIES: Final = frozenset(Capability)
