"""Formats the text that `carrel up` prints: the URL, how to connect clients, and who has access."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Final

from infra.folders import run_command
from infra.mcp_clients import CLAUDE_DESKTOP, Server, cache_notice, select_tools
from shared.core.installation import carrel_command, carrel_program

if TYPE_CHECKING:
    from collections.abc import Mapping

_DEFAULT_PORT: Final = 80
"""The port that is left out of a URL."""
_NO_SIGN_IN: Final = """\
There is no sign-in: every program on this machine may read and write. To require credentials, as
in the cloud: {sign_in}
"""
_SIGN_IN: Final = """\
Clients need a credential, as in the cloud. Make yourself the owner, and create a key, which is
shown only once:

    {carrel} accounts role you@example.com owner
    {carrel} keys create --user you@example.com --name laptop

Claude Code opens a sign-in page with /mcp or on its first call: paste the key there, or use Google
if that is configured. For the call below, put the key into the environment: export CARREL_KEY=...
"""


def get_origin(port: int) -> str:
    """Return the base URL of a gateway on this machine."""
    return "http://localhost" if port == _DEFAULT_PORT else f"http://localhost:{port}"


def format_welcome(port: int, variables: Mapping[str, str], *, sign_in: bool) -> str:
    """Format the text that tells how to use a running gateway.

    Args:
        port: The gateway's port.
        variables: The environment variables that other commands need to use the same database.
        sign_in: Whether credentials are required.
    """
    url = f"{get_origin(port)}/mcp"
    assignments = [f"{name}={shlex.quote(value)}" for name, value in variables.items()]
    carrel = " ".join([*assignments, carrel_command()])
    server = Server(program=str(carrel_program()), variables=variables)
    desktop = cache_notice() or json.dumps(CLAUDE_DESKTOP.configuration(server))
    access = _SIGN_IN if sign_in else _NO_SIGN_IN
    access = access.format(carrel=carrel, sign_in=run_command("--sign-in"))
    return f"""
Carrel is running. Its MCP endpoint is

    {url}

To search and read in a browser, open {get_origin(port)}

Add it to Claude Code:

    claude mcp add --transport http carrel "{select_tools(url)}"

Add it to Claude Desktop (Settings, Developer, Edit Config):

    {desktop}

Both offer search, reading and notes. For all tools, leave out `tools`.

Or have the configuration of a client written: {carrel} init --help

{access}
Try a call, in another window:

    {carrel} call search_kb '{{"query": "why do flaky tests hurt?", "limit": 3}}'

Add your own texts:

    {carrel} ingest ~/notes

Press Ctrl-C to stop.
"""
