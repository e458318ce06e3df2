"""Materials that take several batches, and what the database then holds of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.workspaces.model import content_id
from tests.support.fakes.openai import MODEL
from tests.support.materials import READER, refused
from tests.support.tool_calls import call

if TYPE_CHECKING:
    from shared.runtime.context import App
    from shared.runtime.messages import CallAnswer, WireError
    from tests.support.fakes.openai import FakeOpenAI

PARAGRAPHS: Final = 40
"""A full batch, and one that is not."""
DIMENSION: Final = 16
"""The length of vectors: a short one is quickly stored."""
TIMES: Final = {"created_at", "touched_at", "brought_at", "kept_at", "next_at"}
QUERY: Final = "thing 31 became what"


def paragraph(number: int) -> str:
    """A passage like no other."""
    return f"Thing {number} was found in room {number % 7}, and became word{number * 7919}."


def pages(paragraphs: int = PARAGRAPHS, first: int = 0) -> str:
    """So many passages, parted by blank lines."""
    return "\n\n".join(paragraph(number) for number in range(first, first + paragraphs))


def settings_with(fake: FakeOpenAI, project: str, **more: Any) -> Settings:
    """Settings that embed with a server of tests."""
    return Settings(**fields_with(fake, project, **more))


def fields_with(fake: FakeOpenAI, project: str, **more: Any) -> dict[str, Any]:
    """The same, as fields."""
    return {
        "google_cloud_project": project,
        "embedding_provider": "openai",
        "openai_base_url": fake.base_url,
        "openai_model": MODEL,
        "openai_dimension": DIMENSION,
    } | more


async def asked(
    app: App, seconds: float = 30.0, caller: Caller = READER, **arguments: Any
) -> CallAnswer:
    """Ask `QUERY`, if nothing else, and return the answer that comes within so many seconds."""
    arguments = {"query": QUERY} | arguments
    return await call(app, "extract_key_info", caller, seconds=seconds, **arguments)


def embedded(fake: FakeOpenAI) -> list[str]:
    """The passages that were embedded so far, in order; questions are none."""
    return [text for each in fake.calls for text in each.texts if text.startswith("Thing")]


async def contents(app: App, caller: Caller = READER) -> dict[str, dict[str, Any]]:
    """All that stands under a user's tasks, but for when, and in which arrival, it was written.

    What is left of an arrival that no document names keeps its name.
    """
    client = app.context(Caller(), Meter()).database.client
    found: dict[str, dict[str, Any]] = {}
    async for task in client.collection(f"users/{caller.user_id}/rag_tasks").list_documents():
        seen = await task.get()
        if seen.exists:
            found[task.id] = _timeless(seen.to_dict())
        async for collection in task.collections():
            async for each in collection.stream():
                found[f"{task.id}/{collection.id}/{each.id}"] = _timeless(each.to_dict())
    arrivals = {fields.pop("arrival") for fields in found.values() if "arrival" in fields}
    for fields in found.values():
        if "prepaid" in fields:  # which call it was is by chance
            fields["prepaid"] = fields["prepaid"] is not None
        if "facets" in fields:
            fields["facets"] = {_unnamed(facet, arrivals) for facet in fields["facets"]}
    return {_unnamed(name, arrivals): fields for name, fields in found.items()}


async def with_vectors(app: App) -> set[str]:
    """The texts of the passages that are stored with a vector."""
    found = await contents(app)
    return {each["text"] for each in found.values() if "embedding" in each}


async def answers_kept(app: App, caller: Caller = READER) -> list[dict[str, Any]]:
    """The answers that are kept for calls that may be sent again."""
    client = app.context(Caller(), Meter()).database.client
    replays = client.collection(f"users/{caller.user_id}/replays")
    return [each.to_dict() or {} async for each in replays.stream()]


async def assert_nothing_found(app: App, *materials: str, **where: Any) -> None:
    """No search finds anything of these materials, nor of the task."""
    assert "NOT_FOUND" == (await refused(app, QUERY, scope="task", **where)).code
    for text in materials:
        assert "NOT_FOUND" == (await refused(app, QUERY, document=content_id(text), **where)).code


def assert_says_to_call_again(error: WireError | None) -> None:
    """It is an outage, and the words say what to do about it."""
    assert error is not None
    assert "UNAVAILABLE" == error.code
    assert error.retry_after, error
    assert re.search(r"\b[Cc]all it again in \d+ s\b", error.message), error.message


def difference(
    expected: dict[str, dict[str, Any]], stored: dict[str, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """The documents that are not as expected, and what of each is there instead; few words."""
    names = expected.keys() | stored.keys()
    return {
        name: _short(expected.get(name, {}), stored.get(name))
        for name in sorted(names)
        if expected.get(name) != stored.get(name)
    }


def _short(expected: dict[str, Any], stored: dict[str, Any] | None) -> dict[str, Any]:
    if stored is None:
        return {"missing": True}
    return {
        name: stored.get(name)
        for name in expected.keys() | stored.keys()
        if expected.get(name) != stored.get(name)
    }


def _unnamed(name: str, arrivals: set[str]) -> str:
    return ".".join(part for part in name.split(".") if part not in arrivals)


def _timeless(fields: dict[str, Any] | None) -> dict[str, Any]:
    kept = {name: value for name, value in (fields or {}).items() if name not in TIMES}
    if "embedding" in kept:
        kept["embedding"] = tuple(kept["embedding"])
    return kept
