"""Clients manage a to-do list, whose tools answer with `success`, `data` and `error`."""

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from tests.support.access import CLOUD_SETTINGS, build_key_maker
from tests.support.client_calls import call_as_listed
from tests.support.gateway_process import INLINE_MAIN, run_gateway
from tests.support.mcp_wire import assert_matches_schema, make_call, make_request, post


async def call_tool(client: Client, name: str, /, **arguments: Any) -> dict[str, Any]:
    """Call a tool; its text must equal its structured content and fit the listed schema."""
    result = await call_as_listed(client, name, **arguments)
    block = result.content[0]
    assert block.type == "text"
    answer = dict(result.structured_content or {})
    assert json.loads(block.text) == answer

    assert set(answer) == {"success", "data", "error"}
    assert result.is_error == (not answer["success"])
    assert (answer["data"] is not None) == answer["success"]
    assert (answer["error"] is None) == answer["success"]
    return answer


async def call_for_data(client: Client, name: str, /, **arguments: Any) -> dict[str, Any]:
    """Call a tool that must succeed, and return its data."""
    answer = await call_tool(client, name, **arguments)
    assert answer["success"], answer
    data: dict[str, Any] = answer["data"]
    return data


@pytest.mark.requirement("003-D5", "003-N2", "003-N3", "003-P5")
async def test_a_task_passes_through_its_states(client: Client) -> None:
    word = uuid.uuid4().hex
    new_task = await call_for_data(client, "add_task", title=f"Bake {word}", due_date="2020-02-29")
    task_id = new_task["task"]["task_id"]
    await call_for_data(client, "update_task", task_id=task_id, description="粉 🌾", due_date=None)
    completed = await call_for_data(client, "complete_task", task_id=task_id)
    [task] = (await call_for_data(client, "list_tasks", query=word))["tasks"]
    assert task["description"] == "粉 🌾"
    assert not {"created_at", "updated_at", "overdue"} & task.keys()
    assert completed["task"] == task

    deleted = await call_for_data(client, "delete_task", task_id=task_id)
    assert (await call_for_data(client, "list_tasks", query=word))["tasks"] == []
    undo = deleted["undo"]
    restored = await call_for_data(client, undo["tool"], **undo["arguments"])
    assert restored["task"]["status"] == "completed"


def make_authorization(project: str, user: str) -> dict[str, str | None]:
    """Store a new key of a user, and return the header with it."""
    return {"authorization": f"Bearer {build_key_maker(project)(user)}"}


@pytest.mark.requirement("003-C6", "003-D6", "003-E3", "003-I2")
def test_gateway_errors_use_the_same_envelope(project: str, log: Path) -> None:
    environment = {**CLOUD_SETTINGS, "GOOGLE_CLOUD_PROJECT": project, "WRITES_PER_MINUTE": "2"}
    with run_gateway(INLINE_MAIN, environment, log) as gateway:
        anna = make_authorization(project, "anna@example.com")
        ben = make_authorization(project, "ben")

        def call_as(headers: dict[str, str | None], name: str, **arguments: Any) -> dict[str, Any]:
            response = post(gateway.endpoint, make_call(name, arguments), headers)
            answer: dict[str, Any] = response.json()["result"]["structuredContent"]
            return answer

        assert call_as(anna, "add_task", title="mine")["success"]
        assert call_as(ben, "list_tasks")["data"]["tasks"] == []
        assert call_as(ben, "delete_task", task_id="1")["error"]["code"] == "not_found"
        while (rejection := call_as(anna, "complete_task", task_id="1"))["success"]:
            pass  # until the limit is reached
        assert rejection["error"]["code"] == "processing_error"
        assert rejection["error"]["details"]["reason"] == "RATE_LIMITED"
        assert rejection["error"]["retry_after"] > 0
        tools = post(gateway.endpoint, make_request("tools/list"), anna).json()["result"]["tools"]
        schemas = {tool["name"]: tool["outputSchema"] for tool in tools}
        assert_matches_schema(rejection, schemas["complete_task"])
