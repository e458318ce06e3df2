"""The to-do list through the gateway: every answer has the same envelope."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from mcp import Client
from pydantic import SecretStr

from shared.accounts.access_key import new_key
from shared.accounts.keyring import Keyring
from shared.core.caller import FULL_ACCESS
from tests.e2e.access.conftest import CLOUD, in_access
from tests.support.gateway_process import INLINE, SECRET, run_gateway
from tests.support.mcp_wire import assert_matches_schema, call, message, post
from tests.support.ports import free_port

if TYPE_CHECKING:
    from pathlib import Path

    from shared.accounts.repositories.access_store import AccessStore

pytestmark = pytest.mark.anyio


async def answer_of(client: Client, name: str, /, **arguments: Any) -> dict[str, Any]:
    """Call a tool; its text must equal its structured content and fit the listed schema."""
    schemas = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
    result = await client.call_tool(name, arguments)
    block = result.content[0]
    assert block.type == "text"
    answer = dict(result.structured_content or {})
    assert_matches_schema(answer, schemas[name] or {})
    assert json.loads(block.text) == answer
    assert set(answer) == {"success", "data", "error"}
    assert (result.is_error, answer["data"] is None) == (not answer["success"],) * 2
    assert (answer["error"] is None) == answer["success"]
    return answer


async def data_of(client: Client, name: str, /, **arguments: Any) -> dict[str, Any]:
    """Call a tool that must succeed, and return its data."""
    answer = await answer_of(client, name, **arguments)
    assert answer["success"], answer
    data: dict[str, Any] = answer["data"]
    return data


async def test_task_passes_through_its_states(client: Client) -> None:
    word = uuid.uuid4().hex
    added = await data_of(client, "add_task", title=f"Bake {word}", due_date="2020-02-29")
    task_id = added["task"]["task_id"]
    await data_of(client, "update_task", task_id=task_id, description="粉 🌾", due_date=None)
    done = await data_of(client, "complete_task", task_id=task_id)
    [tools] = (await data_of(client, "list_tasks", query=word))["tasks"]
    assert {name: value for name, value in tools.items() if name != "overdue"} == done["task"]
    assert tools["description"] == "粉 🌾"
    deleted = await data_of(client, "delete_task", task_id=task_id)
    assert (await data_of(client, "list_tasks", query=word))["tasks"] == []
    undo = deleted["undo"]
    back = await data_of(client, undo["tool"], **undo["arguments"])
    assert back["task"]["status"] == "completed"


async def test_batch_has_a_result_per_item(client: Client) -> None:
    tasks: list[Any] = [{"title": "a"}, {"title": "", "priority": "Low"}, {"title": "c"}]
    results = (await data_of(client, "add_task", tasks=tasks))["results"]
    assert [result["success"] for result in results] == [True, False, True]
    ids = [results[0]["task"]["task_id"], "0", results[2]["task"]["task_id"]]
    results = (await data_of(client, "complete_task", task_ids=ids))["results"]
    assert [
        result["task"]["status"] if result["success"] else result["error"]["code"]
        for result in results
    ] == ["completed", "invalid_input", "completed"]


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("add_task", {"title": " "}, "invalid_input"),
        ("add_task", {"title": "x", "priority": "urgent"}, "invalid_priority"),
        ("add_task", {"title": "x", "due_date": "soon"}, "invalid_date"),
        ("list_tasks", {"status": "done"}, "invalid_input"),
        ("list_tasks", {"due_from": "soon"}, "invalid_date"),
        ("complete_task", {"task_id": "999999999"}, "not_found"),
        ("update_task", {"task_id": "999999999", "title": "x"}, "not_found"),
        ("delete_task", {"task_id": "999999999"}, "not_found"),
        ("restore_task", {"task_id": "999999999"}, "not_found"),
    ],
)
async def test_errors_have_their_codes(
    client: Client, name: str, arguments: dict[str, Any], code: str
) -> None:
    assert (await answer_of(client, name, **arguments))["error"]["code"] == code


async def test_same_key_is_replayed(client: Client) -> None:
    arguments = {"title": "once", "idempotency_key": uuid.uuid4().hex}
    first, again = [await data_of(client, "add_task", **arguments) for _ in range(2)]
    assert again == first


async def test_unreachable_database_is_a_processing_error(log: Path) -> None:
    unreachable = {
        "FIRESTORE_EMULATOR_HOST": f"127.0.0.1:{free_port()}",
        "TOOL_TIMEOUTS": json.dumps({"list_tasks": 1.0, "add_task": 1.0}),
    }
    with run_gateway(INLINE, unreachable, log) as running:
        async with Client(running.endpoint) as client:
            for name, arguments in (("list_tasks", {}), ("add_task", {"title": "x"})):
                error = (await answer_of(client, name, **arguments))["error"]
                assert error["code"] == "processing_error"
                assert error["details"]["reason"] == "UNAVAILABLE"
                assert error["retry_after"] > 0


def key_for(project: str, user: str) -> dict[str, str | None]:
    """Store a new key of a user, and return its header."""
    keyring = Keyring([SecretStr(SECRET)])
    text, key = new_key(keyring, user, "tests", FULL_ACCESS, created_at=datetime.now(UTC))

    async def keep(store: AccessStore) -> None:
        await store.keys.add(key)

    in_access(project, keep)
    return {"authorization": f"Bearer {text}"}


def test_gateway_errors_use_the_same_envelope(project: str, log: Path) -> None:
    environment = {**CLOUD, "GOOGLE_CLOUD_PROJECT": project, "WRITES_PER_MINUTE": "2"}
    with run_gateway(INLINE, environment, log) as running:
        anna, ben = key_for(project, "anna@example.com"), key_for(project, "ben")

        def call_as(headers: dict[str, str | None], name: str, **arguments: Any) -> dict[str, Any]:
            response = post(running.endpoint, call(name, arguments), headers)
            answer: dict[str, Any] = response.json()["result"]["structuredContent"]
            return answer

        assert call_as(anna, "add_task", title="mine")["success"]
        assert call_as(ben, "list_tasks")["data"]["tasks"] == []
        assert call_as(ben, "delete_task", task_id="1")["error"]["code"] == "not_found"
        while (refusal := call_as(anna, "complete_task", task_id="1"))["success"]:
            pass
        assert refusal["error"]["code"] == "processing_error"
        assert refusal["error"]["details"]["reason"] == "RATE_LIMITED"
        assert refusal["error"]["retry_after"] > 0
        tools = post(running.endpoint, message("tools/list"), anna).json()["result"]["tools"]
        schemas = {tool["name"]: tool["outputSchema"] for tool in tools}
        assert_matches_schema(refusal, schemas["complete_task"])


async def test_contents_of_tasks_are_not_logged(client: Client, log: Path) -> None:
    word = uuid.uuid4().hex
    added = await data_of(client, "add_task", title=word, description=word)
    await answer_of(client, "update_task", task_id=added["task"]["task_id"], priority=word)
    await answer_of(client, "update_task", task_id=added["task"]["task_id"], due_date=word)
    await answer_of(client, "list_tasks", query=word)
    await answer_of(client, "list_tasks", time_zone=word)
    written = await anyio.Path(log).read_text("utf-8")
    assert "update_task" in written
    assert word not in written
