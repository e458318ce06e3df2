"""The visitor: who sent a request, and what to add to the HTTP response."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from shared.core.errors import Forbidden, Unauthorized

if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from typing import Any

    from mcp.server.context import ServerRequestContext
    from pydantic import SecretStr

    from shared.core.caller import Caller, Scope

    RequestContext = ServerRequestContext[Any, Any]

_KEY: Final = "carrel.visitor"
_MAX_CLIENT_NAME: Final = 100


class Challenge(NamedTuple):
    """A request for a better credential.

    Attributes:
        error: The error code of RFC 6750, or None if no credential was sent.
    """

    status: int
    error: str | None
    scopes: frozenset[Scope]


@dataclass(slots=True)
class ResponseChanges:
    """Changes to the HTTP response that a handler requests, because it cannot write the response.

    Attributes:
        challenge: The challenge to send, or None if the credential suffices.
        retry_after: Seconds after which the call may succeed, or None if waiting does not help.
    """

    challenge: Challenge | None = None
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class Visitor:
    """The sender of a request.

    Attributes:
        caller: The identity. Tools learn nothing else about the visitor.
        rate_limit_key: The user or network address whose rate limits apply, or None on a laptop,
            which has no limits.
        embedding_key: The caller's key for the embedding provider, if callers bring their own.
    """

    caller: Caller
    rate_limit_key: str | None
    embedding_key: SecretStr | None = None
    response: ResponseChanges = field(default_factory=ResponseChanges)

    def require_sign_in(self, scope: Scope) -> None:
        """Make the HTTP response a 401, after which clients offer to sign in."""
        self.response.challenge = Challenge(Unauthorized.status, None, self.caller.scopes | {scope})

    def require_scope(self, scope: Scope) -> frozenset[Scope]:
        """Make the HTTP response a 403 that asks for this scope too; return all needed scopes."""
        needed_scopes = self.caller.scopes | {scope}
        self.response.challenge = Challenge(Forbidden.status, "insufficient_scope", needed_scopes)
        return needed_scopes

    def with_declared_client(self, context: RequestContext) -> Visitor:
        """Return the visitor with the program that the client declares, if no credential names one.

        The declaration is not verified. In a revision with a handshake, over HTTP, the header
        `User-Agent` takes its place, since no request but the first has the client's name.
        """
        declared = context.session.client_params
        agent = context.request.headers.get("user-agent", "") if context.request else ""
        name = declared.client_info.name if declared else agent.partition("/")[0]
        name = "".join(filter(str.isprintable, name)).strip()[:_MAX_CLIENT_NAME]
        if self.caller.client or not name:
            return self
        client = f"a program that says it is {name}"
        return replace(self, caller=self.caller.model_copy(update={"client": client}))

    def attach(self, scope: MutableMapping[str, object]) -> None:
        """Attach the visitor to the request's ASGI scope."""
        scope[_KEY] = self


LOCAL_USER: Final = "local"
"""The user id on a laptop, where the person who starts the server owns the machine."""


def get_attached_visitor(scope: MutableMapping[str, Any]) -> Visitor:
    """Return the visitor attached to an ASGI scope."""
    visitor: Visitor = scope[_KEY]
    return visitor


def require_visitor(context: RequestContext) -> Visitor:
    """Return the visitor of an MCP request; over stdio, the server's only visitor.

    Raises:
        Unauthorized: The request was not authenticated.
    """
    visitor = context.request.scope.get(_KEY) if context.request else context.lifespan_context
    if not isinstance(visitor, Visitor):
        raise Unauthorized("This request was not authenticated.")
    return visitor
