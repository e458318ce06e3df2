"""Audit facts of a tool are in the log and the audit, and are not sent to clients."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from mcp import Client
from pydantic import SecretStr

from functions.gateway.access import Access
from functions.gateway.auth.visitor import Visitor
from functions.gateway.calls.call_log import hash_task
from functions.gateway.calls.pipeline import make_call_id
from functions.gateway.mcp.results import RECEIPT
from shared.accounts.repositories.access_store import AccessStore
from shared.core.caller import Caller
from shared.core.settings import Settings
from shared.runtime.messages import CallAnswer, Receipt
from shared.runtime.tool import Effect
from tests.support.fake_catalog import make_server, make_tool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from functions.gateway.catalog import Declaration
    from shared.runtime.messages import CallRequest

pytestmark = pytest.mark.anyio

WRITING = make_tool("write_down", effect=Effect.WRITE)
NOTES = {"passages": 7, "document": "d3adbeef", "scores": [0.5, 0.25]}
RECEIPT_WITH_FACTS = Receipt(documents_read=3, task="essay", notes=NOTES)
ARGUMENTS = {"idempotency_key": "k"}


class FixedReceipt:
    """A dispatcher that answers every call with the same receipt."""

    def __init__(self, receipt: Receipt) -> None:
        """Answer with this receipt."""
        self._receipt = receipt

    async def call(self, tool: Declaration, request: CallRequest) -> CallAnswer:
        """Answer a call."""
        called = {"tool": tool.name, "call_id": request.call_id}
        return CallAnswer(result=called, receipt=self._receipt)

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


async def read_line_and_record(
    access: Access, receipt: Receipt, capsys: pytest.CaptureFixture[str], user: str = "anna"
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Make a call in the task `thesis`; return its log entry and its record."""
    anna = Visitor(Caller.of(user, task="thesis"), None)
    await access.make_pipeline(FixedReceipt(receipt)).call(WRITING, ARGUMENTS, anna)
    [line] = capsys.readouterr().err.splitlines()
    store = AccessStore(access.connection)
    name = make_call_id(WRITING, ARGUMENTS, anna)
    stored = await store.database.get(store.database.document("calls", name))
    return json.loads(line), stored.to_dict() or {}


async def test_the_log_and_the_audit_have_the_facts_and_the_task(
    access: Access, capsys: pytest.CaptureFixture[str]
) -> None:
    line, record = await read_line_and_record(access, RECEIPT_WITH_FACTS, capsys)
    assert line["task"] == hash_task("essay", "anna", access.keyring)
    assert line["notes"] == NOTES
    assert record["task"] == "essay"
    assert record["notes"] == NOTES


async def test_without_facts_the_task_is_that_of_the_credential(
    access: Access, capsys: pytest.CaptureFixture[str]
) -> None:
    line, record = await read_line_and_record(access, Receipt(), capsys)
    assert line["task"] == hash_task("thesis", "anna", access.keyring)
    assert "notes" not in line
    assert record["task"] == "thesis"
    assert record["notes"] == {}


async def test_the_log_has_no_name_of_a_task(
    access: Access, capsys: pytest.CaptureFixture[str]
) -> None:
    line, _ = await read_line_and_record(access, RECEIPT_WITH_FACTS, capsys)
    assert not [name for name in ("essay", "thesis") if name in json.dumps(line)]


async def test_different_tasks_have_different_hashes_in_the_log(
    access: Access, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        (await read_line_and_record(access, Receipt(task=task), capsys, user))[0]
        for user, task in (("a/b", "c"), ("a", "b/c"))
    ]
    assert lines[0]["task"] != lines[1]["task"]


async def test_the_hash_of_a_task_depends_on_the_secret(
    access: Access, project: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A reader of the log cannot guess names of tasks."""
    settings = Settings(google_cloud_project=project, access_secrets=(SecretStr("t" * 32),))
    other = Access(settings)
    line, _ = await read_line_and_record(access, RECEIPT_WITH_FACTS, capsys)
    other_line, _ = await read_line_and_record(other, RECEIPT_WITH_FACTS, capsys)
    await other.aclose()
    assert line["task"] != other_line["task"]


async def test_clients_do_not_see_audit_facts() -> None:
    async with Client(make_server(FixedReceipt(RECEIPT_WITH_FACTS)), mode="2026-07-28") as client:
        called = await client.call_tool("get_book", {"book_id": "b"})
        read = await client.read_resource("carrel://book/b")
    for meta in (called.meta, read.meta):
        assert (meta or {})[RECEIPT]["documents_read"] == 3
        assert not {"notes", "task"} & (meta or {})[RECEIPT].keys()
