"""`extract_key_info` finds the passages of a text that answer a question.

The caller uploads the text, the `materials`, to a workspace: all texts under one `task_id`. The
tests use the official client, and check that no log and no audit record contains texts.
"""

import asyncio
import json
import uuid
from pathlib import Path
from typing import Any

from mcp import Client

from shared.core.settings import ACCESS_DATABASE
from shared.firestore.connection import Connection
from tests.support.access import build_key_maker
from tests.support.client_calls import call_as_listed
from tests.support.gateway_process import PRIVATE_WORD, FilledProject, RunningGateway
from tests.support.log_metrics import parse_log_entry
from tests.support.materials import COMET, TEXT
from tests.support.mcp_wire import make_call, post

TOOL = "extract_key_info"


async def call_tool(client: Client, **arguments: Any) -> dict[str, Any]:
    """Call the tool; assert that the result fits the schema and equals its text; return it."""
    result = await call_as_listed(client, TOOL, **arguments)
    assert not result.is_error, result.content
    content = dict(result.structured_content or {})
    block = result.content[0]
    assert block.type == "text"
    assert json.loads(block.text) == content
    return content


async def test_structured_and_text_results_agree_with_the_schema(client: Client) -> None:
    question = "Where does a comet's tail point?"
    upload = await call_tool(client, query=question, materials=TEXT)
    assert upload["contexts"][0] == COMET
    assert upload["status"] == "ready"

    by_document = await call_tool(client, query=question, document=upload["document"])
    assert by_document == upload | {"known": True}

    task = uuid.uuid4().hex[:16]
    in_task = await call_tool(client, query="comet", materials=TEXT, topK=1, task_id=task)
    assert len(in_task["contexts"]) == 1
    assert in_task["task_id"] == task

    whole_task = await call_tool(client, query="comet", scope="task", task_id=task)
    assert whole_task["considered"] == 4  # the passages of the text


async def test_any_text_survives_the_wire(client: Client) -> None:
    passage = (
        "Der Käse \x00\x1b[0m 熟成 👩🏽\u200d🍳 e\u0301\r\n\t\u202eabc\u2028 <b>\\n</b> \ufeff\x7f."
    )
    text = f"👍🏽 before\n\n{passage}\n\nafter"
    result = await call_tool(client, query="Käse 熟成", materials=text)
    best = result["passages"][0]
    assert result["contexts"][0] == passage
    assert text[best["start"] : best["end"]] == passage


async def test_the_log_has_sizes_and_hashes_but_no_text(inline: RunningGateway, log: Path) -> None:
    size_before = log.stat().st_size  # noqa: ASYNC240 - a test may wait
    arguments = {
        "query": f"Where is the {PRIVATE_WORD}?",
        "materials": f"The {PRIVATE_WORD} is here.\n\nA comet.",
        "task_id": f"mine {uuid.uuid4().hex}",
    }
    async with Client(inline.endpoint) as client:
        result = await call_tool(client, **arguments)
        await client.call_tool(TOOL, arguments | {"top_k": PRIVATE_WORD})
        await client.call_tool(TOOL, arguments | {PRIVATE_WORD: PRIVATE_WORD, "materials": 5})
        await client.call_tool(
            TOOL, {"query": PRIVATE_WORD, "scope": "task", "task_id": "nothing there"}
        )

    logged = log.read_text("utf-8")[size_before:]  # noqa: ASYNC240 - a test may wait
    lines = [parse_log_entry(line)["jsonPayload"] for line in logged.splitlines()]
    fields = next(line for line in lines if line.get("tool") == TOOL)
    assert PRIVATE_WORD not in logged.lower()
    assert result["task_id"] not in logged
    assert len(fields["task"]) == 16
    assert fields["outcome"] == "ok"
    assert fields["arguments"].keys() == {"query", "materials", "task_id"}
    assert fields["notes"]["passages"] == 2
    assert fields["notes"]["document"] == result["document"]
    assert fields["embedding_seconds"] > 0
    assert fields["bm25_seconds"] >= 0


async def read_audit(project: str) -> list[dict[str, Any]]:
    """Read the audit records of a project."""
    connection = Connection(project, ACCESS_DATABASE)
    try:
        records = connection.client.collection("calls").stream()
        return [record.to_dict() or {} async for record in records]
    finally:
        await connection.aclose()


def test_the_audit_has_the_workspace_but_no_text(
    private_gateway: RunningGateway, filled_project: FilledProject
) -> None:
    key = build_key_maker(filled_project.project)("anna")

    text = f"The {PRIVATE_WORD} is here.\n\nA comet."

    def upload(credential: str, **arguments: Any) -> str:
        """Upload the text; return the task that the result names."""
        headers: dict[str, str | None] = {"authorization": f"Bearer {credential}"}
        request = make_call(TOOL, {"query": PRIVATE_WORD, "materials": text, **arguments})
        response = post(private_gateway.endpoint, request, headers)
        return str(response.json()["result"]["structuredContent"]["task_id"])

    assert upload(f"essay@{key}") == "essay"
    assert upload(f"essay@{key}", task_id="thesis") == "thesis"
    assert upload(key) == "default"

    records = [
        record
        for record in asyncio.run(read_audit(filled_project.project))
        if record["user_id"] == "anna"
    ]
    assert {record["task"] for record in records} == {"essay", "thesis", "default"}
    assert {record["tool"] for record in records} == {TOOL}
    assert PRIVATE_WORD not in repr(records).lower()
    assert {record["notes"]["passages"] for record in records} == {2}
    assert {record["arguments"]["materials"] for record in records} == {len(json.dumps(text))}
