"""What a run says once it answers: where, how to add it to a client, and who gets in."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Final

from infra.build.discovery import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_URL: Final = "http://localhost:8080/mcp"
_HTTP: Final = 80
"""The port that addresses leave out."""
_COMMAND: Final = ROOT / ".venv" / "bin" / "carrel"
_OPEN: Final = """\
There is no sign-in: whoever reaches this machine's loopback address may read and write. To run it
as the cloud does, with sign-in: make run ARGS=--sign-in
"""
_CLOSED: Final = """\
Nobody gets in without a credential, as in the cloud. Make a key, which is shown once:

    {carrel} keys create --user you@example.com --name laptop

Claude Code opens a sign-in page, with /mcp or on its first call: paste the key there, or use Google
if that is configured. The call below takes a key from the environment: export CARREL_KEY=...
"""


def origin(port: int) -> str:
    """The address of a gateway on this machine."""
    return "http://localhost" if port == _HTTP else f"http://localhost:{port}"


def welcome(port: int, variables: Mapping[str, str], *, sign_in: bool) -> str:
    """The whole text.

    Args:
        port: Where the gateway listens.
        variables: What other commands must be given to work on the same database.
        sign_in: Whether nobody gets in without a credential.
    """
    url = f"{origin(port)}/mcp"
    elsewhere = "" if url == DEFAULT_URL else f" --url {url}"
    assignments = [f"{name}={shlex.quote(value)}" for name, value in variables.items()]
    carrel = " ".join([*assignments, ".venv/bin/carrel"])
    server: dict[str, object] = {"command": str(_COMMAND), "args": ["stdio"]}
    if variables:
        server["env"] = dict(variables)
    access = _CLOSED.format(carrel=carrel) if sign_in else _OPEN
    return f"""
Carrel is running. Its MCP endpoint is

    {url}

Add it to Claude Code:

    claude mcp add --transport http carrel {url}

Add it to Claude Desktop (Settings, Developer, Edit Config):

    {json.dumps({"mcpServers": {"carrel": server}})}

{access}
Try a call, in another window:

    .venv/bin/carrel call search_kb '{{"query": "why do flaky tests hurt?", "limit": 3}}'{elsewhere}

Put your own texts in:

    {carrel} ingest ~/notes

Ctrl-C ends it.
"""
