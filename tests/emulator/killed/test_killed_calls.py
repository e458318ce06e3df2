"""A call that writes can be killed at any commit, and repeated with its idempotency key."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple

import pytest

from infra.build.discovery import tools
from shared.core.caller import Caller, Role
from shared.core.errors import Unavailable
from shared.knowledge import forgotten_chunks
from shared.links.model import Link, LinkState
from shared.links.repository import build_listing_write
from shared.runtime.context import App
from shared.runtime.tool import Effect
from shared.workspaces.model import content_id
from shared.writer import source_editing, source_move
from tests.support.forgetting import LONG, store_base
from tests.support.jobs import make_job_context
from tests.support.kills import Base, Work, assert_repeatable
from tests.support.knowledge import SAILING, store_sources
from tests.support.stored_materials import PARAGRAPH_COUNT, QUERY, make_text
from tests.support.tool_calls import call, call_result
from tests.support.traces import contribute, make_sample_trace

Arguments = dict[str, Any]


USER: Final = "olga"
OWNER: Final = Caller.of(USER, role=Role.OWNER)
TEXT: Final = make_text()
"""A text of two batches, which is too long for a call if `LOW_LIMIT` is set."""
LOW_LIMIT: Final = {"extract_materials_characters": 500}
SHORT: Final = replace(LONG, sections=LONG.sections[:10])
"""A source that is moved and edited with several commits."""
URL: Final = "https://rye.example/bread"


async def call_as_owner(app: App, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool, and return its result."""
    return await call_result(app, tool, OWNER, **arguments)


async def save_note(_app: App) -> Arguments:
    return {"text": "Oat bread keeps for two days.", "tags": ["oats"]}


async def change_note(app: App) -> Arguments:
    note = await call_as_owner(app, "save_note", text="Rye bread keeps for a week.")
    change = {"revision": 1, "text": "It is eaten."}
    return {"source_id": note["source_id"]} | change


async def edit_source(app: App) -> Arguments:
    await store_sources(make_job_context(app), SHORT)
    return {"source_id": "long", "revision": 0, "title": "Loaves"}


async def answer_review(app: App) -> Arguments:
    chunk, *_ = await store_base(make_job_context(app))
    return {"chunk_id": chunk.chunk_id, "answer": "keep"}


async def forget_passage(app: App) -> Arguments:
    chunk, *_ = await store_base(make_job_context(app))
    return {"chunk_id": chunk.chunk_id}


async def forget_last_passage(app: App) -> Arguments:
    source = replace(SAILING, sections=SAILING.sections[:1])
    [chunk] = await store_sources(make_job_context(app), source)
    return {"chunk_id": chunk.chunk_id}


async def forget_source(app: App) -> Arguments:
    await store_sources(make_job_context(app), SHORT, SAILING)
    return {"source_id": "long"}


async def restore_passage(app: App) -> Arguments:
    passage = await forget_passage(app)
    await call_as_owner(app, "forget", **passage)
    return passage | {"forgotten": False}


async def restore_source(app: App) -> Arguments:
    source = await forget_source(app)
    await call_as_owner(app, "forget", **source)
    return source | {"forgotten": False}


async def list_link(app: App) -> Arguments:
    link = Link(source_id="rye", url=URL, state=LinkState.LISTED, list_name="Pocket")
    await make_job_context(app).database.commit([build_listing_write(link)])
    return {}


async def save_link(_app: App) -> Arguments:
    return {"url": URL, "title": "Rye", "tags": ["rye"]}


async def cancel_link(app: App) -> Arguments:
    await call_as_owner(app, "save_link", url=URL)
    return {"url": URL, "cancel": True}


async def save_page(_app: App) -> Arguments:
    return {"url": URL, "page": "<p>Rye."}


async def add_tasks(app: App) -> Arguments:
    await call_as_owner(app, "add_task", title="Bake")
    return {"tasks": [{"title": "Sail"}, {"title": "Read"}]}


async def update_task(app: App) -> Arguments:
    await call_as_owner(app, "add_task", title="Bake")
    return {"task_id": "1", "title": "Bake rye"}


async def complete_task(app: App) -> Arguments:
    await call_as_owner(app, "add_task", title="Bake")
    return {"task_id": "1"}


async def delete_task(app: App) -> Arguments:
    await call_as_owner(app, "add_task", title="Bake")
    return {"task_id": "1"}


async def restore_task(app: App) -> Arguments:
    await call_as_owner(app, "add_task", title="Bake")
    await call_as_owner(app, "delete_task", task_id="1")
    return {"task_id": "1"}


async def contribute_successor(app: App) -> Arguments:
    first = await contribute(app, 0, USER)
    return make_sample_trace(1, supersedes=first)


async def amend_trace(app: App) -> Arguments:
    trace = await contribute(app, 0, USER)
    return {"trace_id": trace, "solution_text": "Try again.", "tags": ["rare"]}


async def vote_on_trace(app: App) -> Arguments:
    trace = await contribute(app, 0)
    return {"trace_id": trace, "vote_type": "up"}


async def withdraw_successor(app: App) -> Arguments:
    successor = await contribute_successor(app)
    result = await call_as_owner(app, "contribute_trace", **successor)
    return {"trace_id": result["trace_id"]}


async def restore_successor(app: App) -> Arguments:
    trace = await withdraw_successor(app)
    await call_as_owner(app, "withdraw_trace", **trace)
    return trace | {"withdrawn": False}


async def upload_text(_app: App) -> Arguments:
    return {"query": QUERY, "materials": TEXT}


async def check_text_is_whole(app: App) -> None:
    """Assert that the text is visible with all its passages, or not at all."""
    answer = await call(app, "extract_key_info", OWNER, query=QUERY, scope="task")
    if answer.error:
        assert answer.error.code == "NOT_FOUND"
    else:
        assert answer.result
        assert answer.result["considered"] == PARAGRAPH_COUNT


async def resume_text(app: App) -> Arguments:
    await call_as_owner(app, "extract_key_info", **await upload_text(app))
    return {"query": QUERY, "document": content_id(TEXT)}


class Write(NamedTuple):
    """A call that writes.

    Attributes:
        prepare: Fills the base, and returns the arguments of the call.
        settings: The fields of the deployment's settings.
        uncompared: What an answer says about the repeated call alone.
        check: Asserts what others see right after a kill.
    """

    prepare: Callable[[App], Awaitable[Arguments]]
    settings: Arguments = {}  # noqa: RUF012 - nobody changes it
    uncompared: frozenset[str] = frozenset()
    check: Callable[[App], Awaitable[None]] | None = None


WRITES: Final = {
    "add_task": [Write(add_tasks)],
    "amend_trace": [Write(amend_trace)],
    "answer_review": [Write(answer_review)],
    "complete_task": [Write(complete_task)],
    "contribute_trace": [Write(contribute_successor)],
    "delete_task": [Write(delete_task)],
    "edit_source": [Write(edit_source)],
    "extract_key_info": [
        Write(upload_text, uncompared=frozenset({"known"}), check=check_text_is_whole),
        Write(resume_text, LOW_LIMIT),
    ],
    "forget": [
        Write(forget_passage),
        Write(forget_last_passage),
        Write(forget_source),
        Write(restore_passage),
        Write(restore_source),
    ],
    "fetch_links": [Write(list_link)],
    "restore_task": [Write(restore_task)],
    "save_link": [Write(save_link), Write(cancel_link)],
    "save_note": [Write(save_note), Write(change_note)],
    "save_page": [Write(save_page)],
    "update_task": [Write(update_task)],
    "vote_trace": [Write(vote_on_trace)],
    "withdraw_trace": [Write(withdraw_successor), Write(restore_successor)],
}
"""The calls by tool."""


def test_every_tool_that_writes_is_killed() -> None:
    writing_tools = {tool.name for tool in tools() if tool.effect is not Effect.READ}
    assert WRITES.keys() == writing_tools


@pytest.mark.requirement("001-P4", "003-D5")
@pytest.mark.parametrize(
    ("tool", "write"),
    [
        pytest.param(tool, write, id=f"{tool}-{write.prepare.__name__}-{len(write.settings)}")
        for tool, writes in WRITES.items()
        for write in writes
    ],
)
async def test_a_call_killed_at_any_commit_can_be_repeated(
    base: Base, tool: str, write: Write
) -> None:
    base.patch.setattr(source_editing, "MAX_CHANGES", 4)
    for module in (forgotten_chunks, source_move):
        base.patch.setattr(module, "CHUNKS_PER_COMMIT", 4)
    base.settings |= write.settings
    base.uncompared |= write.uncompared
    base.check = write.check

    @asynccontextmanager
    async def prepare_call(base: Base) -> AsyncIterator[Work]:
        async with base.open() as app:
            arguments = await write.prepare(app)
        yield lambda app: make_call(app, tool, arguments)

    await assert_repeatable(prepare_call, base)


async def make_call(app: App, tool: str, arguments: Arguments) -> Any:
    """Call a tool, and return its result.

    Raises:
        Unavailable: The database does not answer.
    """
    answer = await call(app, tool, OWNER, idempotency_key="k", **arguments)
    if answer.error and answer.error.code == "UNAVAILABLE":
        raise Unavailable(answer.error.message)
    assert answer.error is None, answer.error
    return answer.result
