"""Audit facts of a tool are in the log and in the record of the call, but are not sent to clients.

A tool states facts such as sizes and scores for the audit. It may also state to which task of the
user the call belongs. Names of tasks are hashed in the log.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from mcp import Client
from pydantic import SecretStr

from functions.gateway.access import Access
from functions.gateway.auth.visitor import Visitor
from functions.gateway.calls.call_log import hash_task
from functions.gateway.calls.pipeline import make_call_id
from functions.gateway.catalog import Declaration
from functions.gateway.mcp.results import RECEIPT
from shared.accounts.repositories.access_store import AccessStore
from shared.core.caller import Caller
from shared.core.settings import Settings
from shared.firestore.documents import Reference
from shared.runtime.messages import CallAnswer, CallRequest, Receipt
from shared.runtime.tool import Effect
from tests.support.fake_catalog import make_server, make_tool

WRITING_TOOL = make_tool("write_down", effect=Effect.WRITE)
FACTS = {"passages": 7, "document": "d3adbeef", "scores": [0.5, 0.25]}
RECEIPT_WITH_FACTS = Receipt(documents_read=3, task="essay", notes=FACTS)
ARGUMENTS = {"idempotency_key": "k"}


class FixedReceiptDispatcher:
    """A dispatcher that answers every call with the same receipt."""

    def __init__(self, receipt: Receipt) -> None:
        """Answer with this receipt."""
        self._receipt = receipt

    async def call(self, tool: Declaration, request: CallRequest) -> CallAnswer:
        """Answer a call."""
        result = {"tool": tool.name, "call_id": request.call_id}
        return CallAnswer(result=result, receipt=self._receipt)

    async def health(self) -> dict[str, str]:
        """Report no parts."""
        return {}


@pytest.fixture
async def access(project: str) -> AsyncIterator[Access]:
    """The access control of the gateway."""
    settings = Settings(google_cloud_project=project, access_secrets=(SecretStr("s" * 32),))
    access = Access(settings)
    yield access
    await access.aclose()


async def call_and_log(
    access: Access, receipt: Receipt, capsys: pytest.CaptureFixture[str], user: str = "anna"
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Make a call with a key for the task `thesis`; return the log entry and the record."""
    visitor = Visitor(Caller.of(user, task="thesis"), None)
    pipeline = access.make_pipeline(FixedReceiptDispatcher(receipt))
    await pipeline.call(WRITING_TOOL, ARGUMENTS, visitor)
    [line] = capsys.readouterr().err.splitlines()
    database = AccessStore(access.connection).database
    call_id = make_call_id(WRITING_TOOL, ARGUMENTS, visitor)
    record = await database.get(Reference("calls", call_id))
    return json.loads(line), record.fields


async def test_the_log_and_the_audit_have_the_facts_and_the_task(
    access: Access, capsys: pytest.CaptureFixture[str]
) -> None:
    entry, record = await call_and_log(access, RECEIPT_WITH_FACTS, capsys)
    assert entry["task"] == hash_task("essay", "anna", access.keyring)
    assert entry["notes"] == FACTS
    assert record["task"] == "essay"
    assert record["notes"] == FACTS


async def test_a_call_without_facts_has_the_task_of_the_credential(
    access: Access, capsys: pytest.CaptureFixture[str]
) -> None:
    entry, record = await call_and_log(access, Receipt(), capsys)
    assert entry["task"] == hash_task("thesis", "anna", access.keyring)
    assert "notes" not in entry
    assert record["task"] == "thesis"
    assert record["notes"] == {}


async def test_the_log_has_no_name_of_a_task(
    access: Access, capsys: pytest.CaptureFixture[str]
) -> None:
    entry, _ = await call_and_log(access, RECEIPT_WITH_FACTS, capsys)
    for name in ("essay", "thesis"):
        assert name not in json.dumps(entry)


async def test_different_tasks_have_different_hashes_in_the_log(
    access: Access, capsys: pytest.CaptureFixture[str]
) -> None:
    entry, _ = await call_and_log(access, Receipt(task="c"), capsys, user="a/b")
    other_entry, _ = await call_and_log(access, Receipt(task="b/c"), capsys, user="a")
    assert entry["task"] != other_entry["task"]


async def test_the_hash_of_a_task_depends_on_the_secret(
    access: Access, project: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the secret, a reader of the log cannot test guesses of names."""
    settings = Settings(google_cloud_project=project, access_secrets=(SecretStr("t" * 32),))
    other_access = Access(settings)
    entry, _ = await call_and_log(access, RECEIPT_WITH_FACTS, capsys)
    other_entry, _ = await call_and_log(other_access, RECEIPT_WITH_FACTS, capsys)
    await other_access.aclose()
    assert entry["task"] != other_entry["task"]


async def test_clients_do_not_see_audit_facts() -> None:
    async with Client(
        make_server(FixedReceiptDispatcher(RECEIPT_WITH_FACTS)), mode="2026-07-28"
    ) as client:
        result = await client.call_tool("get_book", {"book_id": "b"})
        resource = await client.read_resource("carrel://book/b")
    for meta in (result.meta, resource.meta):
        assert (meta or {})[RECEIPT]["documents_read"] == 3
        assert not {"notes", "task"} & (meta or {})[RECEIPT].keys()
