"""A call that is sent twice, with the same idempotency key, happens once."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from shared.errors import Conflict
from shared.store.database import Stale
from shared.store.replays import Replay, Replays
from shared.tool import Repeatable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.call import CallRequest
    from shared.deps import Deps
    from shared.store.database import Write
    from shared.tool import Arguments, Result

REMEMBERED: Final = timedelta(days=2)
"""How long an answer is kept, at least."""


class Replayed(Exception):
    """The call was finished before.

    Attributes:
        replay: What it answered then.
    """

    def __init__(self, replay: Replay) -> None:
        """Carry the answer out of the handler, which need not know of it."""
        super().__init__()
        self.replay = replay


class Once:
    """One call that may have been sent before.

    Attributes:
        is_kept: Whether its answer is, so that it will not be done again.
    """

    def __init__(self, arguments: Repeatable, request: CallRequest, deps: Deps) -> None:
        """Look for its answer under the path of its user."""
        said = arguments.model_dump_json(exclude_defaults=True, exclude={"idempotency_key"})
        self._arguments = hashlib.sha256(said.encode()).hexdigest()
        self._call_id = request.call_id
        self.is_kept = False
        self._deps = deps
        self._replays = Replays(deps.store.database, str(request.caller.user_id))

    async def refuse_repetition(self) -> None:
        """Return if the call was not finished yet.

        Raises:
            Replayed: It was.
            Conflict: Another call was, which had the same key.
        """
        replay = await self._replays.get(self._call_id)
        if replay is None:
            return
        if replay.arguments != self._arguments:
            raise Conflict(
                "This idempotency_key was used for another call. Take a new one for each new call,"
                " and the same one only to send the same call again."
            )
        raise Replayed(replay)

    async def commit(self, writes: Sequence[Write], result: Result) -> None:
        """Commit the effect of the call and its answer together.

        Raises:
            Replayed: The same call, sent twice at once, was finished by the other.
            Stale: A document changed since it was read.
        """
        replay = Replay(
            arguments=self._arguments,
            result=as_json(result),
            price=self._deps.price,
            expires_at=self._deps.clock() + REMEMBERED,
        )
        remembering = self._replays.write(self._call_id, replay)
        try:
            await self._deps.store.database.commit([*writes, remembering])
        except Stale:
            await self.refuse_repetition()
            raise
        self.is_kept = True


def once(arguments: Arguments, request: CallRequest, deps: Deps) -> Once | None:
    """The guard of a call that has an idempotency key; None if it has none."""
    if not isinstance(arguments, Repeatable) or arguments.idempotency_key is None:
        return None
    return Once(arguments, request, deps) if request.caller.user_id else None


def as_json(result: Result) -> dict[str, Any]:
    """A result as it goes over the wire."""
    return result.model_dump(mode="json", exclude_none=True)
