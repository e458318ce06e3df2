"""`extract_key_info` finds the passages of a text that answer a question.

The caller uploads the text, the `materials`, to a workspace: all texts under one `task_id`. The
tests use the official client, and check that no log and no audit record contains texts.
"""

import json
import uuid
from typing import Any

from mcp import Client

from tests.support.client_calls import call_as_listed
from tests.support.materials import COMET, TEXT

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
