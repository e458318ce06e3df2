"""A tool that there is, but not for this caller, who may sign in or ask for more rights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mcp_types as types
from mcp.shared.exceptions import MCPError

from shared.core.errors import Forbidden, Unauthorized

if TYPE_CHECKING:
    from functions.gateway.auth.visitor import Visitor
    from functions.gateway.catalog import Declaration
    from shared.core.caller import Scope
    from shared.core.errors import CarrelError


def closed(tool: Declaration, visitor: Visitor) -> MCPError:
    """The refusal of a tool that is closed to a visitor; the HTTP answer says how to open it."""
    if not visitor.caller.is_in(tool.tier):
        ask_to_sign_in(tool, visitor)
        return _error(Unauthorized(f"Sign in to call {tool.name}."))
    needed = _needed(tool, visitor)
    visitor.reply.challenge = (Forbidden.status, "insufficient_scope", needed)
    scopes = " ".join(sorted(needed))
    return _error(Forbidden(f"{tool.name} needs a credential with the scopes {scopes}."))


def ask_to_sign_in(tool: Declaration, visitor: Visitor) -> None:
    """Have the HTTP answer say how to sign in, which is what clients offer people to do."""
    visitor.reply.challenge = (Unauthorized.status, None, _needed(tool, visitor))


def _needed(tool: Declaration, visitor: Visitor) -> frozenset[Scope]:
    return visitor.caller.scopes | {tool.effect.scope}


def _error(error: CarrelError) -> MCPError:
    return MCPError(types.INVALID_REQUEST, error.message, data=error.to_wire())
