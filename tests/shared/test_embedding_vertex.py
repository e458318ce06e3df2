"""The Vertex AI embedder: the real client against a server that misbehaves on command."""

import math
import traceback
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from google.oauth2.credentials import Credentials

from shared.ai.embedding import Purpose, unit_vector
from shared.ai.vertex_embedding import VertexEmbedder
from shared.errors import CarrelError, InvalidInput, PlatformFault, Unavailable
from tests.fakes.vertex import (
    CUT_CONNECTION,
    CUT_JSON,
    HANG,
    NO_EMBEDDING,
    FakeVertex,
    Reply,
    refusal,
    vector_of,
    vector_reply,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio

TOKEN = "ya29.a-token-nobody-may-see"  # noqa: S105 - opens nothing
SECRET = "What the reader wrote and nobody else may see"
"""A text, and also what the server quotes in its refusals."""

Connect = Callable[..., AbstractAsyncContextManager[VertexEmbedder]]


@asynccontextmanager
async def connected(server: FakeVertex, **options: Any) -> "AsyncIterator[VertexEmbedder]":
    embedder = VertexEmbedder(
        project="shelf",
        location="europe-west4",
        credentials=Credentials(token=TOKEN),  # type: ignore[no-untyped-call]
        base_url=server.base_url,
        **{"dimension": 8, **options},
    )
    try:
        yield embedder
    finally:
        await embedder.aclose()
