"""The gateway records calls in the database and in the log, and refuses those that nobody pays for.

A tool states facts such as sizes and scores for the audit. It may also state to which task of the
user the call belongs. Neither is sent to clients, and names of tasks are hashed in the log.
"""

import json
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
from shared.core.caller import Caller, Scope
from shared.core.errors import PaymentRequired
from shared.core.settings import Settings
from shared.firestore.documents import Reference
from shared.runtime.messages import CallAnswer, CallRequest, Receipt
from shared.runtime.tool import Effect
from tests.support.clock import NOON
from tests.support.fake_catalog import FakeDispatcher, make_server, make_tool

WRITING_TOOL = make_tool("write_down", effect=Effect.WRITE)
PRICED_TOOL = make_tool("look_up", price=1_000)
FACTS = {"passages": 7, "document": "d3adbeef", "scores": [0.5, 0.25]}
RECEIPT_WITH_FACTS = Receipt(documents_read=3, task="essay", notes=FACTS)
ARGUMENTS = {"idempotency_key": "k"}


class FixedReceiptDispatcher(FakeDispatcher):
    """A dispatcher that answers every call with the same receipt."""

    def __init__(self, receipt: Receipt) -> None:
        """Answer with this receipt."""
        super().__init__(lambda *_: {})
        self._receipt = receipt

    async def call(self, tool: Declaration, request: CallRequest) -> CallAnswer:
        """Answer a call."""
        return CallAnswer(
            result={"tool": tool.name, "call_id": request.call_id}, receipt=self._receipt
        )


async def call_and_log(
    access: Access, receipt: Receipt, capsys: pytest.CaptureFixture[str], user: str = "anna"
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Make a call with a key for the task `thesis`; return the log entry and the record."""
    visitor = Visitor(Caller.of(user, task="thesis", client="Reading Assistant"), None)
    pipeline = access.make_pipeline(FixedReceiptDispatcher(receipt))
    await pipeline.call(WRITING_TOOL, ARGUMENTS, visitor)
    [line] = capsys.readouterr().err.splitlines()
    call_id = make_call_id(WRITING_TOOL, ARGUMENTS, visitor)
    record = await AccessStore(access.connection).database.get(Reference("calls", call_id))
    return json.loads(line), record.fields


def test_a_call_has_the_id_of_its_user_tool_and_key() -> None:
    """Otherwise one user's call would be paid, and answered, by another's."""

    def make_ids() -> list[str]:
        return [
            make_call_id(tool, {"idempotency_key": key}, Visitor(Caller.of(user), None))
            for user in ("anna", "ben")
            for tool in (WRITING_TOOL, PRICED_TOOL)
            for key in ("k", "l")
        ]

    assert len(set(make_ids())) == 8
    assert make_ids() == make_ids()


async def test_the_log_and_the_record_have_the_facts_and_the_task(
    access: Access, capsys: pytest.CaptureFixture[str]
) -> None:
    entry, record = await call_and_log(access, RECEIPT_WITH_FACTS, capsys)
    assert entry["task"] == hash_task("essay", "anna", access.keyring)
    assert entry["notes"] == FACTS
    recorded = {"task": "essay", "notes": FACTS, "outcome": "ok", "started_at": NOON}
    assert recorded.items() <= record.items()


async def test_a_call_without_facts_has_the_task_of_the_credential(
    access: Access, capsys: pytest.CaptureFixture[str]
) -> None:
    entry, record = await call_and_log(access, Receipt(), capsys)
    assert entry["task"] == hash_task("thesis", "anna", access.keyring)
    assert "notes" not in entry
    assert {"task": "thesis", "notes": {}}.items() <= record.items()


async def test_the_record_alone_names_the_client(
    access: Access, capsys: pytest.CaptureFixture[str]
) -> None:
    entry, record = await call_and_log(access, Receipt(), capsys)
    assert record["client"] == "Reading Assistant"
    assert "Reading" not in json.dumps(entry)


async def test_the_log_has_no_name_of_a_task(
    access: Access, capsys: pytest.CaptureFixture[str]
) -> None:
    entry, _ = await call_and_log(access, RECEIPT_WITH_FACTS, capsys)
    assert "essay" not in json.dumps(entry)
    assert "thesis" not in json.dumps(entry)


async def test_the_hash_of_a_task_depends_on_user_task_and_secret(
    access: Access, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the secret, a reader of the log cannot test guesses of names."""
    other_secrets = (SecretStr("t" * 32),)
    other_access = Access(settings.model_copy(update={"access_secrets": other_secrets}))
    hashes = set()
    for services, user, task in (
        (access, "a/b", "c"),
        (access, "a", "b/c"),
        (other_access, "a", "b/c"),
    ):
        entry, _ = await call_and_log(services, Receipt(task=task), capsys, user=user)
        hashes.add(entry["task"])
    await other_access.aclose()
    assert len(hashes) == 3


async def test_clients_do_not_see_audit_facts() -> None:
    server = make_server(FixedReceiptDispatcher(RECEIPT_WITH_FACTS))
    async with Client(server, mode="2026-07-28") as client:
        result = await client.call_tool("get_book", {"book_id": "b"})
        resource = await client.read_resource("carrel://book/b")
    for meta in (result.meta, resource.meta):
        assert (meta or {})[RECEIPT]["documents_read"] == 3
        assert not {"notes", "task"} & (meta or {})[RECEIPT].keys()


@pytest.mark.parametrize(
    ("caller", "code", "challenge"),
    [
        (Caller(), "UNAUTHORIZED", (401, None, frozenset({Scope.READ}))),
        (Caller.of("anna"), PaymentRequired.code, None),
    ],
    ids=["must sign in", "has no funds"],
)
async def test_a_call_that_nobody_pays_reaches_no_tool(
    access: Access, caller: Caller, code: str, challenge: object
) -> None:
    dispatcher = FakeDispatcher(lambda *_: {})
    visitor = Visitor(caller, None)
    answer = await access.make_pipeline(dispatcher).call(PRICED_TOOL, {}, visitor)
    assert answer.error
    assert answer.error.code == code
    assert visitor.response.challenge == challenge
    assert dispatcher.calls == []
