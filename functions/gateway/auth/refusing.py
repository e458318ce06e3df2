"""A tool that there is, but not for this caller, who may sign in or ask for more rights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mcp_types as types
from mcp.shared.exceptions import MCPError

from shared.errors import Forbidden, Unauthorized

if TYPE_CHECKING:
    from functions.gateway.auth.visitor import Visitor
    from functions.gateway.catalog import Declaration
    from shared.errors import CarrelError


def closed(tool: Declaration, visitor: Visitor) -> MCPError:
    """The refusal of a tool that is closed to a visitor; the HTTP answer says how to open it."""
    needed = visitor.caller.scopes | {tool.effect.scope}
    if not visitor.caller.is_in(tool.tier):
        visitor.reply.challenge = (Unauthorized.status, None, needed)
        return _error(Unauthorized(f"Sign in to call {tool.name}."))
    visitor.reply.challenge = (Forbidden.status, "insufficient_scope", needed)
    scopes = " ".join(sorted(needed))
    return _error(Forbidden(f"{tool.name} needs a credential with the scopes {scopes}."))


def _error(error: CarrelError) -> MCPError:
    return MCPError(types.INVALID_REQUEST, error.message, data=error.to_wire())
