"""Who sent a request, and what to add to its answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from shared.core.errors import Forbidden, Unauthorized

if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from typing import Any

    from mcp.server.context import ServerRequestContext
    from pydantic import SecretStr

    from shared.core.caller import Caller, Scope

    Context = ServerRequestContext[Any, Any]

_KEY: Final = "carrel.visitor"


@dataclass(slots=True)
class Reply:
    """What a handler wants of the HTTP answer, which it cannot write itself.

    Attributes:
        challenge: That the caller must prove more: the HTTP status, the code of RFC 6750 (none
            where no credential was sent), and all scopes that are needed.
        retry_after: Seconds after which the call may succeed.
    """

    challenge: tuple[int, str | None, frozenset[Scope]] | None = None
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who sent a request.

    Attributes:
        caller: On whose behalf; this is all that a tool learns.
        counted_as: Whose limits a call counts against: a user, or an address. None on a laptop,
            where nobody else calls.
        embedding_key: Their key, where calls embed with the keys of their callers.
        reply: What to add to the answer.
    """

    caller: Caller
    counted_as: str | None
    embedding_key: SecretStr | None = None
    reply: Reply = field(default_factory=Reply)

    def ask_to_sign_in(self, scope: Scope) -> None:
        """Have the HTTP answer say how to sign in, which is what clients offer people to do."""
        self.reply.challenge = (Unauthorized.status, None, self.caller.scopes | {scope})

    def ask_for_scope(self, scope: Scope) -> frozenset[Scope]:
        """Have the HTTP answer say that a credential needs this scope too; return all it needs."""
        needed = self.caller.scopes | {scope}
        self.reply.challenge = (Forbidden.status, "insufficient_scope", needed)
        return needed

    def enter(self, scope: MutableMapping[str, object]) -> None:
        """Be found by whoever handles this request."""
        scope[_KEY] = self


LOCAL_USER: Final = "local"
"""The user on a laptop: whoever starts a server there owns the machine."""


def visitor_in(scope: MutableMapping[str, Any]) -> Visitor:
    """Who sent a request that the gateway has let in."""
    visitor: Visitor = scope[_KEY]
    return visitor


def visitor_of(context: Context) -> Visitor:
    """Who sent a request that the gateway has let in, or the only one who can send any.

    Raises:
        Unauthorized: Nobody let it in.
    """
    visitor = context.request.scope.get(_KEY) if context.request else context.lifespan_context
    if not isinstance(visitor, Visitor):
        raise Unauthorized("Nobody knows who sent this.")
    return visitor
