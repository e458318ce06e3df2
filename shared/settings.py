"""Everything that differs between a laptop and the cloud, in one frozen object."""

from __future__ import annotations

import json
import os
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from shared.errors import InvalidInput


class Settings(BaseModel):
    """Read once, at start, from the environment; an argument beats a variable of the same name.

    A variable is named as its field, in capitals; a list or an object is written as JSON. The
    Firestore client itself reads `FIRESTORE_EMULATOR_HOST`, as all of Google's clients do.
    `pydantic-settings` does this too, for 7 % of a tool function's cold start.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    google_cloud_project: str = Field(
        default="carrel-local", description="The Google Cloud project; on the emulator, any name."
    )
    firestore_database: str = Field(
        default="(default)", description="The Firestore database of knowledge and users' data."
    )
    public_url: str = Field(
        default="http://localhost:8080",
        description="Where clients reach the gateway; its host is the only one it answers to.",
    )
    allowed_origins: tuple[str, ...] = Field(
        default=(), description="Origins of web pages that may call the gateway, beside its own."
    )
    max_request_bytes: int = Field(
        default=4 * 1024 * 1024, gt=0, description="The largest request body the gateway takes."
    )
    tool_urls: dict[str, str] = Field(
        default_factory=dict, description="Tool name to the URL of its function, as JSON."
    )
    embedding_provider: Literal["local", "vertex"] = Field(
        default="local", description="Who turns text into vectors."
    )
    vertex_model: str = Field(
        default="gemini-embedding-001", description="The embedding model on Vertex AI."
    )
    vertex_dimension: int = Field(
        default=768, ge=1, le=2048, description="The length of its vectors; Firestore takes 2,048."
    )
    vertex_location: str = Field(default="europe-west1", description="The Vertex AI region.")
    vertex_base_url: str | None = Field(
        default=None, description="Another address for Vertex AI: a private endpoint, a test."
    )
    ingest_path: str | None = Field(
        default=None, description="The file or folder that the ingest job reads."
    )
    lease_seconds: float = Field(
        default=60.0, gt=0, description="How long a job that died keeps others out."
    )

    def __init__(self, **arguments: Any) -> None:
        """Take the arguments, else the environment, else the defaults."""
        super().__init__(**(_environment() | arguments))


def _environment() -> dict[str, Any]:
    """What the environment says of the settings; an empty variable says nothing."""
    found = {name: os.environ.get(name.upper(), "") for name in Settings.model_fields}
    return {name: _value(name, text) for name, text in found.items() if text}


def _value(name: str, text: str) -> Any:
    if text[0] not in "[{":
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidInput(f"{name.upper()} is not JSON: {error}") from error
