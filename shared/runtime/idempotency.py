"""Idempotency: a call that writes takes effect only once, even if it is sent again.

The gateway derives the call id from the user, the tool and the idempotency key, so a retry has the
same id as the original call. The record with this id contains the original answer: the tool's
result and the price of the call. A call without a key has a random id, and its record only says
what the call changed.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter

from shared.core.errors import Conflict
from shared.firestore.database import WriteConflict
from shared.firestore.idempotency_records import ANSWERS, IdempotencyRecord, IdempotencyRecords
from shared.runtime.schemas import IDEMPOTENCY_KEY, Change, IdempotentArguments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.dates import Clock
    from shared.firestore.database import Database
    from shared.firestore.writes import Write
    from shared.runtime.messages import CallRequest
    from shared.runtime.outcome import Outcome
    from shared.runtime.schemas import Arguments, Result


CHANGES: Final = TypeAdapter(list[Change])
"""The form in which a record stores what a call changed."""


class AlreadyCompleted(Exception):
    """Signals that the call has already completed.

    The exception is control flow rather than an error. It passes through the handler to `invoke`,
    which returns the stored answer.
    """

    def __init__(self, record: IdempotencyRecord) -> None:
        super().__init__()
        self.record = record


class IdempotencyGuard:
    """Ensures that a call that writes takes effect only once.

    The record of a call is committed together with the call's effect. Google's client resends a
    commit whose response was lost, and the second commit then fails. The record shows that the
    first one succeeded.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        output: type[Result],
        arguments: IdempotentArguments,
        request: CallRequest,
    ) -> None:
        """Hash the arguments, to detect a key that is reused for another call.

        Args:
            request: The call. Its caller is a registered user.
        """
        payload = arguments.model_dump_json(exclude_unset=True, exclude={IDEMPOTENCY_KEY})
        fingerprint_input = json.dumps([request.caller.task, payload])
        self._arguments_hash = hashlib.sha256(fingerprint_input.encode()).hexdigest()
        self._output = output
        self._attempt_id = uuid.uuid4().hex
        self._call_id = request.call_id
        self._database = database
        self._clock = clock
        self._client = request.caller.client
        self._records = IdempotencyRecords(database, str(request.caller.user_id))
        self.has_key = arguments.idempotency_key is not None
        self.committed = False

    async def raise_if_completed(self) -> None:
        """Check whether the call has already completed.

        Costs one round trip, or none if the call has no key: then it cannot be a retry.

        Raises:
            AlreadyCompleted: The same call has completed.
            Conflict: The key was used for a different call of this tool.
        """
        if self.has_key:
            await self._resolve_from_record()

    async def commit(self, writes: Sequence[Write], outcome: Outcome[Any]) -> None:
        """Commit the effect of the call together with its answer.

        Costs one round trip, or two if the commit fails.

        Raises:
            AlreadyCompleted: Another attempt at the same call completed first.
            Conflict: The key was used for a different call of this tool.
            WriteConflict: A document changed since it was read.
            RuntimeError: The call has already committed, which it may do only once.
            TypeError: The result is not of the type that the tool declares.
        """
        if self.committed:
            raise RuntimeError("a call may commit only once")
        if not isinstance(outcome.result, self._output):
            raise TypeError("the result must be of the type that the tool declares")
        now, changes = self._clock(), outcome.result.list_changes()
        record = IdempotencyRecord(
            attempt_id=self._attempt_id,
            arguments_hash=self._arguments_hash,
            result=outcome.result.model_dump_json() if self.has_key else None,
            price=outcome.price,
            purge_at=ANSWERS.compute_purge_at(now),
            belongs_to=outcome.belongs_to,
            changed_at=now if changes else None,
            changes=CHANGES.dump_json(list(changes)).decode() if changes else None,
            client=self._client,
        )
        try:
            await self._database.commit([*writes, self._records.write(self._call_id, record)])
        except WriteConflict:
            await self._resolve_from_record()
            if not self.committed:
                raise
        self.committed = True

    async def _resolve_from_record(self) -> None:
        """Set `committed` if this attempt wrote the record, or raise if another attempt did."""
        record = await self._records.get(self._call_id)
        if record is None:
            return
        if record.attempt_id == self._attempt_id:
            self.committed = True
            return
        if record.arguments_hash != self._arguments_hash:
            raise Conflict(
                f"This {IDEMPOTENCY_KEY} was used for another call of this tool. Use a new one for"
                " each new call, and reuse one only to retry exactly the same call."
            )
        if record.result is None:
            raise Conflict("This call took effect before: get_changes lists what it changed.")
        raise AlreadyCompleted(record)


def make_idempotency_guard(
    database: Database,
    clock: Clock,
    output: type[Result],
    arguments: Arguments,
    request: CallRequest,
) -> IdempotencyGuard | None:
    """Make the guard of a call. Return None if the call does not write or is anonymous."""
    if not isinstance(arguments, IdempotentArguments) or request.caller.user_id is None:
        return None
    return IdempotencyGuard(database, clock, output, arguments, request)
