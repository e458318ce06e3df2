"""FastMCP on uvicorn, with a tool that returns its argument.

Usage: python benchmarks/echo/fastmcp_server.py SOCKET

SOCKET is the file descriptor of a bound socket. FastMCP needs an environment of its own.
"""

import socket
import sys

import uvicorn
from fastmcp import FastMCP


async def echo_text(text: str) -> dict[str, str]:
    """Return the text."""
    return {"text": text}


if __name__ == "__main__":
    server = FastMCP("echo")
    server.tool(echo_text)
    app = server.http_app(json_response=True, stateless_http=True)
    config = uvicorn.Config(app, log_level="error")
    uvicorn.Server(config).run([socket.socket(fileno=int(sys.argv[1]))])
