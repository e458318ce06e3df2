"""Idempotency: a call that writes is done once, though it is sent twice or answered too late."""

from __future__ import annotations

import hashlib
import json
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from shared.core.errors import Conflict
from shared.firestore.database import WriteConflict
from shared.firestore.idempotency_records import IdempotencyRecord, IdempotencyRecords
from shared.runtime.schemas import IDEMPOTENCY_KEY, IdempotentArguments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.dates import Clock
    from shared.firestore.database import Database, Write
    from shared.runtime.messages import CallRequest
    from shared.runtime.outcome import Outcome
    from shared.runtime.schemas import Arguments, Result

ANSWER_RETENTION: Final = timedelta(days=2)
"""How long an answer is stored, at least."""


class AlreadyCompleted(Exception):
    """The call was finished before.

    Attributes:
        replay: What it answered then.
    """

    def __init__(self, replay: IdempotencyRecord) -> None:
        """Carry the answer out of the handler, which need not know of it."""
        super().__init__()
        self.replay = replay


class IdempotencyGuard:
    """Guards one call that writes, and may have been sent before.

    Google's client sends a commit again whose answer was lost, and the second one is refused: the
    record that is written with the effect tells then that it was this very call that landed.

    Attributes:
        has_key: Whether its caller may send it again, and be answered as the first time.
        committed: Whether its effect and its answer are stored.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        output: type[Result],
        arguments: IdempotentArguments,
        request: CallRequest,
    ) -> None:
        """Look for the answer, of this kind, under the path of the call's user."""
        sent = arguments.model_dump_json(exclude_unset=True, exclude={IDEMPOTENCY_KEY})
        compared = json.dumps([request.caller.task, sent])
        self._arguments = hashlib.sha256(compared.encode()).hexdigest()
        self._output = output
        self._run = uuid.uuid4().hex
        self._call_id = request.call_id
        self._database = database
        self._clock = clock
        self._replays = IdempotencyRecords(database, str(request.caller.user_id))
        self.has_key = arguments.idempotency_key is not None
        self.committed = False

    async def raise_if_completed(self) -> None:
        """Return if the call was not finished yet. Without a key, nobody can have sent it before.

        Raises:
            AlreadyCompleted: It was.
            Conflict: Another call was, which had the same key.
        """
        if self.has_key:
            await self._look()

    async def commit(self, writes: Sequence[Write], outcome: Outcome[Any]) -> None:
        """Commit the effect of the call and its answer together.

        Raises:
            AlreadyCompleted: The same call, sent twice at once, was finished by the other.
            WriteConflict: A document changed since it was read.
        """
        if self.committed:
            raise RuntimeError("a call commits once")
        if not isinstance(outcome.result, self._output):
            raise TypeError("the stored answer is what the tool answers")
        replay = IdempotencyRecord(
            run=self._run,
            arguments=self._arguments,
            result=outcome.result.model_dump_json(),
            price=outcome.price,
            expires_at=self._clock() + ANSWER_RETENTION,
            about=outcome.belongs_to,
        )
        record = self._replays.write(self._call_id, replay)
        try:
            await self._database.commit([*writes, record])
        except WriteConflict:
            await self._look()
            if not self.committed:
                raise
        self.committed = True

    async def _look(self) -> None:
        replay = await self._replays.get(self._call_id)
        if replay is None:
            return
        if replay.run == self._run:
            self.committed = True
            return
        if replay.arguments != self._arguments:
            raise Conflict(
                f"This {IDEMPOTENCY_KEY} was used for another call of this tool. Take a new one for"
                " each new call, and the same one only to send the same call again."
            )
        raise AlreadyCompleted(replay)


def idempotency_guard(
    database: Database,
    clock: Clock,
    output: type[Result],
    arguments: Arguments,
    request: CallRequest,
) -> IdempotencyGuard | None:
    """The guard of a call that writes and answers with this kind; None for any other."""
    if not isinstance(arguments, IdempotentArguments) or request.caller.user_id is None:
        return None
    return IdempotencyGuard(database, clock, output, arguments, request)
