"""The official SDK on the functions framework, with a tool that returns its argument."""

from __future__ import annotations

from mcp.server.mcpserver import MCPServer

from functions.gateway.app import as_function


async def echo_text(text: str) -> dict[str, str]:
    """Return the text."""
    return {"text": text}


_server = MCPServer("echo")
_server.add_tool(echo_text)
handle = as_function(_server.streamable_http_app(json_response=True, stateless_http=True))
