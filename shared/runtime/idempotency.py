"""A call that writes happens once: sent twice with one idempotency key, or answered too late."""

from __future__ import annotations

import hashlib
import json
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from shared.core.errors import Conflict
from shared.firestore.database import Stale
from shared.firestore.replays import Replay, Replays
from shared.runtime.outage_advice import IDEMPOTENCY_KEY
from shared.runtime.tool import Repeatable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.firestore.database import Write
    from shared.runtime.context import Deps
    from shared.runtime.messages import CallRequest
    from shared.runtime.tool import Arguments, Result

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
    """One call that writes, and may have been sent before.

    Google's client sends a commit again whose answer was lost, and the second one is refused: what
    is kept with the effect tells then that it was this very call that landed.

    Attributes:
        has_key: Whether its caller may send it again, and be answered as the first time.
        is_kept: Whether its answer is kept, so that it will not be done again.
        about: The path, below the user's, of what its answer belongs to, where a tool says so:
            with that thing the answer is erased.
    """

    def __init__(
        self, output: type[Result], arguments: Repeatable, request: CallRequest, deps: Deps
    ) -> None:
        """Look for its answer, of this kind, under the path of its user."""
        said = arguments.model_dump_json(exclude_unset=True, exclude={IDEMPOTENCY_KEY})
        told = json.dumps([request.caller.task, said])
        self._arguments = hashlib.sha256(told.encode()).hexdigest()
        self._output = output
        self._run = uuid.uuid4().hex
        self._call_id = request.call_id
        self._deps = deps
        self.has_key = arguments.idempotency_key is not None
        self._replays = Replays(deps.database, str(request.caller.user_id))
        self.is_kept = False
        self.about: str | None = None

    async def refuse_repetition(self) -> None:
        """Return if the call was not finished yet. Without a key, nobody can have sent it before.

        Raises:
            Replayed: It was.
            Conflict: Another call was, which had the same key.
        """
        if self.has_key:
            await self._look()

    async def commit(self, writes: Sequence[Write], result: Result) -> None:
        """Commit the effect of the call and its answer together.

        Raises:
            Replayed: The same call, sent twice at once, was finished by the other.
            Stale: A document changed since it was read.
        """
        if self.is_kept:
            raise RuntimeError("a call commits once")
        if not isinstance(result, self._output):
            raise TypeError("what is kept is what the tool answers")
        replay = Replay(
            run=self._run,
            arguments=self._arguments,
            result=result.model_dump_json(),
            price=self._deps.price,
            expires_at=self._deps.clock() + REMEMBERED,
            about=self.about,
        )
        remembering = self._replays.write(self._call_id, replay)
        try:
            await self._deps.database.commit([*writes, remembering])
        except Stale:
            await self._look()
            if not self.is_kept:
                raise
        self.is_kept = True

    async def _look(self) -> None:
        replay = await self._replays.get(self._call_id)
        if replay is None:
            return
        if replay.run == self._run:
            self.is_kept = True
            return
        if replay.arguments != self._arguments:
            raise Conflict(
                f"This {IDEMPOTENCY_KEY} was used for another call of this tool. Take a new one for"
                " each new call, and the same one only to send the same call again."
            )
        raise Replayed(replay)


def once(
    output: type[Result], arguments: Arguments, request: CallRequest, deps: Deps
) -> Once | None:
    """The guard of a call that writes and answers with this kind; None for any other."""
    if not isinstance(arguments, Repeatable) or request.caller.user_id is None:
        return None
    return Once(output, arguments, request, deps)
