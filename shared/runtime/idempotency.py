"""Idempotency: a call that writes takes effect once, even if it is sent again."""

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
"""An answer is stored for at least this long."""


class AlreadyCompleted(Exception):
    """The call completed before. The error passes through the handler, which need not know of it.

    Attributes:
        record: The record of the first completion.
    """

    def __init__(self, record: IdempotencyRecord) -> None:
        """Carry the record."""
        super().__init__()
        self.record = record


class IdempotencyGuard:
    """Guards one call that writes and may have been sent before.

    Google's client resends a commit whose answer was lost, and the second one is refused. The
    record that is committed with the effect then shows that the first one landed.

    Attributes:
        has_key: Whether the call has an idempotency key, so that its caller may send it again.
        committed: Whether the effect and the answer are stored.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        output: type[Result],
        arguments: IdempotentArguments,
        request: CallRequest,
    ) -> None:
        """Use the records of the call's user; answers are of the type `output`."""
        sent = arguments.model_dump_json(exclude_unset=True, exclude={IDEMPOTENCY_KEY})
        identity = json.dumps([request.caller.task, sent])
        self._arguments = hashlib.sha256(identity.encode()).hexdigest()
        self._output = output
        self._attempt_id = uuid.uuid4().hex
        self._call_id = request.call_id
        self._database = database
        self._clock = clock
        self._records = IdempotencyRecords(database, str(request.caller.user_id))
        self.has_key = arguments.idempotency_key is not None
        self.committed = False

    async def raise_if_completed(self) -> None:
        """Check whether the call completed before, which only a call with a key can have done.

        Raises:
            AlreadyCompleted: It did.
            Conflict: Another call with the same key did.
        """
        if self.has_key:
            await self._check_record()

    async def commit(self, writes: Sequence[Write], outcome: Outcome[Any]) -> None:
        """Commit the effect of the call together with its answer.

        Raises:
            AlreadyCompleted: The same call, sent at the same time, completed first.
            WriteConflict: A document changed since it was read.
        """
        if self.committed:
            raise RuntimeError("a call may commit only once")
        if not isinstance(outcome.result, self._output):
            raise TypeError("the answer must be of the type that the tool declares")
        record = IdempotencyRecord(
            run=self._attempt_id,
            arguments=self._arguments,
            result=outcome.result.model_dump_json(),
            price=outcome.price,
            expires_at=self._clock() + ANSWER_RETENTION,
            about=outcome.belongs_to,
        )
        try:
            await self._database.commit([*writes, self._records.write(self._call_id, record)])
        except WriteConflict:
            await self._check_record()
            if not self.committed:
                raise
        self.committed = True

    async def _check_record(self) -> None:
        record = await self._records.get(self._call_id)
        if record is None:
            return
        if record.run == self._attempt_id:
            self.committed = True
            return
        if record.arguments != self._arguments:
            raise Conflict(
                f"This {IDEMPOTENCY_KEY} was used for another call of this tool. Use a new one for"
                " each new call, and the same one only to send the same call again."
            )
        raise AlreadyCompleted(record)


def idempotency_guard(
    database: Database,
    clock: Clock,
    output: type[Result],
    arguments: Arguments,
    request: CallRequest,
) -> IdempotencyGuard | None:
    """Make the guard of a call; None if the tool does not write or the caller is anonymous."""
    if not isinstance(arguments, IdempotentArguments) or request.caller.user_id is None:
        return None
    return IdempotencyGuard(database, clock, output, arguments, request)
