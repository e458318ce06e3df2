"""Who sent a request, and what to add to its answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from shared.caller import Caller

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from starlette.requests import Request

    from shared.caller import Scope

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
        reply: What to add to the answer.
    """

    caller: Caller
    counted_as: str | None
    reply: Reply = field(default_factory=Reply)

    def enter(self, scope: MutableMapping[str, object]) -> None:
        """Be found by whoever handles this request."""
        scope[_KEY] = self


LOCAL: Final = "local"
"""The user on a laptop: whoever starts a server over standard input owns the machine."""


def visitor_of(request: Request | None) -> Visitor:
    """Who sent a request that the gateway has let in; None came over stdio."""
    if request is None:
        return Visitor(Caller.of(LOCAL), None)
    visitor: Visitor = request.scope[_KEY]
    return visitor
