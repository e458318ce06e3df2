"""Every form of the console refuses missing, wrong and too long values in words, storing nothing.

The forms are read from the pages, so a new one is tested, too.
"""

from collections.abc import AsyncIterator, Iterator
from itertools import product
from typing import Any, Final, NamedTuple

import httpx2
import pytest
from lxml.html import HtmlElement

from functions.gateway.access import Access
from infra.local.inline import InlineDispatcher
from shared.accounts.repositories.access_store import AccessStore
from shared.core.caller import Caller, Role
from shared.core.settings import Settings
from tests.support.commit_hooks import WatchedApp
from tests.support.console_app import (
    WORDS_FOR_MODELS,
    open_signed_in_console,
    parse_page,
    read_texts,
    select,
)
from tests.support.database_dump import read_all_documents, summarize
from tests.support.jobs import make_job_context
from tests.support.knowledge import BAKING, chunk_source, store_sources
from tests.support.tool_calls import call_result

TYPED: Final = {"name": "laptop", "text": "Ask the miller."}
"""What a person types into fields that are empty at first."""
ADA: Final = Caller.of("ada", role=Role.OWNER)
WRONG: Final = "\x07/wrong"
LONG: Final = "x" * 200_000
"""Longer than each field allows; a request may be longer."""

ACCEPTED: Final = {
    *((name, None) for name in ("idempotency_key", "author", "tags", "chunk_id")),  # optional
    ("idempotency_key", WRONG),  # any text
    *product(("former_title", "former_author", "former_tags"), (None, WRONG, LONG)),
}
"""Values that a form need not refuse. What was there before only says what a person changed."""
NOT_READ: Final = {(name, "idempotency_key") for name in ("revoke_key", "end_grant")}
"""Fields that a form need not read: what it changes is changed once in any case."""
COUNTS: Final = {"calls", "limits", "usage"}
"""Collections of the records of calls, and of their rates."""


class Form(NamedTuple):
    """A form of a page: its name, the path to which it is sent, and its fields."""

    name: str
    path: str
    fields: dict[str, str]


def read_forms(page: HtmlElement, path: str) -> Iterator[Form]:
    """Yield the forms of a page that change something, as a person fills them in."""
    for form in select(page, "form[method=post]"):
        fields = {name: value or TYPED.get(name, "") for name, value in form.fields.items()}
        if "tags" in fields:
            fields["tags"] += "\nbread"
        for button in select(form, "button[name]")[:1]:
            fields[button.get("name")] = button.get("value")
        target = form.get("action") or path
        yield Form(fields.get("action", target), target, fields)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Settings without limits that this test would reach."""
    return settings.model_copy(update={"reads_per_minute": 9_999, "writes_per_minute": 9_999})


@pytest.fixture
async def browser(access: Access, app: WatchedApp) -> AsyncIterator[httpx2.AsyncClient]:
    """A browser of an owner, with a base in which every form has something to change."""
    await AccessStore(access.connection).accounts.set_role("ada", Role.OWNER)
    await store_sources(make_job_context(app), BAKING)
    dispatcher = InlineDispatcher(app)
    async with (
        open_signed_in_console(access, dispatcher),  # a sign-in that can be ended
        open_signed_in_console(access, dispatcher) as client,
    ):
        yield client


async def store_what_forms_change(app: WatchedApp) -> list[str]:
    """Edit a source, save a note and forget another; return the paths of pages with all forms."""
    result = await call_result(app, "edit_source", ADA, source_id="baking", revision=0, title="Rye")
    assert result["changed"]
    note = await call_result(app, "save_note", ADA, text="Ask the baker.")
    other = await call_result(app, "save_note", ADA, text="Another thought about sails.")
    await call_result(app, "forget", ADA, source_id=other["source_id"])
    [chunk_id, *_] = (chunk.chunk_id for chunk in chunk_source(BAKING).chunks)
    note_path = f"/sources/{note['source_id']}"
    return [f"/sources/baking?passage={chunk_id}", note_path, "/forgotten", "/you"]


async def summarize_databases(app: WatchedApp, access: Access) -> list[dict[str, Any]]:
    """Return what both databases say, without the records of calls and of their rates."""
    connections = (app.connection, access.connection)
    stored = [summarize(await read_all_documents(each.client)) for each in connections]
    return [
        {path: data for path, data in part.items() if path.partition("/")[0] not in COUNTS}
        for part in stored
    ]


async def test_a_form_refuses_what_is_missing_wrong_or_too_long(
    browser: httpx2.AsyncClient, app: WatchedApp, access: Access
) -> None:
    names: set[str] = set()
    problems: list[tuple[object, ...]] = []
    origin = {"origin": str(browser.base_url).rstrip("/")}
    paths = await store_what_forms_change(app)
    before = await summarize_databases(app, access)
    for path in paths:
        for form in read_forms(parse_page(await browser.get(path)), path):
            names.add(form.name)
            for name, value in product(form.fields, (None, WRONG, LONG)):
                if (name, value) in ACCEPTED or (form.name, name) in NOT_READ:
                    continue
                fields = {**form.fields, name: value}
                data = {key: text for key, text in fields.items() if text is not None}
                response = await browser.post(form.path, data=data, headers=origin)
                case = (form.name, name, (value or "missing")[:7], response.status_code)
                if response.status_code not in range(400, 500):
                    problems.append(case)
                    continue
                messages = read_texts(parse_page(response), "[role=alert]")
                if not messages or any(map(WORDS_FOR_MODELS.search, messages)):
                    problems.append((*case, messages))
    assert problems == []
    assert await summarize_databases(app, access) == before
    assert names == {
        *("edit", "edit_note", "forget", "note", "reset", "restore"),
        *("end_grant", "revoke_key", "/you/key", "/session/end"),
    }
