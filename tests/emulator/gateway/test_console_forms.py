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

TYPED_TEXTS: Final = {
    "name": "laptop",
    "text": "Ask the miller.",
    "title": "Mills",
    "url": "https://example.com/",
}
"""What a person types into the fields that a page shows empty."""
ADA: Final = Caller.of("ada", role=Role.OWNER)
WRONG: Final = "\x07/wrong"
"""A control character, which no field takes, and a sign that no id has."""
TOO_LONG: Final = "x" * 200_000
"""More than any field takes, and less than a request may have."""

VALID: Final = {
    *((name, None) for name in ("idempotency_key", "author", "tags", "chunk_id")),  # optional
    ("idempotency_key", WRONG),  # may be any text
    *product(("former_title", "former_author", "former_tags"), (None, WRONG, TOO_LONG)),
}
"""Fields and values that no form refuses. A former value only shows whether a person changed it,
so it may be anything."""
IGNORED: Final = {(name, "idempotency_key") for name in ("revoke_key", "end_grant")}
"""Forms and fields that are not read, because revoking a key or a sign-in twice changes nothing."""
CALL_RECORDS: Final = {"calls", "limits", "usage"}
"""The collections that every request changes."""


class Form(NamedTuple):
    """A form of a page: its name, the path to which it is sent, and its fields."""

    name: str
    path: str
    fields: dict[str, str]


def read_forms(page: HtmlElement, path: str) -> Iterator[Form]:
    """Yield the forms of a page that change something, as a person fills them in."""
    for form in select(page, "form[method=post]"):
        fields = {name: value or TYPED_TEXTS.get(name, "") for name, value in form.fields.items()}
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


async def store_content_of_forms(app: WatchedApp) -> list[str]:
    """Edit a source, save a note and forget another, so that each form has something to change.

    Returns:
        The paths of pages that have all forms between them.
    """
    result = await call_result(app, "edit_source", ADA, source_id="baking", revision=0, title="Rye")
    assert result["changed"]
    note = await call_result(app, "save_note", ADA, text="Ask the baker.")
    other = await call_result(app, "save_note", ADA, text="Another thought about sails.")
    await call_result(app, "forget", ADA, source_id=other["source_id"])
    [chunk_id, *_] = (chunk.chunk_id for chunk in chunk_source(BAKING).chunks)
    note_path = f"/sources/{note['source_id']}"
    return [f"/sources/baking?passage={chunk_id}", note_path, "/", "/forgotten", "/you", "/add"]


async def summarize_databases(app: WatchedApp, access: Access) -> list[dict[str, Any]]:
    """Return the documents of both databases, without `CALL_RECORDS`."""
    connections = (app.connection, access.connection)
    stored = [summarize(await read_all_documents(each.client)) for each in connections]
    return [
        {
            path: data
            for path, data in documents.items()
            if path.partition("/")[0] not in CALL_RECORDS
        }
        for documents in stored
    ]


def make_submissions(form: Form) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield a description of each wrong submission of a form, and the fields that it sends."""
    for name, value in product(form.fields, (None, WRONG, TOO_LONG)):
        is_default = (form.name, name, value) == ("new_note", "title", None)
        if is_default or (name, value) in VALID or (form.name, name) in IGNORED:
            continue
        others = {other: text for other, text in form.fields.items() if other != name}
        if value is None:
            yield f"{form.name} without {name}", others
        else:
            yield f"{form.name} with {name}={value[:7]!r}", {**others, name: value}


async def test_a_form_refuses_what_is_missing_wrong_or_too_long(
    browser: httpx2.AsyncClient, app: WatchedApp, access: Access
) -> None:
    origin = {"origin": str(browser.base_url).rstrip("/")}
    paths = await store_content_of_forms(app)
    before = await summarize_databases(app, access)
    pages = [(path, parse_page(await browser.get(path))) for path in paths]
    forms = [form for path, page in pages for form in read_forms(page, path)]
    problems: list[tuple[str, int, list[str]]] = []
    for form in forms:
        for description, fields in make_submissions(form):
            response = await browser.post(form.path, data=fields, headers=origin)
            messages = read_texts(parse_page(response), "[role=alert]")
            is_refused = 400 <= response.status_code < 500
            if not (is_refused and messages) or any(map(WORDS_FOR_MODELS.search, messages)):
                problems.append((description, response.status_code, messages))
    assert problems == []
    assert await summarize_databases(app, access) == before
    assert {form.name for form in forms} == {
        *("edit", "edit_note", "forget", "link", "new_note", "note", "reset", "restore", "review"),
        *("end_grant", "revoke_key", "/you/key", "/session/end"),
    }
