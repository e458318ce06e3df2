"""A text for `extract_key_info` that is stored in two parts, and what the tool stores for it.

The tool stores passages and their vectors in a workspace of the user. An upload is a call that
stores a text, and has a random id.
"""

import re
from typing import Any, Final

from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.context import App
from shared.runtime.messages import CallAnswer, WireError
from shared.workspaces.model import content_id
from tests.support.fakes.openai import MODEL, FakeOpenAI
from tests.support.materials import READER, extract_error
from tests.support.tool_calls import call

PARAGRAPH_COUNT: Final = 80
"""The number of passages of the text, which are a full part and a partial one."""
PART_SIZE: Final = 64
"""The number of passages that are embedded before they are stored."""
DIMENSION: Final = 16
"""The dimension of vectors: short vectors are stored quickly."""
TIME_FIELDS: Final = {"created_at", "touched_at", "uploaded_at", "kept_at", "next_at"}
"""The fields with times, which `read_workspaces` omits."""
QUERY: Final = "thing 31 became what"
"""The default query, which one passage answers."""


def make_paragraph(number: int) -> str:
    """Return the passage with this number, in which a word occurs in no other passage."""
    return f"Thing {number} was found in room {number % 7}, and became word{number * 7919}."


def make_text(paragraphs: int = PARAGRAPH_COUNT, first: int = 0) -> str:
    """Return a text of passages, numbered from `first` on, and separated by blank lines."""
    return "\n\n".join(make_paragraph(number) for number in range(first, first + paragraphs))


def make_openai_settings(fake: FakeOpenAI, project: str, **overrides: Any) -> Settings:
    """Return settings for embedding with the fake server."""
    fields = {
        "google_cloud_project": project,
        "embedding_provider": "openai",
        "openai_base_url": fake.base_url,
        "embedding_model": MODEL,
        "embedding_dimension": DIMENSION,
    }
    return Settings(**fields | overrides)


async def call_extract_with_deadline(
    app: App, seconds: float = 30.0, caller: Caller = READER, **arguments: Any
) -> CallAnswer:
    """Call `extract_key_info` with a deadline in `seconds`, by default with `QUERY`."""
    arguments = {"query": QUERY} | arguments
    return await call(app, "extract_key_info", caller, seconds=seconds, **arguments)


def list_embedded_passages(fake: FakeOpenAI) -> list[str]:
    """Return the passages that were embedded so far, in order, without queries."""
    return [text for request in fake.calls for text in request.texts if text.startswith("Thing")]


async def read_workspaces(app: App, caller: Caller = READER) -> dict[str, dict[str, Any]]:
    """Return all documents of a user's workspaces, by path, without times and upload ids.

    An upload id is removed from paths if a document names it.
    """
    client = app.context(Caller(), Meter()).database.connection.client
    documents: dict[str, dict[str, Any]] = {}
    async for task in client.collection(f"users/{caller.user_id}/rag_tasks").list_documents():
        snapshot = await task.get()
        if snapshot.exists:
            documents[task.id] = _drop_times(snapshot.to_dict())
        async for collection in task.collections():
            async for document in collection.stream():
                path = f"{task.id}/{collection.id}/{document.id}"
                documents[path] = _drop_times(document.to_dict())
    upload_ids = {fields.pop("upload_id") for fields in documents.values() if "upload_id" in fields}
    return {_strip_ids(name, upload_ids): fields for name, fields in documents.items()}


async def assert_workspace_is_empty(app: App, *materials: str, **arguments: Any) -> None:
    """Assert that a workspace is empty, and has none of these texts.

    Args:
        app: The app.
        materials: The texts.
        arguments: Further arguments of `extract_key_info`, such as the workspace's `task_id`.
    """
    error = await extract_error(app, QUERY, scope="task", **arguments)
    assert error.code == "NOT_FOUND"
    for text in materials:
        error = await extract_error(app, QUERY, document=content_id(text), **arguments)
        assert error.code == "NOT_FOUND"


def assert_says_to_call_again(error: WireError | None) -> None:
    """Assert that a call failed with UNAVAILABLE, and that the message says when to call again."""
    assert error is not None
    assert error.code == "UNAVAILABLE"
    assert error.retry_after, error
    assert re.search(r"\b[Cc]all it again in \d+ s\b", error.message), error.message


def _strip_ids(name: str, upload_ids: set[str]) -> str:
    return ".".join(part for part in name.split(".") if part not in upload_ids)


def _drop_times(fields: dict[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (fields or {}).items() if name not in TIME_FIELDS}
