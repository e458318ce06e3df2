"""Calls of tools by the official Python client."""

from typing import Any

from mcp import Client
from mcp_types import CallToolResult

from tests.support.mcp_wire import assert_matches_schema


async def call_as_listed(client: Client, name: str, /, **arguments: Any) -> CallToolResult:
    """Call a tool with the official client; assert that the result fits the listed schema."""
    schemas = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
    result = await client.call_tool(name, arguments)
    assert_matches_schema(result.structured_content, schemas[name] or {})
    return result
